package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

// madeByHelm is a file that Helm 4.3.1, GnuPG or cosign 2.6.5 has made.
func madeByHelm(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../artifact/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// pack makes an archive as helm package does.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	for _, name := range sorted(files) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	for _, closer := range []interface{ Close() error }{archive, compressed} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return buffer.Bytes()
}

// chartServer serves an index and its archives, as any web server does. What is in
// changed takes the place of what Helm made.
type chartServer struct {
	*serving
	lock    sync.Mutex
	changed map[string][]byte
	asked   map[string]int
}

func newChartServer(t testing.TB) *chartServer {
	c := &chartServer{serving: serve(t, nil), changed: map[string][]byte{}, asked: map[string]int{}}
	files := http.FileServer(http.Dir("../artifact/testdata/charts"))
	c.now(func(w http.ResponseWriter, r *http.Request) {
		c.lock.Lock()
		content, ok := c.changed[r.URL.Path]
		c.asked[r.URL.Path]++
		c.lock.Unlock()
		if !ok {
			files.ServeHTTP(w, r)
			return
		}
		_, _ = w.Write(content)
	})
	return c
}

func (c *chartServer) change(path string, content []byte) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.changed[path] = content
}

func (c *chartServer) times(path string) int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.asked[path]
}

// index is one with these archives of the chart web, by version.
func index(archives map[string][]byte) []byte {
	text := "apiVersion: v1\nentries:\n  web:\n"
	for _, version := range sorted(archives) {
		text += fmt.Sprintf("  - {name: web, version: %s, urls: [web-%s.tgz], digest: %s}\n", version, version, strings.TrimPrefix(artifact.Digest(archives[version]), "sha256:"))
	}
	return []byte(text)
}

