package app_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/test/gitrepo"
	"lehr.dev/test/pgserver"
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
		{"another's bearer", "one", "Authorization", "Bearer guess", body, 403},
		{"a password", "one", "Authorization", "Basic dGhlIHNlY3JldCBvZiB0aGUgaG9vazo=", body, 403},
		{"another partition", "two", "X-Gitlab-Token", "the secret of the hook", body, 403},
		{"no partition", "..%2f", "X-Gitlab-Token", "the secret of the hook", body, 403},
		{"too much", "one", "X-Gitlab-Token", "the secret of the hook", bytes.Repeat([]byte("x"), 1<<20+1), 413},
		{"a signature", "one", "X-Hub-Signature-256", signed("the secret of the hook", body), body, 202},
		{"a token", "one", "X-Gitlab-Token", "the secret of the hook", nil, 202},
		{"a bearer", "one", "Authorization", "Bearer the secret of the hook", body, 202},
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

// A webhook reaches the replica that acts for the partition, whichever was told.
func TestWebhookOfAnotherReplica(t *testing.T) {
	t.Setenv("HOOK", "the secret of the hook")
	server := pgserver.New(t)
	server.Start()
	policy := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(policy, []byte("sources: v1\nwebhooks:\n  - {env: HOOK, partitions: [one, two]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, register, origins := newProduction(), map[intent.PartitionID]string{}, map[intent.PartitionID]*gitrepo.Repository{}
	for _, name := range []intent.PartitionID{"one", "two"} {
		origin := gitrepo.New(t)
		origin.Write("list.yaml", "- "+string(name)+"/a\n")
		origin.Commit("Begin")
		origins[name] = origin
		path := partition(t, string(name))
		folder := filepath.Dir(path)
		text := strings.NewReplacer("NAME", string(name), "{dir: ., files: [list.yaml]}", "{git: "+origin.Folder+", branch: main, files: [list.yaml], every: 1h}").Replace(definition)
		for file, content := range map[string]string{"lehr.yaml": text, "web.star": strings.Replace(program, `"list.yaml"`, `"service/list.yaml"`, 1)} {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		register[name] = path
	}
	serve := func(o *app.Options) { o.Sources, o.Listen = policy, "127.0.0.1:0" }
	database := server.Database()
	first := replica(t, database, p, register, serve)
	defer first.Stop(context.Background())
	second := replica(t, database, p, register, serve)
	defer second.Stop(context.Background())
	shares(t, first, 1, 1)
	for name, origin := range origins {
		eventually(t, string(name)+" is enforced", func() bool { return p.has(intent.AssetID(name + "/a")) })
		origin.Write("list.yaml", "- "+string(name)+"/a\n- "+string(name)+"/b\n")
		origin.Commit("More")
		// Both are told to one replica, which acts for one of them.
		request, err := http.NewRequest("POST", first.Address().URL+"/webhook/"+string(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Gitlab-Token", "the secret of the hook")
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusAccepted {
			t.Errorf("%s: %s", name, response.Status)
		}
		eventually(t, "the change of "+string(name)+" is followed", func() bool { return p.has(intent.AssetID(name + "/b")) })
	}
	http.DefaultClient.CloseIdleConnections()
}
