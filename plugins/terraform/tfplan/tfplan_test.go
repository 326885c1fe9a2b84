package tfplan

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// digestOf stands for the key of the list of secrets.
func digestOf(place string, value []byte) (secret.Digest, error) {
	digest := secret.DigestOfFound([]byte("a key of a list"), place, value)
	secret.Know("found "+place, value, digest)
	return digest, nil
}

// change of one resource, as "show -json" has it.
func change(rest string) string {
	return `{"format_version":"1.2","prior_state":{"values":{"root_module":{"resources":[{"address":"a.b","mode":"managed","values":{}}]}}},"resource_changes":[{"address":"a.b","mode":"managed",` + rest + `}]}`
}

func show(t *testing.T, text string) string {
	t.Helper()
	plan, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := plan.Show(digestOf, false)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n", shown.Action)
	for _, c := range shown.Changes {
		mark := ""
		if c.Destructive {
			mark = "!"
		}
		fmt.Fprintf(&out, "%s%s: %s → %s", mark, c.Path, c.Current, c.Target)
		if c.Reason != "" {
			out.WriteString(" (" + c.Reason + ")")
		}
		out.WriteString("\n")
	}
	return out.String()
}

func TestEachValueThatChangesIsShown(t *testing.T) {
	for name, c := range map[string]struct{ change, want string }{
		"nothing": {`"change":{"actions":["no-op"],"before":{"x":1},"after":{"x":1}}`, "\n"},
		"a read":  {`"change":{"actions":["read"],"before":null,"after":{"x":1}}`, "\n"},
		"nested": {
			`"change":{"actions":["update"],"before":{"tags":{"env":"a","b.c":"x"},"rules":[{"port":1},{"port":2}],"same":true},"after":{"tags":{"env":"b","b.c":"x"},"rules":[{"port":1}],"same":true}}`,
			"update\na.b.rules[1].port: 2 → \na.b.tags.env: \"a\" → \"b\"\n",
		},
		"a key that is no word": {
			`"change":{"actions":["update"],"before":{"tags":{"b.c":"x"}},"after":{"tags":{"b.c":"y"}}}`,
			"update\na.b.tags[\"b.c\"]: \"x\" → \"y\"\n",
		},
		"numbers as they are": {
			`"change":{"actions":["update"],"before":{"n":12345678901234567890},"after":{"n":12345678901234567891}}`,
			"update\na.b.n: 12345678901234567890 → 12345678901234567891\n",
		},
		"empty is not absent": {
			`"change":{"actions":["update"],"before":{"list":[],"map":{}},"after":{"list":null,"map":{"a":null}}}`,
			"update\na.b.list: [] → \na.b.map: {} → \n",
		},
		"unknown in parts": {
			`"change":{"actions":["update"],"before":{"l":[{"id":"1"}],"m":{"x":"1"}},"after":{"l":[{}],"m":{}},"after_unknown":{"l":[{"id":true}],"m":{"x":true}}}`,
			"update\na.b.l[0].id: \"1\" → (known after apply)\na.b.m.x: \"1\" → (known after apply)\n",
		},
		"a deposed object": {
			`"deposed":"ab12","action_reason":"","change":{"actions":["delete"],"before":{"x":1},"after":null}`,
			"update\n!a.b (deposed ab12): exists → destroyed\n!a.b (deposed ab12).x: 1 → \n",
		},
		"created before it is destroyed": {
			`"action_reason":"replace_because_tainted","change":{"actions":["create","delete"],"before":{"x":1},"after":{"x":1}}`,
			"update\n!a.b: exists → replaced: created anew, then destroyed (it is tainted, so it must be replaced)\n",
		},
		"a reason that is new": {
			`"action_reason":"replace_by_the_moon","change":{"actions":["delete","create"],"before":{"x":[1]},"after":{"x":[2]},"replace_paths":[["x",0]]}`,
			"update\n!a.b: exists → replaced: destroyed, then created anew (replace by the moon)\na.b.x[0]: 1 → 2 (forces replacement)\n",
		},
	} {
		if got := show(t, change(c.change)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// What is sensitive is shown nowhere, not even where a provider copied it to, and its digest
// changes with it.
func TestWhatIsSensitiveIsADigest(t *testing.T) {
	text := change(`"change":{"actions":["update"],"before":{"key":"planted-old","copy":"at planted-old","p":{"a":"nested-old"}},"after":{"key":"planted-new","copy":"at planted-new","p":{"a":"nested-new"}},"before_sensitive":{"key":true,"p":{"a":true}},"after_sensitive":{"key":true,"p":true}}`)
	got := show(t, text)
	if strings.Contains(got, "planted") || strings.Contains(got, "nested-") || strings.Count(got, "secret (digest ") < 5 {
		t.Errorf("%s", got)
	}
	if again := show(t, text); again != got {
		t.Errorf("again it is\n%s\nnot\n%s", again, got)
	}
	if other := show(t, strings.ReplaceAll(text, "planted-new", "planted-newer")); other == got {
		t.Error("another secret has the same plan")
	}
	plan, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	no := errors.New("there is no key")
	if _, err := plan.Show(func(string, []byte) (secret.Digest, error) { return secret.Digest{}, no }, false); !errors.Is(err, no) || !strings.Contains(err.Error(), "a.b.") {
		t.Errorf("without a key: %v", err)
	}
}

// What other modules have of the same secrets, and which was read first, changes no plan: else an
// approval of it would be of another one than is pushed.
func TestOtherModulesSecretsChangeNoPlan(t *testing.T) {
	text := change(`"change":{"actions":["update"],"before":{"key":"shared-before","copy":"at shared-before"},"after":{"key":"shared-after","copy":"at shared-after"},"before_sensitive":{"key":true},"after_sensitive":{"key":true}}`)
	for _, value := range []string{"shared-before", "shared-after"} { // Read of another module first.
		if _, err := digestOf("other", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	of := func(value string) string {
		return secret.DigestOfFound([]byte("a key of a list"), "a.b.key", []byte(value)).Words()
	}
	want := fmt.Sprintf(`a.b.copy: "at %s" → "at %s"`, of("shared-before"), of("shared-after"))
	if got := show(t, text); !strings.Contains(got, want) {
		t.Errorf("it shows\n%s\nnot %s", got, want)
	}
}

// A plan of thousands of changes keeps the protocol's limits, and its digest covers all.
func TestALargePlanIsBounded(t *testing.T) {
	large := func(last string) *Plan {
		p := &Plan{}
		for i := range 3000 {
			p.ResourceChanges = append(p.ResourceChanges, ResourceChange{Address: fmt.Sprintf("a.b[%04d]", i), Mode: "managed", Change: Change{Actions: []string{"create"}, After: []byte(`{"x":"` + strings.Repeat("y", 3000) + last + `"}`)}})
		}
		return p
	}
	one, err := large("a").Show(digestOf, false)
	two, err2 := large("b").Show(digestOf, false)
	if err != nil || err2 != nil || len(one.Changes) != 1000 || one.Digest() == two.Digest() || one.Action != serve.ActionCreate {
		t.Errorf("%d changes, action %s, %v", len(one.Changes), one.Action, err)
	}
	for _, c := range one.Changes {
		if len(c.Target) > mostText+100 {
			t.Fatalf("a value of %d bytes", len(c.Target))
		}
	}
}

func TestOutputsAndChecks(t *testing.T) {
	plan, err := Parse([]byte(`{"format_version":"1.2","prior_state":{"values":{"outputs":{
		"id":{"value":"vpc-1"},"list":{"value":["a",1]},"key":{"value":"s","sensitive":true},"none":{"value":null},"long":{"value":"` + strings.Repeat("x", 5000) + `"}},"root_module":{}}},
		"checks":[{"address":{"to_display":"check.up"},"status":"fail","instances":[{"problems":[{"message":"it is down"}]}]},{"address":{"to_display":"check.other"},"status":"pass"},{"address":{"to_display":"check.later"},"status":"unknown"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	outputs, left := plan.Outputs()
	if len(outputs) != 2 || outputs["id"] != "vpc-1" || len(left) != 1 || left[0] != "long" {
		t.Errorf("outputs %v, left out %v", outputs, left)
	}
	if problems, isChecked := plan.Problems(); !isChecked || len(problems) != 1 || problems[0] != "check.up: it is down" {
		t.Errorf("%v, %q", isChecked, problems)
	}
	if _, err := Parse([]byte(`{"format_version":"2.0","terraform_version":"3.1.0"}`)); err == nil || !strings.Contains(err.Error(), "3.1.0") {
		t.Errorf("another format: %v", err)
	}
	if _, err := Parse([]byte(`{`)); err == nil {
		t.Error("no JSON is a plan")
	}
}

func TestDiagnosticsAreFound(t *testing.T) {
	const lock = `{"type":"diagnostic","diagnostic":{"severity":"error","summary":"Error acquiring the state lock","detail":"Error message: resource temporarily unavailable\nLock Info:\n  ID:        1bc0\n  Path:      /x\n  Operation: OperationTypeApply\n  Who:       root@vm\n  Version:   1.11.4\n  Created:   2026-11-26 22:34:13 +0000 UTC\n  Info:      \n"}}`
	found := Errors(Events([]byte("no JSON\n" + lock + "\n" + `{"type":"diagnostic","diagnostic":{"severity":"warning","summary":"old"}}` + "\n" +
		`{"type":"diagnostic","diagnostic":{"severity":"error","summary":"Bad","detail":"very\n bad","address":"a.b","range":{"filename":"main.tf","start":{"line":7}}}}`)))
	if got, want := Words(found[1:]), "main.tf:7: Bad: very bad (a.b)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	held, ok := LockOf(found)
	if want := (Lock{ID: "1bc0", Who: "root@vm", Operation: "OperationTypeApply", Created: "2026-11-26 22:34:13 +0000 UTC"}); !ok || held != want {
		t.Errorf("%+v, %v", held, ok)
	}
	if _, ok := LockOf(found[1:]); ok || IsStale(found) {
		t.Error("what is no lock is one, or stale")
	}
	if !IsStale([]Diagnostic{{Summary: "Saved plan is stale"}}) {
		t.Error("a stale plan is not seen")
	}
}

// What OpenTofu 1.12.6 shows of a plan is read as Terraform's is.
func TestAPlanOfOpenTofuIsShown(t *testing.T) {
	text, err := os.ReadFile("testdata/opentofu.json")
	if err != nil {
		t.Fatal(err)
	}
	got := show(t, string(text))
	if !strings.Contains(got, `terraform_data.job[0].input.version: "v1" → "v2"`) || strings.Contains(got, "planted") {
		t.Errorf("it shows\n%s", got)
	}
}
