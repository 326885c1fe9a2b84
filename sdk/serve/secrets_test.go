package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

// knowSecret plants a secret of this process, as a resolver does that reads one.
func knowSecret(t *testing.T) (value string, digest secret.Digest) {
	t.Helper()
	value, digest = "hunter2/"+t.Name(), secret.Digest{1, byte(len(t.Name()))}
	secret.Know("env:"+t.Name(), []byte(value), digest)
	return value, digest
}

// encodings of a value that would give it away.
func encodings(value string) []string {
	return []string{value, base64.RawStdEncoding.EncodeToString([]byte(value)), fmt.Sprintf("%x", value)}
}

// careless is a shelf that tells what it should not.
type careless struct {
	*shelf
	value string
	asked secret.Request
}

func (c *careless) Read(ctx context.Context, assets []Asset[*processpb.Job]) ([]State[*processpb.Job], error) {
	states, err := c.shelf.Read(ctx, assets)
	c.asked = assets[0].SecretRequest()
	for i := range states {
		states[i].Health.Reason = "the password is " + c.value
		states[i].Notes = map[string]string{`env["PASSWORD"]`: "it was " + c.value}
	}
	return states, err
}

func (c *careless) Apply(ctx context.Context, change Change[*processpb.Job], permit Permit) error {
	if change.Target.Env["PASSWORD"] != c.value {
		return fmt.Errorf("the target has %q", change.Target.Env["PASSWORD"])
	}
	c.asked = change.Asset.SecretRequest()
	change.Progress("logging in with " + c.value)
	return c.shelf.Apply(ctx, change, permit)
}

// TestASecretLeavesThePluginNowhere, though the plugin writes it wherever it can; and
// the plan that hides it is the one that is pushed.
func TestASecretLeavesThePluginNowhere(t *testing.T) {
	value, digest := knowSecret(t)
	current := &processpb.Job{Name: "shop", Env: map[string]string{"PASSWORD": "old", "TOKEN": base64.StdEncoding.EncodeToString([]byte(value))}, Args: []string{value}}
	world := &careless{shelf: &shelf{jobs: map[string]*processpb.Job{"shop": current}}, value: value}
	target := proto.CloneOf(current)
	target.Env["PASSWORD"], target.Args = value, []string{strings.Repeat("x", maxValue-70) + value}
	kind := For(world, Serving{})
	d := diffOne(kind, jobIntent(t, target))
	encoded := encodeDifference("job", d, time.Time{})
	all := encoded.String() + string(encoded.Current)
	for _, form := range encodings(value) {
		if strings.Contains(all, form) || strings.Contains(all, form[:12]) {
			t.Errorf("the difference has %s: %s", form, all)
		}
	}
	if changes := encoded.GetDiffers().GetChanges(); len(changes) != 2 || changes[1].Target != `"`+digest.Words()+`"` || !strings.Contains(changes[1].Reason, digest.Words()) {
		t.Errorf("the plan is %v", changes)
	}
	if !strings.Contains(encoded.Health.Reason, digest.Words()) || world.asked.Push != nil {
		t.Errorf("health is %v, of %+v", encoded.Health, world.asked)
	}
	// Lehr takes the digest of what it was told.
	admitted := Plan{Action: ActionUpdate}
	for _, change := range encoded.GetDiffers().GetChanges() {
		admitted.Changes = append(admitted.Changes, FieldChange{Path: change.Path, Current: change.Current, Target: change.Target, Destructive: change.Destructive})
	}
	pushed := kind.Push(t.Context(), Push{Asset: jobIntent(t, target), Plan: admitted.Digest(), Base: "1", Progress: func(string) {}}, &freely{})
	if pushed.Ending != Pushed || world.jobs["shop"].Env["PASSWORD"] != value {
		t.Errorf("the push: %+v", pushed)
	}
	if world.asked.Push == nil || world.asked.Asset != "job" {
		t.Errorf("it asks with %+v", world.asked)
	}
}

// TestProgressHasLines: each is made printable and short, and what is secret is hidden over lines too.
func TestProgressHasLines(t *testing.T) {
	value, digest := knowSecret(t)
	if got := progressText("first\r\nlog in with " + value + "\n\x1b[2J\n"); got != "first\nlog in with "+digest.Words()+"\n"+`\x1b[2J` {
		t.Errorf("%q", got)
	}
	lines := strings.Split(progressText(strings.Repeat("x\n", 999)+strings.Repeat("y", 1<<20)+"\xff"), "\n")
	if len(lines) != mostProgressLines || lines[0] != "x" || len(lines[len(lines)-1]) > maxText || !utf8.ValidString(lines[len(lines)-1]) {
		t.Errorf("%d lines, the last of %d bytes", len(lines), len(lines[len(lines)-1]))
	}
}

