package remote

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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
		d := intent.Difference{Asset: "a", Incarnation: head, Reason: "nothing yet"}
		CheckDifference(said, &d)
		if d.Asset != "a" || d.Incarnation != head {
			t.Errorf("became a difference of %s as of %s", d.Asset, d.Incarnation)
		}
		if (d.Outcome == intent.Unknown) != (d.Reason != "") {
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
			if served.LongestEffect < 0 || served.LongestEffect > maxLongest {
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
		"overflow":       {{Type: "a.B", LongestEffect: &durationpb.Duration{Seconds: 1 << 62}}},
		"thousand types": make([]*pluginpb.ServedType, maxTypes+1),
	} {
		if _, err := CheckDescription(&pluginpb.DescribeResponse{Name: "liar", Types: types}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
