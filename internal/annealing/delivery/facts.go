package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// memory is what a reader read before and cannot change.
type memory struct {
	lock sync.Mutex
	// rows of applications, which are only added to while a partition has one lease; collected ones stay
	// until the next.
	rows map[applicationKey]*knownRows
	// listings of applications, as their versions were read last.
	listings map[applicationKey]*listing
	// matched are the assets of environments as of a head.
	matched map[matchKey]*matched
	// policies by partition, each of the head that was asked for last.
	policies map[intent.PartitionID]policyAt
}

type policyAt struct {
	at     intent.IncarnationID
	policy *intentpb.Policy
}

// policyAt is what an incarnation says; nil: it was not read last. It is not to be changed.
func (m *memory) policyAt(at intent.IncarnationID) *intentpb.Policy {
	m.lock.Lock()
	defer m.lock.Unlock()
	if known := m.policies[at.Partition]; known.at == at {
		return known.policy
	}
	return nil
}

func (m *memory) keepPolicy(at intent.IncarnationID, policy *intentpb.Policy) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.policies == nil {
		m.policies = map[intent.PartitionID]policyAt{}
	}
	m.policies[at.Partition] = policyAt{at, policy}
}

type applicationKey struct {
	home        intent.PartitionID
	application string
}

// rowPage is how many rows are read at once.
const rowPage = 1000

// knownRows of an application, read while its home had an epoch. A database that went back to an earlier state
// lacks some of them: whoever adopts it begins a later epoch.
type knownRows struct {
	epoch uint64
	rows  []intent.DeliveryRecord
}

// records reads the rows of an application, those that are new.
func (r *Reader) records(ctx context.Context, home store.Partition, application string) ([]intent.DeliveryRecord, error) {
	key := applicationKey{home.ID, application}
	r.memory.lock.Lock()
	defer r.memory.lock.Unlock()
	if r.memory.rows == nil {
		r.memory.rows = map[applicationKey]*knownRows{}
	}
	known := r.memory.rows[key]
	if known == nil || known.epoch != home.Epoch {
		known = &knownRows{epoch: home.Epoch}
		r.memory.rows[key] = known
	}
	for {
		newest := uint64(0)
		if n := len(known.rows); n > 0 {
			newest = known.rows[n-1].Number
		}
		page, err := r.Store.DeliveryRecords(ctx, home.ID, store.DeliveryFilter{Application: application, After: newest, Limit: rowPage})
		if err != nil {
			return nil, err
		}
		known.rows = append(known.rows, page...)
		if len(page) < rowPage {
			return slices.Clip(known.rows), nil
		}
	}
}

// listing is an application with its versions in order. It does not change.
type listing struct {
	spec *intentpb.Delivery
	// revision of the versions; empty: it is not known.
	revision    string
	application *promotion.Application
	catalogue   *promotion.Catalogue
	versions    map[intent.VersionName]intent.Version
}

// catalogue puts the versions of an application in order, unless it did so before and they have the same
// revision. Of a version that a row names and that is collected, nothing is known any more.
func (r *Reader) catalogue(ctx context.Context, home store.Partition, spec *intentpb.Delivery) (*listing, error) {
	key := applicationKey{home.ID, spec.GetName()}
	// The revision is read first: versions that are newer than it are read once more the next time.
	revision, err := r.Store.VersionsRevision(ctx, home.ID, spec.GetVersions())
	if err != nil {
		return nil, err
	}
	r.memory.lock.Lock()
	known := r.memory.listings[key]
	r.memory.lock.Unlock()
	if known != nil && revision != "" && known.revision == revision && proto.Equal(known.spec, spec) {
		return known, nil
	}
	made, err := r.list(ctx, home.ID, spec)
	if err != nil {
		return nil, err
	}
	made.revision = revision
	r.memory.lock.Lock()
	defer r.memory.lock.Unlock()
	if r.memory.listings == nil {
		r.memory.listings = map[applicationKey]*listing{}
	}
	r.memory.listings[key] = made
	return made, nil
}

