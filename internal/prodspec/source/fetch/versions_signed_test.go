package fetch

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
	"lehr.dev/test/installed"
)

// image pushes one with labels and annotations, and returns its digest.
func (r *registry) image(tag, labels, annotations string) string {
	r.Helper()
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","created":"2026-02-03T04:05:06Z","config":{"Labels":%s},"rootfs":{"type":"layers","diff_ids":[]}}`, labels)
	digest := r.blob("team/web", []byte(config))
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":%d,"digest":%q},"layers":[],"annotations":%s}`,
		manifestType, len(config), digest, annotations)
	return r.manifest("team/web", tag, manifestType, []byte(manifest))
}

// layered pushes a manifest of one layer under a tag, as cosign does.
func (r *registry) layered(tag, kind, annotations string, content []byte) {
	r.Helper()
	config := r.blob("team/web", []byte("{}"))
	layer := r.blob("team/web", content)
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":2,"digest":%q},"layers":[{"mediaType":%q,"size":%d,"digest":%q,"annotations":%s}]}`,
		manifestType, config, kind, len(content), layer, annotations)
	r.manifest("team/web", tag, manifestType, []byte(manifest))
}

func sign(t testing.TB, key crypto.Signer, message []byte) string {
	t.Helper()
	options := crypto.SignerOpts(crypto.Hash(0))
	if _, isEdwards := key.(ed25519.PrivateKey); !isEdwards {
		sum := sha256.Sum256(message)
		message, options = sum[:], crypto.SHA256
	}
	signature, err := key.Sign(rand.Reader, message, options)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(signature)
}

// sign puts a signature beside a digest, as cosign sign --key does.
func (r *registry) sign(digest string, key crypto.Signer) {
	r.Helper()
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"registry/team/web"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, digest)
	r.layered(artifact.SignatureTag(digest), "application/vnd.dev.cosign.simplesigning.v1+json", fmt.Sprintf(`{"dev.cosignproject.cosign/signature":%q}`, sign(r, key, payload)), payload)
}

// attest puts an attestation beside a digest, as cosign attest --key does.
func (r *registry) attest(digest, predicate string, key crypto.Signer) {
	r.Helper()
	statement := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v0.1","predicateType":%q,"subject":[{"name":"web","digest":{"sha256":%q}}],"predicate":{}}`, predicate, strings.TrimPrefix(digest, "sha256:"))
	const kind = "application/vnd.in-toto+json"
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(statement), statement)
	envelope := fmt.Appendf(nil, `{"payloadType":%q,"payload":%q,"signatures":[{"keyid":"","sig":%q}]}`, kind, base64.StdEncoding.EncodeToString(statement), sign(r, key, signed))
	r.layered(artifact.AttestationTag(digest), "application/vnd.dsse.envelope.v1+json", fmt.Sprintf(`{"predicateType":%q}`, predicate), envelope)
}

// listKey lists a public key of cosign for the partition.
func (r *reader) listKey(name string, key crypto.Signer) {
	r.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		r.Fatal(err)
	}
	path := filepath.Join(r.TempDir(), name+".pub")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		r.Fatal(err)
	}
	policy := r.options.Policy()
	policy.Keys = append(policy.Keys, ListedKey{Name: name, Cosign: path, Partitions: []string{"shop"}})
}

