package prodspec_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

// usingAll is a definition that uses something of all that a common rule may bound, at each place
// where it can be named.
const usingAll = `lehr: v1
partition: shop
owner: shop-sre@example.com
mode: enforce
sources:
  service: {files: [service.yaml]}
  git: {git: "https://git.bad.example/shop.git", token: {env: BAD_GIT_TOKEN}, files: [a.yaml]}
  ssh: {git: "ssh://git@ssh.bad.example:2222/shop.git", key: {file: /bad/ssh}, known_hosts: {file: /bad/hosts}, files: [a.yaml]}
  http: {http: "https://http.bad.example/a.json", file: a.json, token: {env: BAD_HTTP_TOKEN}}
  sql: {sql: {env: BAD_DSN}, query: select 1, file: b.json}
  images: {registry: "https://registry.bad.example/shop/web", file: images.json, token: {env: BAD_REGISTRY_TOKEN}}
  tags: {git_tags: "ssh://git@tags.bad.example/shop.git", file: tags.json, key: {file: /bad/tags}, known_hosts: {file: /bad/hosts}}
  debs: {debian: "https://deb.bad.example/Packages.gz", package: web, file: debs.json}
  commits: {git_commits: "https://commits.bad.example/shop.git", branch: main, file: commits.json, token: {env: BAD_COMMITS_TOKEN}}
  listed: {charts: "https://listed.bad.example/stable", name: web, file: listed.json}
  page: {listing: "https://page.bad.example/", file: page.json, token: {env: BAD_PAGE_TOKEN}}
  chart: {chart: "https://charts.bad.example/stable", name: cache, version: 1.2.0, user: bot, token: {env: BAD_CHART_TOKEN}}
  oci: {chart: "oci://oci.bad.example/charts/web", version: 1.2.0}
  base: {artifact: "oci://artifact.bad.example/team/base:v1", user: bot, token: {file: /bad/artifact}}
generate:
  web:
    starlark: web.star
    from: [service]
  tool: {command: [./bad-generator], from: service}
validate:
  rules:
    - {id: asked, must: "true", http: "https://rule.bad.example/", message: no}
    - {id: told, must: "true", command: [/bad/rule], message: no}
  programs:
    own: {command: [./bad-checker], from: service}
plugins:
  Job: {run: bad-plugin}
  Balancer: {dial: "plugin.bad.example:7443"}
checks:
  errors: {prometheus: "http://prometheus.bad.example:9090", query: up, above: 0}
  pages: {alertmanager: "http://alerts.bad.example:9093", alerts: page="true"}
  gate: {http: "https://gate.bad.example/may", before: true}
  guard: {command: [/bad/guard], before: true}
validations:
  good:
    metrics:
      latency: {prometheus: "http://metrics.bad.example:9090", query: latency, worse: higher, compare: before}
`

