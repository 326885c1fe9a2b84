package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

const (
	ruleUnreadable = "a secret that cannot be read is unknown"
	ruleRotated    = "a rotated secret is another plan"
	ruleHidden     = "a secret is never shown"
)

// secretLies are those of the subject that is given a secret. The first is honest, and so is
// the second, of which the secret opens the target.
var secretLies = []string{
	"has a secret", "is opened by a secret", "has a secret, and takes a missing one for none", "has a secret, and thinks all is well without", "has a secret, and does not say which",
	"has a secret, and pushes without", "has a secret, and sees no rotation", "has a secret, and pushes any", "has a secret, and remembers it for ever",
	"has a secret, and plans with it", "has a secret, and logs it", "has a secret, and tells it as progress", "has a secret, and keeps it in a memo", "is opened by a secret, and pushes it",
}

const canary = "swordfish-of-the-suite"

// exampleWithSecret adds a secret to the example of such a subject, and its operator's list.
func exampleWithSecret(t *testing.T, folder, lie string, first, second *processpb.Job) (proto.Message, proto.Message, *Secret) {
	t.Helper()
	if !slices.Contains(secretLies, lie) {
		return first, second, nil
	}
	file, key := filepath.Join(folder, "password"), filepath.Join(folder, "key")
	list := fmt.Sprintf("lehr-secrets: v1\nkey: %q\nsecrets: [{file: %q, partitions: ['*'], plugins: [subject]}]\n", key, file)
	for path, content := range map[string]string{file: canary + "\n", key: rand.Text() + rand.Text(), filepath.Join(folder, "secrets.yaml"): list} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, job := range []*processpb.Job{first, second} {
		job.SecretEnv = map[string]*intentpb.SecretRef{"PASSWORD": {Source: &intentpb.SecretRef_File{File: file}}}
	}
	return first, second, &Secret{File: file, OpensOnly: strings.HasPrefix(lie, "is opened")}
}

// confidant is a subject whose job has the digest of its secret among its variables.
type confidant struct {
	*subject
	secrets *resolver.Resolver
	// remembered is the digest that was read first.
	remembered string
}

func (s *subject) withSecret(declared plugin.Guarantee) serve.Kind {
	c := &confidant{subject: s, secrets: resolver.New("subject", filepath.Join(s.folder, "secrets.yaml"))}
	return indiscreet{serve.For(c, serve.Serving{Guarantee: declared}), c}
}

func (c *confidant) Resolve(ctx context.Context, asset serve.Asset[*processpb.Job]) (*processpb.Job, error) {
	target := proto.CloneOf(asset.Payload)
	ref := target.SecretEnv["PASSWORD"]
	value, err := c.secrets.Resolve(ctx, asset.SecretRequest(), ref)
	if err != nil {
		switch c.lie {
		case "has a secret, and takes a missing one for none":
			return target, nil
		case "has a secret, and does not say which":
			return nil, errors.New("something cannot be read")
		}
		return nil, err
	}
	defer value.Wipe()
	words := value.Digest().Words()
	switch c.lie {
	case "is opened by a secret":
		return target, nil
	case "has a secret, and sees no rotation":
		words = "secret"
	case "has a secret, and remembers it for ever":
		c.mutex.Lock()
		if c.remembered == "" {
			c.remembered = words
		}
		words = c.remembered
		c.mutex.Unlock()
	case "has a secret, and logs it":
		fmt.Fprintf(os.Stderr, "opening with %s\n", value.Reveal())
	}
	target.Env = map[string]string{"PASSWORD_DIGEST": words}
	return target, nil
}

func (c *confidant) Apply(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	content, err := os.ReadFile(filepath.Join(c.folder, "password"))
	if err != nil {
		return err
	}
	if c.lie == "has a secret, and keeps it in a memo" {
		if err := change.SaveMemo(ctx, change.State.Key, content); err != nil {
			return err
		}
	}
	return c.subject.Apply(ctx, change, permit)
}

// indiscreet is a kind that lies where the SDK would not.
type indiscreet struct {
	serve.Kind
	confidant *confidant
}

