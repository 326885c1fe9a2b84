package app_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/app"
	"lehr.dev/intent"
	"lehr.dev/test/gitrepo"
)

// A webhook that is signed has sources looked at now, and nothing else does.
func TestWebhook(t *testing.T) {
	t.Setenv("HOOK", "the secret of the hook")
	origin := gitrepo.New(t)
	origin.Write("list.yaml", "- a\n")
	origin.Commit("Begin")
	folder := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, "lehr.yaml")
	write(path, strings.NewReplacer("NAME", "one", "{dir: ., files: [list.yaml]}", "{git: "+origin.Folder+", branch: main, files: [list.yaml], every: 1h}").Replace(definition))
	write(filepath.Join(folder, "web.star"), strings.Replace(program, `"list.yaml"`, `"service/list.yaml"`, 1))
	policy := filepath.Join(t.TempDir(), "sources.yaml")
	write(policy, "sources: v1\nwebhooks:\n  - {env: HOOK, partitions: [one]}\n")
	p := newProduction()
	running, _ := begin(t, p, map[intent.PartitionID]string{"one": path}, func(o *app.Options) {
		o.Sources, o.Listen, o.Store = policy, "127.0.0.1:0", filepath.Join(folder, "lehr.db")
	})
	eventually(t, "it is enforced", func() bool { return p.has("a") })
	origin.Write("list.yaml", "- a\n- b\n")
	origin.Commit("More")

	body := []byte(`{"ref": "refs/heads/main"}`)
	signed := func(secret string, body []byte) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		return "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	for _, c := range []struct {
		what, partition, header, value string
		body                           []byte
		want                           int
	}{
		{"nothing", "one", "X-Nothing", "", body, 403},
		{"another's signature", "one", "X-Hub-Signature-256", signed("guess", body), body, 403},
		{"the signature of something else", "one", "X-Hub-Signature-256", signed("the secret of the hook", body), []byte("{}"), 403},
		{"no hexadecimal", "one", "X-Hub-Signature-256", "sha256=zz", body, 403},
		{"an old signature", "one", "X-Hub-Signature", signed("the secret of the hook", body), body, 403},
		{"an empty signature", "one", "X-Hub-Signature-256", "sha256=", body, 403},
		{"another's token", "one", "X-Gitlab-Token", "guess", body, 403},
		{"another partition", "two", "X-Gitlab-Token", "the secret of the hook", body, 403},
		{"no partition", "..%2f", "X-Gitlab-Token", "the secret of the hook", body, 403},
		{"too much", "one", "X-Gitlab-Token", "the secret of the hook", bytes.Repeat([]byte("x"), 1<<20+1), 413},
		{"a signature", "one", "X-Hub-Signature-256", signed("the secret of the hook", body), body, 202},
		{"a token", "one", "X-Gitlab-Token", "the secret of the hook", nil, 202},
	} {
		request, err := http.NewRequest("POST", running.Address().URL+"/webhook/"+c.partition, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(c.header, c.value)
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", c.what, response.Status, c.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "the change is followed", func() bool { return p.has("b") })
}
