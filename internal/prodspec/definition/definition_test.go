package definition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/work"
)

const whole = `lehr: v1
partition: shakespeare
owner: bard-sre@example.com
mode: enforce
modes: {Job: observe}
sources:
  service: {dir: ., files: [service.yaml]}
  schema: {dir: schema, files: ["*.sql", "more/**"]}
generate:
  order: {starlark: order.star, from: [web, service]}
  web: {starlark: gen/web.star, from: [service], for_each: file}
validate:
  shrink: {max: 10%, changed: 50%, floor: 2, over: 7d}
plugins:
  Job: {run: [lehr-process, --verbose]}
  lehr.command.v1.Command: {run: lehr-command}
checks:
  budget: {scope: cluster, in_flight: 2}
`

// TestModels: types whose assets are only read are listed, by their names.
func TestModels(t *testing.T) {
	for models, want := range map[string]string{
		`[Schema, google.protobuf.Struct]`:   "",
		`Schema`:                             "",
		`[Job]`:                              "a plugin is bound to it in line",
		`[Schema, lehr.sqlschema.v1.Schema]`: "is listed twice",
		`[Shema]`:                            "Shema",
		`{Schema: true}`:                     "models must be a list",
		`[]`:                                 "models must be a list",
	} {
		d, findings := definition.Parse("lehr.yaml", []byte(whole+"models: "+models+"\n"), schema.Builtin())
		switch {
		case want == "" && (len(findings) > 0 || !slices.Contains(d.Policy.GetModels(), "lehr.sqlschema.v1.Schema")):
			t.Errorf("%s: %+v, %v", models, findings, d.Policy.GetModels())
		case want != "" && !slices.ContainsFunc(findings, func(f intent.Finding) bool { return f.Line > 0 && strings.Contains(f.Message, want) }):
			t.Errorf("%s: no finding says %q: %+v", models, want, findings)
		}
	}
}

// A plugin is run or dialled, and a definition says nothing of certificates.
func TestDialledPlugins(t *testing.T) {
	for binding, want := range map[string]string{
		`{dial: "plugin.example.com:7443"}`: "",
		`{dial: "[::1]:7443"}`:              "",
		`{dial: "a:1", at_once: 3}`:         "",
		`{dial: "a:1", at_once: 0}`:         "plugins.Job.at_once must be a whole number from 1",
		`{dial: plugin.example.com}`:        "is no address",
		`{dial: ":7443"}`:                   "is no address",
		`{dial: "a:1", run: lehr-process}`:  "is run and dialled",
		`{}`:                                "run is missing",
		`{dial: "a:1", ca: mine.pem}`:       "ca",
		`{dial: "a:1", insecure: true}`:     "insecure",
	} {
		text := strings.Replace(whole, "{run: [lehr-process, --verbose]}", binding, 1)
		d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
		switch {
		case want == "" && (len(findings) > 0 || len(d.Policy.GetPlugins()) != 2 || d.Policy.GetPlugins()[1].GetDial() == "" || len(d.Policy.GetPlugins()[1].GetRun()) > 0):
			t.Errorf("%s: %+v, %v", binding, findings, d.Policy.GetPlugins())
		case want != "" && (len(findings) == 0 || !strings.Contains(findings[0].Message, want)):
			t.Errorf("%s: %+v, want %q", binding, findings, want)
		}
	}
}

func TestWholeDefinition(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(whole), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("findings %+v", findings)
	}
	sources := []definition.Source{
		{Name: "service", Directory: ".", Files: []string{"service.yaml"}, Line: 7},
		{Name: "schema", Directory: "schema", Files: []string{"*.sql", "more/**"}, Line: 8},
	}
	generators := []definition.Generator{
		{Name: "web", Language: work.Starlark, Program: "gen/web.star", Sources: []string{"service"}, ForEachFile: true, Line: 11},
		{Name: "order", Language: work.Starlark, Program: "order.star", Sources: []string{"service"}, Generators: []string{"web"}, Line: 10},
	}
	if diff := cmp.Diff(sources, d.Sources); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(generators, d.Generators); diff != "" {
		t.Errorf("each generator comes after those it takes from: %s", diff)
	}
	p := d.Policy
	if d.Partition != "shakespeare" || p.GetMode() != intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE ||
		p.GetTypeModes()["lehr.process.v1.Job"] != intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE {
		t.Errorf("partition %s, policy %v", d.Partition, p)
	}
	s := p.GetShrink()
	if s.GetMaxRemovedPercent() != 10 || s.GetMaxChangedPercent() != 50 || s.GetFloor() != 2 || s.GetPeriod().AsDuration() != 7*24*time.Hour {
		t.Errorf("shrink %v", s)
	}
	if b := p.GetPlugins(); len(b) != 2 || b[1].GetType() != "lehr.process.v1.Job" || !cmp.Equal(b[1].GetRun(), []string{"lehr-process", "--verbose"}) {
		t.Errorf("plugins %v", b)
	}
	if b := p.GetBudgets(); len(b) != 1 || b[0].GetScope() != "cluster" || b[0].GetInFlight() != 2 {
		t.Errorf("budgets %v", b)
	}
}

