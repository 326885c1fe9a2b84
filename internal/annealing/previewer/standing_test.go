package previewer

import (
	"context"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// facts are what a store would say of one asset of a preview, and of what is named like it.
type facts struct {
	member              bool
	report              *intent.Report
	record              store.Enforced
	hasRecord, isPushed bool
}

const web intent.AssetID = "preview/a/web"

func (f facts) Members(context.Context, intent.IncarnationID, store.AssetFilter) ([]intent.Member, error) {
	list := []intent.Member{{Asset: "preview/a/", Type: "Job"}, {Asset: "preview/ab/web", Type: "Job"}}
	if f.member {
		list = append(list, intent.Member{Asset: web, Type: "Job", Effective: intent.Sum("x")})
	}
	return list, nil
}

func (f facts) EnforcedPage(context.Context, intent.PartitionID, intent.AssetID, int) ([]store.Enforced, error) {
	if f.hasRecord {
		return []store.Enforced{f.record}, nil
	}
	return nil, nil
}

func (f facts) Report(context.Context, intent.PartitionID, intent.AssetID) (intent.Report, error) {
	if f.report == nil {
		return intent.Report{}, fault.New(fault.NotFound, "no report")
	}
	return *f.report, nil
}

func (f facts) OpenPushes(context.Context, intent.PartitionID) ([]store.OpenPush, error) {
	if f.isPushed {
		return []store.OpenPush{{Asset: web}}, nil
	}
	return nil, nil
}

func (f facts) Content(context.Context, intent.IncarnationID, intent.AssetID) (intent.Member, []byte, error) {
	return intent.Member{}, nil, fault.New(fault.NotFound, "none")
}

// TestGoneIsSeen: a preview is gone only when head is built from its end, and each asset was seen
// absent as head has it, with no push open and no record of anything.
func TestGoneIsSeen(t *testing.T) {
	absent := &intent.Report{State: intent.StateInSync, Absent: true, Effective: intent.Sum("x")}
	older := &intent.Report{State: intent.StateInSync, Absent: true, Effective: intent.Sum("y")}
	inSync := &intent.Report{State: intent.StateInSync, Effective: intent.Sum("x")}
	record := store.Enforced{Asset: web}
	policy := &intentpb.Policy{Plugins: []*intentpb.PluginBinding{{Type: "Job"}}}
	rule := branchpreview.New(&intentpb.PreviewRule{Name: "review", Before: "preview/", After: "/", Generator: "review", Entries: "reviews"})
	for name, c := range map[string]struct {
		facts    facts
		policy   *intentpb.Policy
		revision string
		gone     bool
		ready    bool
	}{
		"seen absent":              {facts{member: true, report: absent}, policy, "4", true, false},
		"never in head":            {facts{}, policy, "4", true, false},
		"head is older":            {facts{member: true, report: absent}, policy, "5", false, false},
		"nobody looked":            {facts{member: true}, policy, "4", false, false},
		"seen absent before":       {facts{member: true, report: older}, policy, "4", false, false},
		"it is there":              {facts{member: true, report: inSync, record: record, hasRecord: true}, policy, "4", false, true},
		"a push is open":           {facts{member: true, report: absent, isPushed: true}, policy, "4", false, false},
		"a record says it is":      {facts{member: true, report: absent, record: record, hasRecord: true}, policy, "4", false, false},
		"an orphan":                {facts{record: record, hasRecord: true}, policy, "4", false, false},
		"a record that it is gone": {facts{record: store.Enforced{Asset: web, Absent: true}, hasRecord: true}, policy, "4", true, false},
		"a model":                  {facts{member: true}, &intentpb.Policy{}, "4", true, true},
		"served before":            {facts{member: true, record: record, hasRecord: true}, &intentpb.Policy{}, "4", false, true},
	} {
		partition := store.Partition{ID: "shop", Head: intent.IncarnationID{Partition: "shop", Sequence: 3}, Covered: []intent.SourceRevision{{Source: "reviews", Revision: "4"}}}
		standing, err := ReadStanding(t.Context(), c.facts, partition, c.policy, rule, "a", c.revision)
		if err != nil || standing.IsGone() != c.gone || standing.IsReady() != c.ready {
			t.Errorf("%s: gone %t, ready %t, %v: %+v", name, standing.IsGone(), standing.IsReady(), err, standing)
		}
	}
}
