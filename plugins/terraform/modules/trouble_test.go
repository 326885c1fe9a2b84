package modules

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/plugins/terraform/applykeeper"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/serve"
)

// What cannot be planned is unknown, with what Terraform says, by file and line.
func TestWhatCannotBePlannedIsSaid(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	good := s.module.Files[0].GetText()
	for _, c := range []struct{ before, after, want string }{
		{"var.env", "var.envy", "main.tf:17: Reference to undeclared input variable"},
		{`region = var.region`, `regio = var.region`, "main.tf:16: Unsupported argument"},
		{`  backend "local" {}`, ``, "has no backend"},
		{`  backend "local" {}`, "  cloud {\n  }", "main.tf:2: a block cloud has plans and applies run elsewhere"},
		{`  backend "local" {}`, `  backend "remote" {}`, "main.tf:2: a block backend has plans and applies run elsewhere"},
		{`"lehr/testcloud" }`, `"lehr/nothing" }`, "provider registry.terraform.io/lehr/nothing was not found"},
		{`terraform {`, `terraform {` + "\n  required_version = \">= 99.0\"", "Unsupported Terraform Core version"},
	} {
		s.file("main.tf", good)
		s.edit(c.before, c.after)
		s.expect(serve.Unknown, c.want)
	}
	s.file("main.tf", good)
	s.fault("read", "logo", "fail")
	s.expect(serve.Differs) // Nothing is there that would be read.
	s.mend()
	s.mustPush()
	s.fault("read", "logo", "panic")
	s.expect(serve.Unknown, "plan failed: ", "ReadResource")
	s.fault("read", "logo", "fail")
	s.expect(serve.Unknown, "The cloud cannot be read: it is out of order")
	s.mend()
	s.module.Backend["path"] = &terraformpb.Setting{Source: &terraformpb.Setting_Value{Value: "here.tfstate"}}
	s.expect(serve.Unknown, `keeps the state at "here.tfstate", in a folder of this plugin`)
	s.module.Backend["path"] = &terraformpb.Setting{Source: &terraformpb.Setting_Env{Env: "LEHR_NOT_LISTED"}}
	s.expect(serve.Unknown, "the backend's setting path", "LEHR_NOT_LISTED", "not listed")
	s.module.Engine = "tofu"
	s.expect(serve.Unknown, `partition shop may use no engine "tofu"`)
	s.module.Engine = ""
	s.module.Files[0].Sha256 = make([]byte, 32)
	delete(s.module.Backend, "path")
	s.expect(serve.Unknown, "main.tf has another digest than intent says")
}

// A push of a plan that is none any more changes nothing.
func TestAPushOfAnotherPlanIsStale(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	old := s.diff()
	s.module.Variables["env"] = "prod"
	if outcome := s.pushOf(t.Context(), old); outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "the plan is now") {
		t.Errorf("%+v", outcome)
	}
	if len(s.log()) != 1 || s.log()[0] != "" {
		t.Errorf("the cloud did %q", s.log())
	}
	s.onSave = func([]byte) error { return errors.New("the store is away") }
	if outcome := s.pushOf(t.Context(), s.diff()); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "the store is away") {
		t.Errorf("without a memo: %+v", outcome)
	}
	if len(s.log()) != 1 || s.log()[0] != "" {
		t.Errorf("without a memo the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// Terraform itself refuses a saved plan when the state has moved since: between the plan of the
// push and the apply, somebody else applies.
func TestAStateThatMovedMakesThePushStale(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	s.module.Variables["env"] = "prod"
	s.onSave = func(bytes []byte) error {
		if len(bytes) == 0 {
			return nil
		}
		text, err := os.ReadFile(s.state)
		if err == nil {
			err = os.WriteFile(s.state, []byte(strings.Replace(string(text), `"serial": `, `"serial": 9`, 1)), 0o600)
		}
		return err
	}
	if outcome := s.pushOf(t.Context(), s.diff()); outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "Saved plan is stale") {
		t.Errorf("%+v", outcome)
	}
	if s.count("begin update logo") != 0 || len(s.memos) > 0 {
		t.Errorf("the cloud did %q; kept: %v", s.log(), s.memos)
	}
	s.nothingLeft()
}

// A part that failed is said; what is left is planned anew, and nothing is done twice.
func TestAnApplyThatFailsInTheMiddleGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.file("more.tf", `resource "testcloud_bucket" "second" {
  name       = "second"
  region     = "eu"
  depends_on = [testcloud_bucket.logo]
}
`)
	s.fault("create", "second", "fail")
	outcome := s.pushOf(t.Context(), s.diff())
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "more.tf:1: The cloud refused to create second: it is out of order") {
		t.Errorf("%+v", outcome)
	}
	s.fault("create", "second", "panic")
	if outcome := s.pushOf(t.Context(), s.diff()); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "ApplyResourceChange") {
		t.Errorf("a provider that panics: %+v", outcome)
	}
	s.mend()
	d := s.expect(serve.Differs, "testcloud_bucket.second")
	if strings.Contains(shown(d), "testcloud_bucket.logo") {
		t.Errorf("what is done is to be done again: %s", shown(d))
	}
	s.mustPush()
	if s.count("begin create logo") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// begin pushes a change of two resources, of which the first waits, until it is at work. The