func chartOf(t testing.TB, address, version string) source.Remote {
	t.Helper()
	packed, err := source.ParseChart(address, "web")
	if strings.HasPrefix(address, "oci") {
		packed, err = source.ParseChart(address, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	packed.Version = version
	return source.Remote{Packed: &packed}
}

func (r *reader) version(want string, files ...string) *source.Snapshot {
	r.Helper()
	found, snapshot, err := r.read()
	if err != nil {
		r.Fatal(err)
	}
	if failing := r.folder.Failing(); failing.Reason != "" {
		r.Fatalf("it fails: %s", failing.Reason)
	}
	if bare, _, _ := strings.Cut(snapshot.Name, "+charts:"); bare != want {
		r.Errorf("version %s, want %s", snapshot.Name, want)
	}
	if names := strings.Join(sorted(found), " "); len(files) > 0 && names != strings.Join(files, " ") {
		r.Errorf("files %s, want %v", names, files)
	}
	return snapshot
}

var filesOfWeb = []string{"Chart.yaml", "templates/configmap.yaml", "values.yaml"}

func at(version string, archive []byte) string { return version + "@" + artifact.Digest(archive) }

func TestChartOfAnIndex(t *testing.T) {
	c := newChartServer(t)
	r := newReader(t, chartOf(t, c.URL, "~1.2"))
	newest := at("1.2.4", madeByHelm(t, "charts/web-1.2.4.tgz"))
	r.version(newest, filesOfWeb...)
	r.version(newest, filesOfWeb...)
	if n := c.times("/web-1.2.4.tgz"); n != 1 {
		t.Errorf("the archive was fetched %d times", n)
	}
	// A new version, and then one less.
	packed := pack(t, map[string]string{"web/Chart.yaml": "name: web\nversion: 1.2.5\n", "web/values.yaml": "", "web/.helmignore": "x"})
	archives := map[string][]byte{"1.2.4": madeByHelm(t, "charts/web-1.2.4.tgz"), "1.2.5": packed}
	c.change("/index.yaml", index(archives))
	c.change("/web-1.2.5.tgz", packed)
	r.version(at("1.2.5", packed), ".helmignore", "Chart.yaml", "values.yaml")
	delete(archives, "1.2.5")
	c.change("/index.yaml", index(archives))
	if s := r.version(newest, filesOfWeb...); !strings.Contains(s.Warning, "1.2.4 of "+c.URL+" is older than 1.2.5, which was read before") {
		t.Errorf("the warning is %q", s.Warning)
	}
	if n := c.times("/web-1.2.4.tgz"); n != 1 {
		t.Errorf("the archive was fetched %d times, and is kept", n)
	}
	// Away: what was read last counts, also in another process and on another machine.
	c.Close()
	_, _, err := r.read()
	if reason := r.folder.Failing().Reason; err != nil || !strings.Contains(reason, "/index.yaml cannot be read: connection refused") {
		t.Errorf("it fails by %q, %v", reason, err)
	}
	for _, elsewhere := range []bool{false, true} {
		r.restart(elsewhere)
		found, snapshot, err := r.read()
		if err != nil || snapshot.Name != newest || len(found) != 3 || r.folder.Failing().Since.IsZero() {
			t.Errorf("version %+v, %v", snapshot, err)
		}
	}
	// Never read: nothing is taken for empty.
	r.options.Keep = &memory{}
	r.restart(true)
	r.refuses(fault.Unavailable, "cannot be read")
}

func TestMovedVersionOfAChart(t *testing.T) {
	c := newChartServer(t)
	was := madeByHelm(t, "charts/web-1.2.3.tgz")
	moved := pack(t, map[string]string{"web/Chart.yaml": "name: web\nversion: 1.2.3\n", "web/values.yaml": "greeting: evil"})
	r := newReader(t, chartOf(t, c.URL, "1.2.3"), "**")
	pinned := newReader(t, chartOf(t, c.URL, "1.2.3"), "**")
	pinned.remote.Packed.Digest = artifact.Digest(was)
	r.version(at("1.2.3", was))
	pinned.version(at("1.2.3", was))
	c.change("/index.yaml", index(map[string][]byte{"1.2.3": moved}))
	c.change("/web-1.2.3.tgz", moved)
	if s := r.version(at("1.2.3", moved), "Chart.yaml", "values.yaml"); !strings.Contains(s.Warning, "was moved: it had the digest "+artifact.Digest(was)+", and has "+artifact.Digest(moved)+" now") {
		t.Errorf("the warning is %q", s.Warning)
	}
	for range 2 {
		if s := pinned.version(at("1.2.3", was), filesOfWeb...); !strings.Contains(s.Warning, "was moved: it has the digest "+artifact.Digest(moved)+" now, and "+artifact.Digest(was)+" is pinned, which is what is used") {
			t.Errorf("the warning is %q", s.Warning)
		}
	}
	// Nobody has what is pinned: an error that names both.
	pinned.options.Keep = &memory{}
	pinned.restart(true)
	pinned.refuses(fault.Invalid, "has the digest "+artifact.Digest(moved)+", and the definition pins "+artifact.Digest(was)+", which cannot be had")
	// It was moved back.
	c.change("/index.yaml", index(map[string][]byte{"1.2.3": was}))
	c.change("/web-1.2.3.tgz", was)
	if s := pinned.version(at("1.2.3", was), filesOfWeb...); s.Warning != "" {
		t.Errorf("the warning is %q", s.Warning)
	}
}

// What is more than a megabyte is kept by its digest, and put together from there.
func TestLargeChart(t *testing.T) {
	c := newChartServer(t)
	noise := make([]byte, 1_500_000)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(noise), func(i, j int) { noise[i], noise[j] = byte(i*7+j), byte(j) })
	large := pack(t, map[string]string{"web/Chart.yaml": "name: web\nversion: 2.0.0\n", "web/large": string(noise)})
	c.change("/index.yaml", index(map[string][]byte{"2.0.0": large}))
	c.change("/web-2.0.0.tgz", large)
	r := newReader(t, chartOf(t, c.URL, "2.0.0"))
	r.version(at("2.0.0", large), "Chart.yaml", "large")
	r.restart(false)
	r.version(at("2.0.0", large), "Chart.yaml", "large")
	if n := c.times("/web-2.0.0.tgz"); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
	// On another machine it is fetched again, and not read where nobody gives it.
	r.restart(true)
	r.version(at("2.0.0", large), "Chart.yaml", "large")
	r.restart(true)
	c.Close()
	r.refuses(fault.Unavailable, "cannot be read")
}

// What the server of an index may do wrong, or on purpose. What was read last stays.
func TestHostileIndexes(t *testing.T) {
	c := newChartServer(t)
	r := newReader(t, chartOf(t, c.URL, ">=1.2"), "**")
	r.version(at("1.3.0", madeByHelm(t, "charts/web-1.3.0.tgz")))
	archive := func(files map[string]string) func() {
		packed := pack(t, files)
		return func() {
			c.change("/index.yaml", index(map[string][]byte{"2.0.0": packed}))
			c.change("/web-2.0.0.tgz", packed)
		}
	}
	for says, change := range map[string]func(){
		"has the digest " + artifact.Digest([]byte("evil")): func() {
			c.change("/index.yaml", index(map[string][]byte{"2.0.0": []byte("good")}))
			c.change("/web-2.0.0.tgz", []byte("evil"))
		},
		"does not say the digest of web 2.0.0": func() {
			c.change("/index.yaml", []byte("apiVersion: v1\nentries: {web: [{version: 2.0.0, urls: [web-2.0.0.tgz]}]}"))
		},
		"lies at \"file:///etc/passwd\", which is not read": func() {
			c.change("/index.yaml", []byte("apiVersion: v1\nentries: {web: [{version: 2.0.0, digest: "+strings.Repeat("0", 64)+", urls: [\"file:///etc/passwd\"]}]}"))
		},
		"sources may not reach 169.254.169.254": func() {
			c.change("/index.yaml", []byte("apiVersion: v1\nentries: {web: [{version: 2.0.0, digest: "+strings.Repeat("1", 64)+", urls: [\"http://169.254.169.254/latest\"]}]}"))
		},
		"has no chart web":                     func() { c.change("/index.yaml", []byte("apiVersion: v1\nentries: {}")) },
		"is no index of charts":                func() { c.change("/index.yaml", []byte("<html>")) },
		"holds ../x, which leads out of it":    archive(map[string]string{"../x": "", "web/Chart.yaml": "name: web\nversion: 2.0.0\n"}),
		"is no chart":                          archive(map[string]string{"web/values.yaml": ""}),
		`is the chart "shop" "2.0.0"`:          archive(map[string]string{"web/Chart.yaml": "name: shop\nversion: 2.0.0\n"}),
		`is the chart "web" "1.0.0"`:           archive(map[string]string{"web/Chart.yaml": "name: web\nversion: 1.0.0\n"}),
		"has a Chart.lock that cannot be read": archive(map[string]string{"web/Chart.yaml": "name: web\nversion: 2.0.0\ndependencies: [{name: a, version: 1.0.0}]\n", "web/Chart.lock": "["}),
	} {
		change()
		_, snapshot, err := r.read()
		if err != nil || !strings.HasPrefix(snapshot.Name, "1.3.0@") {
			t.Fatalf("%s: %+v, %v", says, snapshot, err)
		}
		if reason := r.folder.Failing().Reason; !strings.Contains(reason, says) {
			t.Errorf("it fails by %q, want %q", reason, says)
		}
	}
}

// A chart of 100 MB is refused by the size that is told, and no byte of it is kept.
func TestChartOf100MB(t *testing.T) {
	c := newChartServer(t)
	large := []byte("never sent")
	c.change("/index.yaml", index(map[string][]byte{"2.0.0": large}))
	const bytes = 100_000_000
	sent := 0
	files := *c.answer.Load()
	c.now(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/web-2.0.0.tgz" {
			files(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(bytes))
		for range bytes / 1_000_000 {
			n, err := w.Write(make([]byte, 1_000_000))
			if sent += n; err != nil {
				return
			}
		}
	})
	r := newReader(t, chartOf(t, c.URL, "2.0.0"), "**")
	r.refuses(fault.Invalid, "has 100000000 bytes, and at most 20000000 are read")
	if c.Close(); sent > 20_000_000 {
		t.Errorf("%d bytes were sent", sent)
	}
}

