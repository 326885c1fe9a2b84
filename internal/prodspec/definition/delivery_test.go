package definition_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/validate"
)

const deliveryHead = `lehr: v1
partition: shop
sources:
  images: {registry: "https://registry.example.com/shop/web", file: images.json}
  cart: {debian: "https://debian.example.com/Packages", package: cart, file: cart.json}
  search: {git_tags: "https://git.example.com/search.git", file: search.json}
  knobs: {document: knobs}
  sizes: {git: "https://git.example.com/shop.git", branch: main, document: sizes.yaml}
generate: {}
`

// TestDeliveryOfThePageIsRead: each sample of docs/use/delivery.md is taken, and can be asked.
func TestDeliveryOfThePageIsRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/use/delivery.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]int{}
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		if strings.HasPrefix(text, "external-checks:") {
			checkOperatorsFile(t, text)
			continue
		}
		if strings.HasPrefix(text, "order:") {
			text = "delivery: {a: {versions: images, " + strings.TrimSpace(text) + ", environments: {e: {set: {document: knobs, field: /e}, assets: true}}}}\n"
		}
		if strings.HasPrefix(text, "verify:") || strings.HasPrefix(text, "constraints:") {
			name, _, _ := strings.Cut(text, ":")
			environment := "delivery:\n  " + name[:1] + ":\n    versions: images\n    environments:\n      e:\n        set: {document: knobs, field: /e}\n        assets: true\n"
			text = environment + "        " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n        ") + "\n"
		}
		if strings.HasPrefix(text, "sources:") {
			text = "lehr: v1\npartition: shop\ngenerate: {}\n" + text
		}
		if !strings.HasPrefix(text, "lehr:") {
			text = deliveryHead + text
		}
		d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
		if len(findings) > 0 {
			t.Fatalf("%+v in\n%s", findings, text)
		}
		if problems := validate.CheckDeliveries(schema.Builtin(), d.Policy); len(problems) > 0 {
			t.Errorf("%+v", problems)
		}
		for _, spec := range d.Policy.GetDeliveries() {
			application, err := promotion.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			samples[spec.GetName()] = len(application.Environments())
		}
	}
	if samples["web"] != 3 || samples["mail"] != 2 || samples["cart"] != 2 || samples["search"] != 2 || samples["portal"] != 7 || samples["ledger"] != 1 || samples["shop"] != 2 || samples["a"] != 1 || samples["v"] != 1 || samples["c"] != 1 {
		t.Errorf("%v", samples)
	}
}

// checkOperatorsFile takes the page's file of whoever runs the server: it allows what the page's verifications are.
func checkOperatorsFile(t *testing.T, text string) {
	t.Helper()
	t.Setenv("LOAD_TOKEN", "secret")
	file := filepath.Join(t.TempDir(), "outside.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := external.ReadPolicy(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.MayRun("shop", "/usr/local/bin/smoke"); err != nil {
		t.Error(err)
	}
	if _, err := policy.Place("shop", external.Verification, "load"); err != nil {
		t.Error(err)
	}
}

