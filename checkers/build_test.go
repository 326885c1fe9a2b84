// Package checkers holds the tests of the checking programs as lehr runs them.
package checkers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lehr.dev/test/building"
)

// programs builds lehr with checking programs beside it, as make build does: those that are named,
// or all of them.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	bin := t.TempDir()
	for name, p := range map[string]building.Program{
		"lehr":                    {Of: "../cmd/lehr"}, // As other tests build it, so that it is linked once.
		"lehr-kubernetes-objects": {Of: "kubernetesobjects", Flags: []string{"-ldflags", "-s -w"}, Env: []string{"CGO_ENABLED=0"}},
		"lehr-prometheus-rules":   {Of: "prometheusrules", Flags: []string{"-ldflags", "-s -w"}, Env: []string{"CGO_ENABLED=0"}},
		"lehr-terraform-types":    {Of: "terraformtypes", Flags: []string{"-ldflags", "-s -w"}, Env: []string{"CGO_ENABLED=0"}},
		"lehr-sql-syntax":         {Of: "sqlsyntax", Flags: []string{"-tags", "netgo,osusergo", "-ldflags", "-s -w -linkmode external -extldflags -static"}, Env: []string{"CGO_ENABLED=1"}},
	} {
		if len(names) > 0 && name != "lehr" && !slices.Contains(names, name) {
			continue
		}
		if err := p.At(filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(bin, "lehr")
}

func run(t *testing.T, lehr string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), lehr, arguments...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	shownFile = regexp.MustCompile("(?s)```(?:yaml|sql)\n(?:#|--) (\\S+)\n(.*?)```")
	shownOut  = regexp.MustCompile("(?s)```console\n\\$ lehr build\n(.*?)```")
)

// TestPage builds what docs/use/checking-programs.md shows: it says what the page says.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/use/checking-programs.md")
	if err != nil {
		t.Fatal(err)
	}
	lehr, folder, files := programs(t), t.TempDir(), map[string]string{}
	for _, file := range shownFile.FindAllStringSubmatch(string(page), -1) {
		files[file[1]] = file[2]
	}
	write(t, folder, files)
	out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
	if err == nil {
		t.Errorf("what the page shows passes:\n%s", out)
	}
	want := shownOut.FindStringSubmatch(string(page))
	if want == nil {
		t.Fatal("the page does not show what lehr build says")
	}
	if !strings.HasSuffix(out, want[1]) {
		t.Errorf("it says\n%s\nand the page shows\n%s", out, want[1])
	}
}

const objects = "lehr: v1\npartition: shop\nsources:\n  rules: {dir: rules, files: ['*.yaml']}\n  manifests: {dir: manifests, files: ['*.yaml']}\n" +
	"generate:\n  objects: {render: kubernetes, from: [manifests], with: {cluster: eu, namespace: shop}}\n" +
	"validate:\n  programs:\n    alerts: {check: prometheus-rules, from: [rules, objects]}\nmodels: [lehr.kubernetes.v1.Object]\n"

const slow = "groups:\n- name: a\n  rules:\n  - alert: Slow\n    expr: |\n      rate(slow_total[5m])\n        > 0.5\n    for: 5m\n    labels: {severity: page}\n"

func slowTest(rules, severity string) string {
	return "rule_files: [" + rules + "]\ntests:\n- name: slow\n  interval: 1m\n  input_series:\n  - {series: 'slow_total{job=\"x\"}', values: '0+60x20'}\n" +
		"  alert_rule_test:\n  - eval_time: 10m\n    alertname: Slow\n    exp_alerts:\n    - exp_labels: {severity: " + severity + ", job: x}\n" +
		"  promql_expr_test:\n  - {expr: 'sum(slow_total)', eval_time: 10m, exp_samples: [{labels: '{}', value: 600}]}\n"
}