func TestModeIsObserveUnlessWritten(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(strings.Replace(whole, "mode: enforce\n", "", 1)), schema.Builtin())
	if len(findings) > 0 || d.Policy.GetMode() != intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE {
		t.Errorf("mode %s, findings %v", d.Policy.GetMode(), findings)
	}
}

// TestPrograms: the language is the key, and arguments come after a command or
// in args.
func TestPrograms(t *testing.T) {
	for text, want := range map[string]definition.Generator{
		"{wasm: gen/web.wasm, from: [a]}":               {Language: work.WASM, Program: "gen/web.wasm"},
		"{wasm: web.wasm, args: [--b, c], from: [a]}":   {Language: work.WASM, Program: "web.wasm", Arguments: []string{"--b", "c"}},
		"{command: [./gen/web, --b, '{c}'], from: [a]}": {Language: work.Native, Program: "gen/web", Arguments: []string{"--b", "{c}"}},
		"{command: ./web, from: [a], for_each: file}":   {Language: work.Native, Program: "web", Arguments: []string{}, ForEachFile: true},
		"{render: helm, from: [a]}":                     {Language: work.Render, Program: "helm"},
		"{render: helm, with: {values: [z, a], chart: c, set: 'x=1'}, from: [a]}": {
			Language: work.Render, Program: "helm", Arguments: []string{"--chart=c", "--set=x=1", "--values=z", "--values=a"},
		},
	} {
		want.Name, want.Sources, want.File, want.Line = "web", []string{"a"}, map[bool]string{true: "lehr.yaml"}[want.Language == work.Render], 6
		d, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: p\nsources:\n  a: {dir: a, files: ['*']}\ngenerate:\n  web: "+text+"\n"), schema.Builtin())
		if len(findings) > 0 || len(d.Generators) != 1 {
			t.Errorf("%s: %+v", text, findings)
			continue
		}
		if diff := cmp.Diff(want, d.Generators[0]); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestRefusedDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		old, by       string
		line, column  int
		field         string
		message, hint string
	}{
		"misspelt field":        {"owner:", "ownr:", 3, 1, "ownr", "unknown field", "did you mean owner?"},
		"deep misspelt field":   {"floor: 2", "flor: 2", 13, 36, "validate.shrink.flor", "unknown field", "did you mean floor?"},
		"bad document":          {"{dir: ., files: [service.yaml]}", "{document: K/x}", 7, 23, "sources.service.document", "no name of a document", "small letters"},
		"polled document":       {"{dir: ., files: [service.yaml]}", "{document: knobs, every: 1s}", 7, 30, "sources.service.every", "unknown field", "allowed: document"},
		"misspelt check":        {"budget: {scope", "turndwn: {in_flight: 1}\n  budget: {scope", 18, 3, "checks.turndwn", "is no check", "did you mean turndown?"},
		"taken check":           {"budget: {scope", "hold: {min_age: 1m}\n  budget: {scope", 18, 3, "checks.hold", "means something else", "another name"},
		"another kind's word":   {"budget: {scope", "denylist: {min_age: 1m}\n  budget: {scope", 18, 3, "checks.denylist", "means something else", "another name"},
		"check's name":          {"budget: {scope", "Soak: {min_age: 1m}\n  budget: {scope", 18, 3, "checks.Soak", "not a name", "a-z"},
		"check's field":         {"budget: {scope", "soak: {min_age: 1m, wher: x}\n  budget: {scope", 18, 23, "checks.soak.wher", "unknown field", "did you mean where?"},
		"two kinds":             {"budget: {scope", "soak: {min_age: 1m, deny: []}\n  budget: {scope", 18, 23, "checks.soak.deny", "unknown field", "allowed: min_age"},
		"no condition":          {"budget: {scope", "calm: {must: []}\n  budget: {scope", 18, 16, "checks.calm.must", "must be an expression", ""},
		"no zone":               {"budget: {scope", "office: {open: 09:00-17:00}\n  budget: {scope", 18, 3, "checks.office", "is no check", "zone: Europe/London"},
		"unknown zone":          {"budget: {scope", "office: {zone: Europe/Londn}\n  budget: {scope", 18, 18, "checks.office.zone", "no time zone", "Europe/London"},
		"bad window":            {"budget: {scope", "office: {zone: UTC, open: [09:00-17:00, Mo 09:00-17:00]}\n  budget: {scope", 18, 43, "checks.office.open[1]", "no window", "Mon-Fri"},
		"bad rrule":             {"budget: {scope", "office: {zone: UTC, open: [{rrule: FREQ=HOURLY, start: 2026-01-05 09:00, for: 1h}]}\n  budget: {scope", 18, 30, "checks.office.open[0]", "more often than by days", "several windows"},
		"rrule without length":  {"budget: {scope", "office: {zone: UTC, open: [{rrule: FREQ=DAILY, start: 2026-01-05 09:00}]}\n  budget: {scope", 18, 30, "checks.office.open[0].for", "missing", "for: 2h"},
		"one rrule, no length":  {"budget: {scope", "office: {zone: UTC, open: {rrule: FREQ=DAILY, start: 2026-01-05 09:00}}\n  budget: {scope", 18, 29, "checks.office.open.for", "missing", "for: 2h"},
		"unknown holidays":      {"budget: {scope", "office: {zone: UTC, holidays: UK}\n  budget: {scope", 18, 33, "checks.office.holidays", "not known", "GB"},
		"bad freeze":            {"budget: {scope", "office: {zone: UTC, freezes: [{from: soon, until: 2026-01-05, reason: a}]}\n  budget: {scope", 18, 40, "checks.office.freezes[0].from", "no time", "2026-12-20"},
		"freeze without reason": {"budget: {scope", "office: {zone: UTC, freezes: [{from: 2026-01-04, until: 2026-01-05}]}\n  budget: {scope", 18, 33, "checks.office.freezes[0].reason", "missing", "reason: …"},
		"freeze backwards":      {"budget: {scope", "office: {zone: UTC, freezes: [{from: 2026-01-06, until: 2026-01-05, reason: a}]}\n  budget: {scope", 18, 33, "checks.office.freezes[0]", "ends before", ""},
		"another of no name":    {"budget: {scope", "a: {partition: Platform}\n  budget: {scope", 18, 18, "checks.a.partition", "Platform", ""},
		"share of another":      {"budget: {scope", "a: {partition: b, in_sync: 95}\n  budget: {scope", 18, 30, "checks.a.in_sync", "not a percentage", "20%"},
		"nobody unhealthy":      {"budget: {scope: cluster, in_flight: 2", "budget: {scope: cluster, in_flight: 2, unhealthy: 0", 18, 53, "checks.budget.unhealthy", "from 1", ""},
		"no rate":               {"budget: {scope", "hourly: {at_most: 0, per: 1h, by: asset}\n  budget: {scope", 18, 21, "checks.hourly.at_most", "from 1", ""},
		"high rate":             {"budget: {scope", "hourly: {at_most: 2000, per: 1h, by: asset}\n  budget: {scope", 18, 21, "checks.hourly.at_most", "at most 1000", "shorter time"},
		"rate per what":         {"budget: {scope", "hourly: {at_most: 3, by: asset}\n  budget: {scope", 18, 21, "checks.hourly.per", "missing", "per: 1h"},
		"long rate":             {"budget: {scope", "hourly: {at_most: 3, per: 8d, by: asset}\n  budget: {scope", 18, 29, "checks.hourly.per", "7 days", "7d"},
		"rate by what":          {"budget: {scope", "hourly: {at_most: 3, per: 1h}\n  budget: {scope", 18, 21, "checks.hourly.by", "by or scope", "scope: cluster"},
		"rate by both":          {"budget: {scope", "hourly: {at_most: 3, per: 1h, by: type, scope: a}\n  budget: {scope", 18, 21, "checks.hourly.by", "not both", ""},
		"rate by nothing":       {"budget: {scope", "hourly: {at_most: 3, per: 1h, by: cluster}\n  budget: {scope", 18, 37, "checks.hourly.by", `"cluster"`, "asset, type or partition"},
		"query without limit":   {"budget: {scope", "errors: {prometheus: a, query: up}\n  budget: {scope", 18, 34, "checks.errors.below", "has no limit", "below: 0.02"},
		"query of nobody":       {"budget: {scope", "errors: {query: up, below: 1}\n  budget: {scope", 18, 19, "checks.errors.prometheus", "missing", "https://"},
		"query of a user":       {"budget: {scope", "errors: {prometheus: \"http://u:p@a\", query: up, below: 1}\n  budget: {scope", 18, 24, "checks.errors.prometheus", "holds a user", "--external-checks"},
		"limit of no number":    {"budget: {scope", "errors: {prometheus: a, query: up, below: 2%}\n  budget: {scope", 18, 45, "checks.errors.below", "must be a number", "0.02"},
		"limit without end":     {"budget: {scope", "errors: {prometheus: a, query: up, below: .inf}\n  budget: {scope", 18, 45, "checks.errors.below", "must be a number", "0.02"},
		"both limits over":      {"budget: {scope", "errors: {prometheus: a, query: up, below: 2, above: 1, over: 1m}\n  budget: {scope", 18, 64, "checks.errors.over", "one limit", "two checks"},
		"over too long":         {"budget: {scope", "errors: {prometheus: a, query: up, below: 2, over: 8d}\n  budget: {scope", 18, 54, "checks.errors.over", "longer than", "7d"},
		"absence of another":    {"budget: {scope", "errors: {prometheus: a, query: up, below: 2, absent: fail}\n  budget: {scope", 18, 56, "checks.errors.absent", "not known", "broken, pass or wait"},
		"kept too long":         {"budget: {scope", "errors: {prometheus: a, query: up, below: 2, keep: 1d}\n  budget: {scope", 18, 54, "checks.errors.keep", "cannot count", "5s to 1h"},
		"label's name":          {"budget: {scope", "errors: {prometheus: a, query: up, below: 2, labels: {a-b: scope}}\n  budget: {scope", 18, 57, "checks.errors.labels.a-b", "name of a label", "_"},
		"no matcher":            {"budget: {scope", "pages: {alertmanager: a, alerts: 'severity=page'}\n  budget: {scope", 18, 36, "checks.pages.alerts", "no matcher", "severity"},
		"two matchers as one":   {"budget: {scope", "pages: {alertmanager: a, alerts: 'a=\"b\" c=\"d\"'}\n  budget: {scope", 18, 36, "checks.pages.alerts", "no matcher", "severity"},
		"half a matcher":        {"budget: {scope", "pages: {alertmanager: a, alerts: 'a=\"b\",'}\n  budget: {scope", 18, 36, "checks.pages.alerts", "no matcher", "severity"},
		"no alertmanager":       {"budget: {scope", "pages: {alerts: 'a=\"b\"'}\n  budget: {scope", 18, 19, "checks.pages.alertmanager", "missing", "https://"},
		"peak of no query":      {"budget: {scope", "peak: {prometheus: a, headroom: 1.3}\n  budget: {scope", 18, 35, "checks.peak.query", "missing", "max_over_time"},
		"no headroom":           {"budget: {scope", "peak: {prometheus: a, query: qps, headroom: 0}\n  budget: {scope", 18, 47, "checks.peak.headroom", "more than 0", "1.3"},
		"serves twice":          {"budget: {scope", "peak: {prometheus: a, query: qps, headroom: 1, serves: scope, dimension: b}\n  budget: {scope", 18, 76, "checks.peak.dimension", "twice", "remove"},
		"protection by a path":  {"budget: {scope", "smoke: {command: [bin/smoke]}\n  budget: {scope", 18, 20, "checks.smoke.command", "no absolute path", "--external-checks"},
		"protection nowhere":    {"budget: {scope", "smoke: {http: \"ftp://a\"}\n  budget: {scope", 18, 17, "checks.smoke.http", "no URL", "https://"},
		"during otherwise":      {"budget: {scope", "smoke: {http: a, during: pause}\n  budget: {scope", 18, 28, "checks.smoke.during", "not known", "block or fail"},
		"during, not before":    {"budget: {scope", "smoke: {http: a, during: block, before: false}\n  budget: {scope", 18, 43, "checks.smoke.before", "before it too", "remove"},
		"protection never":      {"budget: {scope", "smoke: {http: a, before: false}\n  budget: {scope", 18, 28, "checks.smoke.before", "never be asked", "after"},
		"after at no time":      {"budget: {scope", "smoke: {http: a, after: {}}\n  budget: {scope", 18, 27, "checks.smoke.after", "not when", "delay"},
		"after too long":        {"budget: {scope", "smoke: {http: a, after: {delay: 8d}}\n  budget: {scope", 18, 35, "checks.smoke.after.delay", "longer than", "7d"},
		"every of nothing":      {"budget: {scope", "smoke: {http: a, every: 10s}\n  budget: {scope", 18, 27, "checks.smoke.every", "during and after", "remove"},
		"every too often":       {"budget: {scope", "smoke: {http: a, during: fail, every: 10ms}\n  budget: {scope", 18, 41, "checks.smoke.every", "shorter than", "1s"},
		"for too short":         {"budget: {scope", "smoke: {http: a, during: fail, for: 15s}\n  budget: {scope", 18, 39, "checks.smoke.for", "counts for 15s", "longer"},
		"waits too long":        {"budget: {scope", "smoke: {http: a, timeout: 2m, for: 10m}\n  budget: {scope", 18, 29, "checks.smoke.timeout", "longer than", "1m"},
		"no age":                {"budget: {scope", "soak: {min_age: soon}\n  budget: {scope", 18, 19, "checks.soak.min_age", "length of time", "10m"},
		"age of what":           {"budget: {scope", "soak: {min_age: 1m, of: asset}\n  budget: {scope", 18, 27, "checks.soak.of", `"asset"`, "incarnation or content"},
		"nothing denied":        {"budget: {scope", "bad: {deny: []}\n  budget: {scope", 18, 15, "checks.bad.deny", "not empty", "reason"},
		"denied without reason": {"budget: {scope", "bad: {deny: [{version: a}]}\n  budget: {scope", 18, 16, "checks.bad.deny[0].reason", "missing", "say why"},
		"denied twice over":     {"budget: {scope", "bad: {deny: [{version: a, commit: 1234567, reason: b}]}\n  budget: {scope", 18, 16, "checks.bad.deny[0]", "not both", "commit"},
		"short commit":          {"budget: {scope", "bad: {deny: [{commit: 123, reason: b}]}\n  budget: {scope", 18, 25, "checks.bad.deny[0].commit", "no commit", "7 to 64"},
		"commit of no source":   {"budget: {scope", "bad: {deny: [{commit: 1234567, source: servce, reason: b}]}\n  budget: {scope", 18, 42, "checks.bad.deny[0].source", "no source", "service"},
		"source of a version":   {"budget: {scope", "bad: {deny: [{version: a, source: service, reason: b}]}\n  budget: {scope", 18, 37, "checks.bad.deny[0].source", "for commits", "remove"},
		"wrong version":         {"lehr: v1", "lehr: v2", 1, 7, "lehr", `"v2"`, "lehr: v1"},
		"bad partition":         {"partition: shakespeare", "partition: Shakes", 2, 12, "partition", "Shakes", ""},
		"bad mode":              {"mode: enforce", "mode: force", 4, 7, "mode", `"force"`, "enforce, observe or off"},
		"unknown type":          {"modes: {Job:", "modes: {Jobb:", 5, 9, "modes.Jobb", "Jobb", ""},
		"percentage":            {"max: 10%", "max: 10", 13, 17, "validate.shrink.max", "percentage", "20%"},
		"over hundred":          {"max: 10%", "max: 110%", 13, 17, "validate.shrink.max", "percentage", "20%"},
		"duration":              {"over: 7d", "over: 7 days", 13, 52, "validate.shrink.over", "length of time", "7d"},
		"unknown input":         {"from: [web, service]", "from: [web, servce]", 10, 45, "generate.order.from[1]", `"servce"`, "did you mean service?"},
		"circle of generators":  {"from: [service], for_each: file", "from: [order]", 10, 1, "generate.order.from", "circle", ""},
		"program outside":       {"gen/web.star", "../web.star", 11, 19, "generate.web.starlark", "../web.star", "beside lehr.yaml"},
		"module outside":        {"starlark: gen/web.star", "wasm: ../web.wasm", 11, 15, "generate.web.wasm", "../web.wasm", "beside lehr.yaml"},
		"no module":             {"starlark: gen/web.star", "wasm: web.star", 11, 15, "generate.web.wasm", "not a .wasm file", "beside lehr.yaml"},
		"command outside":       {"starlark: gen/web.star", "command: [/bin/sh, x]", 11, 19, "generate.web.command", "/bin/sh", "beside lehr.yaml"},
		"unknown format":        {"starlark: gen/web.star", "render: kustomise", 11, 17, "generate.web.render", "no renderer", "did you mean kustomize?"},
		"with of a program":     {"starlark: gen/web.star", "wasm: web.wasm, with: {a: b}", 11, 31, "generate.web.with", "is for renderers", "args: [text]"},
		"a number in with":      {"starlark: gen/web.star", "render: helm, with: {a: 1}", 11, 33, "generate.web.with.a", "must be a text", "in quotes"},
		"two programs":          {"starlark: gen/web.star", "starlark: gen/web.star, wasm: web.wasm", 11, 39, "generate.web.wasm", "two programs, starlark and wasm", "remove one"},
		"arguments of a script": {"starlark: gen/web.star", "starlark: gen/web.star, args: [a]", 11, 39, "generate.web.args", "for modules", "after it"},
		"no program":            {"starlark: gen/web.star, ", "", 11, 3, "generate.web.starlark", "missing", "wasm: web.wasm, or command: [./web]"},
		"native":                {"starlark: gen/web.star", "commnd: [./web]", 11, 9, "generate.web.commnd", "unknown field", "did you mean command?"},
		"pattern outside":       {"[service.yaml]", "[../service.yaml]", 7, 29, "sources.service.files[0]", "..", ""},
		"duplicate key":         {"owner: bard-sre@example.com", "lehr: v1", 3, 1, "", "already defined", "mend"},
		"taken name":            {"  schema: {dir", "  programs: {dir", 8, 3, "sources.programs", "taken", "another name"},
		"second document":       {"checks:", "---\na: b\n---\nchecks:", 17, 1, "", "more than one document", ""},
		"wrong types":           {"sources:", "types: {folder: a}\nsources:", 6, 9, "types.folder", "unknown field", "dir, files"},
		"types by another name": {"  schema: {dir", "  types: {dir", 8, 3, "sources.types", "taken", "another name"},
		"no turndowns":          {"budget: {scope", "turndown: {in_flight: 0}\n  budget: {scope", 18, 25, "checks.turndown.in_flight", "from 1", ""},
		"admin":                 {"checks:", "access: {admin: [user:ann]}\nchecks:", 17, 10, "access.admin", "cannot make an admin", "server's access policy"},
		"unknown role":          {"checks:", "access: {owner: [user:ann]}\nchecks:", 17, 10, "access.owner", "not a role", "viewer, editor"},
		"unknown subject":       {"checks:", "access: {viewer: [everyone, ann]}\nchecks:", 17, 29, "access.viewer[1]", `"ann"`, "user:NAME"},
		"everyone operates":     {"checks:", "access: {operator: [everyone]}\nchecks:", 17, 21, "access.operator[0]", "everyone cannot be operator", "everyone can be viewer"},
		"subject twice":         {"checks:", "access: {viewer: [user:a, user:a]}\nchecks:", 17, 27, "access.viewer[1]", "named twice", "remove one"},
		"access of nobody":      {"checks:", "access: {viewer: []}\nchecks:", 17, 18, "access.viewer", "not empty", "write access.viewer"},
		"number as name":        {"owner: bard-sre@example.com", "owner: 12", 3, 8, "owner", "must be a text", "quotes"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(whole, c.old) {
				t.Fatalf("%q is not in the definition", c.old)
			}
			_, findings := definition.Parse("lehr.yaml", []byte(strings.Replace(whole, c.old, c.by, 1)), schema.Builtin())
			if len(findings) == 0 {
				t.Fatal("it was accepted")
			}
			f := findings[0]
			if f.File != "lehr.yaml" || f.Line != c.line || f.Column != c.column || f.Field != c.field ||
				!strings.Contains(f.Message, c.message) || !strings.Contains(f.Hint, c.hint) {
				t.Errorf("%s:%d:%d %s: %s (%s)", f.File, f.Line, f.Column, f.Field, f.Message, f.Hint)
			}
		})
	}
}