func (r *Reader) list(ctx context.Context, home intent.PartitionID, spec *intentpb.Delivery) (*listing, error) {
	application, err := promotion.New(spec)
	if err != nil {
		return nil, err
	}
	order, err := ordering.New(spec.GetOrder())
	if err != nil {
		return nil, err
	}
	stored, err := r.Store.Versions(ctx, home, spec.GetVersions())
	if err != nil {
		return nil, err
	}
	known := make(map[intent.VersionName]intent.Version, len(stored))
	versions := make([]promotion.Version, len(stored))
	for i, v := range stored {
		created := v.Created
		if created.IsZero() && spec.GetOrder().GetBy() != intentpb.VersionOrder_BY_CREATED {
			created = v.Seen // Nobody says when it was made: it was before it was seen.
		}
		versions[i] = promotion.Version{
			Version: ordering.Version{Name: v.Name, Created: created, Build: v.Build}, Digest: v.Digest, Commit: v.Commit, Withdrawn: !v.Gone.IsZero(),
		}
		known[v.VersionName] = v
	}
	catalogue, err := promotion.NewCatalogue(order, versions)
	if err != nil {
		return nil, err
	}
	return &listing{spec: spec, application: application, catalogue: catalogue, versions: known}, nil
}

// Acts by the words that are stored.
var acts = map[string]promotion.ActKind{
	intent.ActPin: promotion.Pin, intent.ActUnpin: promotion.Unpin, intent.ActMarkBad: promotion.MarkBad, intent.ActMarkGood: promotion.MarkGood,
	intent.ActSkipTo: promotion.SkipTo, intent.ActRollBack: promotion.RollBack, intent.ActPause: promotion.Pause, intent.ActResume: promotion.Resume,
	intent.ActForce: promotion.Force, intent.ActRestart: promotion.Restart, intent.ActHotfix: promotion.Hotfix,
}

// ActOf is a row as promotion reads it.
func ActOf(row intent.DeliveryRecord) promotion.Act {
	return promotion.Act{
		Kind: acts[row.Act], Environment: row.Environment, VersionName: row.Version, Constraint: row.Constraint,
		Had: row.Had, Newest: row.Newest, By: row.By.Name, Reason: row.Reason, At: row.At,
	}
}

// gathering makes facts of rows, in their order.
type gathering struct {
	facts *promotion.Facts
	// names lead to what a source lists under them now.
	names map[string]intent.VersionName
	// promoted: delivery has set the environment's field at some time.
	promoted map[string]bool
	// contents that environments were seen with last, since their fields were set.
	contents map[string]intent.Digest
}

// factsOf rows. What lies elsewhere than in rows is filled in by others.
func factsOf(rows []intent.DeliveryRecord, catalogue *promotion.Catalogue, known map[intent.VersionName]intent.Version) *promotion.Facts {
	g := gathering{facts: &promotion.Facts{Environments: map[string]*promotion.Environment{}}, names: map[string]intent.VersionName{}, promoted: map[string]bool{}, contents: map[string]intent.Digest{}}
	for version, v := range known {
		if v.Gone.IsZero() {
			g.names[version.Name] = version
		}
	}
	for i := range rows {
		g.add(&rows[i])
	}
	return g.facts
}

func (g *gathering) environment(name string) *promotion.Environment {
	e := g.facts.Environments[name]
	if e == nil {
		e = &promotion.Environment{}
		g.facts.Environments[name] = e
	}
	return e
}

// fullName is the version that a row is about: of what was found in a field nobody may have known the digest.
func (g *gathering) fullName(v intent.VersionName) intent.VersionName {
	if found, ok := g.names[v.Name]; ok && v.Digest == "" {
		return found
	}
	return v
}

