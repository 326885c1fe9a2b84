package secretpipe

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/secret/resolver"
)

// talk is a plugin's end of the pipes.
type talk struct {
	t      *testing.T
	folder string
	to     *io.PipeWriter
	from   *io.PipeReader
	ended  chan error
}

func startTalk(t *testing.T) *talk {
	t.Helper()
	k := &talk{t: t, folder: t.TempDir(), ended: make(chan error, 1)}
	k.write("key", rand.Text()+rand.Text())
	k.write("password", "swordfish of the pipe\n")
	identity, err := os.ReadFile("../sops/testdata/identity.txt")
	if err != nil {
		t.Fatal(err)
	}
	k.write("identity", string(identity))
	k.write("list", fmt.Sprintf("lehr-secrets: v1\nkey: %s\nsecrets:\n- {file: %s, partitions: [shop], plugins: [mine]}\n- {sops: %s, partitions: [shop], plugins: [mine]}\n",
		k.path("key"), k.path("password"), k.path("identity")))
	asked, to := io.Pipe()
	from, answers := io.Pipe()
	k.to, k.from = to, from
	go func() {
		k.ended <- Serve(t.Context(), resolver.New("mine", k.path("list")), asked, answers)
		answers.Close()
	}()
	t.Cleanup(func() {
		to.Close()
		from.Close()
	})
	return k
}

func (k *talk) path(name string) string { return filepath.Join(k.folder, name) }

func (k *talk) write(name, content string) {
	k.t.Helper()
	if err := os.WriteFile(k.path(name), []byte(content), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) say(head any, body string) {
	k.t.Helper()
	if err := writeFrame(k.to, head, []byte(body)); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) hear() (answer, string) {
	k.t.Helper()
	var head answer
	body, err := readFrame(k.from, &head)
	if err != nil {
		k.t.Fatal(err)
	}
	return head, string(body)
}

func (k *talk) naming(ref *intentpb.SecretRef) naming {
	k.t.Helper()
	encoded, err := proto.Marshal(ref)
	if err != nil {
		k.t.Fatal(err)
	}
	return naming{Ref: encoded, Partition: "shop", Asset: "shop/a"}
}

func (k *talk) password() naming {
	return k.naming(&intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: k.path("password")}})
}

func TestAValueIsInTheBodyAlone(t *testing.T) {
	k := startTalk(t)
	k.say(question{ID: 7, Resolve: &resolve{naming: k.password()}}, "")
	head, body := k.hear()
	if head.ID != 7 || body != "swordfish of the pipe" || len(head.Digest) != 64 || head.Words != "secret (digest "+head.Digest[:16]+")" {
		t.Errorf("%+v and %q", head, body)
	}
	asked := k.password()
	k.say(question{ID: 8, Digest: &asked}, "swordfish of the pipe")
	if again, body := k.hear(); again.ID != 8 || again.Digest != head.Digest || body != "" {
		t.Errorf("%+v and %q", again, body)
	}
	texts := []string{"a swordfish of the pipe", "", "b"}
	k.say(question{ID: 9, Redact: &[]int{len(texts[0]), 0, 1}}, strings.Join(texts, ""))
	if redacted, body := k.hear(); body != "a "+head.Words+"b" || fmt.Sprint(redacted.Redacted) != fmt.Sprint([]int{2 + len(head.Words), 0, 1}) {
		t.Errorf("%+v and %q", redacted, body)
	}
	k.to.Close()
	if err := <-k.ended; err != nil {
		t.Errorf("the end of the plugin is an error: %v", err)
	}
}

func TestADocumentIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		failure, want string
		kind          kind
	}{
		"it is there": {want: "correct horse battery staple"},
		"it is not":   {failure: "Lehr has no such blob", kind: unavailable},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			k := startTalk(t)
			content, err := os.ReadFile("../sops/testdata/default.yaml")
			if err != nil {
				t.Fatal(err)
			}
			sops := &intentpb.SopsSecret{Document: &intentpb.ExternalRef{Uri: "blob:sha256:of-the-test", Sha256: []byte("digest")}, Path: []string{"database", "password"}}
			k.say(question{ID: 1, Resolve: &resolve{naming: k.naming(&intentpb.SecretRef{Source: &intentpb.SecretRef_Sops{Sops: sops}})}}, "")
			head, _ := k.hear()
			if head.ID != 1 || head.NeedsDocument == nil || head.NeedsDocument.URI != sops.Document.Uri || string(head.NeedsDocument.SHA256) != "digest" {
				t.Fatalf("%+v", head)
			}
			k.say(question{ID: 1, Document: &document{Failure: c.failure}}, string(content))
			head, body := k.hear()
			if c.failure == "" && (head.Failure != nil || body != c.want) {
				t.Errorf("%+v %+v and %q", head, head.Failure, body)
			}
			if c.failure != "" && (head.Failure == nil || head.Failure.Kind != c.kind || !strings.Contains(head.Failure.Reason, c.failure)) {
				t.Errorf("%+v", head.Failure)
			}
			// One that nobody waits for is dropped.
			k.say(question{ID: 1, Document: &document{}}, "late")
			k.say(question{ID: 2, Redact: &[]int{4}}, "free")
			if head, body := k.hear(); head.ID != 2 || body != "free" {
				t.Errorf("%+v and %q", head, body)
			}
		})
	}
}

