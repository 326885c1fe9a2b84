package remote

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Whatever a plugin says, what is made of it keeps the contract (S26).
func FuzzDifference(f *testing.F) {
	for _, lie := range lies {
		seed, err := proto.Marshal(lie)
		if err == nil {
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		said := &pluginpb.AssetDiff{}
		if proto.Unmarshal(wire, said) != nil {
			return
		}
		d := intent.Difference{Asset: "a", Incarnation: head, Reason: "nothing yet", At: askedAt}
		CheckDifference(said, &d, time.Time{}, time.Hour)
		if d.At.After(askedAt) || d.At.Before(askedAt.Add(-time.Hour)) || d.PendingSince.After(askedAt) {
			t.Errorf("asked at %s, read at %s, pending since %s", askedAt, d.At, d.PendingSince)
		}
		if d.Asset != "a" || d.Incarnation != head {
			t.Errorf("became a difference of %s as of %s", d.Asset, d.Incarnation)
		}
		if (d.Outcome == intent.Unknown || d.Outcome == intent.Pending) != (d.Reason != "") {
			t.Errorf("outcome %d with reason %q", d.Outcome, d.Reason)
		}
		if (d.Outcome == intent.Differs) != (d.Plan.Action != "") {
			t.Errorf("outcome %d with plan %+v", d.Outcome, d.Plan)
		}
		if d.Outcome == intent.InSync && said.GetInSync() == nil {
			t.Error("in sync, and nobody said so (S11)")
		}
		seen := map[string]bool{}
		for _, change := range d.Plan.Changes {
			for _, text := range []string{change.Path, change.Current, change.Target, change.Reason} {
				if !isPrintable(text) || len(text) > 5*maxValue {
					t.Errorf("%q is shown", text)
				}
			}
			if seen[change.Path] {
				t.Errorf("%s twice: the plan has no one digest", change.Path)
			}
			seen[change.Path] = true
		}
		if len(d.ResourceKey) > maxKey || !isPrintable(string(d.ResourceKey)) || !isPrintable(d.Health.Reason) || len(d.Impacts) > maxImpacts {
			t.Errorf("%+v", d)
		}
		for _, impact := range d.Impacts {
			if !isAmount(impact.Current) || !isAmount(impact.Target) {
				t.Errorf("%+v", impact)
			}
		}
	})
}

var askedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// How old an answer may be is what the question says, or else the cadence.
func TestAges(t *testing.T) {
	inSync := &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}
	pending := &pluginpb.AssetDiff_Pending{Pending: &pluginpb.Pending{Reason: "a plan is being made"}}
	minuteAgo := askedAt.Add(-time.Minute)
	for name, c := range map[string]struct {
		diff  *pluginpb.AssetDiff
		since time.Time
		// read is how long before the question it counts as read; -1: the answer is refused.
		read time.Duration
	}{
		"no age":                     {&pluginpb.AssetDiff{Outcome: inSync}, askedAt, 0},
		"within the cadence":         {&pluginpb.AssetDiff{Outcome: inSync, Age: durationpb.New(time.Hour)}, time.Time{}, time.Hour},
		"older than the cadence":     {&pluginpb.AssetDiff{Outcome: inSync, Age: durationpb.New(time.Hour + 1)}, time.Time{}, -1},
		"of now, as asked":           {&pluginpb.AssetDiff{Outcome: inSync, Age: durationpb.New(0)}, askedAt, 0},
		"old, and asked for now":     {&pluginpb.AssetDiff{Outcome: inSync, Age: durationpb.New(1)}, askedAt, -1},
		"since the question began":   {&pluginpb.AssetDiff{Outcome: inSync, Age: durationpb.New(time.Minute)}, minuteAgo, time.Minute},
		"before the question began":  {&pluginpb.AssetDiff{Outcome: inSync, Age: durationpb.New(time.Minute + 1)}, minuteAgo, -1},
		"from the future":            {&pluginpb.AssetDiff{Outcome: inSync, Age: durationpb.New(-time.Second)}, time.Time{}, -1},
		"no time":                    {&pluginpb.AssetDiff{Outcome: inSync, Age: &durationpb.Duration{Seconds: 1, Nanos: -1}}, time.Time{}, -1},
		"pending is told now":        {&pluginpb.AssetDiff{Outcome: pending, Age: durationpb.New(2 * time.Hour)}, askedAt, 0},
		"pending without words":      {&pluginpb.AssetDiff{Outcome: &pluginpb.AssetDiff_Pending{Pending: &pluginpb.Pending{}}}, askedAt, -1},
		"pending since no time":      {&pluginpb.AssetDiff{Outcome: &pluginpb.AssetDiff_Pending{Pending: &pluginpb.Pending{Reason: "r", Since: &timestamppb.Timestamp{Nanos: -1}}}}, askedAt, -1},
		"pending since a time ahead": {&pluginpb.AssetDiff{Outcome: &pluginpb.AssetDiff_Pending{Pending: &pluginpb.Pending{Reason: "r", Since: timestamppb.New(askedAt.Add(time.Hour))}}}, askedAt, 0},
	} {
		d := intent.Difference{Asset: "a", At: askedAt}
		refused := CheckDifference(c.diff, &d, c.since, time.Hour)
		if refused != (c.read < 0) || refused != (d.Outcome == intent.Unknown) {
			t.Errorf("%s: refused %v, %+v", name, refused, d)
		}
		if read := askedAt.Sub(d.At); read != max(0, c.read) || !d.PendingSince.IsZero() {
			t.Errorf("%s: read %s before, pending since %s", name, read, d.PendingSince)
		}
	}
}

