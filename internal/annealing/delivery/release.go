package delivery

import (
	"context"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// MemberName is what lines of releases call an application.
func MemberName(home intent.PartitionID, application string) string {
	return string(home) + "/" + application
}

// ReleaseLine is a line as it stands: its rows, and what they come to.
type ReleaseLine struct {
	Partition store.Partition
	Spec      *intentpb.ReleaseLine
	Records   []intent.DeliveryRecord
	Releases  []promotion.Release
}

// Said is the number of the last row of the line; 0: there is none.
func (l *ReleaseLine) Said() uint64 {
	if len(l.Records) == 0 {
		return 0
	}
	return l.Records[len(l.Records)-1].Number
}

// Line reads a line of releases by its name. NotFound: the partition is not registered, or has no such line.
func (r *Reader) Line(ctx context.Context, partition intent.PartitionID, name string) (*ReleaseLine, error) {
	home, err := r.Store.Partition(ctx, partition)
	if err != nil {
		return nil, err
	}
	policy, err := r.Policy(ctx, home.Head)
	if err != nil {
		return nil, err
	}
	for _, spec := range policy.GetReleaseLines() {
		if spec.GetName() != name {
			continue
		}
		rows, err := r.records(ctx, home, name)
		if err != nil {
			return nil, err
		}
		return &ReleaseLine{Partition: home, Spec: spec, Records: rows, Releases: releasesOf(rows)}, nil
	}
	return nil, fault.New(fault.NotFound, "partition %s has no line of releases %q", partition, name)
}

// releasesOf rows of a line, in the order in which they were made.
func releasesOf(rows []intent.DeliveryRecord) (list []promotion.Release) {
	for i := range rows {
		switch row := &rows[i]; row.Kind {
		case intent.DeliveryRelease:
			list = append(list, promotion.Release{
				Number: row.Release, Versions: row.Versions, Immediate: row.Immediate, By: row.By.Name, Reason: row.Reason, At: row.At,
			})
		case intent.DeliveryAct:
			if at := slices.IndexFunc(list, func(release promotion.Release) bool { return release.Number == row.Release }); at >= 0 {
				ApplyReleaseAct(&list[at], *row)
			}
		}
	}
	return list
}

// ApplyReleaseAct has a release be as somebody asked. What it held before is not changed in place.
func ApplyReleaseAct(release *promotion.Release, row intent.DeliveryRecord) {
	act := &promotion.ReleaseAct{By: row.By.Name, Reason: row.Reason, At: row.At}
	skip := func(act *promotion.ReleaseAct) {
		skipped := map[string]*promotion.ReleaseAct{row.Environment: act}
		for environment, earlier := range release.Skipped {
			if environment != row.Environment {
				skipped[environment] = earlier
			}
		}
		release.Skipped = skipped
	}
	switch row.Act {
	case intent.ActHoldRelease:
		release.Held = act
	case intent.ActSkipRelease:
		skip(act)
	case intent.ActAbortRelease:
		release.Aborted = act
	case intent.ActResumeRelease:
		if row.Environment == "" {
			release.Held = nil
		}
		skip(nil)
	}
}

// lineOf has the facts of an application's line, with the applications that it waits for, and those that they
// wait for in turn. Nothing is read of a line that does not list the application: its versions wait.
func (r *Reader) lineOf(ctx context.Context, m *Moment) error {
	partition, name, ok := strings.Cut(m.Spec.GetReleases(), "/")
	if !ok {
		return nil
	}
	own := MemberName(m.Home.ID, m.Spec.GetName())
	line, err := r.Line(ctx, intent.PartitionID(partition), name)
	if fault.Is(err, fault.NotFound) || err == nil && !slices.Contains(line.Spec.GetApplications(), own) {
		return nil
	}
	if err != nil {
		return err
	}
	m.Rests = append(m.Rests, store.DeliveryRest{Partition: line.Partition.ID, Application: name, Number: line.Said()})
	facts := &promotion.Line{Releases: line.Releases, Members: map[string]*promotion.Member{}}
	for _, order := range line.Spec.GetOrder() {
		for _, then := range order.GetThen() {
			facts.Order = append(facts.Order, promotion.ReleaseOrder{First: order.GetFirst(), Then: then, Whole: order.GetWhole()})
		}
	}
	m.Facts.Line, m.Facts.Member = facts, own
	for queue := []string{own}; len(queue) > 0; queue = queue[1:] {
		for _, order := range facts.Order {
			if _, ok := facts.Members[order.First]; ok || order.Then != queue[0] {
				continue
			}
			member, rest, err := r.member(ctx, order.First, m.Spec.GetReleases())
			if err != nil {
				return err
			}
			if facts.Members[order.First] = member; member != nil {
				member.Facts.Line, member.Facts.Member = facts, order.First
				m.Rests = append(m.Rests, rest)
				queue = append(queue, order.First)
			}
		}
	}
	return nil
}

// member of a line, by its name, as others wait for it; nil: it is not there, or takes no releases of the line.
func (r *Reader) member(ctx context.Context, name, line string) (member *promotion.Member, rest store.DeliveryRest, err error) {
	partition, application, _ := strings.Cut(name, "/")
	home, err := r.Store.Partition(ctx, intent.PartitionID(partition))
	if fault.Is(err, fault.NotFound) {
		return nil, rest, nil
	}
	if err != nil {
		return nil, rest, err
	}
	policy, err := r.Policy(ctx, home.Head)
	if err != nil {
		return nil, rest, err
	}
	for _, spec := range policy.GetDeliveries() {
		if spec.GetName() != application || spec.GetReleases() != line {
			continue
		}
		listed, err := r.catalogue(ctx, home, spec)
		if fault.Is(err, fault.Invalid) {
			return nil, rest, nil // Its versions cannot be ordered as they are: whoever waits for it goes on waiting.
		}
		if err != nil {
			return nil, rest, err
		}
		rows, err := r.records(ctx, home, application)
		if err != nil {
			return nil, rest, err
		}
		rest = store.DeliveryRest{Partition: home.ID, Application: application}
		if n := len(rows); n > 0 {
			rest.Number = rows[n-1].Number
		}
		return &promotion.Member{Application: listed.application, Catalogue: listed.catalogue, Facts: factsOf(rows, listed.catalogue, listed.versions)}, rest, nil
	}
	return nil, rest, nil
}

// SetNow says which time the facts are decided at.
func (m *Moment) SetNow(now time.Time) {
	m.Facts.Now = now
	if m.Facts.Line == nil {
		return
	}
	for _, member := range m.Facts.Line.Members {
		if member != nil {
			member.Facts.Now = now
		}
	}
}