// TestOneSecretInTwoFormsIsADifference, though both are hidden behind one digest.
func TestOneSecretInTwoFormsIsADifference(t *testing.T) {
	value, _ := knowSecret(t)
	current := &processpb.Job{Name: "shop", Args: []string{value}}
	target := &processpb.Job{Name: "shop", Args: []string{fmt.Sprintf("%x", value)}}
	changes := compare(current.ProtoReflect(), target.ProtoReflect())
	if len(changes) != 1 || changes[0].Current == changes[0].Target {
		t.Errorf("%+v", changes)
	}
}

// TestWhatCannotBeHiddenIsNotTold: a base with a secret is a defect, and said.
func TestWhatCannotBeHiddenIsNotTold(t *testing.T) {
	value, _ := knowSecret(t)
	for name, d := range map[string]Difference{
		"base": {Outcome: InSync, Base: value}, "key": {Outcome: InSync, ResourceKey: ResourceKey("db:" + value)}, "state": {Outcome: InSync, Current: []byte("x" + value)},
	} {
		encoded := encodeDifference("job", d, time.Time{})
		if encoded.GetUnknown() == nil || strings.Contains(encoded.String(), value) || len(encoded.Current) > 0 {
			t.Errorf("%s: %v", name, encoded)
		}
	}
}

// TestASecretThatWasRotatedMakesAPushStale, be it seen while planning or later.
func TestASecretThatWasRotatedMakesAPushStale(t *testing.T) {
	rotated := fmt.Errorf("starting: %w: the file", secret.ErrRotated)
	if outcome := outcomeOf(t.Context(), rotated); outcome.Ending != Stale || !strings.Contains(outcome.Reason, "the file") {
		t.Errorf("%+v", outcome)
	}
	world := &rotating{shelf: &shelf{jobs: map[string]*processpb.Job{"shop": {Name: "shop"}}}}
	outcome := For(world, Serving{}).Push(t.Context(), Push{Asset: jobIntent(t, &processpb.Job{Name: "shop", Version: "2"}), Plan: Plan{}.Digest(), Base: "1"}, &freely{})
	if outcome.Ending != Stale || !strings.Contains(outcome.Reason, `rotated since production was looked at: the file "/run/db"`) {
		t.Errorf("%+v", outcome)
	}
}

// rotating finds a secret rotated when it is pushed.
type rotating struct{ *shelf }

func (r *rotating) Read(ctx context.Context, assets []Asset[*processpb.Job]) ([]State[*processpb.Job], error) {
	if push := assets[0].SecretRequest().Push; push != nil {
		push.NoteRotation(`the file "/run/db"`)
	}
	return r.shelf.Read(ctx, assets)
}

func TestErrorsHideSecrets(t *testing.T) {
	value, digest := knowSecret(t)
	difference := encodeDifference("job", unknown(errors.New("dial with "+value)), time.Time{})
	outcome := encodeOutcome("p", failure(errors.New("dial with "+value)))
	for _, reason := range []string{difference.GetUnknown().GetReason(), outcome.GetFailed().GetReason()} {
		if reason != "dial with "+digest.Words() {
			t.Errorf("%q", reason)
		}
	}
}

// TestStderrHidesSecrets that package log and the SDK write, and loses nothing.
func TestStderrHidesSecrets(t *testing.T) {
	value, digest := knowSecret(t)
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	original := os.Stderr
	os.Stderr = input
	defer func() {
		os.Stderr = original
		log.SetOutput(original)
	}()
	hideInLog()
	fmt.Fprintf(Stderr(), "a line with %s\n", value)
	log.Print("another with ", value)
	slog.Error("a third", "password", value)
	_ = protect("Read", "job", func() error { panic("a panic with " + value) })
	input.Close()
	written, err := io.ReadAll(output)
	if err != nil {
		t.Fatal(err)
	}
	text := string(written)
	if strings.Contains(text, value) || strings.Count(text, digest.Words()) < 4 {
		t.Errorf("stderr has %s", text)
	}
}

// TestARequestIsOfTheAssetsPartition, for a list permits by partition.
func TestARequestIsOfTheAssetsPartition(t *testing.T) {
	asset := Intent{Asset: intent.Asset{ID: "db"}, Incarnation: IncarnationID{Partition: "shop"}}
	if request := asset.SecretRequest(); request.Partition != "shop" || request.Asset != "db" || request.Push != nil {
		t.Errorf("%+v", request)
	}
}
