package fetch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/prodspec/source"
)

func TestPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources.yaml")
	read := func(text string) (*Policy, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadPolicy(path)
	}
	policy, err := read(`sources: v1
secrets:
  - {env: SHOP, hosts: [git.example.com], partitions: [shop]}
  - {env: SHOP_DSN, partitions: [shop]}
  - {file: key, hosts: ["git.example.com:2222"], partitions: ["*"]}
networks: [127.0.0.0/8, "::1/128"]
webhooks:
  - {env: HOOK, partitions: [shop]}
`)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(filepath.Dir(path), "key")
	for _, c := range []struct {
		partition, host string
		secret          source.Secret
		allowed         bool
	}{
		{"shop", "git.example.com", source.Secret{Env: "SHOP"}, true},
		{"shop", "git.example.com:8443", source.Secret{Env: "SHOP"}, true},
		{"shop", "evil.example.com", source.Secret{Env: "SHOP"}, false},
		{"shop", "", source.Secret{Env: "SHOP"}, false},
		{"other", "git.example.com", source.Secret{Env: "SHOP"}, false},
		{"shop", "git.example.com", source.Secret{Env: "HOME"}, false},
		{"shop", "", source.Secret{Env: "SHOP_DSN"}, true},
		{"shop", "evil.example.com", source.Secret{Env: "SHOP_DSN"}, false},
		{"other", "git.example.com:2222", source.Secret{File: key}, true},
		{"other", "git.example.com", source.Secret{File: key}, false},
		{"shop", "git.example.com", source.Secret{File: "/etc/shadow"}, false},
	} {
		g := guard{partition: "shop", policy: func() *Policy { return policy }}
		if c.partition != "shop" {
			g.partition = "other"
		}
		if err := g.allow(c.secret, c.host); (err == nil) != c.allowed {
			t.Errorf("%+v: %v", c, err)
		}
	}
	t.Setenv("HOOK", "x")
	if len(policy.Hooks("shop")) != 1 || len(policy.Hooks("other")) != 0 {
		t.Error("the hook is another's too")
	}
	for text, says := range map[string]string{
		"secrets: []": "no policy of sources of version v1", "sources: v2": "of version v1", "sources: v1\nsecret: []": "did you mean secrets?",
		"sources: v1\nsecrets: [{env: A}]": "no partition may use it", "sources: v1\nsecrets: [{partitions: [a]}]": "in one place",
		"sources: v1\nsecrets: [{env: A, file: b, partitions: [a]}]": "in one place", "sources: v1\nnetworks: [10.0.0.1]": "not a network",
		"sources: v1\nwebhooks: [{env: A, partitions: [A B]}]": "webhook 1", "sources: v1\n---\nsources: v1": "more than one document",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestKeysOfThePolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources.yaml")
	for text, says := range map[string]string{
		"{name: a, pgp: ring.gpg, partitions: [shop]}":                    "",
		"{name: a, cosign: /a.pub, required_of: [h], partitions: [shop]}": "",
		"{pgp: ring.gpg, partitions: [shop]}":                             "key 1: it has no name",
		"{name: a, partitions: [shop]}":                                   "key 1: it is of one kind",
		"{name: a, pgp: a, cosign: b, partitions: [shop]}":                "key 1: it is of one kind",
		"{name: a, pgp: a}":                                               "no partition may use it",
	} {
		if err := os.WriteFile(path, []byte("sources: v1\nkeys: ["+text+"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		policy, err := ReadPolicy(path)
		if says != "" {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", text, err, says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if k := policy.Keys[0]; !filepath.IsAbs(k.PGP + k.Cosign) {
			t.Errorf("%s: the file is %s", text, k.PGP+k.Cosign)
		}
	}
}

// TestPolicyOfTheDocument: the page shows one that can be read.
func TestPolicyOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/use/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "# sources.yaml: ")
	text, _, _ = strings.Cut(text, "```")
	path := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(path, []byte("# "+text), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := ReadPolicy(path)
	if err != nil || len(policy.Keys) != 2 || len(policy.Secrets) == 0 {
		t.Errorf("%+v, %v", policy, err)
	}
}