// push ends with cancel.
func (s *site) begin() (outcomes <-chan serve.Outcome, cancel func()) {
	s.t.Helper()
	s.file("more.tf", `resource "testcloud_bucket" "second" {
  name       = "second"
  region     = "eu"
  depends_on = [testcloud_bucket.logo]
}
`)
	s.fault("create", "logo", "wait")
	d := s.diff()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan serve.Outcome, 1)
	go func() { done <- s.pushOf(ctx, d) }()
	s.until("the cloud to be at work", func() bool { return s.count("begin create logo") == 1 })
	return done, cancel
}

// When the permit ends, what is under way ends, nothing else begins, and the state has it. A
// look meanwhile is pending and its end is hinted; a push begins nothing.
func TestAnApplyIsInterruptedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	outcomes, cancel := s.begin()
	old := s.diff()
	if old.Outcome != serve.Pending || !strings.Contains(old.Reason, "an apply is under way on here since") || !strings.Contains(old.Reason, "of push push-1") || old.PendingSince.IsZero() {
		t.Fatalf("meanwhile it is %v: %s", old.Outcome, old.Reason)
	}
	cancel()
	if outcome := <-outcomes; outcome.Ending != serve.Stopped {
		t.Errorf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	s.expect(serve.Pending)
	if outcome := s.modules.Push(t.Context(), serve.Push{ID: "other", Asset: s.asset(), Progress: func(string) {}, SaveMemo: s.save}, s); outcome.Ending != serve.Stale {
		t.Errorf("a push meanwhile: %+v", outcome)
	}
	hints := make(chan serve.AssetID, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_ = s.modules.Watch(ctx, func(_ serve.PartitionID, asset serve.AssetID) { hints <- asset })
	}()
	s.mend()
	select {
	case <-hints:
	case <-time.After(time.Minute):
		t.Fatal("the end is not hinted")
	}
	d := s.expect(serve.Differs, "testcloud_bucket.second")
	if strings.Contains(shown(d), "testcloud_bucket.logo") || s.count("end create logo") != 1 || s.count("begin create second") != 0 {
		t.Errorf("after the interruption the cloud did %q, and the plan is %s", s.log(), shown(d))
	}
	found, err := applykeeper.Load(s.subject().folder)
	if err != nil || found.Last.End == nil || !found.Last.End.IsInterrupted || found.Last.End.IsApplied {
		t.Errorf("the record is %+v, %v", found.Last, err)
	}
	s.mustPush()
	s.nothingLeft()
}

// A keeper that is killed does not end Terraform, nor does anybody take the apply for over
// while Terraform runs.
func TestAKeeperThatIsKilledLosesNoState(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	outcomes, _ := s.begin()
	text, err := os.ReadFile(s.subject().folder.LockPath())
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Signal(s.subject().folder.LockPath(), syscall.SIGKILL); err != nil {
		t.Fatalf("%v (the lock says %s)", err, text)
	}
	if outcome := <-outcomes; outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "was cut off") {
		t.Errorf("the push ended %+v", outcome)
	}
	s.expect(serve.Pending)
	s.mend()
	s.until("Terraform to end", func() bool { return s.diff().Outcome != serve.Pending })
	s.expect(serve.InSync)
	if s.count("begin create logo") != 1 || s.count("begin create second") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
}

