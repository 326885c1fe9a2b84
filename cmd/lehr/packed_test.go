package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lehr.dev/test/freeport"
)

// site serves a folder as a web server does, and the repositories in it as git does,
// until the script ends, and puts its URL into a variable: site NAME FOLDER.
func site(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: site NAME FOLDER")
	}
	folder := ts.MkAbs(args[1])
	programs, err := exec.Command("git", "--exec-path").Output()
	ts.Check(err)
	backend := cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(programs)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + folder, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	files := http.FileServer(http.Dir(folder))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, ".git/") {
			files.ServeHTTP(w, r)
			return
		}
		one := backend // Protocol version 2 comes by a header that CGI knows.
		one.Env = append(append([]string{}, backend.Env...), "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
		one.ServeHTTP(w, r)
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
}

// ociRegistry starts a real container registry until the script ends, and puts its
// address into a variable: registry NAME.
func ociRegistry(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: registry NAME")
	}
	port, release, err := freeport.Reserve(1)
	ts.Check(err)
	ts.Defer(release)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	folder := ts.MkAbs("registry-" + args[0])
	ts.Check(os.MkdirAll(folder, 0o755))
	config := filepath.Join(folder, "config.yml")
	ts.Check(os.WriteFile(config, fmt.Appendf(nil, "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", filepath.Join(folder, "data"), address), 0o600))
	server := exec.Command("docker-registry", "serve", config)
	ts.Check(server.Start())
	ts.Defer(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/v2/")
		if err == nil {
			response.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the registry does not answer: %v", err)
		}
	}
	ts.Setenv(args[0], address)
}

// push puts a file into a registry, as helm push does with charts (.tgz) and oras push
// with others, and puts the digest into a variable: push NAME ADDRESS REPOSITORY TAG FILE [COMMIT].
func push(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 5 && len(args) != 6 {
		ts.Fatalf("usage: push NAME ADDRESS REPOSITORY TAG FILE [COMMIT]")
	}
	content, err := os.ReadFile(ts.MkAbs(args[4]))
	ts.Check(err)
	repository := "http://" + args[1] + "/v2/" + args[2]
	send := func(method, url, kind string, body []byte) *http.Response {
		request, err := http.NewRequest(method, url, bytes.NewReader(body))
		ts.Check(err)
		request.Header.Set("Content-Type", kind)
		response, err := http.DefaultClient.Do(request)
		ts.Check(err)
		response.Body.Close()
		if response.StatusCode >= 300 {
			ts.Fatalf("%s %s: %s", method, url, response.Status)
		}
		return response
	}
	digestOf := func(body []byte) string {
		sum := sha256.Sum256(body)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	blob := func(kind string, body []byte) map[string]any {
		at := send("POST", repository+"/blobs/uploads/", "", nil).Header.Get("Location")
		send("PUT", at+"&digest="+digestOf(body), "application/octet-stream", body)
		return map[string]any{"mediaType": kind, "digest": digestOf(body), "size": len(body)}
	}
	layer := blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", content)
	if !strings.HasSuffix(args[4], ".tgz") {
		layer["mediaType"] = "application/yaml"
		layer["annotations"] = map[string]string{"org.opencontainers.image.title": filepath.Base(args[4])}
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	fields := map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": blob("application/vnd.oci.empty.v1+json", []byte("{}")), "layers": []any{layer},
	}
	if len(args) == 6 {
		fields["annotations"] = map[string]string{"org.opencontainers.image.revision": args[5]}
	}
	manifest, err := json.Marshal(fields)
	ts.Check(err)
	send("PUT", repository+"/manifests/"+args[3], manifestType, manifest)
	ts.Setenv(args[0], digestOf(manifest))
}