func TestAccess(t *testing.T) {
	text := whole + "access:\n  operator: [group:sre, user:ann@example.com]\n  viewer: [everyone]\n"
	d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
	want := []*intentpb.RoleBinding{{Role: "operator", To: []string{"group:sre", "user:ann@example.com"}}, {Role: "viewer", To: []string{"everyone"}}}
	got := d.Policy.GetAccess()
	if len(findings) > 0 || !slices.EqualFunc(want, got, func(a, b *intentpb.RoleBinding) bool { return proto.Equal(a, b) }) {
		t.Errorf("%v, findings %+v", got, findings)
	}
}

func TestTypesAndTurndowns(t *testing.T) {
	text := strings.Replace(whole, "sources:\n", "types: {dir: proto}\nsources:\n", 1) + "  turndown: {in_flight: 3}\n"
	d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
	if len(findings) > 0 || d.Policy.GetTurndowns() != 3 || len(d.Policy.GetBudgets()) != 1 {
		t.Fatalf("policy %v, findings %+v", d.Policy, findings)
	}
	want := &definition.Source{Name: "types", Directory: "proto", Files: []string{"**/*.proto"}, Line: 6}
	if diff := cmp.Diff(want, d.Types); diff != "" {
		t.Error(diff)
	}
	// They are found before anything else can be parsed.
	early, findings := definition.TypesOf("lehr.yaml", []byte(strings.Replace(text, "mode: enforce", "mode: wrong", 1)))
	if diff := cmp.Diff(want, early); diff != "" || len(findings) > 0 {
		t.Errorf("%s %+v", diff, findings)
	}
}

func TestExcessiveAliasesAreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("lehr: v1\na0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		c, d := string(rune('0'+i)), string(rune('1'+i))
		b.WriteString("a" + d + ": &a" + d + " [" + strings.Repeat("*a"+c+", ", 8) + "*a" + c + "]\n")
	}
	_, findings := definition.Parse("lehr.yaml", []byte(b.String()), schema.Builtin())
	if len(findings) != 1 || !strings.Contains(findings[0].Message, "aliasing") {
		t.Errorf("findings %v", findings)
	}
}

// TestFindingsOfOneLineKeepTheirOrder: they name the refused candidate.
func TestFindingsOfOneLineKeepTheirOrder(t *testing.T) {
	text := strings.Replace(whole, "validate:\n", "  edges:\n    derive: Dependencies\n    edges: [{on: payload.name, rule: order, serves: cpu, expects: memory}]\nvalidate:\n", 1)
	for range 20 {
		_, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
		if len(findings) != 2 || !strings.HasSuffix(findings[0].Field, ".serves") || !strings.HasSuffix(findings[1].Field, ".expects") {
			t.Fatalf("findings %+v", findings)
		}
	}
}

func TestApprovalsAndOverrides(t *testing.T) {
	text := whole + "  approval: {quorum: 2, expires: 90m}\n  overrides: {allow: [version, order], longest: 2h}\n"
	d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("findings %+v", findings)
	}
	approval, overrides := d.Policy.GetApproval(), d.Policy.GetOverrides()
	if approval.GetQuorum() != 2 || approval.GetExpires().AsDuration() != 90*time.Minute ||
		strings.Join(overrides.GetAllow(), " ") != "order version" || overrides.GetLongest().AsDuration() != 2*time.Hour {
		t.Errorf("approval %v, overrides %v", approval, overrides)
	}
	for bad, says := range map[string]string{
		"approval: {quorum: 0}":        "from 1",
		"approval: {quorum: 21}":       "more than 20",
		"overrides: {allow: [stop]}":   "cannot be overridden",
		"overrides: {longest: always}": "not a length of time",
		"overrides: {allow: [soak]}":   "cannot be overridden",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(whole+"  "+bad+"\n"), schema.Builtin())
		if len(findings) != 1 || !strings.Contains(findings[0].Message, says) {
			t.Errorf("%s: %+v", bad, findings)
		}
	}
}

