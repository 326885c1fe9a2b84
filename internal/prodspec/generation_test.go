package prodspec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/store"
)

// generationsText is a definition whose jobs have versions in their names.
const generationsText = `lehr: v1
partition: shop
mode: enforce
sources:
  jobs: {dir: jobs, files: ["*.yaml"]}
  base: {dir: base, files: ["*.yaml"]}
generate:
  web: {render: assets, from: [jobs]}
  basis: {render: assets, from: [base]}
plugins: {Job: {run: lehr-process}}
validate: {shrink: {max: 5%%, floor: 0, over: 24h}}
%s`

const migrationRule = "generations:\n  migrate: {assets: job/migrate-*, generator: web, suffix: version, keep: 2}\n"

func generationWorld(t *testing.T, rules string) *world {
	w := newWorld(t, "zones")
	w.write("lehr.yaml", fmt.Sprintf(generationsText, rules))
	w.writeJob("base", "base")
	for i := range 9 {
		w.writeJob("base", fmt.Sprintf("other%d", i))
	}
	return w
}

func (w *world) writeJob(folder, name string) {
	w.write(folder+"/"+name+".yaml", "id: job/"+name+"\ntype: Job\npayload: {name: "+name+", binary: /bin/x, version: \"1\", replicas: 2}\n")
}

// enforce records assets of an incarnation as seen in sync.
func (w *world) enforce(sequence intent.Sequence, absent bool, ids ...intent.AssetID) {
	w.t.Helper()
	ctx, at := w.t.(*testing.T).Context(), intent.IncarnationID{Partition: "shop", Sequence: sequence}
	policy, err := w.store.Member(ctx, at, intent.PolicyAsset)
	if err != nil {
		w.t.Fatal(err)
	}
	var records []store.Enforced
	for _, id := range ids {
		m, err := w.store.Member(ctx, at, id)
		if err != nil {
			w.t.Fatal(err)
		}
		records = append(records, store.Enforced{
			Asset: id, Type: m.Type, Effective: m.Effective, Policy: policy.Effective, Incarnation: at, Absent: absent,
			ResourceKey: intent.ResourceKey("process/" + id), At: time.Date(2026, 3, 1, 12, int(sequence), 0, 0, time.UTC),
		})
	}
	if _, err := w.store.SaveEnforced(ctx, w.lease, records); err != nil {
		w.t.Fatal(err)
	}
}

// release replaces the only generation by another, and has it enforced.
func (w *world) release(old, next string, head intent.Sequence) {
	w.t.Helper()
	w.writeJob("jobs", next) // Never without any: the two files are not one step.
	w.served(head)
	w.remove("jobs/" + old + ".yaml")
	w.served(head + 1)
	w.enforce(head+1, false, intent.AssetID("job/"+next))
}

func (w *world) removalOf(sequence intent.Sequence, id intent.AssetID) *intentpb.GenerationRemoval {
	w.t.Helper()
	addon := &intentpb.Turndown{}
	if _, err := schema.Addon(w.content(sequence, id), addon); err != nil {
		w.t.Fatal(err)
	}
	return addon.GetGeneration()
}

func (w *world) has(id intent.AssetID) bool { return slices.Contains(w.assets(), id) }

