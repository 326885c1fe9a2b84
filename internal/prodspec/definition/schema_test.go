package definition_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/sdk/generator/addon"
)

// schemaOf is the schema as a program reads it.
func schemaOf(t *testing.T) map[string]any {
	t.Helper()
	text, err := json.Marshal(definition.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// allowed are the keys that the parser says it would take where the template has
// KEY.
func allowed(t *testing.T, template string) []string {
	t.Helper()
	const head = "lehr: v1\npartition: shop\n"
	_, findings := definition.Parse("lehr.yaml", []byte(head+strings.Replace(template, "KEY", "zzzzzzzzzzzzzzzz: x", 1)+"\n"), schema.Builtin())
	for _, f := range findings {
		if _, list, is := strings.Cut(f.Hint, "allowed: "); is && strings.Contains(f.Message, "zzzzzzzzzzzzzzzz") {
			return slices.Sorted(slices.Values(strings.Split(list, ", ")))
		}
	}
	t.Fatalf("%s: nothing is said of an unknown key: %+v", template, findings)
	return nil
}

// closed are the objects of a schema that take no other keys, by where they are
// and the first key that they require.
func closed(into map[string]map[string]any, path string, node any) {
	switch node := node.(type) {
	case map[string]any:
		if node["additionalProperties"] == false {
			at := path
			if required, _ := node["required"].([]any); strings.HasSuffix(path, "|") && len(required) > 0 {
				at += fmt.Sprint(required[0])
				if required[0] == "derive" {
					kinds := node["properties"].(map[string]any)["derive"].(map[string]any)["enum"].([]any)
					at = path + fmt.Sprint(kinds[0])
				}
			}
			into[at] = node
			for name, below := range node["properties"].(map[string]any) {
				closed(into, at+"."+name, below)
			}
			return
		}
		properties, _ := node["properties"].(map[string]any)
		for name, below := range properties {
			closed(into, path+"."+name, below)
		}
		closed(into, path+"{}", node["additionalProperties"])
		closed(into, path+"[]", node["items"])
		if list, ok := node["anyOf"].([]any); ok {
			for _, one := range list {
				closed(into, path+"|", one)
			}
		}
	}
}

// Each key that the parser accepts is in the schema, and no other.
func TestSchemaHasTheKeysOfTheParser(t *testing.T) {
	objects := map[string]map[string]any{}
	closed(objects, "", schemaOf(t))
	templates := map[string]string{
		"":                                             "KEY",
		".types":                                       "types: {KEY}",
		".sources{}|files":                             "sources: {a: {KEY}}",
		".validate":                                    "validate: {KEY}",
		".validate.shrink":                             "validate: {shrink: {KEY}}",
		".validate.rules[]":                            "validate: {rules: [{KEY}]}",
		".outputs":                                     "outputs: {KEY}",
		".outputs.grants[]":                            "outputs: {grants: [{KEY}]}",
		".plugins{}":                                   "plugins: {Job: {KEY}}",
		".checks{}|min_age":                            "checks: {c: {min_age: 1m, KEY}}",
		".checks{}|at_most":                            "checks: {c: {at_most: 1, KEY}}",
		".checks{}|partition":                          "checks: {c: {partition: p, KEY}}",
		".checks{}|train":                              "checks: {c: {train: p, KEY}}",
		".checks{}|must":                               "checks: {c: {must: x, KEY}}",
		".checks{}|zone":                               "checks: {c: {zone: UTC, KEY}}",
		".checks{}|zone.open|[]|rrule":                 "checks: {c: {zone: UTC, open: [{KEY}]}}",
		".checks{}|zone.open|rrule":                    "checks: {c: {zone: UTC, open: {KEY}}}",
		".checks{}|zone.freezes[]":                     "checks: {c: {zone: UTC, freezes: [{KEY}]}}",
		".checks{}|headroom":                           "checks: {c: {headroom: 1, KEY}}",
		".checks{}|query":                              "checks: {c: {query: x, KEY}}",
		".checks{}|alerts":                             "checks: {c: {alerts: x, KEY}}",
		".checks{}|http":                               "checks: {c: {http: a, KEY}}",
		".checks{}|http.after":                         "checks: {c: {http: a, after: {KEY}}}",
		".checks{}|command":                            "checks: {c: {command: [/a], KEY}}",
		".checks{}|command.after":                      "checks: {c: {command: [/a], after: {KEY}}}",
		".checks{}|plugin":                             "checks: {c: {plugin: a, KEY}}",
		".checks{}|plugin.after":                       "checks: {c: {plugin: a, after: {KEY}}}",
		".checks{}|deny":                               "checks: {c: {deny: [], KEY}}",
		".checks{}|deny.deny[]":                        "checks: {c: {deny: [{KEY}]}}",
		".checks.budget":                               "checks: {budget: {KEY}}",
		".checks.turndown":                             "checks: {turndown: {KEY}}",
		".checks.approval":                             "checks: {approval: {KEY}}",
		".checks.overrides":                            "checks: {overrides: {KEY}}",
		".notifications{}":                             "notifications: {n: {KEY}}",
		".generations{}":                               "generations: {g: {KEY}}",
		".previews{}":                                  "previews: {g: {KEY}}",
		".rollouts{}":                                  "rollouts: {r: {KEY}}",
		".rollouts{}.by|document":                      "rollouts: {r: {by: {KEY}}}",
		".rollouts{}.stages[]":                         "rollouts: {r: {stages: [{KEY}]}}",
		".rollouts{}.stages[].approval":                "rollouts: {r: {stages: [{approval: {KEY}}]}}",
		".rollouts{}.emergency[].approval":             "rollouts: {r: {emergency: [{approval: {KEY}}]}}",
		".rollouts{}.rollback[].approval":              "rollouts: {r: {rollback: [{approval: {KEY}}]}}",
		".rollouts{}.stages[].window":                  "rollouts: {r: {stages: [{window: {KEY}}]}}",
		".rollouts{}.emergency[]":                      "rollouts: {r: {emergency: [{KEY}]}}",
		".rollouts{}.emergency[].window":               "rollouts: {r: {emergency: [{window: {KEY}}]}}",
		".rollouts{}.rollback[]":                       "rollouts: {r: {rollback: [{KEY}]}}",
		".rollouts{}.rollback[].window":                "rollouts: {r: {rollback: [{window: {KEY}}]}}",
		".rollouts{}.rollback[].window.open|[]|rrule":  "rollouts: {r: {rollback: [{window: {zone: UTC, open: [{KEY}]}}]}}",
		".rollouts{}.rollback[].window.open|rrule":     "rollouts: {r: {rollback: [{window: {zone: UTC, open: {KEY}}}]}}",
		".rollouts{}.rollback[].window.freezes[]":      "rollouts: {r: {rollback: [{window: {zone: UTC, freezes: [{KEY}]}}]}}",
		".rollouts{}.stages[].window.open|[]|rrule":    "rollouts: {r: {stages: [{window: {zone: UTC, open: [{KEY}]}}]}}",
		".rollouts{}.stages[].window.open|rrule":       "rollouts: {r: {stages: [{window: {zone: UTC, open: {KEY}}}]}}",
		".rollouts{}.stages[].window.freezes[]":        "rollouts: {r: {stages: [{window: {zone: UTC, freezes: [{KEY}]}}]}}",
		".rollouts{}.emergency[].window.open|[]|rrule": "rollouts: {r: {emergency: [{window: {zone: UTC, open: [{KEY}]}}]}}",
		".rollouts{}.emergency[].window.open|rrule":    "rollouts: {r: {emergency: [{window: {zone: UTC, open: {KEY}}}]}}",
		".rollouts{}.emergency[].window.freezes[]":     "rollouts: {r: {emergency: [{window: {zone: UTC, freezes: [{KEY}]}}]}}",
		".delivery{}":                                  "delivery: {a: {KEY}}",
		".delivery{}.order|":                           "delivery: {a: {order: {KEY}}}",
		".delivery{}.environments{}":                   "delivery: {a: {environments: {e: {KEY}}}}",
		".delivery{}.environments{}.verify|{}|":        "delivery: {a: {environments: {e: {verify: {v: {KEY}}}}}}",
		".delivery{}.environments{}.set":               "delivery: {a: {environments: {e: {set: {KEY}}}}}",
		".delivery{}.tasks{}":                          "delivery: {a: {tasks: {e: {KEY}}}}",
		".delivery{}.tasks{}.set":                      "delivery: {a: {tasks: {e: {set: {KEY}}}}}",
		".delivery{}.environments{}.each|by":           "delivery: {a: {environments: {e: {each: {KEY}}}}}",
		".promotions":                                  "promotions: {KEY}",
		".releases{}":                                  "releases: {l: {KEY}}",
		".releases{}.order[]":                          "releases: {l: {order: [{KEY}]}}",
		".workflows{}":                                 "workflows: {w: {KEY}}",
		".promotions.grants[]":                         "promotions: {grants: [{KEY}]}",
		".validations{}":                               "validations: {v: {KEY}}",
		".validations{}.metrics{}":                     "validations: {v: {metrics: {m: {KEY}}}}",
		".validations{}.metrics{}.range":               "validations: {v: {metrics: {m: {range: {KEY}}}}}",
		".generate{}|resolve":                          "generate: {g: {resolve: Job, KEY}}",
		".generate{}|Dependencies.edges[]":             "generate: {g: {derive: Dependencies, edges: [{KEY}]}}",
	}
	for _, section := range []string{"environments", "tasks"} {
		at, before := ".delivery{}."+section+"{}.constraints{}|", "delivery: {a: {"+section+": {e: {constraints: {c: {"
		const end = "}}}}}}"
		for key, value := range map[string]string{"depends_on": "x", "judgement": "1", "zone": "UTC", "soak": "1h", "task": "x", "lag": "1", "min_age": "1h", "deny": "[]", "verdict": "outside", "http": "x", "command": "[/x]", "plugin": "x"} {
			templates[at+key] = before + key + ": " + value + ", KEY" + end
		}
		templates[at+"deny.deny[]"] = before + "deny: [{KEY}]" + end
		for place, template := range map[string]string{".open|[]|rrule": "open: [{KEY}]", ".open|rrule": "open: {KEY}", ".freezes[]": "freezes: [{KEY}]"} {
			templates[at+"zone"+place] = before + "zone: UTC, " + template + end
		}
	}
	for _, kind := range []string{"git", "http", "sql", "registry", "debian", "git_tags", "git_commits", "charts", "listing", "command", "pushed", "chart", "artifact", "document", "outputs"} {
		templates[".sources{}|"+kind] = "sources: {a: {" + kind + ": x, KEY}}"
	}
	for _, name := range addon.Names() {
		templates[".generate{}|"+name] = "generate: {g: {derive: " + name + ", KEY}}"
	}
	programs, checkers := map[string]bool{}, map[string]bool{}
	for _, at := range slices.Sorted(maps.Keys(objects)) {
		keys := slices.Sorted(maps.Keys(objects[at]["properties"].(map[string]any)))
		switch {
		case templates[at] != "":
			if want := allowed(t, templates[at]); !slices.Equal(keys, want) {
				t.Errorf("%q has the keys %v, the parser takes %v", at, keys, want)
			}
			delete(templates, at)
		case strings.Contains(at, ".for_each|"):
			if want := allowed(t, "generate: {g: {for_each: {KEY}}}"); !slices.Equal(keys, want) {
				t.Errorf("%q has the keys %v, the parser takes %v", at, keys, want)
			}
		case strings.HasPrefix(at, ".generate{}|render.with.addons|"): // Kinds, of which the parser takes short and full names.
			for _, name := range addon.Names() {
				if !slices.Contains(keys, name) || !slices.Contains(keys, "lehr.intent.v1."+name) {
					t.Errorf("%q lacks the addon %s: %v", at, name, keys)
				}
			}
			if len(keys) != 2*len(addon.Names())+1 || !slices.Contains(keys, "where") {
				t.Errorf("%q has the keys %v", at, keys)
			}
		case strings.HasPrefix(at, ".generate{}|"): // One of a language, of which the parser takes all together.
			for _, key := range keys {
				programs[key] = true
			}
		case strings.HasPrefix(at, ".validate.programs{}|"): // Likewise of a program.
			for _, key := range keys {
				checkers[key] = true
			}
		case strings.HasPrefix(at, ".sources{}|") && strings.HasSuffix(at, ".fields"):
			if want := allowed(t, "sources: {a: {pushed: x, file: a.json, fields: {KEY}}}"); !slices.Equal(keys, want) {
				t.Errorf("%q has the keys %v, the parser takes %v", at, keys, want)
			}
		case strings.HasPrefix(at, ".sources{}|") && strings.HasSuffix(at, ".order|"):
			if want := allowed(t, "sources: {a: {pushed: x, file: a.json, order: {KEY}}}"); !slices.Equal(keys, want) {
				t.Errorf("%q has the keys %v, the parser takes %v", at, keys, want)
			}
		case strings.HasPrefix(at, ".sources{}|"): // A reference to a secret.
			if want := allowed(t, "sources: {a: {git: x, token: {KEY}}}"); !slices.Equal(keys, want) {
				t.Errorf("%q has the keys %v, the parser takes %v", at, keys, want)
			}
		case at == ".access":
			for _, role := range intent.Roles() {
				_, findings := definition.Parse("lehr.yaml", []byte("access: {"+string(role)+": [user:a]}"), schema.Builtin())
				refused := slices.ContainsFunc(findings, func(f intent.Finding) bool { return strings.HasPrefix(f.Field, "access.") })
				if slices.Contains(keys, string(role)) == refused {
					t.Errorf("role %s: the schema has %v, the parser says %+v", role, keys, findings)
				}
			}
		default:
			t.Errorf("what the parser takes at %q is not asked here", at)
		}
	}
	if len(templates) > 0 {
		t.Errorf("the schema has no object at %v", slices.Sorted(maps.Keys(templates)))
	}
	if got, want := slices.Sorted(maps.Keys(programs)), allowed(t, "generate: {g: {KEY}}"); !slices.Equal(got, want) {
		t.Errorf("generators have the keys %v, the parser takes %v", got, want)
	}
	if got, want := slices.Sorted(maps.Keys(checkers)), allowed(t, "validate: {programs: {p: {KEY}}}"); !slices.Equal(got, want) {
		t.Errorf("checking programs have the keys %v, the parser takes %v", got, want)
	}
}

// What the parser takes, the schema takes.
func TestDefinitionsSatisfyTheSchema(t *testing.T) {
	read := schemaOf(t)
	found := 0
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "lehr.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(data), "{{") {
			return nil // A template.
		}
		found++
		check(t, read, path, data, "")
		return nil
	})
	if err != nil || found < 5 {
		t.Fatalf("%d definitions: %v", found, err)
	}
	const head = "lehr: v1\npartition: shop\nsources: {s: {files: a}}\ngenerate: {}\n"
	for text, wrong := range map[string]string{
		"validations: {v: {warm_up: 5m, intervals: 3, compare: control, pass: 90, groups: {a: 2}, metrics: {m: {prometheus: main, query: x, tolerance: 5%, matters: 3, critical: true, range: {low: 0, high: 1}}}}}": "",
		"validations: {v: {metrics: {m: {worse: up}}}}": "$.validations.v.metrics.m.worse",
		`notifications: {n: {of: partition, when: "has(partition.stop)", for: 10m, repeat: 1d, to: chat, text: "partition.id", resolved: false}}`: "",
		`rollouts: {r: {select: true, by: {document: d, field: "/{id}"}, stages: [{name: 1, scopes: a, where: true, by: scope cluster, order: [b], parallel: 1, percent: 10%, most: 4, delay: 5m, soak: 1d,
  window: {zone: UTC, open: "Mon 09:00-10:00"}}, {rest: true, count: 1, factor: 1.5}], validate: errors, on_bad: stop, newer: held, patience: 1h, emergency: [{rest: true}]}}`: "",
		`rollouts: {r: {select: true}}`:                                                                "$.rollouts.r.stages",
		`rollouts: {r: {stages: [{rest: true}]}}`:                                                      "$.rollouts.r.select",
		`rollouts: {r: {select: true, stages: [{rest: false}]}}`:                                       "$.rollouts.r.stages[0].rest",
		`rollouts: {r: {select: true, by: pods, stages: []}}`:                                          "$.rollouts.r.by",
		`rollouts: {r: {select: true, stages: [{by: cluster}]}}`:                                       "$.rollouts.r.stages[0].by",
		`rollouts: {r: {select: true, stages: [{percent: 101%}]}}`:                                     "$.rollouts.r.stages[0].percent",
		`rollouts: {r: {select: true, stages: [{window: {open: a}}]}}`:                                 "$.rollouts.r.stages[0].window.zone",
		"notifications: {n: {when: \"true\"}}":                                                         "$.notifications.n.to",
		"checks: {budget: {scope: a, in_flight: 1}, approval: {quorum: 2, expires: 7d}}":               "",
		"validate: {shrink: {max: 20%, over: 1h30m}, rules: [{id: a, must: true}]}":                    "",
		"plugins: {Job: {run: [a], at_once: 4}}":                                                       "",
		"access: {viewer: everyone, operator: [\"group:sre\"]}":                                        "",
		"workflows: {promote: {file: promote.yaml}}":                                                   "",
		"workflows: {promote: {}}":                                                                     "$.workflows.promote.file",
		"mode: on":                                                                                     "$.mode",
		"chekcs: {}":                                                                                   "$.chekcs",
		"checks: {budget: {scope: a}}":                                                                 "$.checks.budget.in_flight",
		"validate: {shrink: {max: 20}}":                                                                "$.validate.shrink.max",
		"validate: {shrink: {over: soon}}":                                                             "$.validate.shrink.over",
		"access: {admin: [\"user:a\"]}":                                                                "$.access.admin",
		"plugins: {Job: {runs: x}}":                                                                    "$.plugins.Job.runs",
		"checks: {budget: {scope: a, in_flight: 1, unhealthy: 2}, approval: {quorum: 2, expires: 7d}}": "",
		"checks: {c: {at_most: 3, per: 1h, by: asset}, d: {at_most: 3, per: 1d, scope: cluster}}":      "",
	} {
		check(t, read, text, []byte(head+text), wrong)
	}
}

func check(t *testing.T, schema map[string]any, name string, data []byte, wrong string) {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	if at := violated(schema, "$", value); at != wrong {
		t.Errorf("%s: wrong at %q, want %q", name, at, wrong)
	}
}

// violated applies as much of JSON Schema as Schema uses, and returns where the
// value is wrong.
func violated(schema map[string]any, at string, value any) string {
	if list, ok := schema["anyOf"].([]any); ok {
		for _, one := range list {
			if violated(one.(map[string]any), at, value) == "" {
				return ""
			}
		}
		return at
	}
	if want, ok := schema["const"]; ok && value != want {
		return at
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, value) {
		return at
	}
	kinds, several := schema["type"].([]any)
	if !several && schema["type"] != nil {
		kinds = []any{schema["type"]}
	}
	kind := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number", reflect.Map: "object", reflect.Slice: "array"}[reflect.ValueOf(value).Kind()]
	if kinds != nil && !slices.Contains(kinds, any(kind)) && !(kind == "integer" && slices.Contains(kinds, any("number"))) {
		return at
	}
	switch value := value.(type) {
	case string:
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(value) {
			return at
		}
	case []any:
		for i, element := range value {
			if wrong := violated(schema["items"].(map[string]any), fmt.Sprintf("%s[%d]", at, i), element); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := value[name.(string)]; !ok {
				return at + "." + name.(string)
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			below, ok := properties[name].(map[string]any)
			if !ok {
				if below, ok = schema["additionalProperties"].(map[string]any); !ok {
					return at + "." + name
				}
			}
			if wrong := violated(below, at+"."+name, value[name]); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}