func TestDeliveryIsRead(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+`delivery:
  web:
    versions: images
    order: {by: semver, match: "web-(.*)", prereleases: [rc]}
    environments:
      test: {set: {document: sizes, field: /test}, assets: 'id == "a"', verify: smoke, on_bad: stay, newer: queues, attempts: 5, retry: 1h}
      tenant:
        each: [acme, bolt]
        partition: "shop-{each}"
        set: {document: theirs, field: "/{each}/version"}
        assets: 'scopes.tenant == "{each}"'
        constraints:
          tested: {depends_on: [test], any: true, stable: 30m, rollbacks: true}
          people: {judgement: 2, roles: [operator], expires: 2d, hotfixes: false}
          soaked: {soak: 4h, in: test}
          office: {zone: Europe/London, open: "Mon-Fri 09:00-17:00", at_most: 2}
          old: {min_age: 1h}
          denied: {deny: [{version: "1.4.*", reason: slow}, {commit: 1f2e3d4, reason: slow}]}
          canary: {verdict: outside, expires: 1d}
          ticket: {http: changes, timeout: 30s, every: 5m, expires: 2d}
          scan: {command: [/opt/scan, --strict]}
          quiet: {plugin: quiet, rollbacks: true}
      last:
        set: {document: sizes, field: /last, pull_request: hub}
        assets: 'id == "b"'
        verify: {smoke: {command: [/opt/smoke, --all]}, load: {http: "https://load.example.com/run", timeout: 20m}, people: }
`), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	web := d.Policy.GetDeliveries()[0]
	if order := web.GetOrder(); order.GetMatch() != "web-(.*)" || order.GetPrereleases()[0] != "rc" || len(web.GetEnvironments()) != 4 {
		t.Errorf("%v", web)
	}
	test, acme := web.GetEnvironments()[0], web.GetEnvironments()[1]
	if test.GetOnBad() != intentpb.DeliveryEnvironment_ON_BAD_STAY || test.GetNewer() != intentpb.DeliveryEnvironment_NEWER_QUEUES || test.GetAttempts() != 5 ||
		test.GetRetry().AsDuration() != time.Hour || test.GetVerify()[0] != "smoke" || test.GetDocument() != "sizes" {
		t.Errorf("%v", test)
	}
	if acme.GetName() != "tenant-acme" || acme.GetGroup() != "tenant" || acme.GetPartition() != "shop-acme" || acme.GetPointer() != "/acme/version" || acme.GetAssets() != `scopes.tenant == "acme"` {
		t.Errorf("%v", acme)
	}
	c := acme.GetConstraints()
	if len(c) != 10 || !c[0].GetRollbacks() || !c[0].GetDependsOn().GetAny() || c[0].GetDependsOn().GetStable().AsDuration() != 30*time.Minute || c[0].GetPassedByHotfix() ||
		!c[1].GetPassedByHotfix() || c[1].GetJudgement().GetQuorum() != 2 || c[2].GetSoak().GetTime().AsDuration() != 4*time.Hour || c[3].GetTimes().GetAtMost() != 2 ||
		c[4].GetAge().GetAge().AsDuration() != time.Hour || c[5].GetDeny().GetEntries()[1].GetCommit() != "1f2e3d4" || c[6].GetOutside().GetExpires().AsDuration() != 24*time.Hour {
		t.Errorf("%v", c)
	}
	if ticket := c[7].GetAsked(); ticket.GetHttp() != "changes" || ticket.GetTimeout().AsDuration() != 30*time.Second || ticket.GetEvery().AsDuration() != 5*time.Minute || ticket.GetExpires().AsDuration() != 48*time.Hour ||
		c[8].GetAsked().GetCommand().GetLine()[1] != "--strict" || c[9].GetAsked().GetPlugin() != "quiet" || !c[9].GetRollbacks() {
		t.Errorf("those that ask: %v", c[7:])
	}
	last := web.GetEnvironments()[3]
	if !last.GetInRepository() || last.GetSource() != "sizes" || last.GetPullRequest() != "hub" || acme.GetInRepository() {
		t.Errorf("in a repository: %v", last)
	}
	if runs := last.GetRuns(); len(last.GetVerify()) != 3 || len(runs) != 2 || runs[0].GetCommand().GetLine()[1] != "--all" || runs[1].GetTimeout().AsDuration() != 20*time.Minute {
		t.Errorf("%v", last)
	}
	if at := d.DeliveryPlaces[0]["environments.tenant-bolt"]; at.Line != 16 {
		t.Errorf("%+v", at)
	}
}

