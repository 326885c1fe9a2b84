package python_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/secret/resolver"
)

// desk is where an operator keeps a list of secrets.
type desk struct {
	t      *testing.T
	folder string
	talk   *talk
	// resolver is that of Go, by the same list.
	resolver *resolver.Resolver
	document []byte
}

func (d *desk) path(name string) string { return filepath.Join(d.folder, name) }

func (d *desk) write(name, content string) {
	d.t.Helper()
	if err := os.WriteFile(d.path(name), []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// startDesk writes a list with a reference of each kind, and starts Python with it.
func startDesk(t *testing.T) *desk {
	t.Helper()
	buildSecretsProgram(t)
	d := &desk{t: t, folder: t.TempDir()}
	var err error
	if d.document, err = os.ReadFile("../secret/sops/testdata/default.yaml"); err != nil {
		t.Fatal(err)
	}
	identity, err := os.ReadFile("../secret/sops/testdata/identity.txt")
	if err != nil {
		t.Fatal(err)
	}
	d.write("key", rand.Text()+rand.Text())
	d.write("identity", string(identity))
	d.write("file", "swordfish of a file\n")
	d.write("empty", "\n")
	d.write("open", "swordfish for all\n")
	if err := os.Chmod(d.path("open"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.write("prints", "echo swordfish of a command; echo swordfish of a command >&2")
	d.write("fails", "echo swordfish of a failure >&2; exit 3")
	d.write("hangs", "echo swordfish of a hang; sleep 60")
	d.write("kubeconfig", startCluster(t))
	list := fmt.Sprintf("lehr-secrets: v1\nkey: %s\nkubernetes: {kubeconfig: %s}\nsecrets:\n", d.path("key"), d.path("kubeconfig"))
	for _, entry := range []string{
		"env: LEHR_SWORDFISH", "env: LEHR_MISSING", "file: " + d.path("file"), "file: " + d.path("missing"), "file: " + d.path("empty"), "file: " + d.path("open"),
		"kubernetes: {namespace: shop, name: db}", "sops: " + d.path("identity"),
		"command: prints, run: [/bin/sh, " + d.path("prints") + "]", "command: fails, run: [/bin/sh, " + d.path("fails") + "]", "command: hangs, run: [/bin/sh, " + d.path("hangs") + "]",
	} {
		list += fmt.Sprintf("- {%s, partitions: [shop], plugins: [lehr-test]}\n", entry)
	}
	d.write("lehr-secrets.yaml", list+"- {env: PATH, partitions: [another], plugins: ['*']}\n")
	t.Setenv("LEHR_SWORDFISH", "swordfish of a variable")
	d.resolver = resolver.New("lehr-test", d.path("lehr-secrets.yaml"))
	d.talk = startTalk(t, "references.py", d.path("lehr-secrets.yaml"), "../secret/sops/testdata/default.yaml")
	return d
}

// startCluster serves one Secret as the API of Kubernetes does, and returns a kubeconfig.
func startCluster(t *testing.T) string {
	t.Helper()
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-plugin" || r.URL.Path != "/api/v1/namespaces/shop/secrets/db" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"kind":"Secret","metadata":{"namespace":"shop","name":"db"},"data":{"password":%q}}`, base64.StdEncoding.EncodeToString([]byte("swordfish of a cluster\n")))
	}))
	t.Cleanup(api.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s, tls-server-name: example.com}}]
