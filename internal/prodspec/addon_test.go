package prodspec_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/sdk/generator/addon"
)

// givenAddon is one kind of addon as each of the three ways writes it, and what the asset
// then has.
type givenAddon struct {
	annotation, with, derive string
	want                     string
	// wantObject is what an object has by its annotation; empty: want.
	wantObject string
}

// givenAddons has all kinds: the test finds one that is missing.
var givenAddons = map[string]givenAddon{
	"Approval": {
		annotation: `"{reason: it holds money, quorum: 2}"`, with: `{reason: it holds money, quorum: 2}`, derive: `reason: '"it holds money"', quorum: "2"`,
		want: `{"quorum":2,"reason":"it holds money"}`,
	},
	"Capacity": {
		annotation: `'{dimensions: {bytes: "size(payload.json)"}}'`, with: `{dimensions: {tasks: payload.replicas}}`, derive: `dimensions: {tasks: payload.replicas}`,
		want: `{"dimensions":{"tasks":"payload.replicas"}}`, wantObject: `{"dimensions":{"bytes":"size(payload.json)"}}`,
	},
	"Dependencies": {
		annotation: `'{"dependencies": [{"on": "job/base", "rule": "RULE_ORDER"}]}'`, with: `{dependencies: [{on: job/base, rule: order}]}`, derive: `edges: [{rule: order, on: '"job/base"'}]`,
		want: `{"dependencies":[{"on":"job/base","rule":"RULE_ORDER"}]}`,
	},
	"Group": {
		annotation: "shop", with: `{service: shop, instance: a}`, derive: `service: '"shop"', instance: '"a"'`,
		want: `{"instance":"a","service":"shop"}`, wantObject: `{"service":"shop"}`,
	},
	"Health": {
		annotation: "size(payload.name) == 8", with: "size(payload.name) == 3", derive: "expression: size(payload.name) == 3",
		want: `{"expression":"size(payload.name) == 3"}`, wantObject: `{"expression":"size(payload.name) == 8"}`,
	},
	"ImpactedScope": {
		annotation: `"scopes: {region: eu}"`, with: `{scopes: {region: eu}}`, derive: `scopes: {region: '"eu"'}`,
		want: `{"scopes":{"region":"eu"}}`, wantObject: `{"scopes":{"cluster":"c","namespace":"n","region":"eu"}}`,
	},
	"Labels": {
		annotation: `"labels: {tier: front}"`, with: `{labels: {tier: front}}`, derive: `labels: {tier: '"front"'}`,
		want: `{"labels":{"tier":"front"}}`,
	},
	"Mode": {annotation: "observe", with: "observe", derive: `mode: '"observe"'`, want: `{"mode":"ENFORCEMENT_MODE_OBSERVE"}`},
	"Owner": {
		annotation: "web@example.com", with: "web@example.com", derive: `owner: '"web@example.com"'`,
		want: `{"owner":"web@example.com"}`,
	},
	"Turndown": {
		annotation: `"moved to the other cluster: see 12"`, with: `{reason: moved}`, derive: `reason: '"moved"'`,
		want: `{"reason":"moved"}`, wantObject: `{"reason":"moved to the other cluster: see 12"}`,
	},
	"Unmanaged": {
		annotation: "data.size", with: `{fields: [{path: replicas, reason: the autoscaler}]}`, derive: `fields: {replicas: '"the autoscaler"'}`,
		want: `{"fields":[{"path":"replicas","reason":"the autoscaler"}]}`, wantObject: `{"fields":[{"path":"json.data.size","reason":"as the annotation lehr.dev/unmanaged says"}]}`,
	},
	"Version": {annotation: `'"2"'`, with: `'"2"'`, derive: `expression: '"2"'`, want: `{"expression":"\"2\""}`},
}

