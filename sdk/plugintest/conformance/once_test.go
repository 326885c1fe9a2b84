package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

// onceLies are those of the subject that brings about what it pushes by a run, which it
// may begin once only. The first is honest.
var onceLies = []string{"runs", "runs, and takes a lost memo for none", "runs, and takes a lost memo for the end", "runs, and pushes without its memo", "runs, and sets an endless memo",
	"runs, and does not say what ends it", "runs, and has begun just now", "runs, and begins tomorrow", "runs, and pushes while it runs", "runs, and never ends"}

// once is a subject whose push begins a run and does not wait for it. Production tells that
// some run is under way, and only the memo which.
type once struct{ *subject }

const runLasts = 1500 * time.Millisecond

func (o once) runPath() string { return filepath.Join(o.folder, "run") }

// settle takes over what a run has brought about that is over, and says whether one is
// under way.
func (o once) settle() (running bool, err error) {
	content, err := os.ReadFile(o.runPath())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	info, err2 := os.Stat(o.runPath())
	if err := errors.Join(err, err2); err != nil {
		return false, err
	}
	if time.Since(info.ModTime()) < runLasts {
		return true, nil
	}
	t, err := o.load()
	if err != nil {
		return false, err
	}
	t.job, t.version = &processpb.Job{}, t.version+1
	if err := proto.Unmarshal(content, t.job); err != nil {
		return false, err
	}
	return false, errors.Join(o.store(t), os.Remove(o.runPath()))
}

func (o once) Read(ctx context.Context, assets []serve.Asset[*processpb.Job]) ([]serve.State[*processpb.Job], error) {
	o.mutex.Lock()
	running, err := o.settle()
	o.mutex.Unlock()
	if err != nil {
		return nil, err
	}
	if o.lie == "runs, and never ends" && o.tried() == rulePendingBefore {
		_, err := os.Stat(filepath.Join(o.folder, "runs"))
		running = err == nil
	}
	states, err := o.subject.Read(ctx, assets)
	for i := range states {
		switch {
		case !running || err != nil:
		case len(assets[i].Memos) > 0:
			states[i].Pending = o.change(string(assets[i].Memos[0].Bytes))
		case o.lie == "runs, and takes a lost memo for none":
		case o.lie == "runs, and takes a lost memo for the end":
			states[i].Current = assets[i].Payload
		default:
			states[i].Err = errors.New("a run is under way, and it is not known which")
		}
	}
	return states, err
}

// change is what the run is told as.
func (o once) change(run string) *serve.PendingChange {
	pending := &serve.PendingChange{Reason: run + " is under way", Ends: "its end"}
	if info, err := os.Stat(o.runPath()); err == nil {
		pending.Since = info.ModTime()
	}
	switch o.lie {
	case "runs, and does not say what ends it":
		pending.Ends = ""
	case "runs, and has begun just now":
		pending.Since = time.Now()
	case "runs, and begins tomorrow":
		pending.Since = time.Now().Add(24 * time.Hour)
	}
	return pending
}

func (o once) Apply(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	memo := "run of " + change.Target.Version
	if o.lie == "runs, and sets an endless memo" {
		memo = strings.Repeat("x", 1<<20)
	}
	if err := change.SaveMemo(ctx, change.State.Key, []byte(memo)); err != nil {
		return err
	}
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	return o.begin(change.Target)
}

func (o once) begin(target *processpb.Job) error {
	content, err := proto.Marshal(target)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(o.folder, "runs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, target.Version)
	return errors.Join(err, file.Close(), os.WriteFile(o.runPath(), content, 0o600))
}

// forced is a kind that begins a run without looking at its memo.
type forced struct {
	serve.Kind
	once once
}

func (f forced) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	f.once.mutex.Lock()
	running, _ := f.once.settle()
	f.once.mutex.Unlock()
	lies := f.once.lie == "runs, and pushes without its memo" && len(push.Asset.Memos) == 0 || f.once.lie == "runs, and pushes while it runs"
	if running && lies {
		job := &processpb.Job{}
		if err := errors.Join(proto.Unmarshal(push.Asset.Payload.Bytes, job), permits.Effect(ctx), f.once.begin(job)); err != nil {
			return serve.Outcome{Ending: serve.Failed, Reason: err.Error()}
		}
		return serve.Outcome{Ending: serve.Pushed}
	}
	return f.Kind.Push(ctx, push, permits)
}

func (s *subject) once(declared plugin.Guarantee) serve.Kind {
	o := once{s}
	return forced{serve.For(o, serve.Serving{Guarantee: declared}), o}
}

// TestAPluginThatRunsOnceConforms: its memo is lost, and it begins nothing twice.
func TestAPluginThatRunsOnceConforms(t *testing.T) {
	notShort(t)
	t.Parallel()
	report := checkSubject(t, plugin.Unguarded, onceLies[0], "")
	for _, result := range report.Results {
		if result.Outcome == Failed {
			t.Errorf("%s: %s", result.Name, result.Detail)
		}
	}
	if result := report.result(t, "a lost memo is survived"); result.Outcome != Passed {
		t.Errorf("%+v", result)
	}
}

func TestAPluginWithoutMemosLosesNone(t *testing.T) {
	notShort(t)
	t.Parallel()
	if result := checkSubject(t, plugin.Unguarded, "", "a lost memo is survived").result(t, "a lost memo is survived"); result.Outcome != Skipped || result.Detail != "it sets no memo" {
		t.Errorf("%+v", result)
	}
}

func TestWhoForgetsWithItsMemoIsCaught(t *testing.T) {
	notShort(t)
	for lie, says := range map[string]string{
		onceLies[1]: "without its memos it says that the example differs",
		onceLies[2]: "without its memos it says that the example is in sync",
		onceLies[3]: "the change may have begun twice",
	} {
		t.Run(strings.ReplaceAll(lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			report := checkSubject(t, plugin.Unguarded, lie, "a lost memo is survived")
			if result := report.result(t, "a lost memo is survived"); result.Outcome != Failed || !strings.Contains(result.Detail, says) {
				t.Errorf("%+v, want failed because %q", result, says)
			}
		})
	}
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		report := checkSubject(t, plugin.Unguarded, onceLies[4], "create from nothing")
		if result := report.result(t, "create from nothing"); result.Outcome != Failed || !strings.Contains(result.Detail, "at most 16384 are kept") {
			t.Errorf("%+v", result)
		}
	})
}

// runsOnce reports whether a lie is of that subject.
func runsOnce(lie string) bool { return slices.Contains(onceLies, lie) }