users: [{name: u, user: {token: of-the-plugin}}]
`, api.URL, base64.StdEncoding.EncodeToString(authority))
}

type pythonAnswer struct {
	Digest, Words, SHA256, Shown, Pickled, Rotations, Kind, Reason string
	Redacted                                                       []string
}

// ask asks the package for Python for a reference, of a look or a push.
func (d *desk) ask(ref *intentpb.SecretRef, push, production string, ends bool) (answer pythonAnswer) {
	d.t.Helper()
	encoded, err := proto.Marshal(ref)
	if err != nil {
		d.t.Fatal(err)
	}
	question, _ := json.Marshal(map[string]any{"ref": hex.EncodeToString(encoded), "push": push, "production": production, "ends": ends})
	if err := json.Unmarshal([]byte(d.talk.say("%s", question)), &answer); err != nil {
		d.t.Fatal(err)
	}
	return answer
}

func fileRef(path string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: path}}
}

func envRef(name string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: name}}
}

func commandRef(name string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Command{Command: name}}
}

func (d *desk) sopsRef(path ...string) *intentpb.SecretRef {
	digest := sha256.Sum256(d.document)
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Sops{Sops: &intentpb.SopsSecret{
		Document: &intentpb.ExternalRef{Uri: "blob:sha256:" + hex.EncodeToString(digest[:]), Sha256: digest[:]}, Path: path,
	}}}
}

func kubernetesRef(key string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Kubernetes{Kubernetes: &intentpb.KubernetesSecret{Namespace: "shop", Name: "db", Key: key}}}
}

// resolve asks the resolver of Go.
func (d *desk) resolve(ref *intentpb.SecretRef) (secret.Value, error) {
	blob := func(context.Context, *intentpb.ExternalRef) ([]byte, error) { return d.document, nil }
	return d.resolver.Resolve(d.t.Context(), secret.Request{Partition: "shop", Asset: "db/a", Blob: blob}, ref)
}

// TestSecretsAreTheSame: of each kind of place Python has the value and the very digest that
// Go has, and neither ever shows the value.
func TestSecretsAreTheSame(t *testing.T) {
	d := startDesk(t)
	for name, ref := range map[string]*intentpb.SecretRef{
		"env": envRef("LEHR_SWORDFISH"), "file": fileRef(d.path("file")), "command": commandRef("prints"), "kubernetes": kubernetesRef("password"), "sops": d.sopsRef("database", "password"),
	} {
		value, err := d.resolve(ref)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, digest := sha256.Sum256(value.Reveal()), value.Digest()
		got := d.ask(ref, "", "", false)
		if got.Digest != hex.EncodeToString(digest[:]) || got.Words != digest.Words() || got.SHA256 != hex.EncodeToString(want[:]) {
			t.Errorf("%s: Python has %+v, Go %x and %s", name, got, digest, digest.Words())
		}
		if got.Shown != "(secret) (secret) [(secret)]" || !strings.Contains(got.Pickled, "is not pickled") {
			t.Errorf("%s is shown as %q, pickled: %q", name, got.Shown, got.Pickled)
		}
		production, err := d.resolver.DigestOf("shop", ref, []byte("what production has"))
		if got := d.ask(ref, "", "what production has", false); err != nil || got.Digest != hex.EncodeToString(production[:]) || got.Words != production.Words() {
			t.Errorf("%s, of production: Python has %+v, Go %x, %v", name, got, production, err)
		}
	}
}

var since = regexp.MustCompile(`since [0-9.]+m?s ago`)

// TestRefusalsAreTheSame: what cannot be had is refused in the words of Go, with its kind.
func TestRefusalsAreTheSame(t *testing.T) {
	d := startDesk(t)
	for name, ref := range map[string]*intentpb.SecretRef{
		"nowhere": {}, "not listed": envRef("HOME"), "another's partition": envRef("PATH"), "no variable": envRef("LEHR_MISSING"),
		"no file": fileRef(d.path("missing")), "a detour": fileRef(d.folder + "/./file"), "empty": fileRef(d.path("empty")), "for all to read": fileRef(d.path("open")),
		"a command that fails": commandRef("fails"), "a command that hangs": commandRef("hangs"),
		"no key of the Secret": kubernetesRef("token"), "no path of the document": d.sopsRef("database", "nothing"),
	} {
		_, err := d.resolve(ref)
		if err == nil {
			t.Fatalf("%s: Go reads it", name)
		}
		got := d.ask(ref, "", "", false)
		want := since.ReplaceAllString(err.Error(), "since some time")
		if since.ReplaceAllString(got.Reason, "since some time") != want || got.Kind != strings.ReplaceAll(fault.KindOf(err).String(), " ", "_") {
			t.Errorf("%s: Python says %+v, Go %v", name, got, err)
		}
		if strings.Contains(got.Reason, "swordfish of") {
			t.Errorf("%s: the reason shows the secret: %s", name, got.Reason)
		}
	}
}

// TestAPushKeepsWhatItWasPlannedWith: after a rotation the push has no other value, and says
// what was rotated; the next push has it.
func TestAPushKeepsWhatItWasPlannedWith(t *testing.T) {
	d := startDesk(t)
	ref := fileRef(d.path("file"))
	looked := d.ask(ref, "", "", false)
	d.write("file", "swordfish, rotated\n")
	planned := d.ask(ref, "first", "", false)
	if planned.Digest == looked.Digest || !strings.Contains(planned.Rotations, "rotated since production was looked at: the file") {
		t.Errorf("a push has what a look read: %+v", planned)
	}
	if again := d.ask(ref, "first", "", false); again.Digest != planned.Digest {
		t.Errorf("%+v", again)
	}
	// A list that is read anew drops what was kept, so the push reads once more.
	d.write("file", "swordfish, rotated again\n")
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(d.path("lehr-secrets.yaml"), future, future); err != nil {
		t.Fatal(err)
	}
	if refused := d.ask(ref, "first", "", true); refused.Kind != "rotated" || !strings.Contains(refused.Reason, "rotated since the push was planned") {
		t.Errorf("another value in the same push: %+v", refused)
	}
	if next := d.ask(ref, "second", "", true); next.SHA256 == "" || next.Digest == planned.Digest {
		t.Errorf("%+v", next)
	}
}

// TestTextsLoseTheirSecrets in each form, as in Go.
func TestTextsLoseTheirSecrets(t *testing.T) {
	d := startDesk(t)
	words := d.ask(fileRef(d.path("file")), "", "", false).Words
	texts := []string{"no secret", "is swordfish of a file.", base64.StdEncoding.EncodeToString([]byte("swordfish of a file")), "swordfish", "", "ü swordfish+of+a+file"}
	question, _ := json.Marshal(map[string]any{"redact": texts})
	var answer pythonAnswer
	if err := json.Unmarshal([]byte(d.talk.say("%s", question)), &answer); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"no secret", "is " + words + ".", words, "swordfish", "", "ü " + words} {
		if got := answer.Redacted[i]; got != want && !(i == 2 && strings.HasPrefix(got, words)) {
			t.Errorf("%q became %q, want %q", texts[i], got, want)
		}
	}
}

// TestNoListPermitsNothing: the words are those of Go.
func TestNoListPermitsNothing(t *testing.T) {
	buildSecretsProgram(t)
	d := &desk{t: t, talk: startTalk(t, "references.py", "", "../secret/sops/testdata/default.yaml")}
	_, err := resolver.New("lehr-test", "").Resolve(t.Context(), secret.Request{Partition: "shop"}, envRef("HOME"))
	if got := d.ask(envRef("HOME"), "", "", false); got.Kind != "denied" || got.Reason != err.Error() {
		t.Errorf("%+v, Go says %v", got, err)
	}
}