// addonWorld has a job that is rendered, and an object, with what is given to them.
func addonWorld(t *testing.T, with, derive, annotations string) *world {
	w := newWorld(t, "zones")
	if with != "" {
		with = ", with: {addons: " + with + "}"
	}
	w.write("lehr.yaml", fmt.Sprintf(`lehr: v1
partition: shop
mode: enforce
sources:
  jobs: {dir: jobs, files: ["*.yaml"]}
  base: {dir: base, files: ["*.yaml"]}
  objects: {dir: objects, files: ["*.yaml"]}
generate:
  web: {render: assets, from: [jobs]%s}
  basis: {render: assets, from: [base]}
  cluster: {render: kubernetes, from: [objects], with: {cluster: c, namespace: n}}
%splugins: {Job: {run: lehr-process}}
models: [lehr.kubernetes.v1.Object]
`, with, derive))
	w.write("jobs/web.yaml", "id: job/web\ntype: Job\npayload: {name: web, binary: /bin/web, version: \"1\", replicas: 2}\n")
	w.write("base/base.yaml", "id: job/base\ntype: Job\npayload: {name: base, binary: /bin/base, version: \"1\", replicas: 2}\n")
	w.write("objects/settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n"+annotations+"data: {size: \"1\", colour: red}\n")
	return w
}

const settingsAsset = intent.AssetID("kubernetes/c/n/configmap/settings")

// TestEveryAddonByEachWay: whatever addons there are, each can be given by a derivation, by
// with: of a renderer and by an annotation, to what no program of the partition's makes.
func TestEveryAddonByEachWay(t *testing.T) {
	if missing := slices.DeleteFunc(addon.Names(), func(name string) bool { _, ok := givenAddons[name]; return ok }); len(missing) > 0 {
		t.Fatalf("no case gives the addons %v", missing)
	}
	for _, kind := range addon.All() {
		c := givenAddons[kind.Name]
		t.Run(kind.Name, func(t *testing.T) {
			one := func(way string, w *world, asset intent.AssetID, want string) {
				t.Helper()
				if got := addons(t, w.build(), asset)[kind.Name]; got != want {
					t.Errorf("by %s the asset has\n%s, want\n%s", way, got, want)
				}
			}
			one("with", addonWorld(t, "{"+kind.Name+": "+c.with+"}", "", ""), "job/web", c.want)
			derivation := fmt.Sprintf("  given: {derive: %s, where: id == \"job/web\", %s}\n", kind.Name, c.derive)
			one("derive", addonWorld(t, "", derivation, ""), "job/web", c.want)
			wantObject := c.wantObject
			if wantObject == "" {
				wantObject = c.want
			}
			annotated := addonWorld(t, "", "", "  annotations: {lehr.dev/"+kind.Key+": "+c.annotation+"}\n")
			one("annotation", annotated, settingsAsset, wantObject)
			if got, bare := payloadOf(t, annotated.build(), settingsAsset), payloadOf(t, addonWorld(t, "", "", "").build(), settingsAsset); got != bare {
				t.Errorf("what is pushed has the annotation:\n%s\nwithout:\n%s", got, bare)
			}
		})
	}
}

