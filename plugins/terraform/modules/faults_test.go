package modules

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/sdk/serve"
)

// A provider that hangs makes its module unknown once the limit of a look is over, and delays no
// other; nothing of it is left at work.
func TestAProviderThatHangsIsUnknown(t *testing.T) {
	t.Parallel()
	s, other := newSite(t), newSite(t)
	s.mustPush()
	other.mustPush()
	s.fault("read", "logo", "wait")
	s.modules.Every = 5 * time.Second
	hung := make(chan serve.Difference, 1)
	go func() { hung <- s.diff() }()
	other.expect(serve.InSync)
	d := <-hung
	if d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "plan") {
		t.Errorf("%v: %s", d.Outcome, d.Reason)
	}
	s.mend()
	s.modules.Every = time.Minute
	s.expect(serve.InSync)
	if s.count("begin update logo") != 0 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// A provider that tells of another drift at each look is never pushed by a plan that is none any
// more: each push is stale, and nothing is done.
func TestAProviderThatLiesAboutDriftIsNotObeyed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	s.fault("lie", "logo", "")
	d := s.expect(serve.Differs, "changed outside of Terraform; intent has not moved", "outside of Terraform]")
	if again := s.diff(); again.Plan.Digest() == d.Plan.Digest() || again.Base == d.Base {
		t.Errorf("two lies have one plan: %s", shown(again))
	}
	if outcome := s.pushOf(t.Context(), d); outcome.Ending != serve.Stale || s.count("begin update logo") != 0 {
		t.Errorf("%+v; the cloud did %q", outcome, s.log())
	}
	s.mend()
	s.expect(serve.InSync)
	s.nothingLeft()
}

// A provider that leaves a value unknown has failed, by Terraform's own words; what it made is in
// the state, and is made anew only with an approval, for that destroys it.
func TestAProviderThatTellsUnknownValuesHasFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fault("unknown", "logo", "")
	outcome := s.pushOf(t.Context(), s.diff())
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "invalid result object after apply") {
		t.Errorf("%+v", outcome)
	}
	s.mend()
	d := s.expect(serve.Differs, "! testcloud_bucket.logo", "tainted")
	if !d.Plan.Destructive() {
		t.Errorf("it is not destructive: %s", shown(d))
	}
	s.mustPush()
	if s.count("begin create logo") != 2 || s.count("begin delete logo") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// A backend that may only be read lets look, and no apply begins. One that is slow delays the
// module alone; one that does not answer within the limit makes it unknown.
func TestABackendThatIsSlowOrReadOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	states := s.useServer()
	s.mustPush()
	s.module.Variables["env"] = "prod"
	states.setReadOnly(true)
	outcome := s.pushOf(t.Context(), s.expect(serve.Differs, `"dev" → "prod"`))
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "Error acquiring the state lock") {
		t.Errorf("%+v", outcome)
	}
	if s.count("begin update logo") != 0 || len(s.memos) > 0 {
		t.Errorf("the cloud did %q; kept: %v", s.log(), s.memos)
	}
	states.setReadOnly(false)
	goOn := states.slow()
	t.Cleanup(goOn)
	s.modules.Every = 5 * time.Second
	s.expect(serve.Unknown, "took longer than its limit")
	s.modules.Every = time.Minute
	looks := make(chan serve.Difference, 1)
	go func() { looks <- s.diff() }()
	goOn()
	if d := <-looks; d.Outcome != serve.Differs {
		t.Errorf("slow, and then there: %v, %s", d.Outcome, d.Reason)
	}
	s.mustPush()
	if s.count("begin update logo") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// A disk of states that is full in the middle of an apply loses none: what was made is written
// once there is room, by the same keeper, and nothing is made twice.
func TestADiskOfStatesThatIsFullLosesNoState(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	states := filepath.Dir(s.state)
	if err := syscall.Mount("lehr-terraform", states, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("this user may mount no small disk (%v): run it as root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(states, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.mustPush()
	s.module.Variables["env"] = "prod"
	s.fault("update", "logo", "wait")
	d := s.diff()
	outcomes := make(chan serve.Outcome, 1)
	go func() { outcomes <- s.pushOf(t.Context(), d) }()
	s.until("the cloud to be at work", func() bool { return s.count("begin update logo") == 1 })
	filler := fill(t, states)
	s.mend()
	s.until("a state that is left", func() bool {
		left, err := s.subject().folder.Errored()
		return err == nil && len(left) == 1
	})
	s.expect(serve.Pending)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	outcome := <-outcomes
	if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "is written") {
		t.Errorf("the push ended %+v", outcome)
	}
	s.expect(serve.InSync)
	if s.count("begin update logo") != 1 || s.count("begin create logo") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// The plugin's own disk is full: without room for a state that cannot be written no apply begins;
// one that fills in the middle costs neither the state nor the note of the end; and a look on a
// full disk says so.
func TestADiskOfThePluginThatIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	disk := func(size string) {
		t.Helper()
		_ = os.MkdirAll(s.modules.Folder, 0o700)
		if err := syscall.Mount("lehr-terraform", s.modules.Folder, "tmpfs", 0, "size="+size); err != nil {
			t.Skipf("this user may mount no small disk (%v): run it as root", err)
		}
	}
	unmount := func() {
		if err := syscall.Unmount(s.modules.Folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
	disk("8m")
	outcome := s.pushOf(t.Context(), s.diff())
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "nothing was applied: the disk of") || s.log()[0] != "" {
		t.Errorf("without room: %+v; the cloud did %q", outcome, s.log())
	}
	unmount()
	disk("24m")
	t.Cleanup(unmount)
	outcomes, cancel := s.begin()
	defer cancel()
	filler := fill(t, s.modules.Folder)
	s.mend()
	s.until("the apply to be done", func() bool { return s.count("end create second") == 1 })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if outcome := <-outcomes; outcome.Ending != serve.Pushed {
		t.Errorf("the push ended %+v", outcome)
	}
	s.expect(serve.InSync)
	filler = fill(t, s.modules.Folder)
	s.file("third.tf", "# another content, which is laid out\n")
	s.expect(serve.Unknown, "no space left on device")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.expect(serve.InSync)
	if s.count("begin create logo") != 1 || s.count("begin create second") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// fill takes all room of a disk by one file.
func fill(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 4096; size > 0; {
		if _, err = file.Write(make([]byte, size)); err == nil {
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		size /= 2
	}
	return path
}
