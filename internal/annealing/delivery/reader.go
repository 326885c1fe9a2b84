package delivery

import (
	"context"
	"slices"
	"strconv"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/validation"
	"lehr.dev/internal/store"
)

// Store is what delivery is decided by, as store.All says.
type Store interface {
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error)
	Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error)
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	Rollouts(ctx context.Context, partition intent.PartitionID, filter store.RolloutFilter) ([]intent.Rollout, error)
	Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error)
	Verifications(ctx context.Context, partition intent.PartitionID) ([]intent.Verification, error)
	ListCandidates(ctx context.Context, partition intent.PartitionID, limit int) ([]intent.Candidate, error)
	Versions(ctx context.Context, partition intent.PartitionID, source string) ([]intent.Version, error)
	VersionsRevision(ctx context.Context, partition intent.PartitionID, source string) (string, error)
	DeliveryRecords(ctx context.Context, partition intent.PartitionID, filter store.DeliveryFilter) ([]intent.DeliveryRecord, error)
}

// Schemas finds the set of types that incarnations were published with.
type Schemas interface {
	Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error)
}

// Reader reads the facts of applications at one moment. It is safe for concurrent use, and
// remembers what cannot change: the assets of heads, rows, and versions of a revision.
type Reader struct {
	Store   Store
	Schemas Schemas

	memory memory
}

// Moment is what is known of an application at one time.
type Moment struct {
	Home        store.Partition
	Spec        *intentpb.Delivery
	Application *promotion.Application
	Catalogue   *promotion.Catalogue
	// Versions as they are stored, by what they are known by.
	Versions map[intent.VersionName]intent.Version
	Records  []intent.DeliveryRecord
	// Waits are the last rows of versions that wait, by environment.
	Waits map[string]map[intent.VersionName]intent.DeliveryRecord
	Facts *promotion.Facts
	// Places of the environments, in the order of the file.
	Places []Place
	// Said is the number of the last row of people and programs.
	Said uint64
	// Rests are rows of others that it rests on: of its line of releases, and of applications that go first there.
	Rests []store.DeliveryRest
}

// Place is where an environment is, and how it looks there now.
type Place struct {
	Spec *intentpb.DeliveryEnvironment
	// Partition that it is in, as it was read; zero: it could not be.
	Partition store.Partition
	// Found is what its field holds; zero: nothing. Written: it holds anything.
	Found   string
	Written bool
	// Digest is what its digest field holds; empty: nothing, or it has no such field.
	Digest string
	// Revision of the document; empty: there is none.
	Revision string
	// Source that reads the document.
	Source string
	// InRepository: the document is a file of a repository. Landing is how it goes with its field;
	// nil: nothing is to be said of that.
	InRepository bool
	Landing      *intent.DeliveryRecord
	Assets       Assets
	// Verification that is under way there; nil: none is.
	Verification *intent.Verification
	// Trouble is why its field cannot be edited.
	Trouble promotion.Trouble

	// overwritten: somebody else set the field while a pull request is open.
	overwritten bool
	// includes reports whether a commit has another one in its history; the actor sets it.
	includes func(commit, ancestor string) bool
}

// KnownPolicy is what Policy knows without reading; nil: nothing. It is not to be changed.
func (r *Reader) KnownPolicy(at intent.IncarnationID) *intentpb.Policy {
	if at.Sequence == 0 {
		return nil
	}
	return r.memory.policyAt(at)
}

// KeepPolicy has Policy know what somebody else read.
func (r *Reader) KeepPolicy(at intent.IncarnationID, policy *intentpb.Policy) {
	r.memory.keepPolicy(at, policy)
}