// Whatever a plugin says of itself can be shown, and is within bounds (S26).
func FuzzDescription(f *testing.F) {
	for _, said := range []*pluginpb.DescribeResponse{
		{}, {Protocol: 1, Name: "p", Version: "1", Types: []*pluginpb.ServedType{{Type: "a.B", Guarantee: 99, LongestEffect: durationpb.New(time.Hour)}}},
		{Name: "\x1b[31m\u202e", Types: []*pluginpb.ServedType{{Type: "a.B", LongestEffect: &durationpb.Duration{Seconds: 1 << 62, Nanos: -1}}, {Type: "a.B"}}},
	} {
		if seed, err := proto.Marshal(said); err == nil {
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		said := &pluginpb.DescribeResponse{}
		if proto.Unmarshal(wire, said) != nil {
			return
		}
		d, err := CheckDescription(said)
		if err != nil {
			if !fault.Is(err, fault.Invalid) || !isPrintable(err.Error()) {
				t.Errorf("it is told as %q", err)
			}
			return
		}
		if !isPrintable(d.Name) || !isPrintable(d.Version) || len(d.Types) == 0 || len(d.Types) > maxTypes {
			t.Errorf("%+v", d)
		}
		for _, served := range d.Types {
			if served.LongestEffect < 0 || served.LongestEffect > maxLongest || served.Cadence < 0 || served.Cadence > maxCadence {
				t.Errorf("%+v", served)
			}
		}
	})
}

func TestDescriptionsThatAreRefused(t *testing.T) {
	served := func(name string, longest time.Duration) *pluginpb.ServedType {
		return &pluginpb.ServedType{Type: name, LongestEffect: durationpb.New(longest)}
	}
	for name, types := range map[string][]*pluginpb.ServedType{
		"nothing":        nil,
		"no name":        {served("", 0)},
		"not a name":     {served("../etc/passwd", 0)},
		"twice":          {served("a.B", 0), served("a.B", 0)},
		"too long":       {served("a.B", 11*time.Minute)},
		"negative":       {served("a.B", -1)},
		"long cadence":   {{Type: "a.B", Cadence: durationpb.New(25 * time.Hour)}},
		"back in time":   {{Type: "a.B", Cadence: durationpb.New(-1)}},
		"overflow":       {{Type: "a.B", LongestEffect: &durationpb.Duration{Seconds: 1 << 62}}},
		"thousand types": make([]*pluginpb.ServedType, maxTypes+1),
	} {
		if _, err := CheckDescription(&pluginpb.DescribeResponse{Name: "liar", Types: types}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