func TestQuestionsThatCannotBeAnswered(t *testing.T) {
	k := startTalk(t)
	for name, c := range map[string]struct {
		asked question
		kind  kind
		says  string
	}{
		"nothing":        {question{}, invalid, "asks nothing"},
		"no reference":   {question{Resolve: &resolve{}}, invalid, "says nowhere"},
		"garbage":        {question{Resolve: &resolve{naming: naming{Ref: []byte("\xff")}}}, invalid, "reading the reference"},
		"not listed":     {question{Resolve: &resolve{naming: k.naming(&intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: "HOME"}})}}, denied, "not listed"},
		"digest of none": {question{Digest: &naming{}}, invalid, "says nowhere"},
	} {
		k.say(c.asked, "")
		if head, body := k.hear(); head.Failure == nil || head.Failure.Kind != c.kind || !strings.Contains(head.Failure.Reason, c.says) || body != "" {
			t.Errorf("%s: %+v %+v", name, head, head.Failure)
		}
	}
}

// TestPushesAreBounded: a plugin that ends none is refused, and each end makes room.
func TestPushesAreBounded(t *testing.T) {
	k := startTalk(t)
	ask := func(push string) *failure {
		k.say(question{ID: 1, Resolve: &resolve{k.password(), push}}, "")
		head, _ := k.hear()
		return head.Failure
	}
	for i := range maxPushes {
		if failed := ask(fmt.Sprint(i)); failed != nil {
			t.Fatalf("push %d: %+v", i, failed)
		}
	}
	if failed := ask("one more"); failed == nil || failed.Kind != unavailable {
		t.Errorf("%+v", failed)
	}
	ended := "0"
	k.say(question{Ended: &ended}, "")
	if failed := ask("one more"); failed != nil {
		t.Errorf("%+v", failed)
	}
}

// TestNonsenseEndsTheTalk with an error that says what to do: the two are of different Lehrs.
func TestNonsenseEndsTheTalk(t *testing.T) {
	lengths := func(head, body uint32) string {
		var encoded [8]byte
		binary.BigEndian.PutUint32(encoded[:4], head)
		binary.BigEndian.PutUint32(encoded[4:], body)
		return string(encoded[:])
	}
	for name, c := range map[string]struct{ sent, says string }{
		"too long a head": {lengths(mostHead+1, 0), "more than the"},
		"too long a body": {lengths(2, mostBody+1), "more than the"},
		"no JSON":         {lengths(3, 0) + "{x}", "lehr plugin generate"},
		"cut off":         {lengths(20, 0) + `{"id":`, "unexpected EOF"},
		"texts missing":   {lengths(uint32(len(`{"id":1,"redact":[9]}`)), 0) + `{"id":1,"redact":[9]}`, "shorter than it says"},
		"a negative text": {lengths(uint32(len(`{"id":1,"redact":[-1]}`)), 0) + `{"id":1,"redact":[-1]}`, "shorter than it says"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			k := startTalk(t)
			if _, err := io.WriteString(k.to, c.sent); err != nil {
				t.Fatal(err)
			}
			k.to.Close()
			if err := <-k.ended; err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestDigestsAreNotOfTheValueAlone: with another key the same value has another digest.
func TestDigestsAreNotOfTheValueAlone(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		k := startTalk(t)
		k.say(question{ID: 1, Resolve: &resolve{naming: k.password()}}, "")
		head, _ := k.hear()
		if _, err := hex.DecodeString(head.Digest); err != nil || seen[head.Digest] {
			t.Errorf("%+v, %v", head, err)
		}
		seen[head.Digest] = true
	}
}