// TestAddonsOfWhatHasNoAnnotations: SQL, Terraform and documents of an API are given theirs
// by with:, which their renderers do not see.
func TestAddonsOfWhatHasNoAnnotations(t *testing.T) {
	w := newWorld(t, "zones")
	w.write("lehr.yaml", `lehr: v1
partition: shop
sources:
  schema: {dir: schema, files: ["*.sql"]}
  infra: {dir: infra, files: ["*.tf"]}
generate:
  tables:
    render: sql-schema
    from: [schema]
    with:
      database: "sqlite:/var/lib/shop/shop.db"
      version: "1"
      addons:
        - Owner: data@example.com
        - where: id == "schema/carts"
          Turndown: in the session now
  net: {render: terraform, from: [infra], with: {workspace: eu, addons: {Mode: "off", Approval: it is the network}}}
plugins: {sqlschema.v1.Schema: {run: lehr-sqlschema}}
models: [lehr.terraform.v1.Module]
`)
	w.write("schema/carts.sql", "CREATE TABLE carts (id INTEGER PRIMARY KEY);\n")
	w.write("schema/orders.sql", "CREATE TABLE orders (id INTEGER PRIMARY KEY);\n")
	w.write("infra/main.tf", "variable \"region\" {}\n")
	built := w.build()
	for id, want := range map[intent.AssetID]map[string]string{
		"schema/carts":  {"Owner": `{"owner":"data@example.com"}`, "Turndown": `{"reason":"in the session now"}`},
		"schema/orders": {"Owner": `{"owner":"data@example.com"}`},
		"terraform/net": {"Mode": `{"mode":"ENFORCEMENT_MODE_OFF"}`, "Approval": `{"reason":"it is the network"}`},
	} {
		got := addons(t, built, id)
		delete(got, "Version") // The renderer's own.
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// payloadOf an asset: what its plugin pushes.
func payloadOf(t *testing.T, built prodspec.Built, id intent.AssetID) string {
	t.Helper()
	for _, asset := range built.Assets {
		if asset.ID != id {
			continue
		}
		var content struct {
			Payload json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(asset.Asset, &content); err != nil || len(content.Payload) == 0 {
			t.Fatalf("%s: %v", asset.Asset, err)
		}
		return string(content.Payload)
	}
	t.Fatalf("no asset %s: %+v", id, built.Findings)
	return ""
}

// TestWhichAddonWins: the asset's own, then with:, then derivations; of those that are
// merged, entry by entry.
func TestWhichAddonWins(t *testing.T) {
	derivations := `  owner: {derive: Owner, owner: '"derived@example.com"'}
  labels: {derive: Labels, labels: {a: '"derived"', b: '"derived"', c: '"derived"'}}
`
	w := addonWorld(t, `[{Owner: with@example.com, Labels: {labels: {a: with, b: with}}}, {where: id == "job/other", Mode: observe}]`, derivations, "")
	w.write("jobs/web.yaml", "id: job/web\ntype: Job\npayload: {name: web, binary: /bin/web, version: \"1\", replicas: 2}\naddons: {Labels: {labels: {a: own}}}\n"+
		"---\nid: job/other\ntype: Job\npayload: {name: other, binary: /bin/web, version: \"1\", replicas: 2}\naddons: {Owner: {owner: own@example.com}}\n")
	built := w.build()
	for id, want := range map[intent.AssetID]map[string]string{
		"job/web":   {"Owner": `{"owner":"with@example.com"}`, "Labels": `{"labels":{"a":"own","b":"with","c":"derived"}}`},
		"job/other": {"Owner": `{"owner":"own@example.com"}`, "Labels": `{"labels":{"a":"with","b":"with","c":"derived"}}`, "Mode": `{"mode":"ENFORCEMENT_MODE_OBSERVE"}`},
		"job/base":  {"Owner": `{"owner":"derived@example.com"}`, "Labels": `{"labels":{"a":"derived","b":"derived","c":"derived"}}`},
	} {
		if diff := cmp.Diff(want, addons(t, built, id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// TestAddonsThatAreRefused: what is misspelt, or contradicted, is found with its place.
func TestAddonsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		with, derive, annotations string
		file                      string
		line                      int
		message, hint             string
	}{
		"two derivations": {
			derive: "  a: {derive: Mode, mode: '\"observe\"'}\n  b: {derive: Mode, where: id == \"job/web\", mode: '\"off\"'}\n",
			file:   "lehr.yaml", line: 13, message: "generate.b (line 13) and generate.a (line 12) give asset job/web different values of Mode", hint: "where",
		},
		"two derived labels": {
			derive: "  a: {derive: Labels, labels: {x: '\"1\"'}}\n  b: {derive: Labels, where: id == \"job/web\", labels: {x: '\"2\"'}}\n",
			file:   "lehr.yaml", line: 13, message: "different values of Labels.x", hint: "where",
		},
		"two of with": {
			with: `[{Owner: a@example.com}, {where: id == "job/web", Owner: b@example.com}]`,
			file: "lehr.yaml", line: 9, message: "generate.web.with.addons[1].Owner (line 9) and generate.web.with.addons[0].Owner (line 9)", hint: "where",
		},
		"no mode":             {derive: "  a: {derive: Mode, mode: '\"watch\"'}\n", file: "lehr.yaml", line: 12, message: `"watch" is not one of enforce, observe, off`},
		"no kind of with":     {with: `{Turnown: gone}`, file: "lehr.yaml", line: 9, message: "there is no addon Turnown", hint: "did you mean Turndown?"},
		"no field of with":    {with: `{Approval: {resaon: money}}`, file: "lehr.yaml", line: 9, message: `it has no field "resaon"`, hint: "did you mean reason?"},
		"missing in with":     {with: `{Unmanaged: {fields: [{path: replicas}]}}`, file: "lehr.yaml", line: 9, message: "fields[0].reason is missing", hint: "write {fields: […]}, or the path alone"},
		"where without addon": {with: `{where: id == "job/web"}`, file: "lehr.yaml", line: 9, message: "gives no addon", hint: "Owner"},
		"no such annotation":  {annotations: "  annotations:\n    a: b\n    lehr.dev/turdown: gone\n", file: "objects/settings.yaml", line: 7, message: "the annotation lehr.dev/turdown names no addon", hint: "did you mean turndown?"},
		"no place of output":  {annotations: "  annotations:\n    lehr.dev/output.ip: status.ip\n", file: "objects/settings.yaml", line: 6, message: "is no JSON pointer", hint: "/status/loadBalancer"},
		"no name of output":   {annotations: "  annotations:\n    lehr.dev/output.1: /status/ip\n", file: "objects/settings.yaml", line: 6, message: `"1" is no name of an output`, hint: "/status/loadBalancer"},
		"no such value":       {annotations: "  annotations:\n    lehr.dev/mode: watch\n", file: "objects/settings.yaml", line: 6, message: `mode: "watch" is not one of enforce, observe, off`, hint: "write {mode: enforce or observe or off}"},
		"no text":             {annotations: "  annotations:\n    lehr.dev/mode: true\n", file: "objects/settings.yaml", line: 6, message: "is no text", hint: "quote it"},
		"no plain text":       {annotations: "  annotations:\n    lehr.dev/labels: front\n", file: "objects/settings.yaml", line: 6, message: "a plain text says nothing of it", hint: "write {labels: {NAME: …}}"},
	} {
		t.Run(name, func(t *testing.T) {
			built := addonWorld(t, c.with, c.derive, c.annotations).build()
			if built.OK() {
				t.Fatal("it was accepted")
			}
			f := built.Findings[0]
			if f.File != c.file || f.Line != c.line || !strings.Contains(f.Message, c.message) || !strings.Contains(f.Hint, c.hint) || f.Severity != intent.Error {
				t.Errorf("found %s:%d %s (%s)", f.File, f.Line, f.Message, f.Hint)
			}
		})
	}
}

// TestAnnotationsOfTemplatesAreLeft: only an object's own metadata gives addons.
func TestAnnotationsOfTemplatesAreLeft(t *testing.T) {
	w := addonWorld(t, "", "", "")
	w.write("objects/web.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    metadata: {annotations: {lehr.dev/owner: web@example.com, other: x}}\n")
	built := w.build()
	const id = "kubernetes/c/n/deployment.apps/web"
	if got := slices.Sorted(maps.Keys(addons(t, built, id))); !slices.Equal(got, []string{"Group", "ImpactedScope"}) && !slices.Equal(got, []string{"ImpactedScope"}) {
		t.Errorf("the object has the addons %v", got)
	}
	if payload := payloadOf(t, built, id); !strings.Contains(payload, "lehr.dev/owner") {
		t.Errorf("the template's annotation was taken: %s", payload)
	}
	found := slices.ContainsFunc(built.Findings, func(f intent.Finding) bool {
		return f.Severity == intent.Warning && f.File == "objects/web.yaml" && strings.Contains(f.Message, "spec.template.metadata.annotations has lehr.dev/owner, where it gives no addon")
	})
	if !found {
		t.Errorf("nobody is warned: %+v", built.Findings)
	}
}