// Whoever is asked says when to ask again, and neither a hint nor the usual pause
// comes before.
func TestTooManyRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	r := newReader(t, chartOf(t, s.URL, "1.2.3"), "**")
	waits := &waiting{Runtime: loop.Real(), waited: make(chan time.Duration, 10)}
	r.options.Mode, r.options.Runtime = Polled, waits
	folder, err := Open(r.options, "web", "/home/web", r.remote, r.files, r.limits)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	folder.Hint()
	if _, err := folder.Read(t.Context(), time.Now(), source.Changes{All: true}); err == nil || !strings.Contains(err.Error(), "429 Too Many Requests") {
		t.Errorf("%v", err)
	}
	if waited := <-waits.waited; waited != 2*time.Minute {
		t.Errorf("it is asked again after %s", waited)
	}
	for header, want := range map[string]time.Duration{"3": 3 * time.Second, "Thu, 26 Nov 2026 22:00:30 GMT": 30 * time.Second, "": 0, "soon": 0, "99999999": time.Hour} {
		h := http.Header{"Retry-After": {header}, "Date": {"Thu, 26 Nov 2026 22:00:00 GMT"}}
		if got := retryAfter(h); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// waiting tells of pauses in which no hint counts, and never ends one.
type waiting struct {
	loop.Runtime
	waited chan time.Duration
}

func (w *waiting) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if d < 0 {
		return w.Runtime.Wait(ctx, d, wake)
	}
	if wake == nil && d != patience { // Of a look.
		w.waited <- d
	}
	<-ctx.Done()
	return ctx.Err()
}

// trust gives the partition a key.
func (r *reader) trust(key ListedKey) {
	policy := r.options.Policy()
	key.Partitions = []string{"shop"}
	policy.Keys = append(policy.Keys, key)
}