// Terraform itself is killed: what it had made and not written is lost to its state, as the
// provider of these tests makes it again, and the module goes on.
func TestATerraformThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	outcomes, _ := s.begin()
	found, err := applykeeper.Load(s.subject().folder)
	if err != nil || found.Last.Process == 0 {
		t.Fatalf("%+v, %v", found.Last, err)
	}
	if err := syscall.Kill(found.Last.Process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if outcome := <-outcomes; outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "signal: killed") {
		t.Errorf("the push ended %+v", outcome)
	}
	s.mend()
	s.mustPush()
}

// A state that the backend does not take is kept, and written as soon as it does, by the same
// keeper: nothing that was made is lost.
func TestAStateThatCannotBeWrittenIsRecovered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	states := s.useServer()
	s.mustPush()
	s.module.Variables["env"] = "prod"
	states.refuse(true)
	d := s.diff()
	outcomes := make(chan serve.Outcome, 1)
	go func() { outcomes <- s.pushOf(t.Context(), d) }()
	s.until("a state that is left", func() bool {
		left, err := s.subject().folder.Errored()
		return err == nil && len(left) == 1
	})
	s.expect(serve.Pending)
	states.refuse(false)
	if outcome := <-outcomes; outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "the state, which Terraform could not write at first, is written") {
		t.Errorf("the push ended %+v", outcome)
	}
	s.expect(serve.InSync)
	if s.count("begin update logo") != 1 {
		t.Errorf("the cloud did %q", s.log())
	}
	s.nothingLeft()
}

// A lock that somebody left is named, with the command by which a person removes it, and is not
// broken. Of the backend http, Terraform tells no more of it than the ID.
func TestALockThatWasLeftIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	states := s.useServer()
	states.leaveLock(`{"ID":"4711","Operation":"OperationTypeApply","Info":"","Who":"eve@laptop","Version":"1.11.4","Created":"2026-11-26T10:00:00Z","Path":""}`)
	outcome := s.pushOf(t.Context(), s.diff())
	if want := "the state is locked by (not told) since (not told) for (not told) (lock 4711); nothing breaks it by itself"; outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, want) {
		t.Errorf("%+v, want %q", outcome, want)
	}
	if s.log()[0] != "" {
		t.Errorf("the cloud did %q", s.log())
	}
	states.leaveLock("")
	s.mustPush()
	states.close()
	s.expect(serve.Unknown, "Failed to get state")
}

// Of a state that an earlier keeper could not write the plugin makes a plan of its own, and
// nothing else is done before.
func TestALeftStateIsAPlan(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	l, err := s.modules.look(t.Context(), s.subject())
	if err != nil {
		t.Fatal(err)
	}
	l.forget()
	text, err := os.ReadFile(s.state)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(text), `"serial": `, `"serial": 9`, 1)
	if err := os.WriteFile(l.run.Content.ErroredState(), []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	d := s.expect(serve.Differs, "state: serial ", "as an apply left it")
	if d.Plan.Destructive() || len(d.Plan.Changes) != 1 {
		t.Errorf("%s", shown(d))
	}
	s.mustPush()
	if text, err := os.ReadFile(s.state); err != nil || !strings.Contains(string(text), `"serial": 9`) {
		t.Errorf("the state is %v %.200s", err, text)
	}
}

// A lock that somebody holds is named, and not broken.
func TestALockThatIsHeldIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	s.module.Variables["env"] = "prod"
	d := s.diff()
	other := newRival(t, s)
	defer other.end()
	outcome := s.pushOf(t.Context(), d)
	for _, word := range []string{"the state is locked by ", " for OperationTypeApply", "terraform force-unlock "} {
		if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, word) {
			t.Errorf("no %q: %+v", word, outcome)
		}
	}
	s.expect(serve.Differs) // A look takes no lock.
	other.end()
	s.mustPush()
}

// What began on another machine is pending there until it is over for certain; a state that it
// could not write is named with the machine that has it.
func TestAnApplyOfAnotherMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	kept := memo{Host: "there", Push: "p9", Began: time.Now(), Until: time.Now().Add(time.Hour)}
	keep := func() {
		t.Helper()
		if err := save(t.Context(), serve.Push{SaveMemo: s.save}, "terraform:x", &kept); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	s.expect(serve.Pending, "an apply of push p9 began on there at")
	kept.Until = time.Now().Add(-time.Second)
	keep()
	s.expect(serve.InSync)
	kept.StateLeft = "/var/lib/x/errored.tfstate"
	keep()
	s.expect(serve.Unknown, "lies on there in /var/lib/x/errored.tfstate")
}
