package resolver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

// desk is where an operator writes a list.
type desk struct {
	t      *testing.T
	folder string
	list   string
	// reads counts what commands of the desk were run.
	reads string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, folder: t.TempDir()}
	d.list, d.reads = d.path("lehr-secrets.yaml"), d.path("reads")
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	d.write("key", string(key))
	return d
}

func (d *desk) path(name string) string { return filepath.Join(d.folder, name) }

func (d *desk) write(name, content string) string {
	d.t.Helper()
	if err := os.WriteFile(d.path(name), []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return d.path(name)
}

// program writes a script and returns it as run: of a list.
func (d *desk) program(name, script string) string {
	d.t.Helper()
	d.write(name, script)
	return fmt.Sprintf("[/bin/sh, %s]", d.path(name))
}

// permit writes the list: entries in flow style, each with shop and lehr-test.
func (d *desk) permit(entries ...string) *Resolver {
	d.t.Helper()
	text := fmt.Sprintf("lehr-secrets: v1\nkey: %s\nsecrets:\n", d.path("key"))
	for _, entry := range entries {
		text += fmt.Sprintf("- {%s, partitions: [shop], plugins: [lehr-test]}\n", entry)
	}
	d.write("lehr-secrets.yaml", text)
	return New("lehr-test", d.list)
}

func ofEnv(name string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: name}}
}

func ofFile(path string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: path}}
}

func ofCommand(name string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Command{Command: name}}
}

var look = secret.Request{Partition: "shop", Asset: "db/a"}

func text(t *testing.T, r *Resolver, request secret.Request, ref *intentpb.SecretRef) string {
	t.Helper()
	value, err := r.Resolve(t.Context(), request, ref)
	if err != nil {
		t.Fatal(err)
	}
	return string(value.Reveal())
}

func TestVariablesFilesAndCommandsAreRead(t *testing.T) {
	d := newDesk(t)
	t.Setenv("LEHR_TEST_PASSWORD", " kept as it is\n")
	r := d.permit("env: LEHR_TEST_PASSWORD", "file: "+d.write("one", "of the file\n\n"),
		"command: vault, run: "+d.program("vault.sh", `printf 'of %s\n' "$WHERE"; cat >&2`)+", variables: {WHERE: vault}")
	for want, ref := range map[string]*intentpb.SecretRef{
		" kept as it is\n": ofEnv("LEHR_TEST_PASSWORD"), "of the file\n": ofFile(d.path("one")), "of vault": ofCommand("vault"),
	} {
		value, err := r.Resolve(t.Context(), look, ref)
		if err != nil || string(value.Reveal()) != want {
			t.Errorf("%s: %q, %v", secret.Name(ref), value.Reveal(), err)
		}
		digest, err := r.DigestOf("shop", ref, []byte(want))
		if err != nil || digest != value.Digest() {
			t.Errorf("%s has the digest %v, and of production %v, %v", secret.Name(ref), value.Digest(), digest, err)
		}
	}
}