func (k indiscreet) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	differences := k.Kind.Diff(ctx, assets)
	for i, d := range differences {
		if d.Outcome == serve.Unknown && k.confidant.lie == "has a secret, and thinks all is well without" {
			differences[i] = serve.Difference{Outcome: serve.InSync}
		}
	}
	return differences
}

func (k indiscreet) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	now := k.Kind.Diff(ctx, []serve.Intent{push.Asset})[0]
	switch {
	case k.confidant.lie == "has a secret, and pushes without" && now.Outcome == serve.Unknown:
		return serve.Outcome{Ending: serve.Pushed}
	case k.confidant.lie == "has a secret, and pushes any":
		push.Plan = now.Plan.Digest()
	}
	return k.Kind.Push(ctx, push, permits)
}

// TestPluginsWithSecretsConform: one whose secret is part of what it pushes, and one that a
// secret only opens.
func TestPluginsWithSecretsConform(t *testing.T) {
	notShort(t)
	for _, lie := range secretLies[:2] {
		t.Run(strings.ReplaceAll(lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			report := checkSubject(t, plugin.CompareAndSet, lie, "")
			for _, result := range report.Results {
				if result.Outcome == Failed {
					t.Errorf("%s: %s", result.Name, result.Detail)
				}
			}
			for _, rule := range []string{ruleUnreadable, ruleRotated, ruleHidden} {
				if result := report.result(t, rule); result.Outcome != Passed {
					t.Errorf("%s: %+v", rule, result)
				}
			}
		})
	}
}

// TestLiesAboutSecretsAreCaught.
func TestLiesAboutSecretsAreCaught(t *testing.T) {
	notShort(t)
	for _, c := range []struct{ lie, rule, says string }{
		{"has a secret, and takes a missing one for none", ruleUnreadable, "while its secret is missing: it says that the example differs"},
		{"has a secret, and thinks all is well without", ruleUnreadable, "while its secret is missing: it says in sync"},
		{"has a secret, and does not say which", ruleUnreadable, "does not name the reference"},
		{"has a secret, and pushes without", ruleUnreadable, "it says that it pushed"},
		{"has a secret, and sees no rotation", ruleRotated, "a rotation is a difference"},
		{"has a secret, and pushes any", ruleRotated, "an approval is of one value"},
		{"has a secret, and remembers it for ever", ruleRotated, "the push ended as pushed, want stale"},
		{"is opened by a secret, and pushes it", ruleRotated, "which only opens the target"},
		{"has a secret, and plans with it", ruleHidden, "in an answer to a diff"},
		{"has a secret, and logs it", ruleHidden, "in what it writes"},
		{"has a secret, and tells it as progress", ruleHidden, "in a message of a push"},
		{"has a secret, and keeps it in a memo", ruleHidden, "in a message of a push"},
	} {
		t.Run(strings.ReplaceAll(c.lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			rules := []string{"create from nothing", c.rule}
			result := checkRules(t, plugin.Unguarded, c.lie, c.rule, rules...).result(t, c.rule)
			if result.Outcome != Failed || !strings.Contains(result.Detail, c.says) {
				t.Errorf("%+v, want failed because %q", result, c.says)
			}
		})
	}
}

// TestSecretsThatAreNotMeasured: the rule says what is missing.
func TestSecretsThatAreNotMeasured(t *testing.T) {
	notShort(t)
	t.Parallel()
	result := checkRules(t, plugin.Unguarded, "", ruleUnreadable, ruleUnreadable).result(t, ruleUnreadable)
	if result.Outcome != Skipped || !strings.Contains(result.Detail, "can name secrets, and the example names none") {
		t.Errorf("%+v", result)
	}
	job := &processpb.Job{Name: "example", Binary: "/bin/example"}
	other := proto.CloneOf(job)
	for _, c := range []struct {
		secret Secret
		says   string
	}{
		{Secret{File: "/nowhere"}, "is named by no reference"},
	} {
		s := &suite{shared: &shared{}, target: Target{First: job, Second: other, Secret: &c.secret}}
		if err := s.keepSecret(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}
