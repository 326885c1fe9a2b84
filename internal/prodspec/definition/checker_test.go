package definition_test

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/work"
)

const checkedPartition = `lehr: v1
partition: shop
sources: {rules: {files: "*.yaml"}}
generate: {web: {render: kubernetes, from: [rules], with: {cluster: eu}}}
validate:
  programs:
`

// TestCheckers reads checking programs, which become policy.
func TestCheckers(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(checkedPartition+`
    z: {check: prometheus-rules, from: [rules, web], types: [lehr.kubernetes.v1.Object], severity: warning, with: {require_tests: "true"}}
    a: {command: [./a, -v], from: rules, for_each: file}
    b: {wasm: b.wasm, from: web, args: [x], severity: hold}
`), schema.Builtin())
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if len(d.Checkers) != 3 || len(d.Policy.CheckingPrograms) != 3 || d.Policy.CheckingPrograms[0].Name != "a" {
		t.Fatalf("there are %+v and %v", d.Checkers, d.Policy.CheckingPrograms)
	}
	z := d.Checkers[0]
	if z.Name != "z" || !z.Check || z.Language != work.Render || z.Program != "prometheus-rules" || z.Arguments[0] != "--require_tests=true" || z.Types[0] != "lehr.kubernetes.v1.Object" || z.Severity != intentpb.ValidationRule_SEVERITY_WARNING {
		t.Errorf("z is %+v", z)
	}
	if a := d.Checkers[1]; a.Language != work.Native || a.Program != "a" || !a.ForEachFile || a.Severity != intentpb.ValidationRule_SEVERITY_ERROR {
		t.Errorf("a is %+v", a)
	}
	if b := d.Policy.CheckingPrograms[1]; b.Program != "b.wasm" || b.Arguments[0] != "x" || b.From[0] != "web" || b.Severity != intentpb.ValidationRule_SEVERITY_HOLD {
		t.Errorf("b is %v", b)
	}
}

// TestWrongCheckers: what is not known is refused, with what is probably meant.
func TestWrongCheckers(t *testing.T) {
	for text, want := range map[string]string{
		`x: {check: promtheus-rules, from: rules}`:                              "did you mean prometheus-rules?",
		`x: {check: kustomize, from: rules}`:                                    `there is no checking program for "kustomize"`,
		`x: {check: sql-syntax, from: rules, severty: hold}`:                    "did you mean severity?",
		`x: {check: sql-syntax, from: rules, severity: require}`:                "write error, warning or hold",
		`x: {check: sql-syntax}`:                                                "validate.programs.x.from is missing",
		`x: {from: rules}`:                                                      "validate.programs.x.check is missing",
		`x: {check: sql-syntax, wasm: a.wasm, from: rules}`:                     "has more than one program: check and wasm",
		`x: {check: sql-syntax, from: rule}`:                                    "did you mean rules?",
		`x: {check: sql-syntax, from: rules, types: [Object]}`:                  "it reads those of no generator",
		`x: {check: sql-syntax, from: web, types: [Obect]}`:                     "Obect",
		`x: {check: sql-syntax, from: rules, for_each: key}`:                    "write for_each: file",
		`x: {check: sql-syntax, from: web, for_each: file}`:                     "has no source to take files from",
		`x: {check: sql-syntax, from: rules, args: [a]}`:                        "write with: {KEY: VALUE}",
		`x: {command: [./x], from: rules, with: {a: b}}`:                        "a command its arguments after its name",
		`x: {check: sql-syntax, from: rules, with: {addons: {Approval: sure}}}`: "a checking program gives no assets",
		`web: {check: sql-syntax, from: rules}`:                                 "the name web is taken by a generator",
		`x: {command: [/bin/sh], from: rules}`:                                  "move the program beside lehr.yaml",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(checkedPartition+"    "+text+"\n"), schema.Builtin())
		if len(findings) == 0 {
			t.Errorf("%s is taken", text)
			continue
		}
		said := findings[0].Message + "; " + findings[0].Hint
		if !strings.Contains(said, want) || findings[0].Line != 7 {
			t.Errorf("of %s it is said in line %d: %s", text, findings[0].Line, said)
		}
	}
	if _, findings := definition.Parse("lehr.yaml", []byte(strings.Replace(checkedPartition, "sources", "source", 1)), schema.Builtin()); len(findings) == 0 {
		t.Error("a partition without sources is taken")
	}
}