// TestListsBoundAllThatADefinitionNames: whatever may be bounded is refused wherever it is named.
func TestListsBoundAllThatADefinitionNames(t *testing.T) {
	w := newWorld(t, "web")
	w.write("lehr.yaml", usingAll)
	w.ask(`  strict:
    owner: platform
    mode: require
    for: {owner: "shop-*"}
    allow: {plugins: [lehr-*], programs: [/good/*, good-*], addresses: ["*.good.example"], secrets: [GOOD_*, /good/*]}
`)
	w.start()
	status := w.wait("a rejection", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
	var refused []string
	for _, f := range status.Findings {
		place, what, ok := strings.Cut(f.Message, ": the ")
		what, _, _ = strings.Cut(what, " is not allowed (common rule strict of platform, lehr-policy.yaml:7)")
		if !ok || f.Severity != intent.Error || f.File != "lehr.yaml" || f.Field != place || f.Line < 2 {
			t.Errorf("finding %+v", f)
		}
		refused = append(refused, place+" "+strings.ReplaceAll(what, `"`, ""))
	}
	wanted := []string{
		"checks.errors address prometheus.bad.example", "checks.gate address gate.bad.example", "checks.guard program /bad/guard", "checks.pages address alerts.bad.example",
		"generate.tool program bad-generator",
		"plugins.lehr.caddy.v1.Balancer.dial plugin plugin.bad.example:7443", "plugins.lehr.process.v1.Job.run plugin bad-plugin",
		"sources.base address artifact.bad.example", "sources.base secret /bad/artifact", "sources.chart address charts.bad.example", "sources.chart secret BAD_CHART_TOKEN",
		"sources.commits address commits.bad.example", "sources.commits secret BAD_COMMITS_TOKEN", "sources.debs address deb.bad.example", "sources.git address git.bad.example", "sources.git secret BAD_GIT_TOKEN", "sources.http address http.bad.example", "sources.http secret BAD_HTTP_TOKEN",
		"sources.images address registry.bad.example", "sources.images secret BAD_REGISTRY_TOKEN", "sources.listed address listed.bad.example", "sources.oci address oci.bad.example", "sources.page address page.bad.example", "sources.page secret BAD_PAGE_TOKEN", "sources.sql secret BAD_DSN",
		"sources.ssh address ssh.bad.example", "sources.ssh secret /bad/ssh", "sources.tags address tags.bad.example", "sources.tags secret /bad/tags",
		"validate.programs.own program bad-checker", "validate.rules.asked address rule.bad.example", "validate.rules.told program /bad/rule", "validations.good.metrics.latency address metrics.bad.example",
	}
	if slices.Sort(refused); !slices.Equal(refused, wanted) {
		t.Errorf("refused:\n%s\nwant:\n%s", strings.Join(refused, "\n"), strings.Join(wanted, "\n"))
	}
}

// TestSecretsOfAssetsAreBounded: a rule's list of secrets is about what assets refer to, too; first
// it is told, then required, and what is served stays.
func TestSecretsOfAssetsAreBounded(t *testing.T) {
	w := newWorld(t, "web")
	const refers = `health = {"path": "/healthz", "timeout": duration("1s")},
        secret_env = {"PASSWORD": lehr.intent.v1.SecretRef(file = "/run/secrets/bad"), "TOKEN": lehr.intent.v1.SecretRef(command = "vault"),
            "GOOD": lehr.intent.v1.SecretRef(env = "LEHR_GOOD"), "KEY": lehr.intent.v1.SecretRef(kubernetes = {"namespace": "shop", "name": "db", "key": "password"})},`
	w.replace("web.star", `health = {"path": "/healthz", "timeout": duration("1s")},`, refers)
	w.start()
	w.served(1)
	const rule = "  s: {owner: platform, mode: MODE, for: {owner: \"shop-*\"}, allow: {secrets: [LEHR_*, /run/secrets/good, \"kubernetes:shop/*\"]}}\n"
	w.ask(strings.ReplaceAll(rule, "MODE", "observe"))
	bad := `lehr.process.v1.Job.secret_env["PASSWORD"] refers to the secret "/run/secrets/bad", which is not allowed`
	place := "common rule s of platform, lehr-policy.yaml:3"
	w.wait("a warning of what is served", func(s prodspec.Status) bool {
		return hasFinding(s.Findings, intent.Warning, "what is served", bad, place+", observed only")
	})
	w.ask(strings.ReplaceAll(rule, "MODE", "require"))
	w.replace("service.yaml", `version: "1.1"`, `version: "1.2"`)
	status := w.wait("a rejection", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
	if status.Head.Sequence != 1 || !hasFinding(status.Findings, intent.Error, bad, place) {
		t.Errorf("status %+v", status)
	}
	if hasFinding(status.Findings, intent.Error, "LEHR_GOOD") || hasFinding(status.Findings, intent.Error, "kubernetes:") {
		t.Errorf("what is allowed is refused: %+v", status.Findings)
	}
	w.replace("web.star", `file = "/run/secrets/bad"`, `file = "/run/secrets/good"`)
	w.replace("web.star", `, "TOKEN": lehr.intent.v1.SecretRef(command = "vault")`, "")
	w.wait("the change, once it refers to none of them", func(s prodspec.Status) bool { return s.State == prodspec.Serving && s.Head.Sequence == 2 })
}

// serveAt serves on an address of this machine's loopback network.
func serveAt(t *testing.T, host string, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// TestHostsThatAnIndexLeadsToAreBounded: an address that a definition does not name, and a chart's
// index does, is bounded too; nothing is built from what was read there.
func TestHostsThatAnIndexLeadsToAreBounded(t *testing.T) {
	const archives = "source/artifact/testdata/charts"
	index, err := os.ReadFile(archives + "/index.yaml")
	if err != nil {
		t.Fatal(err)
	}
	other := serveAt(t, "127.0.0.2", http.FileServer(http.Dir(archives)))
	leading := strings.ReplaceAll(string(index), "- cache-0.3.0.tgz", "- "+other+"/cache-0.3.0.tgz")
	own := serveAt(t, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, leading) }))
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "sources:\n", "sources:\n  cache: {chart: \""+own+"\", name: cache, version: 0.3.0, every: 1s}\n")
	w.ask("  hosts: {owner: platform, mode: require, for: all, allow: {addresses: [127.0.0.1]}}\n")
	w.start()
	status := w.wait("a rejection", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
	if f := status.Findings[0]; f.Field != "sources.cache" || f.Line != 6 || !hasFinding(status.Findings, intent.Error, `the address "127.0.0.2" is not allowed`, "common rule hosts of platform, lehr-policy.yaml:3") {
		t.Errorf("status %+v", status)
	}
	w.ask("  hosts: {owner: platform, mode: require, for: all, allow: {addresses: [127.0.0.*]}}\n")
	w.served(1)
}
