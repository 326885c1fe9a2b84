package fetch

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
	"lehr.dev/test/freeport"
	"lehr.dev/test/installed"
)

// listed reads the versions of a source, the newest first.
func (r *reader) listed() (names []string, digests map[string]string) {
	r.Helper()
	found, _, err := r.read()
	if err != nil {
		r.Fatal(err)
	}
	list, err := versionlist.Parse([]byte(found["web.json"]))
	if err != nil {
		r.Fatal(err)
	}
	digests = map[string]string{}
	for _, v := range list.Versions {
		names = append(names, v.Version)
		digests[v.Name] = v.Digest
	}
	return names, digests
}

func wantVersions(t testing.TB, found []string, want string) {
	t.Helper()
	if got := strings.Join(found, " "); got != want {
		t.Errorf("versions %s, want %s", got, want)
	}
}

func TestVersionsOfTags(t *testing.T) {
	o := newOrigin(t)
	commits := map[string]string{}
	for _, tag := range []string{"v1.2.0", "v1.10.0", "v1.10.0-rc.1", "2.0.0", "latest", "v3", "release-4.0.0"} {
		commits[tag] = o.Commit(tag)
		o.Git("tag", "-a", tag, "-m", "an annotated tag")
	}
	r := newReader(t, source.Remote{Versions: &source.Versions{Tags: &source.Git{URL: o.Folder}, File: "web.json"}}, "web.json")
	found, digests := r.listed()
	wantVersions(t, found, "2.0.0 1.10.0 1.10.0-rc.1 1.2.0")
	if digests["v1.10.0"] != commits["v1.10.0"] {
		t.Errorf("v1.10.0 is %s, want %s", digests["v1.10.0"], commits["v1.10.0"])
	}
	o.Commit("More")
	o.Git("tag", "v1.11.0")
	found, _ = r.listed()
	wantVersions(t, found, "2.0.0 1.11.0 1.10.0 1.10.0-rc.1 1.2.0")
	if err := os.RemoveAll(o.Folder); err != nil {
		t.Fatal(err)
	}
	r.restart(true)
	found, _ = r.listed()
	wantVersions(t, found, "2.0.0 1.11.0 1.10.0 1.10.0-rc.1 1.2.0")
	if reason := r.folder.Failing().Reason; !strings.Contains(reason, "cannot be read") {
		t.Errorf("it fails by %q", reason)
	}
}

// registry is a real one, with a password.
type registry struct {
	testing.TB
	url string
}

func newRegistry(t testing.TB) *registry {
	t.Helper()
	program := installed.Program(t, "docker-registry")
	folder, address := t.TempDir(), freeport.Address(t)
	users := filepath.Join(folder, "users")
	config := filepath.Join(folder, "config.yml")
	for path, content := range map[string]string{
		users: "bot:" + passwordHash + "\n",
		config: fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\nauth: {htpasswd: {realm: test, path: %s}}\n",
			filepath.Join(folder, "data"), address, users),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := exec.Command(program, "serve", config)
	var said bytes.Buffer
	server.Stderr = &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	r := &registry{t, "http://" + address}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if response, err := http.Get(r.url + "/v2/"); err == nil {
			response.Body.Close()
			return r
		} else if time.Now().After(deadline) {
			t.Fatalf("the registry does not answer: %v: %s", err, said.String())
		}
	}
}

const (
	password     = "pa55word"
	passwordHash = "$2y$05$abcdefghijklmnopqrstuur.ZxEKly2fYX6K.hrvYXsoEaKgtr95a" // Of bcrypt, which the registry wants.
)

