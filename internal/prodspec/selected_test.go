package prodspec_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
)

const selectingDefinition = `lehr: v1
partition: shop
sources:
  versions: {pushed: builds, file: builds.json}
  knobs: {document: knobs}
  tenants: {dir: tenants, files: ["*.json"]}
generate:
  web: {starlark: web.star, from: [tenants], for_each: file}
validate:
  shrink: {max: 100%, changed: 100%}
delivery:
  portal:
    versions: versions
    environments:
      tenant:
        each: {by: scope tenant, where: 'labels.region == "eu"'}
        set: {document: knobs, field: "/{each}/version"}
        assets: 'scopes.tenant == "{each}"'
`

const selectingProgram = `def generate(ctx):
    out = []
    for name, e in json(ctx.file).items():
        addons = [lehr.intent.v1.Labels(labels = {"region": e["region"]})] if "region" in e else []
        out.append(asset("web/" + name, lehr.command.v1.Command(diff = ["/bin/true"], push = ["/bin/true"], input = e.get("size", "")),
            addons = addons + [lehr.intent.v1.ImpactedScope(scopes = {"tenant": e.get("tenant", name)})]))
    return out
`

// selectors of an application, as head has them.
func (w *world) selectors() (values [][]string, environments []string) {
	w.t.Helper()
	partition, err := w.store.Partition(w.t.Context(), "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	_, body, err := w.store.Content(w.t.Context(), partition.Head, intent.PolicyAsset)
	if err != nil {
		w.t.Fatal(err)
	}
	asset, err := schema.Decode(body)
	if err != nil {
		w.t.Fatal(err)
	}
	policy := &intentpb.Policy{}
	if err := schema.Payload(asset, policy); err != nil {
		w.t.Fatal(err)
	}
	for _, d := range policy.GetDeliveries() {
		for _, s := range d.GetSelectors() {
			values = append(values, s.GetValues())
		}
		for _, e := range d.GetEnvironments() {
			environments = append(environments, e.GetName()+" "+e.GetPointer()+" "+e.GetAssets())
		}
	}
	return values, environments
}

// TestSelectedEnvironments: what selectors select follows the assets of each incarnation, by what
// changes, and after a restart; what cannot be an environment is refused and changes nothing.
func TestSelectedEnvironments(t *testing.T) {
	w := newWorld(t, "web")
	w.write("lehr.yaml", selectingDefinition)
	w.write("web.star", selectingProgram)
	w.write("tenants/a.json", `{"acme": {"region": "eu"}, "bolt": {"region": "us"}, "bare": {}}`)
	w.write("tenants/b.json", `{"crane": {"region": "eu"}, "acme2": {"region": "eu", "tenant": "acme"}}`)
	w.start()
	for name, content := range map[string]string{"builds": `{"1.0.0": {}}`, "knobs": `{"acme": {"version": "1.0.0"}}`} {
		if _, err := w.store.CreateDocument(t.Context(), "shop", name, []byte(content), "begun", person); err != nil {
			t.Fatal(err)
		}
	}
	head := intent.Sequence(0)
	expectSelected := func(what string, values ...string) {
		t.Helper()
		head++
		w.served(head)
		got, environments := w.selectors()
		if len(got) != 1 || !slices.Equal(got[0], values) {
			t.Fatalf("%s: it selects %v, want %v", what, got, values)
		}
		var want []string
		for _, v := range values {
			want = append(want, fmt.Sprintf("tenant-%s /%s/version scopes.tenant == %q", v, v, v))
		}
		if !slices.Equal(environments, want) {
			t.Fatalf("%s: the environments are %q, want %q", what, environments, want)
		}
	}
	expectSelected("at first", "acme", "crane")
	w.write("tenants/a.json", `{"acme": {"region": "eu"}, "bolt": {"region": "eu"}, "bare": {}}`)
	expectSelected("one more by a label", "acme", "bolt", "crane")
	w.write("tenants/a.json", `{"bolt": {"region": "eu"}, "bare": {}}`)
	expectSelected("another asset has the value still", "acme", "bolt", "crane")
	w.write("tenants/b.json", `{"crane": {"region": "eu", "size": "2"}}`)
	expectSelected("the last asset with it has gone", "bolt", "crane")
	w.write("tenants/c.json", `{"bolt2": {"region": "eu", "tenant": "bolt"}, "dune": {"region": "eu"}}`)
	expectSelected("a new run", "bolt", "crane", "dune")
	w.remove("tenants/c.json")
	expectSelected("a run has gone", "bolt", "crane")

	w.write("tenants/c.json", `{"dune": {"region": "eu", "tenant": "Dune 1"}}`)
	finding := w.refused(prodspec.Rejected, head)
	if finding.Line == 0 || finding.File != "lehr.yaml" || finding.Field != "delivery.portal.environments.tenant.each" || !strings.Contains(finding.Message, `"Dune 1"`) || finding.Hint == "" {
		t.Errorf("%+v", finding)
	}
	w.write("tenants/c.json", `{"dune": {"region": "eu"}}`)
	expectSelected("it was mended", "bolt", "crane", "dune")

	w.stop()
	w.write("tenants/c.json", `{"ember": {"region": "eu"}}`)
	w.start()
	expectSelected("changed while nothing ran", "bolt", "crane", "ember")

	// One that was selected gets an entry of its own, in the same commit as it is selected no longer.
	const own = "      tenant-ember: {set: {document: knobs, field: /own}, assets: 'scopes.tenant == \"ember\"'}\n"
	w.write("lehr.yaml", selectingDefinition+own)
	w.wait("a name that is taken", func(s prodspec.Status) bool {
		return s.State == prodspec.Rejected && strings.Contains(s.Findings[0].Message, "two environments tenant-ember")
	})
	w.write("tenants/c.json", `{"ember": {"region": "un"}}`)
	head++
	w.served(head)
	if got, environments := w.selectors(); !slices.Equal(got[0], []string{"bolt", "crane"}) || len(environments) != 3 {
		t.Fatalf("it selects %v, the environments are %q", got, environments)
	}
	w.write("lehr.yaml", selectingDefinition)
	w.write("tenants/c.json", `{"ember": {"region": "eu"}}`)
	w.wait("ember again", func(s prodspec.Status) bool {
		got, environments := w.selectors()
		partition, err := w.store.Partition(t.Context(), "shop")
		head = partition.Head.Sequence
		return err == nil && s.State == prodspec.Serving && s.Head == partition.Head && len(got) == 1 && slices.Equal(got[0], []string{"bolt", "crane", "ember"}) && len(environments) == 3
	})

	w.replace("lehr.yaml", `labels.region == "eu"`, `labels.region == "us"`)
	expectSelected("another condition")
	status := w.pipeline.Status()
	if !slices.ContainsFunc(status.Findings, func(f intent.Finding) bool {
		return f.Severity == intent.Warning && f.Line > 0 && strings.Contains(f.Message, "selects no asset")
	}) {
		t.Errorf("nothing warns of an empty selector: %+v", status.Findings)
	}
	w.replace("lehr.yaml", `labels.region == "us"`, `labels.region == "us" || labels.regoin == "x"`)
	w.write("tenants/c.json", `{"ember": {"region": "us", "size": "3"}}`)
	expectSelected("a label that none has is no fault where the rest decides", "ember")
	w.replace("lehr.yaml", `labels.region == "us" || labels.regoin == "x"`, `labls.region == "us"`)
	if finding := w.refused(prodspec.Rejected, head); finding.Line == 0 || !strings.HasSuffix(finding.Field, "environments.tenant.each.where") {
		t.Errorf("%+v", finding)
	}
	w.replace("lehr.yaml", `labls.region == "us"`, `labels.region == "us"`)
	w.write("tenants/c.json", manyTenants(201))
	w.wait("too many", func(s prodspec.Status) bool {
		return s.State == prodspec.Rejected && strings.Contains(s.Findings[0].Message, "201 values, at most 200")
	})
}

// TestSelectionFollowsWhatChanges: after any edits, refused ones among them, the values are those
// of all assets together.
func TestSelectionFollowsWhatChanges(t *testing.T) {
	w := newWorld(t, "web")
	w.write("lehr.yaml", selectingDefinition)
	w.write("web.star", selectingProgram)
	w.write("tenants/0.json", "{}")
	w.start()
	for name, content := range map[string]string{"builds": `{"1.0.0": {}}`, "knobs": `{"acme": {"version": "1.0.0"}}`} {
		if _, err := w.store.CreateDocument(t.Context(), "shop", name, []byte(content), "begun", person); err != nil {
			t.Fatal(err)
		}
	}
	random, region := rand.New(rand.NewPCG(1, 2)), "eu"
	files := make([]map[string][2]string, 4)
	for step := range 25 {
		for range 1 + random.IntN(3) {
			files[random.IntN(len(files))] = randomTenants(random)
		}
		if random.IntN(8) == 0 {
			w.write("tenants/0.json", "{") // It is mended by the same step.
		}
		if random.IntN(5) == 0 {
			other := map[string]string{"eu": "us", "us": "eu"}[region]
			w.replace("lehr.yaml", `region == "`+region, `region == "`+other)
			region = other
		}
		want := map[string]bool{}
		for i, file := range files {
			var parts []string
			for name, e := range file {
				id := fmt.Sprintf("%s-%d", name, i)
				parts = append(parts, fmt.Sprintf(`"%s": {"region": "%s", "tenant": "%s", "size": "%d"}`, id, e[0], e[1], random.IntN(2)))
				if e[0] == region {
					want[e[1]] = true
				}
			}
			w.write(fmt.Sprintf("tenants/%d.json", i), "{"+strings.Join(parts, ", ")+"}")
		}
		last := fmt.Sprint(step)
		w.write("tenants/last.json", `{"last": {"region": "none", "size": "`+last+`"}}`)
		w.wait("what step "+last+" says", func(s prodspec.Status) bool { return s.State == prodspec.Serving && w.sizeOf("web/last") == last })
		got, _ := w.selectors()
		if values := slices.Sorted(maps.Keys(want)); len(got) != 1 || !slices.Equal(got[0], values) {
			t.Fatalf("step %d: it selects %v, want %v", step, got, values)
		}
	}
}

// randomTenants are assets with a region and a tenant.
func randomTenants(random *rand.Rand) map[string][2]string {
	file := map[string][2]string{}
	for _, name := range []string{"a", "b", "c"} {
		if random.IntN(2) == 0 {
			file[name] = [2]string{[]string{"eu", "us"}[random.IntN(2)], fmt.Sprintf("t%d", random.IntN(4))}
		}
	}
	return file
}

// sizeOf an asset's command at head; empty: there is none.
func (w *world) sizeOf(id intent.AssetID) string {
	partition, err := w.store.Partition(w.t.Context(), "shop")
	if err != nil || partition.Head.Sequence == 0 {
		return ""
	}
	_, body, err := w.store.Content(w.t.Context(), partition.Head, id)
	if err != nil {
		return ""
	}
	asset, err := schema.Decode(body)
	if err != nil {
		w.t.Fatal(err)
	}
	command := &commandpb.Command{}
	if err := schema.Payload(asset, command); err != nil {
		w.t.Fatal(err)
	}
	return command.GetInput()
}

func manyTenants(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`"t%d": {"region": "us"}`, i))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