// TestRefusedDeliveries: each has a place, what is wrong, and what to do.
func TestRefusedDeliveries(t *testing.T) {
	one := func(environment string) string {
		return "{versions: images, environments: {test: {set: {document: knobs, field: /test}, assets: true}, prod: " + environment + "}}"
	}
	prod := func(constraint string) string {
		return one("{set: {document: knobs, field: /prod}, assets: true, constraints: {c: " + constraint + "}}")
	}
	const c = "delivery.web.environments.prod.constraints.c"
	for text, want := range map[string][2]string{
		`{version: images}`: {"delivery.web.version", "did you mean versions?"},
		`{versions: image, environments: {test: {set: {document: knobs, field: /t}, assets: true}}}`:                    {"delivery.web.versions", "did you mean images?"},
		`{versions: knobs, environments: {test: {set: {document: knobs, field: /t}, assets: true}}}`:                    {"delivery.web.versions", "known: images, cart, search"},
		`{versions: images, environments: {}}`:                                                                          {"delivery.web.environments", "write one"},
		`{versions: images, order: newest, environments: {}}`:                                                           {"delivery.web.order", "semver"},
		`{versions: images, order: {by: date}, environments: {}}`:                                                       {"delivery.web.order", "layout: YYYYMMDD"},
		`{versions: images, order: {match: "("}, environments: {}}`:                                                     {"delivery.web.order", "RE2"},
		`{versions: images, environments: {Test: {set: {document: knobs, field: /t}, assets: true}}}`:                   {"delivery.web.environments.Test", "a-z"},
		`{versions: images, environments: {a: {set: {document: knobs, field: /t}, assets: true, each: [b, c]}}}`:        {"delivery.web.environments.a.each", "{each}"},
		`{versions: images, environments: {a: {set: {document: knobs, field: "/{each}"}, assets: true, each: [b, b]}}}`: {"delivery.web.environments.a.each[1]", "remove one"},
		one(`{set: {document: knobs, field: "/{each}"}, assets: true, each: {where: 'id == "a"'}}`):                     {"delivery.web.environments.prod.each.by", "scope tenant"},
		one(`{set: {document: knobs, field: "/{each}"}, assets: true, each: {by: scopes.tenant}}`):                      {"delivery.web.environments.prod.each.by", "by: label cluster"},
		one(`{set: {document: knobs, field: "/{each}"}, assets: true, each: {by: scope tenant, were: 'id == "a"'}}`):    {"delivery.web.environments.prod.each.were", "where"},
		one(`{set: {document: knobs, field: "/all"}, assets: true, each: {by: scope tenant}}`):                          {"delivery.web.environments.prod.each", "{each}"},
		one(`{set: {document: knobs, field: "/{each}"}, assets: true, each: [` + strings.Repeat("x, ", 201) + `]}`):     {"delivery.web.environments.prod.each", "several applications"},
		one(`{set: {document: knobs, field: /prod}, assets: true, constraints: [a]}`):                                   {"delivery.web.environments.prod.constraints", "{key: value}"},
		one(`{assets: true}`): {"delivery.web.environments.prod.set", "document: knobs"},
		one(`{set: {document: knbs, field: /prod}, assets: true}`):                     {"delivery.web.environments.prod.set.document", "known: knobs, sizes"},
		one(`{set: {document: knobs, field: /prod, pull_request: hub}, assets: true}`): {"delivery.web.environments.prod.set.pull_request", "name a document in git"},
		one(`{set: {document: knobs, field: prod}, assets: true}`):                     {"delivery.web.environments.prod.set.field", ""},
		one(`{set: {document: knobs, field: /test}, assets: true}`):                    {"delivery.web.environments.prod", "a field of its own"},
		one(`{set: {document: knobs, field: /prod}, assets: true, on_bad: stop}`):      {"delivery.web.environments.prod.on_bad", "back or stay"},
		one(`{set: {document: knobs, field: /prod}, assets: true, newer: held}`):       {"delivery.web.environments.prod.newer", "queues"},
		one(`{set: {document: knobs, field: /prod}, assets: true, attempts: 0}`):       {"delivery.web.environments.prod.attempts", "attempts: 1"},
		one(`{set: {document: knobs, field: /prod}, assets: true, partition: Q}`):      {"delivery.web.environments.prod.partition", ""},
		prod(`{depend_on: [test]}`):                                                    {c, "{depends_on: [test], stable: 30m}"},
		prod(`{depends_on: [test], stabel: 1h}`):                                       {c + ".stabel", "did you mean stable?"},
		prod(`{depends_on: [tset]}`):                                                   {c, "did you mean test?"},
		prod(`{depends_on: [prod]}`):                                                   {"delivery.web.environments.prod", "take one of these dependencies out"},
		prod(`{depends_on: []}`):                                                       {c + ".depends_on", "[a, b]"},
		prod(`{depends_on: [test], rollbacks: maybe}`):                                 {c + ".rollbacks", "true or false"},
		prod(`{judgement: 0}`):                                                         {c + ".judgement", "judgement: 1"},
		prod(`{judgement: 21}`):                                                        {c + ".judgement", "for example 2"},
		prod(`{judgement: 1, roles: [boss]}`):                                          {c + ".roles", ""},
		prod(`{zone: UTC, at_most: 2}`):                                                {c, "Mon-Fri 09:00-17:00"},
		prod(`{zone: UTC, open: noon}`):                                                {c + ".open", "Mon-Fri"},
		prod(`{soak: 4h}`):                                                             {c + ".in", "in: [staging]"},
		prod(`{soak: long, in: test}`):                                                 {c + ".soak", "24h"},
		prod(`{min_age: -1h}`):                                                         {c + ".min_age", "24h"},
		prod(`{deny: [{version: "1"}]}`):                                               {c + ".deny[0].reason", "say why"},
		prod(`{deny: [{reason: a}]}`):                                                  {c + ".deny[0]", "commit"},
		prod(`{deny: [{commit: xyz, reason: a}]}`):                                     {c + ".deny[0].commit", "7 digits"},
		prod(`{verdict: inside}`):                                                      {c + ".verdict", "outside"},
		prod(`{http: "ftp://a"}`):                                                      {c + ".http", "prometheus.example.com"},
		prod(`{command: [scan]}`):                                                      {c + ".command", "--external-checks"},
		prod(`{plugin: "http://a"}`):                                                   {c + ".plugin", "--external-checks"},
		prod(`{plugin: quiet, timeout: 2m}`):                                           {c + ".timeout", "at most 1m"},
		prod(`{plugin: quiet, every: 2d}`):                                             {c + ".every", "every: 1m"},
		prod(`{plugin: quiet, every: 10ms}`):                                           {c + ".every", "every: 1m"},
		prod(`{plugin: quiet, expire: 1d}`):                                            {c + ".expire", "did you mean expires?"},
		one(`{set: {document: knobs, field: /prod}, assets: true, verify: [c], constraints: {c: {plugin: quiet}}}`):                                                   {c, "rename one"},
		one("{set: {document: knobs, field: /prod}, assets: true}}}\n  api: {versions: cart, environments: {x: {set: {document: knobs, field: /prod}, assets: true}"): {"delivery.api.environments.x.set", "a field of its own"},
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+"delivery:\n  web: "+text+"\n"), schema.Builtin())
		found := false
		for _, f := range findings {
			found = found || f.Field == want[0] && strings.Contains(f.Hint, want[1]) && f.Message != "" && f.Line >= 10
		}
		if !found {
			t.Errorf("%s: found %+v, want %q", text, findings, want)
		}
	}
}