// Policy reads what an incarnation says of deliveries.
func (r *Reader) Policy(ctx context.Context, at intent.IncarnationID) (*intentpb.Policy, error) {
	policy := &intentpb.Policy{}
	if at.Sequence == 0 {
		return policy, nil
	}
	if known := r.memory.policyAt(at); known != nil {
		return known, nil
	}
	_, body, err := r.Store.Content(ctx, at, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		r.memory.keepPolicy(at, policy)
		return policy, nil
	}
	if err != nil {
		return nil, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	if err := schema.Payload(asset, policy); err != nil {
		return nil, err
	}
	r.memory.keepPolicy(at, policy)
	return policy, nil
}

// Read an application. Its environments in partitions that cannot be read are in trouble, and
// the others are as they are.
func (r *Reader) Read(ctx context.Context, home store.Partition, spec *intentpb.Delivery) (*Moment, error) {
	m := &Moment{Home: home, Spec: spec}
	listed, err := r.catalogue(ctx, home, spec)
	if err != nil {
		return nil, err
	}
	m.Application, m.Catalogue, m.Versions = listed.application, listed.catalogue, listed.versions
	if m.Records, err = r.records(ctx, home, spec.GetName()); err != nil {
		return nil, err
	}
	m.Facts = factsOf(m.Records, m.Catalogue, m.Versions)
	for i := range m.Records {
		if m.Records[i].Kind.Said() {
			m.Said = m.Records[i].Number
		}
	}
	if m.Facts.Lengths, err = r.lengths(ctx, home, spec); err != nil {
		return nil, err
	}
	if err := r.lineOf(ctx, m); err != nil {
		return nil, err
	}
	m.Waits = openWaits(m.Records)
	shared := newSharedReads(r, home)
	for _, e := range spec.GetEnvironments() {
		place, err := shared.place(ctx, m, e)
		if err != nil {
			return nil, err
		}
		m.Places = append(m.Places, place)
		facts := m.Facts.Environments[e.GetName()]
		if facts == nil {
			facts = &promotion.Environment{}
			m.Facts.Environments[e.GetName()] = facts
		}
		facts.Trouble = place.Trouble
		if facts.Trouble == 0 && !place.Written && len(facts.Stays) > 0 {
			facts.Trouble = promotion.FieldGone
		}
		if facts.Rollout, err = shared.rolledOut(ctx, &place); err != nil {
			return nil, err
		}
		facts.Verifying = place.Verification != nil
	}
	return m, nil
}

// lengths of the validations by which an application's environments are analysed. One that is not there or is
// wrong has none: whoever runs the analysis says what is wrong.
func (r *Reader) lengths(ctx context.Context, home store.Partition, spec *intentpb.Delivery) (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for _, e := range spec.GetEnvironments() {
		for _, v := range e.GetRuns() {
			if name := v.GetAnalysis().GetValidation(); name != "" {
				used[name] = 0
			}
		}
	}
	if len(used) == 0 {
		return nil, nil
	}
	policy, err := r.Policy(ctx, home.Head)
	if err != nil {
		return nil, err
	}
	for _, v := range policy.GetValidations() {
		if _, ok := used[v.GetName()]; !ok {
			continue
		}
		if settings, err := validation.Of(v); err == nil {
			used[v.GetName()] = settings.Length()
		}
	}
	return used, nil
}

// differsFrom reports whether the fields hold another version than a row says.
func (p *Place) differsFrom(row *intent.DeliveryRecord) bool {
	return row.Version.Name != p.Found || p.Digest != "" && row.Version.Digest != "" && row.Version.Digest != p.Digest
}

// PartitionOf is where an environment is.
func PartitionOf(home intent.PartitionID, e *intentpb.DeliveryEnvironment) intent.PartitionID {
	if e.GetPartition() == "" {
		return home
	}
	return intent.PartitionID(e.GetPartition())
}

// granted is what lets an application of another partition set an environment's fields; nil:
// nothing does.
func granted(policy *intentpb.Policy, home intent.PartitionID, application string, e *intentpb.DeliveryEnvironment) *intentpb.PromotionGrant {
	for _, g := range policy.GetPromotionGrants() {
		if g.GetPartition() != string(home) || g.GetApplication() != application || g.GetDocument() != e.GetDocument() {
			continue
		}
		parameters := e.GetTask().GetParametersPointer()
		if parameters != "" && g.GetInRepository() {
			continue // A commit brings a version and its digest only.
		}
		isWithin := !slices.ContainsFunc([]string{e.GetPointer(), e.GetDigestPointer(), parameters}, func(pointer string) bool {
			return pointer != "" && !within(g.GetPointers(), pointer)
		})
		if isWithin {
			return g
		}
	}
	return nil
}

// within reports whether a field is one of some, or in one of them.
func within(pointers []string, pointer string) bool {
	return slices.ContainsFunc(pointers, func(allowed string) bool {
		return pointer == allowed || len(pointer) > len(allowed) && pointer[:len(allowed)] == allowed && pointer[len(allowed)] == '/'
	})
}

// revisionNumber of a document that Lehr holds; 0: it is none.
func revisionNumber(revision string) uint64 {
	number, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return 0
	}
	return number
}