func keyFile(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../artifact/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProvenanceOfCharts(t *testing.T) {
	c := newChartServer(t)
	r := newReader(t, chartOf(t, c.URL, "1.2.3"), "**")
	r.remote.Packed.Verify = "charts"
	r.refuses(fault.Denied, "have no key charts")
	r.trust(ListedKey{Name: "charts", PGP: keyFile(t, "shop.gpg")})
	s := r.version(at("1.2.3", madeByHelm(t, "charts/web-1.2.3.tgz")), filesOfWeb...)
	if s.Commit.Author != "Shop Charts <charts@example.com> (PGP 2EFE8A65C2113179)" || !strings.HasSuffix(s.Commit.Subject, ", signed by the key charts") || s.Commit.Time.IsZero() {
		t.Errorf("it was signed by %+v", s.Commit)
	}
	// Another key in its place: what was read stays, and is told of.
	r.options.Policy().Keys[0].PGP = keyFile(t, "other.asc")
	_, _, err := r.read()
	if reason := r.folder.Failing().Reason; err != nil || !strings.Contains(reason, "is not signed by the key that is listed") {
		t.Errorf("it fails by %q, %v", reason, err)
	}
	r.options.Policy().Keys[0].PGP = keyFile(t, "shop.gpg")
	r.version(at("1.2.3", madeByHelm(t, "charts/web-1.2.3.tgz")), filesOfWeb...)
	// Nobody signed it.
	unsigned := newReader(t, chartOf(t, c.URL, "1.2.4"), "**")
	unsigned.version(at("1.2.4", madeByHelm(t, "charts/web-1.2.4.tgz")))
	unsigned.trust(ListedKey{Name: "charts", PGP: keyFile(t, "shop.gpg"), RequiredOf: []string{"127.0.0.1"}})
	_, _, err = unsigned.read()
	if reason := unsigned.folder.Failing().Reason; err != nil || !strings.Contains(reason, "is not signed by the key that is listed: it has none") {
		t.Errorf("it fails by %q, %v", reason, err)
	}
	// A key of the other kind, and one that is not there.
	wrong := newReader(t, chartOf(t, c.URL, "1.2.3"), "**")
	wrong.remote.Packed.Verify = "charts"
	wrong.trust(ListedKey{Name: "charts", PGP: filepath.Join(t.TempDir(), "none")})
	wrong.refuses(fault.Unavailable, "the key charts")
}

func TestDependenciesOfCharts(t *testing.T) {
	c := newChartServer(t)
	main := func(lock string) []byte {
		return pack(t, map[string]string{
			"web/Chart.yaml": "name: web\nversion: 2.0.0\ndependencies: [{name: cache, version: ~0.3, repository: \"" + c.URL + "\"}, {name: local, version: 1.0.0}]\n",
			"web/Chart.lock": lock, "web/charts/local/Chart.yaml": "name: local\nversion: 1.0.0\n",
		})
	}
	whole := main("dependencies: [{name: cache, version: 0.3.0, repository: \"" + c.URL + "/cached\"}, {name: local, version: 1.0.0, repository: \"https://never.example.com\"}]\n")
	c.change("/index.yaml", index(map[string][]byte{"2.0.0": whole}))
	c.change("/cached/index.yaml", madeByHelm(t, "charts/index.yaml"))
	c.change("/cached/cache-0.3.0.tgz", madeByHelm(t, "charts/cache-0.3.0.tgz"))
	c.change("/web-2.0.0.tgz", whole)
	r := newReader(t, chartOf(t, c.URL, "2.0.0"), "**")
	s := r.version(at("2.0.0", whole), "Chart.lock", "Chart.yaml", "charts/cache-0.3.0.tgz", "charts/local/Chart.yaml")
	if !strings.Contains(s.Name, "+charts:") {
		t.Errorf("the revision %s does not tell of what was fetched beside the chart", s.Name)
	}
	if len(s.Hosts) > 0 {
		t.Errorf("all came from the chart's own host, and %v are told", s.Hosts)
	}
	// From what is kept, by another process.
	r.restart(false)
	c.change("/cached/index.yaml", []byte("<html>"))
	r.version(at("2.0.0", whole), "Chart.lock", "Chart.yaml", "charts/cache-0.3.0.tgz", "charts/local/Chart.yaml")
	for says, lock := range map[string]string{
		"which cannot be had":    "dependencies: [{name: cache, version: 0.4.0, repository: \"" + c.URL + "\"}]",
		"which is no single one": "dependencies: [{name: cache, version: ~0.3, repository: \"" + c.URL + "\"}]",
		"has no chart cache":     "dependencies: [{name: cache, version: 0.3.0, repository: \"" + c.URL + "\"}]",
	} {
		packed := main(lock)
		c.change("/index.yaml", index(map[string][]byte{"2.0.0": packed}))
		c.change("/web-2.0.0.tgz", packed)
		other := newReader(t, chartOf(t, c.URL, "2.0.0"), "**")
		if _, _, err := other.read(); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "depends on cache") {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