// TestDeliveryAndRolloutsOfOneField: a field that a rollout sets is refused, also where the
// rollout fills in a part of it.
func TestDeliveryAndRolloutsOfOneField(t *testing.T) {
	for field, refused := range map[string]bool{"/clusters/{scope.cluster}/version": true, "/clusters/a/version": true, "/clusters/{id}/size": false, "/{id}": false} {
		_, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+`rollouts:
  r: {select: true, by: {document: knobs, field: "`+field+`"}, stages: [{rest: true}]}
delivery:
  web: {versions: images, environments: {a: {set: {document: knobs, field: /clusters/a/version}, assets: true}}}
`), schema.Builtin())
		if got := len(findings) == 1 && strings.Contains(findings[0].Message, "the rollout r sets the field"); got != refused || !refused && len(findings) > 0 {
			t.Errorf("%s: %+v", field, findings)
		}
	}
}

// TestOneOrderForASourceAndItsApplication: whichever of them says how versions are ordered, both go by
// it; two applications of one source cannot disagree.
func TestOneOrderForASourceAndItsApplication(t *testing.T) {
	parse := func(sources, applications string) (definition.Definition, []intent.Finding) {
		return definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\ngenerate: {}\nsources:\n  knobs: {document: knobs}\n"+sources+"delivery:\n"+applications), schema.Builtin())
	}
	application := func(name, order string) string {
		return "  " + name + ": {versions: images, " + order + "environments: {e: {set: {document: knobs, field: /" + name + "}, assets: true}}}\n"
	}
	const number, pushed = `order: {by: number, match: "build-([0-9]+)"}`, "  images: {pushed: builds, file: builds.json"
	for name, test := range map[string]struct {
		sources, applications string
		by                    intentpb.VersionOrder_By
		match                 string
	}{
		"neither":         {pushed + "}\n", application("a", ""), intentpb.VersionOrder_BY_SEMVER, ""},
		"the application": {pushed + "}\n", application("a", number+", "), intentpb.VersionOrder_BY_NUMBER, "build-([0-9]+)"},
		"the source":      {pushed + ", " + number + "}\n", application("a", ""), intentpb.VersionOrder_BY_NUMBER, "build-([0-9]+)"},
		"its kind":        {"  images: {debian: \"https://deb.example.com/Packages\", package: web, file: web.json}\n", application("a", ""), intentpb.VersionOrder_BY_DEBIAN, ""},
		"the branch":      {"  images: {git_commits: \"https://git.example.com/web.git\", branch: main, file: web.json}\n", application("a", ""), intentpb.VersionOrder_BY_BUILD, ""},
		"two that agree":  {pushed + "}\n", application("a", number+", ") + application("b", number+", "), intentpb.VersionOrder_BY_NUMBER, "build-([0-9]+)"},
		"a subset":        {pushed + "}\n", application("a", "") + application("b", `order: {match: "1[.].*"}, `), intentpb.VersionOrder_BY_SEMVER, ""},
	} {
		d, findings := parse(test.sources, test.applications)
		if len(findings) > 0 {
			t.Errorf("%s: %+v", name, findings)
			continue
		}
		at := slices.IndexFunc(d.Sources, func(s definition.Source) bool { return s.Name == "images" })
		for _, order := range []*intentpb.VersionOrder{d.Policy.Deliveries[0].GetOrder(), d.Sources[at].Remote.Versions.OrderSpec()} {
			if order.GetBy() != test.by || order.GetMatch() != test.match {
				t.Errorf("%s: %v, want %v %q", name, order, test.by, test.match)
			}
		}
	}
	for _, applications := range []string{application("a", "") + application("b", number+", "), application("a", "order: created, ") + application("b", number+", ")} {
		if _, findings := parse(pushed+"}\n", applications); len(findings) != 1 || findings[0].Field != "delivery.b.order" || !strings.Contains(findings[0].Hint, "order: under sources.images") {
			t.Errorf("%s: %+v", applications, findings)
		}
	}
}

