package fetch

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// oci is the address of a repository of the registry.
func (r *registry) oci(repository string) string {
	return "oci+http://" + strings.TrimPrefix(r.url, "http://") + "/" + repository
}

// layers puts an artifact of layers, by media type and title, under a tag.
func (r *registry) layers(repository, tag string, layers ...artifact.Layer) string {
	r.Helper()
	config := []byte("{}")
	r.blob(repository, config)
	text, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "layers": layers,
		"config": artifact.Layer{MediaType: "application/vnd.oci.empty.v1+json", Digest: artifact.Digest(config), Size: int64(len(config))},
	})
	if err != nil {
		r.Fatal(err)
	}
	return r.manifest(repository, tag, manifestType, text)
}

func (r *registry) layer(repository, kind string, content []byte, annotations map[string]string) artifact.Layer {
	r.Helper()
	return artifact.Layer{MediaType: kind, Digest: r.blob(repository, content), Size: int64(len(content)), Annotations: annotations}
}

const (
	tarLayer   = "application/vnd.oci.image.layer.v1.tar+gzip"
	chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// helmPush puts the chart there byte for byte as helm push did, and returns its digest.
func (r *registry) helmPush(repository string) string {
	r.Helper()
	for _, name := range []string{"web-1.2.3.config.json", "charts/web-1.2.3.tgz", "charts/web-1.2.3.tgz.prov"} {
		r.blob(repository, madeByHelm(r, name))
	}
	return r.manifest(repository, "1.2.3", manifestType, madeByHelm(r, "web-1.2.3.manifest.json"))
}

// login lets a reader log in to the registry.
func (r *reader) login(to *registry) *reader {
	r.remote.Packed.Login = source.Login{User: "bot", Token: r.allow("REGISTRY_TOKEN", password, host(r, to.url))}
	return r
}

func TestChartOfARegistry(t *testing.T) {
	real := newRegistry(t)
	digest := real.helmPush("charts/web")
	anonymous := newReader(t, chartOf(t, real.oci("charts/web"), "1.2.3"), "**")
	anonymous.refuses(fault.Unavailable, "401")
	r := newReader(t, chartOf(t, real.oci("charts/web"), "^1"), "**").login(real)
	r.version("1.2.3@"+digest, filesOfWeb...)
	// By its provenance, which lies beside it.
	signed := newReader(t, chartOf(t, real.oci("charts/web"), "1.2.3"), "**").login(real)
	signed.trust(ListedKey{Name: "charts", PGP: keyFile(t, "shop.gpg")})
	signed.remote.Packed.Verify = "charts"
	if s := signed.version("1.2.3@"+digest, filesOfWeb...); !strings.HasPrefix(s.Commit.Author, "Shop Charts ") {
		t.Errorf("it was signed by %+v", s.Commit)
	}
	// By what cosign put beside it.
	for _, name := range []string{"web-1.2.3.payload.json", "web-1.2.3.signature.config.json"} {
		real.blob("charts/web", madeByHelm(t, name))
	}
	real.manifest("charts/web", artifact.SignatureTag(digest), manifestType, madeByHelm(t, "web-1.2.3.signature.json"))
	byCosign := newReader(t, chartOf(t, real.oci("charts/web"), "1.2.3")).login(real)
	byCosign.trust(ListedKey{Name: "releases", Cosign: keyFile(t, "cosign.pub"), RequiredOf: []string{"127.0.0.1"}})
	if s := byCosign.version("1.2.3@"+digest, filesOfWeb...); !strings.HasPrefix(s.Commit.Author, "cosign key ") {
		t.Errorf("it was signed by %+v", s.Commit)
	}
	// A newer one, whose version has what no tag may have.
	packed := pack(t, map[string]string{"web/Chart.yaml": "name: web\nversion: 1.2.3+b.7\n"})
	newer := real.layers("charts/web", "1.2.3_b.7", real.layer("charts/web", chartLayer, packed, nil))
	real.layers("charts/web", "2.0.0-rc.1", real.layer("charts/web", chartLayer, packed, nil))
	r.version("1.2.3+b.7@"+newer, "Chart.yaml")
	// The tag moves to what nobody signed, and it has no provenance.
	moved := pack(t, map[string]string{"web/Chart.yaml": "name: web\nversion: 1.2.3\n", "web/values.yaml": "greeting: evil"})
	evil := real.layers("charts/web", "1.2.3", real.layer("charts/web", chartLayer, moved, nil))
	_, snapshot, err := signed.read()
	if reason := signed.folder.Failing().Reason; err != nil || snapshot.Name != "1.2.3@"+digest || !strings.Contains(reason, "is not signed by the key that is listed: it has none") {
		t.Errorf("it fails by %q, %v", reason, err)
	}
	exact := newReader(t, chartOf(t, real.oci("charts/web"), "1.2.3"), "**").login(real)
	exact.version("1.2.3@"+evil, "Chart.yaml", "values.yaml")
	// What is pinned is read, wherever the tag leads, also by who never read it.
	exact.remote.Packed.Digest = digest
	exact.restart(true)
	if s := exact.version("1.2.3@"+digest, filesOfWeb...); !strings.Contains(s.Warning, "was moved: it has the digest "+evil+" now, and "+digest+" is pinned") {
		t.Errorf("the warning is %q", s.Warning)
	}
	exact.remote.Packed.Digest = artifact.Digest([]byte("nothing"))
	exact.restart(true)
	exact.refuses(fault.Invalid, "the definition pins "+artifact.Digest([]byte("nothing"))+", which cannot be had")
}

func artifactOf(t testing.TB, text string) source.Remote {
	t.Helper()
	packed, err := source.ParseArtifact(text)
	if err != nil {
		t.Fatal(err)
	}
	return source.Remote{Packed: &packed}
}

func TestArtifactOfARegistry(t *testing.T) {
	real := newRegistry(t)
	const repository = "team/manifests"
	archive := real.layer(repository, tarLayer, pack(t, map[string]string{"./base/a.yaml": "a: 1", "base/b.txt": "b"}), nil)
	title := map[string]string{"org.opencontainers.image.title": "c.yaml"}
	titled := real.layer(repository, "application/yaml", []byte("c: 1"), title)
	digest := real.layers(repository, "v1.0.0", archive, titled)
	r := newReader(t, artifactOf(t, real.oci(repository)+":v1.0.0"), "**/*.yaml").login(real)
	if s := r.holds(map[string]string{"base/a.yaml": "a: 1", "c.yaml": "c: 1"}); s.Name != "v1.0.0@"+digest {
		t.Errorf("version %s", s.Name)
	}
	// By its digest alone, which needs nobody any more once it was read.
	byDigest := newReader(t, artifactOf(t, real.oci(repository)+"@"+digest), "**/*.yaml").login(real)
	if s := byDigest.holds(map[string]string{"base/a.yaml": "a: 1", "c.yaml": "c: 1"}); s.Name != digest || s.Warning != "" {
		t.Errorf("version %s", s.Name)
	}
	byDigest.restart(false)
	t.Setenv("REGISTRY_TOKEN", "wrong")
	byDigest.holds(map[string]string{"base/a.yaml": "a: 1", "c.yaml": "c: 1"})
	t.Setenv("REGISTRY_TOKEN", password)
	// A version that moves is told of; what is named latest is meant to move.
	other := real.layer(repository, "application/yaml", []byte("c: 2"), title)
	latest := newReader(t, artifactOf(t, real.oci(repository)+":latest"), "**").login(real)
	real.layers(repository, "latest", titled)
	latest.holds(map[string]string{"c.yaml": "c: 1"})
	moved := real.layers(repository, "latest", other)
	if s := latest.holds(map[string]string{"c.yaml": "c: 2"}); s.Warning != "" || s.Name != "latest@"+moved {
		t.Errorf("version %s, warning %q", s.Name, s.Warning)
	}
	real.layers(repository, "v1.0.0", other)
	if s := r.holds(map[string]string{"c.yaml": "c: 2"}); !strings.Contains(s.Warning, "had the digest "+digest+", and has "+moved+" now") {
		t.Errorf("the warning is %q", s.Warning)
	}
	// What is none: what was read last stays.
	for says, layers := range map[string][]artifact.Layer{
		"in two layers":                        {titled, other},
		"neither an archive of tar nor a file": {real.layer(repository, "text/plain", []byte("x"), nil)},
		"holds ../x, which leads out of it":    {real.layer(repository, tarLayer, pack(t, map[string]string{"../x": ""}), nil)},
		"is a pointer of git-lfs":              {real.layer(repository, tarLayer, pack(t, map[string]string{"x": "version https://git-lfs.github.com/spec/v1\noid"}), nil)},
	} {
		real.layers(repository, "latest", layers...)
		latest.stays(map[string]string{"c.yaml": "c: 2"}, says)
	}
}

// cosign signs a digest as cosign does without a transparency log, and returns the
// file of the key's public half.
func (r *registry) cosign(repository, digest string) string {
	r.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.Fatal(err)
	}
	payload := fmt.Sprintf(`{"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, digest)
	sum := sha256.Sum256([]byte(payload))
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		r.Fatal(err)
	}
	r.layers(repository, artifact.SignatureTag(digest), r.layer(repository, "application/vnd.dev.cosign.simplesigning.v1+json", []byte(payload),
		map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)}))
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		r.Fatal(err)
	}
	path := filepath.Join(r.TempDir(), "cosign.pub")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		r.Fatal(err)
	}
	return path
}

func TestSignatureInARegistry(t *testing.T) {
	real := newRegistry(t)
	const repository = "team/signed"
	title := map[string]string{"org.opencontainers.image.title": "c.yaml"}
	digest := real.layers(repository, "v1.0.0", real.layer(repository, "application/yaml", []byte("c: 1"), title))
	r := newReader(t, artifactOf(t, real.oci(repository)+":v1.0.0"), "**").login(real)
	key := real.cosign(repository, artifact.Digest([]byte("another")))
	r.remote.Packed.Verify = "releases"
	r.trust(ListedKey{Name: "releases", Cosign: key})
	r.refuses(fault.Invalid, "is not signed by the key that is listed: it has none")
	r.options.Policy().Keys[0].Cosign = real.cosign(repository, digest)
	r.restart(true)
	if s := r.holds(map[string]string{"c.yaml": "c: 1"}); !strings.HasPrefix(s.Commit.Author, "cosign key ") || !strings.HasSuffix(s.Commit.Subject, "signed by the key releases") {
		t.Errorf("it was signed by %+v", s.Commit)
	}
	r.options.Policy().Keys[0].Cosign = key
	r.stays(map[string]string{"c.yaml": "c: 1"}, "the signature is of another key")
	r.options.Policy().Keys[0] = ListedKey{Name: "releases", PGP: keyFile(t, "shop.gpg"), Partitions: []string{"shop"}}
	r.stays(map[string]string{"c.yaml": "c: 1"}, "is of PGP, which signs charts")
	index := newReader(t, chartOf(t, "https://charts.example.com", "1.0.0"), "**")
	index.trust(ListedKey{Name: "releases", Cosign: key})
	index.remote.Packed.Verify = "releases"
	index.refuses(fault.Invalid, "is of cosign, which signs what lies in a registry")
}

// Registries keep content elsewhere, and no secret goes there.
func TestContentElsewhere(t *testing.T) {
	content := []byte("c: 1")
	layer := artifact.Layer{MediaType: "application/yaml", Digest: artifact.Digest(content), Size: int64(len(content)), Annotations: map[string]string{"org.opencontainers.image.title": "c.yaml"}}
	manifest, err := json.Marshal(map[string]any{"mediaType": manifestType, "layers": []artifact.Layer{layer}})
	if err != nil {
		t.Fatal(err)
	}
	secret, answer := "", string(content)
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		secret = r.Header.Get("Authorization")
		fmt.Fprint(w, answer)
	})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, pass, _ := r.BasicAuth()
		switch {
		case pass != password:
			w.Header().Set("WWW-Authenticate", "Basic realm=test")
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Docker-Content-Digest", artifact.Digest(manifest))
			_, _ = w.Write(manifest)
		default:
			http.Redirect(w, r, elsewhere.URL+"/content", http.StatusTemporaryRedirect)
		}
	})
	r := newReader(t, artifactOf(t, "oci+"+s.URL+"/team/web:v1"), "**")
	r.remote.Packed.Login = source.Login{User: "bot", Token: r.allow("REGISTRY_TOKEN", password, host(t, s.URL))}
	answer = "c: 2"
	r.refuses(fault.Invalid, "content of "+s.URL+"/team/web has the digest "+artifact.Digest([]byte(answer))+", and should have "+artifact.Digest(content))
	answer = string(content)
	r.restart(true)
	r.holds(map[string]string{"c.yaml": "c: 1"})
	if secret != "" {
		t.Errorf("another host was shown %q", secret)
	}
}

// What is kept is bounded, verified when it is read, and swept with its partition.
func TestContentThatIsKept(t *testing.T) {
	root := t.TempDir()
	c := newContentCache(root, "shop")
	c.most = 250
	var digests []string
	for i := range 4 {
		content := []byte(strings.Repeat(fmt.Sprint(i), 100))
		digests = append(digests, artifact.Digest(content))
		c.put(digests[i], content)
		old := int64(1000 + i)
		if err := os.Chtimes(c.path(digests[i]), time.Unix(old, 0), time.Unix(old, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{false, false, true, true} {
		if _, ok := c.get(digests[i], 1000); ok != want || c.has(digests[i]) != want {
			t.Errorf("content %d is kept: %t", i, ok)
		}
	}
	if err := os.WriteFile(c.path(digests[3]), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.get(digests[3], 1000); ok || c.has(digests[3]) {
		t.Error("damaged content is kept")
	}
	if _, ok := c.get(digests[2], 10); ok {
		t.Error("content is larger than it may be")
	}
	if _, ok := (contentCache{}).get(digests[2], 1000); ok {
		t.Error("content is kept though there is no folder")
	}
	for _, registered := range []bool{true, false} {
		if _, err := SweepUnused(t.Context(), root, func(intent.PartitionID) bool { return registered }, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(root, "shop")); (err == nil) != registered {
			t.Errorf("the partition is registered: %t, its folder: %v", registered, err)
		}
	}
}
