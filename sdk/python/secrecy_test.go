package python_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/pluginhost/scaffold"
	"lehr.dev/internal/pluginhost/trial"
	"lehr.dev/sdk/plugintest/conformance"
	"lehr.dev/test/interpreter"
)

const (
	ruleUnreadable = "a secret that cannot be read is unknown"
	ruleRotated    = "a rotated secret is another plan"
	ruleHidden     = "a secret is never shown"
)

// loginTarget is the example with a secret, and an operator's list beside it. A lie is what
// it does instead of what it should.
func loginTarget(t *testing.T, lie string) conformance.Target {
	t.Helper()
	buildSecretsProgram(t)
	folder := t.TempDir()
	put := func(name string, content []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{
		"loginfile.py": "loginfile/loginfile.py", "proto/example/v1/login.proto": "loginfile/proto/example/v1/login.proto", "indiscreet.py": "testdata/indiscreet.py",
		"lehr/serve/__init__.py": "lehr/serve/__init__.py",
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(name, content)
	}
	if err := scaffold.Generate(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	types, err := trial.Types(t.Context(), filepath.Join(folder, "proto"))
	if err != nil {
		t.Fatal(err)
	}
	password, path := filepath.Join(folder, "password"), filepath.Join(folder, "login")
	put("password", []byte("Swordfish of "+rand.Text()+"\n"))
	put("key", []byte(rand.Text()+rand.Text()))
	put("lehr-secrets.yaml", fmt.Appendf(nil, "lehr-secrets: v1\nkey: %s\nsecrets: [{file: %s, partitions: ['*'], plugins: [loginfile]}]\n", filepath.Join(folder, "key"), password))
	login := func(user string) proto.Message {
		message, err := types.New("example.v1.LoginFile")
		if err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(fmt.Appendf(nil, `{"path": %q, "user": %q, "password": {"file": %q}}`, path, user, password), message); err != nil {
			t.Fatal(err)
		}
		return message
	}
	program := "loginfile.py"
	if lie != "" {
		program = "indiscreet.py"
	}
	return conformance.Target{
		Run:   []string{interpreter.Python(t), "-B", filepath.Join(folder, program), "--secret-list", filepath.Join(folder, "lehr-secrets.yaml"), lie},
		First: login("shop"), Second: login("market"), Production: production(path), Secret: &conformance.Secret{File: password}, Patience: 30 * time.Second,
	}
}

// TestExampleWithASecretConforms holds a plugin in Python that takes secrets to every rule.
func TestExampleWithASecretConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for permits to run out")
	}
	t.Parallel()
	maySkip := slices.DeleteFunc(slices.Concat(notInAFile, []string{"withdrawn permit stops a push", "a push ends with its permit"}), func(rule string) bool { return strings.Contains(rule, "secret") })
	check(t, maySkip, loginTarget(t, ""))
}

// TestLiesAboutSecretsAreCaught: what a plugin in Python does wrong with a secret breaks a rule.
func TestLiesAboutSecretsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("holds eight plugins to the rules of secrets")
	}
	for _, c := range []struct{ lie, rule, says string }{
		{"takes a missing one for none", ruleUnreadable, "while its secret is missing: it says that the example differs"},
		{"does not say which", ruleUnreadable, "does not name the reference"},
		{"sees no rotation", ruleRotated, "a rotation is a difference"},
		{"remembers it for ever", ruleRotated, "the push ended as pushed, want stale"},
		{"writes it past the package", ruleHidden, "in what it writes"},
		{"keeps it in a memo", ruleHidden, "in a message of a push"},
	} {
		t.Run(strings.ReplaceAll(c.lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			result := tryRules(t, c.lie, "create from nothing", c.rule)[c.rule]
			if result.Outcome != conformance.Failed || !strings.Contains(result.Detail, c.says) {
				t.Errorf("%+v, want failed because %q", result, c.says)
			}
		})
	}
}

// TestThePackageHidesSecrets that a plugin prints, plans with, raises or tells.
func TestThePackageHidesSecrets(t *testing.T) {
	if testing.Short() {
		t.Skip("holds plugins to the rules of secrets")
	}
	for _, lie := range []string{"prints it", "plans with it", "raises it", "tells it as progress"} {
		t.Run(strings.ReplaceAll(lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if result := tryRules(t, lie, "create from nothing", "update in place", ruleHidden)[ruleHidden]; result.Outcome != conformance.Passed {
				t.Errorf("%+v", result)
			}
		})
	}
}

func tryRules(t *testing.T, lie string, rules ...string) map[string]conformance.Result {
	t.Helper()
	target := loginTarget(t, lie)
	target.Only = rules
	results := map[string]conformance.Result{}
	for _, result := range conformance.Check(t.Context(), target).Results {
		results[result.Name] = result
		t.Logf("%s: %s %s", result.Name, result.Outcome, result.Detail)
	}
	return results
}