func (g *gathering) add(row *intent.DeliveryRecord) {
	switch row.Kind {
	case intent.DeliveryAct:
		g.facts.Acts = append(g.facts.Acts, ActOf(*row))
	case intent.DeliveryVote:
		vote := promotion.Vote{Environment: row.Environment, Constraint: row.Constraint, VersionName: row.Version, By: row.By.Name, At: row.At, Approve: row.Good, Reason: row.Reason}
		for _, role := range row.Roles {
			vote.Roles = append(vote.Roles, string(role))
		}
		g.facts.Votes = append(g.facts.Votes, vote)
	case intent.DeliveryResult, intent.DeliveryAnswer, intent.DeliveryUnanswered:
		content := ""
		if !row.Content.IsZero() {
			content = row.Content.String()
		}
		g.facts.Results = append(g.facts.Results, promotion.Result{
			Environment: row.Environment, Name: row.Constraint, VersionName: row.Version, Content: content, At: row.At, Good: row.Good, Reason: row.Reason,
			Until: row.Until, Unanswered: row.Kind == intent.DeliveryUnanswered,
		})
	case intent.DeliveryAdmission:
		e := g.environment(row.Environment)
		e.Approved = append(e.Approved, row.Version)
	case intent.DeliveryPromotion, intent.DeliveryFound:
		g.stay(row)
	case intent.DeliveryStanding:
		g.standing(row)
	case intent.DeliveryAttempt:
		g.attempt(row)
	case intent.DeliveryVeto:
		e := g.environment(row.Environment)
		e.Vetoes = append(e.Vetoes, promotion.Veto{
			VersionName: g.fullName(row.Version), At: row.At, Rollout: row.Rollout, Request: requestWord(row.Request), BackTo: g.optional(row.BackTo),
		})
	}
}

// requestWord is a pull request for people; empty: there is none.
func requestWord(r intent.PullRequest) string {
	switch {
	case r.Number == 0:
		return ""
	case r.Link == "":
		return fmt.Sprintf("#%d", r.Number)
	}
	return fmt.Sprintf("#%d (%s)", r.Number, r.Link)
}

func (g *gathering) optional(v intent.VersionName) intent.VersionName {
	if v.Name == "" {
		return intent.VersionName{}
	}
	return g.fullName(v)
}

// stay begins one, and ends that before it.
func (g *gathering) stay(row *intent.DeliveryRecord) {
	e := g.environment(row.Environment)
	if n := len(e.Stays); n > 0 {
		e.Stays[n-1].End = row.At
	}
	delete(g.contents, row.Environment)
	e.Stays = append(e.Stays, promotion.Stay{VersionName: g.fullName(row.Version), Start: row.At, Back: row.Back, Found: row.Kind == intent.DeliveryFound})
	switch {
	case row.Kind == intent.DeliveryPromotion:
		g.promoted[row.Environment] = true
	case g.promoted[row.Environment]:
		e.EditedAt = row.At
	}
}

// standing says of what the environment has that all is good with it, or no longer is.
func (g *gathering) standing(row *intent.DeliveryRecord) {
	e := g.environment(row.Environment)
	if len(e.Stays) == 0 {
		return
	}
	g.content(e, row)
	stay := &e.Stays[len(e.Stays)-1]
	if !stay.GoodSince.IsZero() {
		lasted := max(0, row.At.Sub(stay.GoodSince))
		stay.GoodBefore += lasted
		stay.LongestBefore = max(stay.LongestBefore, lasted)
		stay.GoodSince = time.Time{}
	}
	if row.Good {
		stay.GoodSince, stay.Content = row.At, row.Content.String()
	}
}

// content that an environment was seen with. Where it changes and its field does not, something
// else did: what failed before may come well now, so attempts count anew.
func (g *gathering) content(e *promotion.Environment, row *intent.DeliveryRecord) {
	if row.Content.IsZero() {
		return
	}
	if known, ok := g.contents[row.Environment]; ok && known != row.Content {
		e.Failures = nil
	}
	g.contents[row.Environment] = row.Content
}

func (g *gathering) attempt(row *intent.DeliveryRecord) {
	e, version := g.environment(row.Environment), g.fullName(row.Version)
	g.content(e, row)
	at := slices.IndexFunc(e.Failures, func(f promotion.Failure) bool { return f.VersionName == version })
	if at < 0 {
		at = len(e.Failures)
		e.Failures = append(e.Failures, promotion.Failure{VersionName: version})
	}
	e.Failures[at].Attempts++
	e.Failures[at].Last = row.At
}