// TestWhatIsNotListedIsRefused says to whom, and nothing of what there is.
func TestWhatIsNotListedIsRefused(t *testing.T) {
	d := newDesk(t)
	path := d.write("one", "hidden value")
	r := d.permit("file: "+path, "env: LEHR_TEST_PASSWORD", "command: vault, run: [/bin/true]", "kubernetes: {namespace: shop, name: db}")
	kubernetes := func(namespace, name string) *intentpb.SecretRef {
		return &intentpb.SecretRef{Source: &intentpb.SecretRef_Kubernetes{Kubernetes: &intentpb.KubernetesSecret{Namespace: namespace, Name: name, Key: "k"}}}
	}
	if _, err := r.Resolve(t.Context(), look, ofFile(path)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		resolver  *Resolver
		partition intent.PartitionID
		ref       *intentpb.SecretRef
	}{
		"another partition": {r, "zoo", ofFile(path)},
		"another plugin":    {New("lehr-other", d.list), "shop", ofFile(path)},
		"a detour":          {r, "shop", ofFile(d.folder + "/../" + filepath.Base(d.folder) + "/one")},
		"another variable":  {r, "shop", ofEnv("LEHR_TEST_PASSWORD2")},
		"another command":   {r, "shop", ofCommand("vault2")},
		"another namespace": {r, "shop", kubernetes("zoo", "db")},
		"another Secret":    {r, "shop", kubernetes("shop", "other")},
		"no identities":     {r, "shop", &intentpb.SecretRef{Source: &intentpb.SecretRef_Sops{Sops: &intentpb.SopsSecret{Path: []string{"a"}}}}},
		"no list":           {New("lehr-test", ""), "shop", ofFile(path)},
		"no resolver":       {nil, "shop", ofFile(path)},
	} {
		_, err := test.resolver.Resolve(t.Context(), secret.Request{Partition: test.partition}, test.ref)
		if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "not listed") || !strings.Contains(err.Error(), "whoever runs the plugin") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Resolve(t.Context(), look, &intentpb.SecretRef{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a reference to nothing: %v", err)
	}
}

// TestSecretsThatCannotBeRead each say why, and nothing that they hold.
func TestSecretsThatCannotBeRead(t *testing.T) {
	d := newDesk(t)
	t.Setenv("LEHR_TEST_EMPTY", "")
	pipe := d.path("pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	open := d.write("open", "visible to all")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	store := d.write("lehr.db", "a store")
	defer files.Guard([]string{store}, nil)()
	tests := []struct {
		entry string
		ref   *intentpb.SecretRef
		kind  fault.Kind
		want  string
	}{
		{"file: " + d.path("none"), ofFile(d.path("none")), fault.NotFound, "not there"},
		{"file: " + d.write("empty", "\n"), ofFile(d.path("empty")), fault.Invalid, "is empty"},
		{"file: " + d.write("long", strings.Repeat("a", maxSecret+1)), ofFile(d.path("long")), fault.Invalid, "more than 65536 bytes"},
		{"file: " + pipe, ofFile(pipe), fault.Invalid, "named pipe"},
		{"file: " + d.folder, ofFile(d.folder), fault.Invalid, "folder"},
		{"file: " + open, ofFile(open), fault.Denied, "chmod o="},
		{"file: " + store, ofFile(store), fault.Denied, "Lehr's own"},
		{"env: LEHR_TEST_NONE", ofEnv("LEHR_TEST_NONE"), fault.NotFound, "environment does not have it"},
		{"env: LEHR_TEST_EMPTY", ofEnv("LEHR_TEST_EMPTY"), fault.Invalid, "is empty"},
		{"command: none, run: [/no/such/program]", ofCommand("none"), fault.Unavailable, "no such file"},
		{"command: fails, run: " + d.program("fails.sh", "echo hunter2; echo hunter2 >&2; exit 3"), ofCommand("fails"), fault.Unavailable, "exit status 3; it printed 8 bytes to stderr"},
		{"command: silent, run: [/bin/true]", ofCommand("silent"), fault.Invalid, "is empty"},
		{"command: endless, run: " + d.program("endless.sh", "exec yes hunter2"), ofCommand("endless"), fault.Invalid, "prints more than 65536 bytes"},
	}
	var entries []string
	for _, test := range tests {
		entries = append(entries, test.entry)
	}
	r := d.permit(entries...)
	for _, test := range tests {
		value, err := r.Resolve(t.Context(), secret.Request{Partition: "shop", Push: secret.NewPush(time.Now())}, test.ref)
		if !fault.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %q, %v, want %v %q", test.entry, value.Reveal(), err, test.kind, test.want)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "visible") {
			t.Errorf("it shows the secret: %v", err)
		}
	}
}

// TestAPushReadsAnew what a look read before it began, and one push has one value.
func TestAPushReadsAnew(t *testing.T) {
	d := newDesk(t)
	r := d.permit("file: " + d.write("one", "first value"))
	ref := ofFile(d.path("one"))
	before := text(t, r, look, ref)
	d.write("one", "second value")
	if again := text(t, r, look, ref); again != before {
		t.Errorf("a look within the cadence has %q", again)
	}
	push := secret.Request{Partition: "shop", Push: secret.NewPush(time.Now())}
	value, err := r.Resolve(t.Context(), push, ref)
	if err != nil || string(value.Reveal()) != "second value" {
		t.Fatalf("a push has %q, %v", value.Reveal(), err)
	}
	if rotated := push.Push.Rotated(); len(rotated) != 1 || !strings.Contains(rotated[0], "one") {
		t.Errorf("rotated is %q", rotated)
	}
	if again, err := r.Resolve(t.Context(), push, ref); err != nil || again.Digest() != value.Digest() {
		t.Errorf("the same push, again: %v", err)
	}
	// It is rotated again, and somebody else's push reads that.
	d.write("one", "third value")
	other := secret.Request{Partition: "shop", Push: secret.NewPush(time.Now())}
	if got := text(t, r, other, ref); got != "third value" {
		t.Errorf("another push has %q", got)
	}
	if value, err := r.Resolve(t.Context(), push, ref); !errors.Is(err, secret.ErrRotated) || value.Reveal() != nil {
		t.Errorf("the first push has %q, %v", value.Reveal(), err)
	}
}

// TestDigestsNeedTheKey: under another key, and of another reference, a value has
// another digest; a rotation of the key is seen at once.
func TestDigestsNeedTheKey(t *testing.T) {
	d := newDesk(t)
	r := d.permit("file: "+d.write("one", "the same value"), "file: "+d.write("two", "the same value"))
	digest := func(name string) secret.Digest {
		t.Helper()
		value, err := r.Resolve(t.Context(), look, ofFile(d.path(name)))
		if err != nil {
			t.Fatal(err)
		}
		return value.Digest()
	}
	first := digest("one")
	if first == digest("two") {
		t.Error("two references to one value have one digest")
	}
	plain := sha256.Sum256([]byte("the same value"))
	if first == secret.Digest(plain) {
		t.Error("the digest has no key")
	}
	d.write("key", "0123456789abcdefghijklmnopqrstuvwxyz")
	if second := digest("one"); second == first {
		t.Error("under another key the digest is the same")
	}
}

// TestAListThatChangesCountsAtOnce, also when it takes something away, or is broken.
func TestAListThatChangesCountsAtOnce(t *testing.T) {
	d := newDesk(t)
	path := d.write("one", "a value")
	r := d.permit("file: " + path)
	_ = text(t, r, look, ofFile(path))
	d.permit("env: LEHR_OTHER")
	if _, err := r.Resolve(t.Context(), look, ofFile(path)); !fault.Is(err, fault.Denied) {
		t.Errorf("it was taken off the list: %v", err)
	}
	d.write("lehr-secrets.yaml", "lehr-secrets: v1\nsecret: []\n")
	if _, err := r.Resolve(t.Context(), look, ofFile(path)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "yaml:2") {
		t.Errorf("the list is broken: %v", err)
	}
	d.permit("file: " + path)
	if got := text(t, r, look, ofFile(path)); got != "a value" {
		t.Error(got)
	}
}

// TestADocumentOfSOPSIsABlobOfTheAsset and decrypted with the identities that are listed.
func TestADocumentOfSOPSIsABlobOfTheAsset(t *testing.T) {
	d := newDesk(t)
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join("..", "sops", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	document := read("default.yaml")
	digest := sha256.Sum256(document)
	ref := &intentpb.SecretRef{Source: &intentpb.SecretRef_Sops{Sops: &intentpb.SopsSecret{
		Document: &intentpb.ExternalRef{Uri: fmt.Sprintf("blob:sha256:%x", digest), Sha256: digest[:]}, Path: []string{"database", "password"},
	}}}
	request := look
	request.Blob = func(_ context.Context, from *intentpb.ExternalRef) ([]byte, error) {
		if from.Uri != ref.GetSops().Document.Uri {
			return nil, errors.New("another blob")
		}
		return document, nil
	}
	r := d.permit("sops: "+d.write("other.txt", string(read("other.txt"))), "sops: "+d.write("identity.txt", string(read("identity.txt"))))
	if got := text(t, r, request, ref); got != "correct horse battery staple" {
		t.Error(got)
	}
	r = d.permit("sops: " + d.path("other.txt"))
	if _, err := r.Resolve(t.Context(), request, ref); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "no identity") {
		t.Errorf("for others: %v", err)
	}
	r = d.permit("sops: " + d.write("identity.txt", "AGE-SECRET-KEY-1BROKEN"))
	if _, err := r.Resolve(t.Context(), request, ref); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "BROKEN") {
		t.Errorf("no identity: %v", err)
	}
	r = d.permit("sops: " + d.write("identity.txt", string(read("identity.txt"))))
	document = bytes.Replace(document, []byte("plain.example.com"), []byte("other.example.com"), 1)
	if _, err := r.Resolve(t.Context(), request, ref); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "MAC does not verify") {
		t.Errorf("a renderer changed it: %v", err)
	}
}