// Only what is signed and attested counts; the rest is listed with the reason, and counts once it
// is signed. Metadata comes from annotations, labels and the image's configuration.
func TestSignedVersionsOfARegistry(t *testing.T) {
	real := newRegistry(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const provenance = "https://slsa.dev/provenance/v1"
	labels := `{"org.opencontainers.image.revision":"abc123","com.example.run":"41","com.example.pr":"https://git.example/pull/7","com.example.branch":"main"}`
	signed := real.image("v1.0.0", labels, `{"org.opencontainers.image.authors":"Ann"}`)
	real.sign(signed, curve)
	real.attest(signed, provenance, edwards)
	unsigned := real.image("v1.1.0", labels, `{}`)
	stranger := real.image("v1.2.0", `{"n":"2"}`, `{}`)
	real.sign(stranger, edwards)
	real.attest(stranger, provenance, edwards)
	otherType := real.image("v1.3.0", `{"n":"3"}`, `{}`)
	real.sign(otherType, curve)
	real.attest(otherType, "https://example.com/other", edwards)

	fields := map[string]string{"build": "com.example.run", "pull_request": "com.example.pr", "branch": "com.example.branch"}
	r := versionsOf(t, source.Versions{Registry: real.url + "/team/web", Verify: "release", Attested: "builder", Predicate: provenance, Fields: fields})
	r.remote.Versions.Login = source.Login{User: "bot", Token: r.allow("REGISTRY_TOKEN", password, host(t, real.url))}
	r.refuses(fault.Denied, "have no key release")
	r.listKey("release", curve)
	r.listKey("builder", edwards)
	r.restart(true)
	list, _ := r.list()
	if textOf(list) != "1.0.0" {
		t.Fatalf("versions %+v", list)
	}
	if v := list.Versions[0]; v.Digest != signed || v.Commit != "abc123" || v.Author != "Ann" || v.Build != 41 || v.PullRequest == "" || v.Branch != "main" ||
		!v.Created.Equal(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)) || strings.Join(v.SignedBy, " ") != "release builder" {
		t.Errorf("v1.0.0 is %+v", v)
	}
	wantRefused(t, list, "v1.1.0", versionlist.Unsigned, "not signed by the key release: it has none")
	wantRefused(t, list, "v1.2.0", versionlist.Unsigned, "of another key")
	wantRefused(t, list, "v1.3.0", versionlist.Unattested, "example.com/other")
	if len(list.Unordered) != 0 {
		t.Errorf("companions of cosign are listed: %+v", list.Unordered)
	}
	real.sign(unsigned, curve)
	real.attest(unsigned, provenance, edwards)
	if list, _ = r.list(); textOf(list) != "1.1.0 1.0.0" {
		t.Errorf("once it is signed: %+v", list)
	}
	// Another key of that name: nothing that the first signed counts.
	policy := r.options.Policy()
	policy.Keys = policy.Keys[1:]
	r.listKey("release", edwards)
	if list, _ = r.list(); textOf(list) != "1.2.0" {
		t.Errorf("with another key: %+v", list)
	}
}

// A registry that has enough is left alone as long as it says, and what was read before that is
// not read again; a tag that goes is withdrawn.
func TestARegistryThatHasEnough(t *testing.T) {
	real := newRegistry(t)
	for i := range 6 {
		real.image(fmt.Sprintf("v1.%d.0", i), fmt.Sprintf(`{"n":"%d"}`, i), `{}`)
	}
	target, err := url.Parse(real.url)
	if err != nil {
		t.Fatal(err)
	}
	var budget, gets atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	var gone atomic.Bool
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		isManifest := strings.Contains(r.URL.Path, "/manifests/")
		if isManifest && gone.Load() && strings.HasSuffix(r.URL.Path, "v1.2.0") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if isManifest && r.Method == http.MethodGet {
			gets.Add(1)
			if budget.Add(-1) < 0 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
		}
		r.SetBasicAuth("bot", password)
		proxy.ServeHTTP(w, r)
	})
	r := versionsOf(t, source.Versions{Registry: s.URL + "/team/web", Limit: 2})
	r.remote.Versions.Keep = []string{"v1.1.0"}
	budget.Store(3)
	r.refuses(fault.Unavailable, "429")
	if pause := r.folder.busyFor(); pause != 7*time.Second {
		t.Errorf("it is left alone for %s", pause)
	}
	budget.Store(100)
	gets.Store(0)
	list, _ := r.list()
	if textOf(list) != "1.5.0 1.4.0 1.1.0" || list.Older != 3 || gets.Load() != 2 {
		t.Errorf("versions %s, %d older, %d manifests read", textOf(list), list.Older, gets.Load())
	}
	gets.Store(0)
	if again, _ := r.list(); textOf(again) != textOf(list) || gets.Load() != 0 {
		t.Errorf("the same versions are read again, %d times", gets.Load())
	}
	r.remote.Versions.Keep = []string{"v1.1.0", "v1.2.0"}
	r.folder.fetcher.(*versions).remote.Keep = r.remote.Versions.Keep
	r.list()
	gone.Store(true)
	list, snapshot := r.list()
	if len(list.Withdrawn) != 1 || list.Withdrawn[0].Name != "v1.2.0" || !strings.Contains(snapshot.Warning, "v1.2.0 was withdrawn") {
		t.Errorf("withdrawn %+v, %s", list.Withdrawn, snapshot.Warning)
	}
	// The registry is away: what was read stays.
	s.now(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	if again, _ := r.list(); textOf(again) != textOf(list) || !strings.Contains(r.folder.Failing().Reason, "502") {
		t.Errorf("while it is away: %s, failing by %q", textOf(again), r.folder.Failing().Reason)
	}
}

