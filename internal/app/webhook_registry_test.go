package app_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/test/freeport"
	"lehr.dev/test/installed"
)

// notifyingRegistry starts a real registry that tells a webhook of what is pushed.
func notifyingRegistry(t *testing.T, address, hook, secret string) {
	t.Helper()
	folder := t.TempDir()
	config := filepath.Join(folder, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n"+
		"notifications: {endpoints: [{name: lehr, url: %q, headers: {Authorization: [Bearer %s]}, timeout: 10s, threshold: 5, backoff: 100ms}]}\n", filepath.Join(folder, "data"), address, hook, secret)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("docker-registry", "serve", config)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	eventually(t, "the registry answers", func() bool {
		response, err := http.Get("http://" + address + "/v2/")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
}

func pushImage(t *testing.T, repository, tag string) {
	t.Helper()
	send := func(method, url, kind string, body []byte) *http.Response {
		request, err := http.NewRequest(method, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", kind)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode >= 300 {
			t.Fatalf("%s %s: %s", method, url, response.Status)
		}
		return response
	}
	config := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","config":{"Labels":{"tag":%q}},"rootfs":{"type":"layers","diff_ids":[]}}`, tag)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(config))
	at := send("POST", repository+"/blobs/uploads/", "", nil).Header.Get("Location")
	send("PUT", at+"&digest="+digest, "application/octet-stream", config)
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":%d,"digest":%q},"layers":[]}`, kind, len(config), digest)
	send("PUT", repository+"/manifests/"+tag, kind, []byte(manifest))
}

// What a registry tells a webhook has its versions looked at now.
func TestARegistryNotifies(t *testing.T) {
	installed.Program(t, "docker-registry")
	const secret = "the-secret-of-the-hook"
	t.Setenv("HOOK", secret)
	address := freeport.Address(t)
	folder := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, "lehr.yaml")
	write(path, strings.NewReplacer("NAME", "one", "{dir: ., files: [list.yaml]}", `{registry: "http://`+address+`/team/web", file: list.json, every: 1h}`).Replace(definition))
	write(filepath.Join(folder, "web.star"), strings.NewReplacer(`asset(id,`, `asset(v["version"],`, `for id in yaml("list.yaml")`, `for v in yaml("service/list.json")["versions"]`).Replace(program))
	policy := filepath.Join(t.TempDir(), "sources.yaml")
	write(policy, "sources: v1\nnetworks: [127.0.0.0/8]\nwebhooks:\n  - {env: HOOK, partitions: [one]}\n")
	p := newProduction()
	running, _ := begin(t, p, map[intent.PartitionID]string{"one": path}, func(o *app.Options) {
		o.Sources, o.Listen, o.Store = policy, "127.0.0.1:0", filepath.Join(folder, "lehr.db")
	})
	notifyingRegistry(t, address, running.Address().URL+"/webhook/one", secret)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		pushImage(t, "http://"+address+"/v2/team/web", "v"+version)
		eventually(t, version+" is enforced", func() bool { return p.has(intent.AssetID(version)) })
	}
	http.DefaultClient.CloseIdleConnections()
}