func (r *registry) ask(method, path, kind string, body []byte) *http.Response {
	r.Helper()
	if !strings.HasPrefix(path, "http") {
		path = r.url + path
	}
	request, err := http.NewRequest(method, path, bytes.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	request.SetBasicAuth("bot", password)
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode >= 300 {
		r.Fatalf("%s %s: %s", method, path, response.Status)
	}
	return response
}

// blob puts content into a repository, and returns its digest.
func (r *registry) blob(repository string, content []byte) string {
	r.Helper()
	digest := artifact.Digest(content)
	at := r.ask("POST", "/v2/"+repository+"/blobs/uploads/", "", nil).Header.Get("Location")
	separator := "?"
	if strings.Contains(at, "?") {
		separator = "&"
	}
	r.ask("PUT", at+separator+"digest="+digest, "application/octet-stream", content)
	return digest
}

// manifest puts one into a repository under a tag, and returns its digest.
func (r *registry) manifest(repository, tag, kind string, manifest []byte) string {
	r.Helper()
	r.ask("PUT", "/v2/"+repository+"/manifests/"+tag, kind, manifest)
	return artifact.Digest(manifest)
}

// push an image without layers, and return its digest.
func (r *registry) push(tag string) string {
	r.Helper()
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","config":{"Labels":{"version":%q}},"rootfs":{"type":"layers","diff_ids":[]}}`, tag)
	digest := r.blob("team/web", []byte(config))
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{"mediaType":"application/vnd.docker.container.image.v1+json","size":%d,"digest":%q},"layers":[]}`, len(config), digest)
	return r.manifest("team/web", tag, "application/vnd.docker.distribution.manifest.v2+json", []byte(manifest))
}

func TestVersionsOfARegistry(t *testing.T) {
	real := newRegistry(t)
	digests := map[string]string{}
	for _, tag := range []string{"v1.9.0", "v1.10.0", "v2.0.0", "latest"} {
		digests[tag] = real.push(tag)
	}
	r := newReader(t, source.Remote{}, "web.json")
	of := &source.Versions{Registry: real.url + "/team/web", File: "web.json", Match: "v1.*"}
	r.remote.Versions = of
	r.refuses(fault.Unavailable, "401")
	of.Login = source.Login{User: "bot", Token: r.allow("REGISTRY_TOKEN", password, host(t, real.url))}
	r.restart(true)
	found, got := r.listed()
	wantVersions(t, found, "1.10.0 1.9.0")
	if got["v1.9.0"] != digests["v1.9.0"] {
		t.Errorf("v1.9.0 is %s, want %s", got["v1.9.0"], digests["v1.9.0"])
	}
	// A tag that moves is another version.
	moved := real.push("v1.9.1")
	real.push("v1.9.0")
	found, got = r.listed()
	wantVersions(t, found, "1.10.0 1.9.1 1.9.0")
	if got["v1.9.1"] != moved {
		t.Errorf("v1.9.1 is %s, want %s", got["v1.9.1"], moved)
	}
	t.Setenv("REGISTRY_TOKEN", "wrong")
	found, _ = r.listed()
	wantVersions(t, found, "1.10.0 1.9.1 1.9.0")
	if reason := r.folder.Failing().Reason; !strings.Contains(reason, "401") {
		t.Errorf("it fails by %q", reason)
	}
}

// A registry that has tokens fetched elsewhere, lies about digests, or goes on
// elsewhere.
func TestHostileRegistries(t *testing.T) {
	page := `{"tags": ["1.0.0"]}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"no versions": {says(`{"tags": ["latest"]}`), "no version that counts"},
		"no tags":     {says(`{}`), "no version that counts"},
		"no JSON":     {says(`<html>`), "not JSON"},
		"lying digest": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			fmt.Fprint(w, page)
		}, "not what its digest says"},
		"next elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<http://169.254.169.254/latest>; rel="next"`)
			fmt.Fprint(w, page)
		}, "goes on elsewhere"},
		"pages without end": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<`+r.URL.Path+`>; rel="next"`)
			fmt.Fprint(w, page)
		}, "more than 100000 versions"},
		"realm of a cloud": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://169.254.169.254/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, "has tokens fetched at"},
		"realm of this machine": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://169.254.169.254/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, "may not reach"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answer)
			r := newReader(t, source.Remote{Versions: &source.Versions{Registry: s.URL + "/web", File: "web.json"}}, "web.json")
			if _, _, err := r.read(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	// A token that is asked for is used.
	s := serve(t, nil)
	s.now(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			if r.URL.Query().Get("scope") != "repository:web:pull" {
				w.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprint(w, `{"token": "short-lived"}`)
		case r.Header.Get("Authorization") != "Bearer short-lived":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+s.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Fprint(w, page)
		}
	})
	r := newReader(t, source.Remote{Versions: &source.Versions{Registry: s.URL + "/web", File: "web.json"}}, "web.json")
	found, _ := r.listed()
	wantVersions(t, found, "1.0.0")
}

const packages = `Package: shop-web
Version: 1.10-1
Architecture: amd64
Filename: pool/shop-web_1.10-1_amd64.deb
SHA256: 1111
Description: the shop
 with a long description
 .
 Version: 9 of it

Package: shop-web
Version: 1.9-1
Filename: pool/shop-web_1.9-1_amd64.deb
SHA256: 2222

Package: other
Version: 3.0
Filename: pool/other.deb
SHA256: 3333

Package: shop-web
Version: 1:0.1~rc1-1
Filename: pool/shop-web_0.1.deb
SHA256: 4444
`

func TestVersionsOfADebianRepository(t *testing.T) {
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	fmt.Fprint(writer, packages)
	writer.Close()
	s := serve(t, nil)
	whole := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".gz") {
			_, _ = w.Write(compressed.Bytes())
		} else {
			fmt.Fprint(w, packages)
		}
	}
	for _, name := range []string{"Packages", "Packages.gz"} {
		s.now(whole)
		r := newReader(t, source.Remote{Versions: &source.Versions{Debian: s.URL + "/dists/stable/main/binary-amd64/" + name, Package: "shop-web", File: "web.json"}}, "web.json")
		found, digests := r.listed()
		wantVersions(t, found, "1:0.1~rc1-1 1.10-1 1.9-1")
		if digests["pool/shop-web_1.9-1_amd64.deb"] != "sha256:2222" {
			t.Errorf("digests %v", digests)
		}
		for says, answer := range map[string]http.HandlerFunc{
			"no version that counts": says("Package: other\nVersion: 1\nSHA256: 1\n"),
			"no field":               says("<html>half a page\n"),
			"ended early": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "10000")
				whole(w, r)
			},
		} {
			if name == "Packages.gz" && says != "ended early" {
				continue
			}
			s.now(answer)
			if again, _ := r.listed(); len(again) != 3 {
				t.Errorf("versions %v", again)
			}
			if reason := r.folder.Failing().Reason; !strings.Contains(reason, says) {
				t.Errorf("it fails by %q, want %q", reason, says)
			}
		}
	}
	// A bomb of ten thousand to one.
	var bomb bytes.Buffer
	writer = gzip.NewWriter(&bomb)
	fmt.Fprint(writer, "Package: shop-web\nDescription: ")
	for range 64 {
		_, _ = writer.Write(bytes.Repeat([]byte("x\n y"), 250_000))
	}
	writer.Close()
	s.now(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bomb.Bytes()) })
	r := newReader(t, source.Remote{Versions: &source.Versions{Debian: s.URL + "/Packages.gz", Package: "shop-web", File: "web.json"}}, "web.json")
	r.limits.TotalBytes = 10_000_000
	r.refuses(fault.Invalid, "more than 10000000 bytes")
}