const held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: alerts}\ndata:\n  shop.yaml: |\n    groups:\n    - name: shop\n      rules:\n      - alert: Slow\n        expr: rate(slow_total[5m]) > 0.5\n        labels: {severity: page}\n"

const custom = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: more}\nspec:\n  groups:\n  - name: more\n    rules:\n    - record: job:up:sum\n      expr: sum by (job) (up)\n"

// TestRules: files, ConfigMaps and PrometheusRules are read by Prometheus' own library, and
// tests are played by its engine; what is wrong is told by line of the source.
func TestRules(t *testing.T) {
	lehr := programs(t)
	for name, test := range map[string]struct {
		files map[string]string
		// said, in any order; none: it passes.
		said []string
	}{
		"all is well": {map[string]string{"rules/a.yaml": slow, "rules/a_test.yaml": slowTest("a.yaml", "page"), "manifests/m.yaml": held, "manifests/n.yaml": custom}, nil},
		"an expression of several lines": {
			map[string]string{"rules/a.yaml": strings.Replace(slow, "> 0.5", "> > 0.5", 1)},
			[]string{"rules/a.yaml:7: Prometheus refuses the rule file", "parse error: unexpected <op:>>"},
		},
		"an unknown field":  {map[string]string{"rules/a.yaml": slow + "    fro: 5m\n"}, []string{"rules/a.yaml:10: ", "field fro not found"}},
		"a broken template": {map[string]string{"rules/a.yaml": slow + "    annotations: {summary: '{{ $labels.x '}\n"}, []string{"rules/a.yaml:", "unclosed action"}},
		"no YAML":           {map[string]string{"rules/a.yaml": slow + "  - ]\n"}, []string{"rules/a.yaml:"}},
		"in a ConfigMap":    {map[string]string{"manifests/m.yaml": strings.Replace(held, "[5m]", "[5m", 1)}, []string{"manifests/m.yaml:10: ", `payload.json.data["shop.yaml"]`, "unexpected"}},
		"in a PrometheusRule": {
			map[string]string{"manifests/n.yaml": strings.Replace(custom, "(up)", "up)", 1)}, []string{"manifests/n.yaml:9: ", "job:up:sum"},
		},
		"a test that fails": {
			map[string]string{"rules/a.yaml": slow, "rules/a_test.yaml": slowTest("a.yaml", "ticket")},
			[]string{"rules/a_test.yaml:8: the test slow of the rules fails: after 10m the alert Slow fires as", `severity="page"`, `severity="ticket"`},
		},
		"a test of a ConfigMap": {
			map[string]string{"manifests/m.yaml": held, "rules/a_test.yaml": slowTest("shop.yaml", "ticket")}, []string{"rules/a_test.yaml:8: the test slow"},
		},
		"a test of an expression": {
			map[string]string{"rules/a.yaml": slow, "rules/a_test.yaml": strings.Replace(slowTest("a.yaml", "page"), "value: 600", "value: 60", 1)},
			[]string{"rules/a_test.yaml:13: ", "sum(slow_total) after 10m is {} 600, and is expected as {} 60"},
		},
		"a test of no file":      {map[string]string{"rules/a.yaml": slow, "rules/a_test.yaml": slowTest("b.yaml", "page")}, []string{`rules/a_test.yaml:1: the check was given no rule file "b.yaml"`}},
		"a test with a misprint": {map[string]string{"rules/a.yaml": slow, "rules/a_test.yaml": slowTest("a.yaml", "page") + "evaluation_interval: 1x\n"}, []string{"rules/a_test.yaml:", "cannot be read"}},
		"series that are none":   {map[string]string{"rules/a.yaml": slow, "rules/a_test.yaml": strings.Replace(slowTest("a.yaml", "page"), "0+60x20", "many", 1)}, []string{"rules/a_test.yaml:3: the test slow of the rules fails"}},
		"no rules at all":        {map[string]string{"rules/a.yaml": "a: 1\n"}, []string{"error: lehr.yaml:10: ", "nothing that it was given has rules"}},
	} {
		folder := t.TempDir()
		test.files["lehr.yaml"] = objects
		if test.files["manifests/m.yaml"] == "" {
			test.files["manifests/other.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
		}
		if test.files["rules/a.yaml"] == "" {
			test.files["rules/other.yaml"] = "a: 1\n"
		}
		write(t, folder, test.files)
		out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
		if (err != nil) != (len(test.said) > 0) {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		for _, said := range test.said {
			if !strings.Contains(out, said) {
				t.Errorf("%s: it does not say %q:\n%s", name, said, out)
			}
		}
	}
}

const database = "lehr: v1\npartition: shop\nsources: {sql: {files: '*.sql'}}\ngenerate:\n  db: {render: sql-schema, from: [sql], with: {database: DATABASE}}\n" +
	"validate:\n  programs:\n    sql: {check: sql-syntax, from: [db]}\n    files: {check: sql-syntax, from: [sql], with: {dialect: DIALECT}, severity: warning}\nplugins: {Schema: {run: lehr-sqlschema}}\n"

// TestSQL: PostgreSQL's own grammar and SQLite read each statement.
func TestSQL(t *testing.T) {
	lehr := programs(t)
	const postgres, sqlite = "postgres://lehr@db:5432/shop", "sqlite:/srv/shop.db"
	for name, test := range map[string]struct {
		database, dialect, sql string
		said                   []string
	}{
		"PostgreSQL":      {postgres, "postgresql", "CREATE TABLE a (id int PRIMARY KEY);\nCREATE INDEX a_id ON a (id);\n", nil},
		"a misspelt word": {postgres, "postgresql", "CREATE TABLE a (id int PRIMRAY KEY);\nCREATE TABLE b (id int);\nCREATE INDEX c ON b USING (id);\n", []string{`error: schema.sql:1: payload.sql: PostgreSQL cannot read the statement: syntax error at or near "PRIMRAY" (check sql)`, `warning: schema.sql:3: PostgreSQL cannot read the statement: syntax error at or near "("`}},
		"letters of many": {postgres, "postgresql", "-- größer\nCREATE TABLE a (id int, größe int);\nCREATE TABLE b (id int) WITH WITH;\n", []string{`schema.sql:3: payload.sql: PostgreSQL`, `at or near "WITH"`}},
		"SQLite":          {sqlite, "sqlite", "CREATE TABLE a (id INTEGER PRIMARY KEY);\nCREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT ';'; END;\n", nil},
	} {
		folder := t.TempDir()
		write(t, folder, map[string]string{"lehr.yaml": strings.NewReplacer("DATABASE", test.database, "DIALECT", test.dialect).Replace(database), "schema.sql": test.sql})
		out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
		if (err != nil) != (len(test.said) > 0) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for _, said := range test.said {
			if !strings.Contains(out, said) {
				t.Errorf("%s: it does not say %q:\n%s", name, said, out)
			}
		}
	}
	// Files alone: SQLite goes on behind what is wrong.
	folder := t.TempDir()
	write(t, folder, map[string]string{
		"lehr.yaml":    "lehr: v1\npartition: shop\nsources: {sql: {files: '*.sql'}}\ngenerate: {}\nvalidate:\n  programs:\n    files: {check: sql-syntax, from: [sql], with: {dialect: sqlite}}\n",
		"1-tables.sql": "CREATE TABLE a (id INTEGER);\nCREATE TABEL b (id INTEGER);\nCREATE INDEX i ON a (id);\nCREATE INDEX j ON c (id);\n",
	})
	out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
	if err == nil || !strings.Contains(out, `1-tables.sql:2: SQLite cannot read the statement`) || !strings.Contains(out, "1-tables.sql:4: ") || strings.Contains(out, "1-tables.sql:3") {
		t.Errorf("%v\n%s", err, out)
	}
}