// TestOlderGenerationsAreTurnedDown: a new generation is no removal for the guard; those that
// are older than what the rule keeps come back with a Turndown that names it, and leave once
// they are gone.
func TestOlderGenerationsAreTurnedDown(t *testing.T) {
	w := generationWorld(t, migrationRule)
	w.writeJob("jobs", "migrate-1")
	w.start()
	w.served(1)
	w.enforce(1, false, slices.DeleteFunc(w.assets(), func(id intent.AssetID) bool { return id == intent.PolicyAsset })...)
	w.release("migrate-1", "migrate-1.1", 2)
	w.release("migrate-1.1", "migrate-1.2", 4)
	if w.has("job/migrate-1") || w.has("job/migrate-1.1") {
		t.Errorf("kept generations are in head: %v", w.assets())
	}
	w.writeJob("jobs", "migrate-1.3")
	w.served(6)
	w.remove("jobs/migrate-1.2.yaml")
	w.served(7) // Three are older now, and two are kept: the oldest goes in this very incarnation.
	policy := &intentpb.Policy{}
	if err := schema.Payload(w.content(7, intent.PolicyAsset), policy); err != nil {
		t.Fatal(err)
	}
	removal := w.removalOf(7, "job/migrate-1")
	if approval, ok := generation.Approval(policy, "job/migrate-1", removal); !ok || approval.Rule != "migrate" {
		t.Errorf("its Turndown names the rule %v", removal)
	}
	if was, is := w.content(1, "job/migrate-1").Payload, w.content(7, "job/migrate-1").Payload; string(was.Bytes) != string(is.Bytes) {
		t.Errorf("it came back as %q, was %q", is.Bytes, was.Bytes)
	}
	if w.has("job/migrate-1.1") || w.has("job/migrate-1.2") {
		t.Errorf("kept generations are in head: %v", w.assets())
	}
	_, origin, err := provenance.Read(t.Context(), w.store, intent.IncarnationID{Partition: "shop", Sequence: 7}, "job/migrate-1")
	if err != nil || origin.Generator != generation.Name || origin.Made.File != "lehr.yaml" {
		t.Errorf("it comes from %+v, %v", origin, err)
	}
	// A restart gives it again; once it is gone, the next incarnation lacks it.
	w.stop()
	w.start()
	w.served(7)
	w.enforce(7, true, "job/migrate-1")
	w.writeJob("base", "another")
	w.served(8)
	if w.has("job/migrate-1") {
		t.Error("it is gone, and still there")
	}
	// A push that comes late makes it again: what it was enforced as last has the rule's Turndown.
	// It counts as the newest again, so another one is one too many.
	w.enforce(7, false, "job/migrate-1")
	w.writeJob("base", "yet-another")
	w.served(9)
	if again := w.removalOf(9, "job/migrate-1.1"); again.GetRule() != "migrate" {
		t.Errorf("with what was made again three are older, and the oldest is turned down by %v", again)
	}
}

// TestARuleIsInForceOnceItIsServed: the commit that brings a rule removes nothing by it, and
// says what would go; the incarnation after it does, without another change of any source.
func TestARuleIsInForceOnceItIsServed(t *testing.T) {
	w := generationWorld(t, "")
	for i := range 4 {
		w.writeJob("jobs", fmt.Sprintf("migrate-%d", i+1))
	}
	w.start()
	w.served(1)
	w.enforce(1, false, slices.DeleteFunc(w.assets(), func(id intent.AssetID) bool { return id == intent.PolicyAsset })...)
	w.write("lehr.yaml", fmt.Sprintf(strings.Replace(generationsText, "floor: 0", "floor: 3", 1), ""))
	w.served(2)
	for i := range 3 {
		w.remove(fmt.Sprintf("jobs/migrate-%d.yaml", i+1))
		w.served(intent.Sequence(3 + i))
	}
	w.write("lehr.yaml", fmt.Sprintf(strings.Replace(generationsText, "floor: 0", "floor: 3", 1), migrationRule))
	w.wait("the removal", func(s prodspec.Status) bool { return s.Head.Sequence == 7 && s.State == prodspec.Serving })
	brought, err := w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 6})
	if err != nil || brought.Added != 0 || brought.Changed != 1 {
		t.Errorf("the incarnation that brought the rule: %+v, %v", brought, err)
	}
	if text := fmt.Sprint(brought.Warnings); !strings.Contains(text, "job/migrate-3") || !strings.Contains(text, "in force from the incarnation after this one") {
		t.Errorf("it does not say what goes: %s", text)
	}
	var gone []intent.AssetID
	for _, id := range w.assets() {
		if id != intent.PolicyAsset && w.removalOf(7, id) != nil {
			gone = append(gone, id)
		}
	}
	if len(gone) != 1 {
		t.Errorf("%v go, and two of three are kept", gone)
	}
	// Nothing more happens by itself.
	w.writeJob("base", "another")
	w.served(8)
}

