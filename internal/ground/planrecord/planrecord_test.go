package planrecord_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/planrecord"
	"lehr.dev/internal/ground/secrecy"
)

func decode(t interface {
	Helper()
	Fatal(arguments ...any)
}, record []byte) intent.PlanRecord {
	t.Helper()
	decoded, err := planrecord.Decode(record)
	if err != nil {
		t.Fatal(err)
	}
	if decoded == nil {
		t.Fatal("there is no record")
	}
	return *decoded
}

// service is a plan as a change of a service has it.
func service(changes int) intent.Plan {
	plan := intent.Plan{Action: intent.ActionUpdate}
	for i := range changes {
		plan.Changes = append(plan.Changes, intent.FieldChange{
			Path: fmt.Sprintf("spec.containers[%d].image", i), Current: fmt.Sprintf("registry.example/shop/web:%d", 100+i),
			Target: fmt.Sprintf("registry.example/shop/web:%d", 101+i), Destructive: i == changes-1, Writer: "kubectl",
		})
	}
	return plan
}

// TestWhole: a plan of usual size is kept whole, small or compressed, destructive changes
// first, and the plan is left as it was.
func TestWhole(t *testing.T) {
	for _, count := range []int{0, 1, 3, 40} {
		plan := service(count)
		before := intent.Plan{Action: plan.Action, Changes: slices.Clone(plan.Changes)}
		record := planrecord.Encode(plan)
		got := decode(t, record)
		if diff := cmp.Diff(before, plan); diff != "" {
			t.Errorf("%d changes: encoding changed the plan:\n%s", count, diff)
		}
		want := intent.PlanRecord{Action: intent.ActionUpdate}
		for _, c := range plan.Changes {
			want.Changes = append(want.Changes, intent.RecordedChange{FieldChange: c})
		}
		slices.SortStableFunc(want.Changes, func(a, b intent.RecordedChange) int {
			if a.Destructive != b.Destructive {
				return map[bool]int{true: -1, false: 1}[a.Destructive]
			}
			return strings.Compare(a.Path, b.Path)
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d changes are kept otherwise:\n%s", count, diff)
		}
		t.Logf("%d changes: %d bytes", count, len(record))
	}
	if record := planrecord.Encode(intent.Plan{}); record != nil {
		t.Errorf("no plan has the record %x", record)
	}
	if got, err := planrecord.Decode(nil); got != nil || err != nil {
		t.Errorf("no record is read as %v, %v", got, err)
	}
}

// TestWhatDoesNotFitIsCounted: of a large plan the destructive changes are kept first, and
// what is left is counted, whatever its size.
func TestWhatDoesNotFitIsCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(size int) string {
		text := make([]byte, size)
		for i := range text {
			text[i] = "ACDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/,;"[random.IntN(39)]
		}
		return string(text)
	}
	control := strings.Repeat("\x00\x1b[31m\u202e", 1000)
	for name, value := range map[string]func() string{
		"incompressible": func() string { return noise(8192) }, "short and incompressible": func() string { return noise(30) },
		"repeated": func() string { return strings.Repeat("a ", 4096) }, "control characters": func() string { return control }, "no text": func() string { return strings.Repeat("\xff", 8192) },
		"half a rune at the cut": func() string { return strings.Repeat("€", 2730) }, "short": func() string { return "1" },
	} {
		plan := intent.Plan{Action: intent.ActionUpdate}
		for i := range 1000 {
			plan.Changes = append(plan.Changes, intent.FieldChange{Path: fmt.Sprintf("field-%03d", i), Current: value(), Target: value(), Reason: value(), Destructive: i%100 == 99})
		}
		record := planrecord.Encode(plan)
		got := decode(t, record)
		if len(record) > planrecord.Most {
			t.Errorf("%s: the record has %d bytes, at most %d are allowed", name, len(record), planrecord.Most)
		}
		if got.Count() != 1000 || got.CountDestructive() != 10 || !got.Destructive() || len(got.Changes) < 2 {
			t.Errorf("%s: %d changes and %d more are %d, of which %d are destructive; want 1000 and 10", name, len(got.Changes), got.More, got.Count(), got.CountDestructive())
		}
		for i, c := range got.Changes {
			if want := i < 10; c.Destructive != want {
				t.Errorf("%s: change %d, %s, has destructive %v", name, i, c.Path, c.Destructive)
			}
			for _, text := range []string{c.Path, c.Current, c.Target, c.Reason} {
				if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || len(text) > 512 {
					t.Fatalf("%s: change %s keeps the text %.60q of %d bytes", name, c.Path, text, len(text))
				}
			}
			if long := len(value()) > 512; c.Cut != long {
				t.Errorf("%s: change %s says cut %v", name, c.Path, c.Cut)
			}
		}
		t.Logf("%s: %d changes in %d bytes", name, len(got.Changes), len(record))
		if name == "short" && len(got.Changes) < 300 {
			t.Errorf("of 1000 short changes %d are kept", len(got.Changes))
		}
		if name == "short and incompressible" && len(record) < planrecord.Most*3/4 {
			t.Errorf("%d bytes of the record are left empty", planrecord.Most-len(record))
		}
	}
}