func TestPrefetchReadsSeveralAtOnce(t *testing.T) {
	d := newDesk(t)
	var entries []string
	var asks []Ask
	for i := range 20 {
		entries = append(entries, "file: "+d.write(fmt.Sprint("f", i), fmt.Sprint("value ", i)))
		asks = append(asks, Ask{look, ofFile(d.path(fmt.Sprint("f", i)))})
	}
	r := d.permit(entries...)
	r.Prefetch(t.Context(), asks)
	for i := range 20 {
		if err := os.Remove(d.path(fmt.Sprint("f", i))); err != nil {
			t.Fatal(err)
		}
		if got := text(t, r, look, asks[i].Ref); got != fmt.Sprint("value ", i) {
			t.Errorf("%d: %q", i, got)
		}
	}
}

// TestADigestOfWhatWasFound is the same for one key, place and value, another for each of them,
// and there is none without a list.
func TestADigestOfWhatWasFound(t *testing.T) {
	r := newDesk(t).permit()
	digest := func(r *Resolver, place, value string) secret.Digest {
		t.Helper()
		found, err := r.DigestOfFound(place, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	one := digest(r, "bucket.key", "hunter2-found")
	if again := New("other", r.path); digest(again, "bucket.key", "hunter2-found") != one {
		t.Error("another plugin with the same list has another digest")
	}
	for name, other := range map[string]secret.Digest{
		"place": digest(r, "bucket.other", "hunter2-found"), "value": digest(r, "bucket.key", "hunter3-found"), "key": digest(newDesk(t).permit(), "bucket.key", "hunter2-found"),
	} {
		if other == one {
			t.Errorf("another %s has the same digest", name)
		}
	}
	if shown := secret.Redact("it is hunter2-found, they say"); strings.Contains(shown, "hunter2") {
		t.Errorf("it is shown: %s", shown)
	}
	if _, err := New("none", "").DigestOfFound("bucket.key", []byte("hunter2-found")); !fault.Is(err, fault.Denied) {
		t.Errorf("without a list: %v", err)
	}
}