// TestWhatARuleDoesNotRemove: what another generator made, what people must approve, what
// production partly owns, and all of it when no generation is left.
func TestWhatARuleDoesNotRemove(t *testing.T) {
	approval := "addons:\n  Approval: {reason: precious}\n"
	unmanaged := "addons:\n  Unmanaged: {fields: [{path: replicas, reason: scaled}]}\n"
	for name, c := range map[string]struct {
		addons string
		// all: the last generation leaves, too. turned: it is turned down by people.
		all, turned bool
	}{"marked": {addons: approval}, "production's own": {addons: unmanaged}, "all left": {all: true}, "the last turned down": {turned: true}} {
		t.Run(name, func(t *testing.T) {
			w := generationWorld(t, migrationRule)
			w.write("lehr.yaml", fmt.Sprintf(strings.Replace(generationsText, "floor: 0", "floor: 9", 1), migrationRule))
			for i := range 4 {
				w.write(fmt.Sprintf("jobs/migrate-%d.yaml", i), fmt.Sprintf("id: job/migrate-%d\ntype: Job\npayload: {name: m%d, binary: /bin/x, version: \"1\", replicas: 2}\n%s", i, i, c.addons))
			}
			w.start()
			w.served(1)
			w.enforce(1, false, slices.DeleteFunc(w.assets(), func(id intent.AssetID) bool { return id == intent.PolicyAsset })...)
			last := 3
			if c.all {
				last = 4
			}
			w.write("lehr.yaml", fmt.Sprintf(strings.Replace(generationsText, "floor: 0", "floor: 9", 1), strings.Replace(migrationRule, "keep: 2", "keep: 1", 1)))
			w.served(2)
			w.stop()
			for i := range last {
				w.remove(fmt.Sprintf("jobs/migrate-%d.yaml", i))
			}
			if c.all {
				w.writeJob("jobs", "unlike")
			}
			if c.turned {
				w.write("jobs/migrate-3.yaml", "id: job/migrate-3\ntype: Job\npayload: {name: m3, binary: /bin/x, version: \"1\", replicas: 2}\naddons:\n  Turndown: {reason: no more}\n")
			}
			w.start()
			w.served(3)
			w.writeJob("base", "another")
			w.served(4)
			for _, id := range w.assets() {
				if strings.HasPrefix(string(id), "job/migrate-") && w.removalOf(4, id) != nil {
					t.Errorf("%s is turned down", id)
				}
			}
		})
	}
}

// TestRulesThatArePeoplesNamesAreRefused: a rule that matches what people named, or what
// another generator makes, rejects the candidate; so does a Turndown that names a rule by hand.
func TestRulesThatArePeoplesNamesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"a person's name":   {"jobs/migrate-tool.yaml", "id: job/migrate-tool\ntype: Job\npayload: {name: t, binary: /bin/x, version: \"1\", replicas: 1}\n", "does not end in a version"},
		"another generator": {"base/migrate-9.yaml", "id: job/migrate-9\ntype: Job\npayload: {name: t, binary: /bin/x, version: \"1\", replicas: 1}\n", `made by "basis" and not by "web"`},
		"by hand":           {"base/hand.yaml", "id: job/hand\ntype: Job\npayload: {name: t, binary: /bin/x, version: \"1\", replicas: 1}\naddons:\n  Turndown: {reason: x, generation: {rule: migrate, digest: ab}}\n", "which Lehr alone sets"},
	} {
		t.Run(name, func(t *testing.T) {
			w := generationWorld(t, "")
			w.writeJob("jobs", "migrate-1")
			w.write(c.file, c.text)
			if name == "by hand" {
				w.start()
				if f := w.refused(prodspec.Rejected, 0); f.Rule != "generation" || !strings.Contains(f.Message, c.want) {
					t.Errorf("found %+v", f)
				}
				return
			}
			w.start()
			w.served(1)
			w.write("lehr.yaml", fmt.Sprintf(generationsText, migrationRule))
			if f := w.refused(prodspec.Rejected, 1); f.Rule != "generation" || !strings.Contains(f.Message, c.want) {
				t.Errorf("found %+v", f)
			}
		})
	}
}

// TestTakingGenerationsAwayIsARemoval: without another in their place they count for the guard.
func TestTakingGenerationsAwayIsARemoval(t *testing.T) {
	w := generationWorld(t, migrationRule)
	for i := range 5 {
		w.writeJob("jobs", fmt.Sprintf("migrate-%d", i))
	}
	w.start()
	w.served(1)
	w.enforce(1, false, slices.DeleteFunc(w.assets(), func(id intent.AssetID) bool { return id == intent.PolicyAsset })...)
	w.stop()
	for i := range 4 {
		w.remove(fmt.Sprintf("jobs/migrate-%d.yaml", i))
	}
	w.start()
	if f := w.refused(prodspec.Held, 1); f.Rule != "shrink" {
		t.Errorf("found %+v", f)
	}
}