// TestAnalysesOfEnvironments: one names a validation of the file and a control beside it, and is as
// long as that.
func TestAnalysesOfEnvironments(t *testing.T) {
	const validations = `validations:
  errors: {metrics: {p90: {prometheus: main, query: rate, worse: higher, unit: s}}}
  long: {interval: 1h, intervals: 7, metrics: {p90: {prometheus: main, query: rate, worse: higher, unit: s}}}
`
	parse := func(verify, environment string) (*intentpb.DeliveryVerification, []intent.Finding) {
		d, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+validations+`delivery:
  web:
    versions: images
    environments:
      canary: {set: {document: knobs, field: /canary}, assets: true, verify: {errors: `+verify+`}`+environment+`}
      production: {set: {document: knobs, field: /production}, assets: true}
      elsewhere: {partition: other, set: {document: d, field: /e}, assets: true}
`), schema.Builtin())
		if len(findings) > 0 {
			return nil, findings
		}
		return d.Policy.Deliveries[0].Environments[0].Runs[0], nil
	}
	v, findings := parse("{analysis: errors, against: production}", "")
	if len(findings) > 0 || v.GetAnalysis().GetValidation() != "errors" || v.GetAnalysis().GetAgainst() != "production" || v.GetTimeout() != nil {
		t.Errorf("%+v, %+v", v, findings)
	}
	for verify, want := range map[string][3]string{
		"{analysis: error}":                               {"", "canary.verify.errors.analysis", "did you mean errors?"},
		"{analysis: long}":                                {"", "canary.verify.errors.analysis", "soak:"},
		"{analysis: errors, timeout: 5m}":                 {"", "canary.verify.errors.timeout", "interval"},
		"{analysis: errors, http: \"https://a.example\"}": {"", "canary.verify.errors", "{analysis: errors}"},
		"{against: production}":                           {"", "canary.verify.errors.against", "write analysis"},
		"{analysis: errors, against: producton}":          {"", "canary.verify.errors.against", "known: canary, elsewhere, production"},
		"{analysis: errors, against: canary}":             {"", "canary.verify.errors.against", "keeps what was there before"},
		"{analysis: errors, against: elsewhere}":          {"", "canary.verify.errors.against", "keeps what was there before"},
		"{analysis: errors}":                              {", partition: other", "canary.verify.errors", "rollout of that partition"},
	} {
		_, findings := parse(verify, want[0])
		if !slices.ContainsFunc(findings, func(f intent.Finding) bool {
			return f.Line > 0 && strings.HasSuffix(f.Field, want[1]) && strings.Contains(f.Hint, want[2])
		}) {
			t.Errorf("%s: %+v", verify, findings)
		}
	}
}