// An error of whoever knows what to keep is no reason to leave something out.
func TestKeptVersionsThatAreNotKnown(t *testing.T) {
	s := serve(t, says(`["1.0.0"]`))
	r := versionsOf(t, source.Versions{Listing: s.URL + "/list"})
	r.options.KeepVersions = func(context.Context, intent.PartitionID, string) ([]string, error) {
		return nil, fault.New(fault.Unavailable, "the store is away")
	}
	r.refuses(fault.Unavailable, "the store is away")
}

// debianRepository makes one with Debian's own tools: packages, indexes and a signed Release.
type debianRepository struct {
	testing.TB
	folder, home string
}

func newDebianRepository(t testing.TB) *debianRepository {
	t.Helper()
	for _, program := range []string{"dpkg-deb", "apt-ftparchive", "gpg"} {
		installed.Program(t, program)
	}
	home, err := os.MkdirTemp("", "gpg") // A socket's path is short.
	if err != nil {
		t.Fatal(err)
	}
	d := &debianRepository{t, t.TempDir(), home}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		os.RemoveAll(home)
	})
	d.run("", "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "Shop <shop@example.com>", "ed25519", "sign", "never")
	return d
}

// run runs a program in the folder, and writes what it prints to a file, if one is named.
func (d *debianRepository) run(to, name string, arguments ...string) []byte {
	d.Helper()
	command := exec.Command(name, arguments...)
	command.Dir = d.folder
	command.Env = append(os.Environ(), "GNUPGHOME="+d.home)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		d.Fatalf("%s %v: %v: %s", name, arguments, err, stderr.String())
	}
	if to != "" {
		d.write(to, string(output))
	}
	return output
}

func (d *debianRepository) write(name, content string) {
	d.Helper()
	full := filepath.Join(d.folder, name)
	err := os.MkdirAll(filepath.Dir(full), 0o755)
	if err == nil {
		err = os.WriteFile(full, []byte(content), 0o600)
	}
	if err != nil {
		d.Fatal(err)
	}
}

// add builds a package of one version.
func (d *debianRepository) add(version string) {
	d.Helper()
	d.write("build/DEBIAN/control", "Package: shop-web\nVersion: "+version+"\nArchitecture: amd64\nMaintainer: Ann <ann@example.com>\nDescription: the shop\nGit-Commit: c-"+version+"\n")
	if err := os.MkdirAll(filepath.Join(d.folder, "pool"), 0o755); err != nil {
		d.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(d.folder, "build/DEBIAN"), 0o755); err != nil {
		d.Fatal(err)
	}
	d.run("", "dpkg-deb", "--build", "--root-owner-group", "build", "pool/shop-web_"+strings.ReplaceAll(version, ":", "_")+".deb")
}

// publish makes the indexes, and signs them.
func (d *debianRepository) publish() {
	d.Helper()
	const index = "dists/stable/main/binary-amd64/Packages"
	d.run(index, "apt-ftparchive", "packages", "pool")
	d.run(index+".gz", "gzip", "--keep", "--stdout", index)
	os.Remove(filepath.Join(d.folder, "dists/stable/Release"))
	d.run("dists/stable/Release", "apt-ftparchive", "release", "dists/stable")
	d.run("dists/stable/InRelease", "gpg", "--batch", "--yes", "--clearsign", "--output", "-", "dists/stable/Release")
	d.run("dists/stable/Release.gpg", "gpg", "--batch", "--yes", "--detach-sign", "--armor", "--output", "-", "dists/stable/Release")
}