// TestSecretsAreNotKept: what secrecy recognises is in no record, by the name of its field or by
// its form, also where the value is long or a secret lies at the cut (S13).
func TestSecretsAreNotKept(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	plan := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{
		{Path: "already", Current: secrecy.Redacted, Target: "(redacted)"},
		{Path: `env["API_TOKEN"]`, Current: secret, Target: "hunter2hunter2"},
		{Path: "arguments", Current: "--user x --password " + secret, Target: strings.Repeat("x", 500) + " " + secret},
		{Path: "long", Target: strings.Repeat("y ", 3000) + secret},
		{Path: "labels[" + secret + "]", Reason: "it was set by " + secret, Target: "1", Writer: secret},
	}}
	for _, count := range []int{1, len(plan.Changes)} { // Small records are not compressed.
		got := decode(t, planrecord.Encode(intent.Plan{Action: plan.Action, Changes: plan.Changes[:count]}))
		if len(got.Changes) != count {
			t.Fatalf("%d of %d changes are kept", len(got.Changes), count)
		}
		for _, c := range got.Changes {
			text := fmt.Sprint(c)
			if strings.Contains(text, "ghp_") || strings.Contains(text, secret[5:20]) || strings.Contains(text, "hunter2") {
				t.Errorf("a secret is kept: %s", text)
			}
		}
		if already := got.Changes[slices.IndexFunc(got.Changes, func(c intent.RecordedChange) bool { return c.Path == "already" })]; already.Current != secrecy.Redacted || already.Target != secrecy.Redacted {
			t.Errorf("what was redacted is %+v", already)
		}
	}
}

// TestAnyPlan: every plan has a record within the bound that reads back, with all changes
// kept or counted.
func TestAnyPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.Custom(func(t *rapid.T) intent.FieldChange {
			text := rapid.OneOf(rapid.String(), rapid.StringN(0, 2000, 8192), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
			return intent.FieldChange{Path: text.Draw(t, "path"), Current: text.Draw(t, "current"), Target: text.Draw(t, "target"), Reason: text.Draw(t, "reason"),
				Writer: text.Draw(t, "writer"), Destructive: rapid.Bool().Draw(t, "destructive")}
		})
		plan := intent.Plan{
			Action:  rapid.SampledFrom([]intent.Action{intent.ActionCreate, intent.ActionDelete, "a\x00longer action than there is"}).Draw(t, "action"),
			Changes: rapid.SliceOfN(change, 0, 60).Draw(t, "changes"),
		}
		record := planrecord.Encode(plan)
		got := decode(t, record)
		destructive := 0
		for _, c := range plan.Changes {
			if c.Destructive {
				destructive++
			}
		}
		if len(record) > planrecord.Most || got.Count() != len(plan.Changes) || got.CountDestructive() != destructive {
			t.Fatalf("%d bytes keep %d and %d more of %d changes, %d of %d are destructive", len(record), len(got.Changes), got.More, len(plan.Changes), got.CountDestructive(), destructive)
		}
		if head := got.Head(3); head.Count() != got.Count() || head.CountDestructive() != destructive || len(head.Changes) > 3 {
			t.Fatalf("the head of %d changes is %+v", got.Count(), head)
		}
	})
}

// TestManyAtOnce: callers share compressors, and not what they write (run with -race).
func TestManyAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for i := range 50 {
				count := 1 + (caller*50+i)%60
				got, err := planrecord.Decode(planrecord.Encode(service(count)))
				if err != nil || len(got.Changes) != count {
					t.Errorf("%d changes are read back as %v, %v", count, got, err)
				}
			}
		})
	}
	group.Wait()
}

// FuzzDecode: no bytes crash a reader, or have it read more than a record may hold.
func FuzzDecode(f *testing.F) {
	for _, count := range []int{0, 1, 60, 1000} {
		record := planrecord.Encode(service(count))
		f.Add(record)
		f.Add(record[:len(record)/2])
	}
	f.Add([]byte{0x2a, 0x02, 0xff, 0xff}) // Packed, and no DEFLATE.
	f.Fuzz(func(t *testing.T, stored []byte) {
		got, err := planrecord.Decode(stored)
		if err == nil && len(stored) > 0 && got == nil {
			t.Error("a record reads as none")
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	hostile := intent.Plan{Action: intent.ActionUpdate}
	for i := range 1000 {
		hostile.Changes = append(hostile.Changes, intent.FieldChange{Path: fmt.Sprintf("field-%03d", i), Current: strings.Repeat("password: b=", 682), Target: strings.Repeat("\\x1b", 2048)})
	}
	for name, plan := range map[string]intent.Plan{"changes=1": service(1), "changes=3": service(3), "changes=40": service(40), "changes=1000": service(1000), "hostile": hostile} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				planrecord.Encode(plan)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, count := range []int{1, 40} {
		record := planrecord.Encode(service(count))
		b.Run(fmt.Sprint("changes=", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = planrecord.Decode(record)
			}
		})
	}
}