// TestFiltersOfDelivery: what selects an environment's assets is compiled, and placed where it is
// wrong.
func TestFiltersOfDelivery(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+"delivery:\n  web: {versions: images, environments: {a: {set: {document: knobs, field: /a}, assets: nothing.at.all}, b: {partition: other, set: {document: d, field: /a}, assets: nothing.at.all}}}\n"), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	problems := validate.CheckDeliveries(schema.Builtin(), d.Policy)
	if len(problems) != 1 || problems[0].Field != "environments.a.assets" || !strings.Contains(problems[0].Err.Error(), "nothing") {
		t.Errorf("%+v", problems)
	}
	if at := d.DeliveryPlaces[0]["environments.a.assets"]; at.Line != 11 || at.Column == 0 {
		t.Errorf("%+v", at)
	}
}

// A source of versions knows in which fields of documents its versions are deployed.
func TestSourcesOfVersionsKnowWhereTheyAreDeployed(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(`lehr: v1
partition: shop
sources:
  images: {registry: "https://registry.example.com/shop/web", file: images.json}
  knobs: {document: knobs}
generate:
  web: {starlark: web.star, from: [knobs]}
delivery:
  web:
    versions: images
    environments:
      test: {set: {document: knobs, field: /test/version}, assets: "true"}
      far: {partition: other, set: {document: knobs, field: /far/version}, assets: "true"}
`), schema.Builtin())
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	for _, s := range d.Sources {
		if s.Name != "images" {
			continue
		}
		if got := s.Remote.Versions.Deployed; len(got) != 1 || got[0].Document != "knobs" || got[0].Pointer != "/test/version" {
			t.Errorf("deployed in %+v", got)
		}
	}
}