// A repository of Debian's own tools: ordered as dpkg does, with the signature of its Release.
func TestASignedDebianRepository(t *testing.T) {
	d := newDebianRepository(t)
	for _, version := range []string{"1.9-1", "1.10-1", "1.10~rc1-1", "2:0.5-1"} {
		d.add(version)
	}
	d.publish()
	s := serve(t, http.FileServer(http.Dir(d.folder)).ServeHTTP)
	r := versionsOf(t, source.Versions{
		Debian: s.URL + "/dists/stable/main/binary-amd64/Packages.gz", Package: "shop-web", Verify: "shop", Fields: map[string]string{"commit": "Git-Commit", "author": "Maintainer"},
	})
	keyring := filepath.Join(t.TempDir(), "shop.gpg")
	if err := os.WriteFile(keyring, d.run("", "gpg", "--export"), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := r.options.Policy()
	policy.Keys = append(policy.Keys, ListedKey{Name: "shop", PGP: keyring, Partitions: []string{"shop"}})
	list, _ := r.list()
	if textOf(list) != "2:0.5-1 1.10-1 1.10~rc1-1 1.9-1" {
		t.Errorf("versions %s", textOf(list))
	}
	if v := list.Versions[3]; v.Commit != "c-1.9-1" || v.Author != "Ann <ann@example.com>" || strings.Join(v.SignedBy, " ") != "shop" || !strings.HasPrefix(v.Name, "pool/") {
		t.Errorf("1.9-1 is %+v", v)
	}
	remove := func(names ...string) {
		for _, name := range names {
			if err := os.Remove(filepath.Join(d.folder, "dists/stable", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove("InRelease")
	r.restart(true)
	if list, _ = r.list(); len(list.Versions) != 4 || r.folder.Failing().Reason != "" {
		t.Errorf("by Release and Release.gpg: %+v, %s", list, r.folder.Failing().Reason)
	}
	fails := func(says string) {
		t.Helper()
		r.list()
		if reason := r.folder.Failing().Reason; !strings.Contains(reason, says) {
			t.Errorf("it fails by %q, want %q", reason, says)
		}
	}
	// An index that is newer than its Release, or is another's.
	d.add("1.11-1")
	d.run("dists/stable/main/binary-amd64/Packages", "apt-ftparchive", "packages", "pool")
	d.run("dists/stable/main/binary-amd64/Packages.gz", "gzip", "--stdout", "dists/stable/main/binary-amd64/Packages")
	fails("another size or digest")
	d.publish()
	if list, _ = r.list(); len(list.Versions) != 5 {
		t.Errorf("after it was published: %+v", list)
	}
	d.write("dists/stable/Release", "Suite: stable\n")
	remove("InRelease")
	fails("is not signed by the key shop")
	remove("Release.gpg")
	fails("has no signature: neither")
	d.publish()
	d.write("dists/stable/Old", string(d.run("", "sh", "-c", "sed '1i Valid-Until: Thu, 01 Jan 2026 00:00:00 UTC' dists/stable/Release")))
	d.run("dists/stable/InRelease", "gpg", "--batch", "--yes", "--clearsign", "--output", "-", "dists/stable/Old")
	fails("it was valid until")
}

// What programs print is bounded, also where it is copied at once.
func TestBoundedOutput(t *testing.T) {
	exceeded := false
	b := &bounded{most: 10, onExceeded: func() { exceeded = true }}
	if _, err := io.Copy(b, strings.NewReader(strings.Repeat("x", 100))); err != nil || b.String() != strings.Repeat("x", 10) || !exceeded {
		t.Errorf("%q, exceeded %v, %v", b.String(), exceeded, err)
	}
}