func TestOwnChecks(t *testing.T) {
	text := whole + `  soak: {min_age: 30m, of: content, where: type == "Job"}
  bad:
    deny: [{version: "1.4.*", reason: it loses writes}, {commit: 1234567, source: service, reason: half of it}]
    version: payload.version
  calm: {must: size(diff.changes) < 3, message: too much at once}
  office:
    zone: Europe/London
    open: [Mon-Fri 09:00-17:00, {rrule: FREQ=MONTHLY;BYDAY=1SA, start: 2026-01-03 22:00, for: 4h}]
    freezes: [{from: 2026-07-20, until: 2026-08-01 12:00, reason: nobody is here}]
    holidays: GB
  errors: {prometheus: "http://localhost:9090", query: 'error_ratio{service="web"}', below: 0.02, over: 10m, labels: {cluster: scope}, absent: wait}
  pages: {alertmanager: main, alerts: 'service="web", severity=~"page|a,b"', silenced: true, where: type == "Job"}
  peak: {prometheus: main, query: "max_over_time(qps[1d])", headroom: 1.3, serves: payload.replicas, keep: 30s}
  hourly: {at_most: 3, per: 1h, by: asset, where: type == "Job"}
  slowly: {at_most: 1, per: 10m, scope: cluster}
  platform: {partition: platform, in_sync: 95%}
  smoke: {http: "https://guard.example.com/may-push"}
  tests: {command: [/bin/tests, --fast], during: fail, every: 5s, for: 30s, timeout: 20s, where: type == "Job"}
  healthy: {http: guard, after: {delay: 1m, duration: 10m}}
  both: {http: guard, before: true, after: {duration: 10m}}
  overrides: {allow: [min_age, bad, query, peak, rate, protection]}
`
	d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("findings %+v", findings)
	}
	want := []*intentpb.Check{
		{Name: "soak", Where: `type == "Job"`, Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(30 * time.Minute), OfContent: true}}},
		{Name: "bad", Kind: &intentpb.Check_Deny{Deny: &intentpb.Denylist{Version: "payload.version", Entries: []*intentpb.Denied{
			{What: &intentpb.Denied_Version{Version: "1.4.*"}, Reason: "it loses writes"},
			{What: &intentpb.Denied_Commit{Commit: "1234567"}, Source: "service", Reason: "half of it"},
		}}}},
		{Name: "calm", Kind: &intentpb.Check_Condition{Condition: &intentpb.Condition{Must: "size(diff.changes) < 3", Message: "too much at once"}}},
		{Name: "office", Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{
			Zone: "Europe/London", Holidays: "GB",
			Open: []*intentpb.Window{
				{When: &intentpb.Window_Hours{Hours: "Mon-Fri 09:00-17:00"}},
				{When: &intentpb.Window_Rrule{Rrule: "FREQ=MONTHLY;BYDAY=1SA"}, Start: "2026-01-03T22:00:00", Duration: durationpb.New(4 * time.Hour)},
			},
			Freezes: []*intentpb.Freeze{{ // In summer time.
				From: timestamppb.New(time.Date(2026, 7, 19, 23, 0, 0, 0, time.UTC)), Until: timestamppb.New(time.Date(2026, 8, 1, 11, 0, 0, 0, time.UTC)), Reason: "nobody is here",
			}},
		}}},
		{Name: "errors", Kind: &intentpb.Check_Query{Query: &intentpb.Metric{
			Prometheus: "http://localhost:9090", Query: `error_ratio{service="web"}`, Below: new(0.02), Over: durationpb.New(10 * time.Minute),
			Labels: map[string]string{"cluster": "scope"}, Absent: intentpb.Metric_ABSENCE_WAIT,
		}}},
		{Name: "pages", Where: `type == "Job"`, Kind: &intentpb.Check_Alerts{Alerts: &intentpb.Alerts{
			Alertmanager: "main", Matchers: []string{`service="web"`, `severity=~"page|a,b"`}, Silenced: true,
		}}},
		{Name: "peak", Kind: &intentpb.Check_Peak{Peak: &intentpb.Peak{
			Prometheus: "main", Query: "max_over_time(qps[1d])", Headroom: 1.3, Serves: "payload.replicas", Keep: durationpb.New(30 * time.Second),
		}}},
	}
	want = append(want,
		&intentpb.Check{Name: "hourly", Where: `type == "Job"`, Kind: &intentpb.Check_Rate{Rate: &intentpb.Rate{AtMost: 3, Per: durationpb.New(time.Hour), By: intentpb.Rate_BY_ASSET}}},
		&intentpb.Check{Name: "slowly", Kind: &intentpb.Check_Rate{Rate: &intentpb.Rate{AtMost: 1, Per: durationpb.New(10 * time.Minute), By: intentpb.Rate_BY_SCOPE, Scope: "cluster"}}},
		&intentpb.Check{Name: "platform", Kind: &intentpb.Check_Partition{Partition: &intentpb.OtherPartition{Id: "platform", InSync: 95}}},
		&intentpb.Check{Name: "smoke", Kind: &intentpb.Check_Protection{Protection: &intentpb.Protection{
			Ask: &intentpb.Protection_Http{Http: "https://guard.example.com/may-push"}, Before: true,
		}}},
		&intentpb.Check{Name: "tests", Where: `type == "Job"`, Kind: &intentpb.Check_Protection{Protection: &intentpb.Protection{
			Ask:  &intentpb.Protection_Command{Command: &intentpb.CommandLine{Line: []string{"/bin/tests", "--fast"}}},
			Keep: durationpb.New(30 * time.Second), Timeout: durationpb.New(20 * time.Second), Every: durationpb.New(5 * time.Second),
			Before: true, During: intentpb.Protection_DURING_FAIL,
		}}},
		&intentpb.Check{Name: "healthy", Kind: &intentpb.Check_Protection{Protection: &intentpb.Protection{
			Ask: &intentpb.Protection_Http{Http: "guard"}, After: &intentpb.AfterPush{Delay: durationpb.New(time.Minute), Duration: durationpb.New(10 * time.Minute)},
		}}},
		&intentpb.Check{Name: "both", Kind: &intentpb.Check_Protection{Protection: &intentpb.Protection{
			Ask: &intentpb.Protection_Http{Http: "guard"}, Before: true, After: &intentpb.AfterPush{Duration: durationpb.New(10 * time.Minute)},
		}}})
	if diff := cmp.Diff(want, d.Policy.GetChecks(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if d.CheckPlaces[1]["version"].Line != 22 || len(d.Policy.GetBudgets()) != 1 {
		t.Errorf("places %v", d.CheckPlaces)
	}
}

// TestFreezesAtClockChanges: a local time that clocks skip is when they are put forward,
// and one that they show twice is the first.
func TestFreezesAtClockChanges(t *testing.T) {
	for _, c := range []struct{ zone, from, until, begins, ends string }{
		{"America/New_York", "2026-11-01", `"2027-03-14 02:30"`, "2026-11-01T04:00:00Z", "2027-03-14T07:00:00Z"},
		{"America/New_York", `"2027-03-14 02:00"`, `"2027-03-14 03:00"`, "2027-03-14T07:00:00Z", ""}, // No time at all.
		{"America/New_York", `"2026-11-01 01:30"`, `"2026-11-01 02:00"`, "2026-11-01T05:30:00Z", "2026-11-01T07:00:00Z"},
		{"Europe/London", `"2027-03-28 01:59:59"`, "2027-03-29", "2027-03-28T01:00:00Z", "2027-03-28T23:00:00Z"},
		{"America/Sao_Paulo", "2018-11-03", "2018-11-04", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"}, // Midnight is skipped.
		{"Australia/Lord_Howe", `"2026-10-04 02:15"`, "2026-10-05", "2026-10-03T15:30:00Z", "2026-10-04T13:00:00Z"},
		{"Pacific/Apia", "2011-12-30", "2012-01-01", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"}, // A day is skipped.
	} {
		text := whole + fmt.Sprintf("  office: {zone: %s, freezes: [{from: %s, until: %s, reason: a}]}\n", c.zone, c.from, c.until)
		d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
		if c.ends == "" {
			if len(findings) != 1 || !strings.Contains(findings[0].Message, "ends before") {
				t.Errorf("%s: %+v", text, findings)
			}
			continue
		}
		if len(findings) > 0 {
			t.Errorf("%s: %+v", text, findings)
			continue
		}
		checks := d.Policy.Checks
		freeze := checks[len(checks)-1].GetCalendar().Freezes[0]
		begins, ends := freeze.From.AsTime().Format(time.RFC3339), freeze.Until.AsTime().Format(time.RFC3339)
		if begins != c.begins || ends != c.ends {
			t.Errorf("%s, %s to %s: from %s until %s, want %s and %s", c.zone, c.from, c.until, begins, ends, c.begins, c.ends)
		}
	}
}
