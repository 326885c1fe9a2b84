package commands

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/sdk/serve"
)

// turnedDown is the command's asset with a Turndown addon.
func turnedDown(t *testing.T, command *commandpb.Command) serve.Intent {
	t.Helper()
	asset := asset(t, command)
	asset.Addons = []serve.Message{{Type: "lehr.intent.v1.Turndown"}}
	return asset
}

func diffOf(t *testing.T, asset serve.Intent) serve.Difference {
	t.Helper()
	return plugin.Diff(t.Context(), []serve.Intent{asset})[0]
}

func pushOf(t *testing.T, asset serve.Intent, p permit) serve.Outcome {
	t.Helper()
	plan, base := admitted(diffOf(t, asset))
	return plugin.Push(t.Context(), serve.Push{ID: "push-9", Asset: asset, Plan: plan, Base: base, Progress: func(string) {}}, p)
}

// kept is a file with a content, in a folder of its own.
func kept(t *testing.T) *commandpb.Command {
	return &commandpb.Command{
		Diff:      script(`[ -e have ] || { echo nothing; exit 3; }; [ "$(cat)" = "$(cat have)" ] && exit 0; echo "have: $(cat have)"; exit 2`),
		Push:      script(`cat >have`),
		Remove:    script(`cat "$LEHR_DIFF" >removed; echo "$LEHR_ASSET $LEHR_PUSH" >>removed; rm have`),
		Input:     "blue",
		Directory: t.TempDir(),
	}
}

func TestTurndownRemoves(t *testing.T) {
	command := kept(t)
	if d := diff(t, command); d.Plan.Action != serve.ActionCreate {
		t.Fatalf("nothing is there, and the plan is %+v", d.Plan)
	}
	if outcome := push(t.Context(), t, command); outcome.Ending != serve.Pushed {
		t.Fatalf("push: %+v", outcome)
	}
	for name, c := range map[string]struct {
		have string
		want serve.FieldChange
	}{
		"in sync": {"blue", serve.FieldChange{Path: "resource", Current: "is there", Destructive: true}},
		"differs": {"red", serve.FieldChange{Path: "difference", Current: "have: red", Destructive: true}},
	} {
		t.Run(name, func(t *testing.T) {
			have := filepath.Join(command.Directory, "have")
			if err := os.WriteFile(have, []byte(c.have), 0o600); err != nil {
				t.Fatal(err)
			}
			down := turnedDown(t, command)
			d := diffOf(t, down)
			if d.Outcome != serve.Differs || d.Plan.Action != serve.ActionDelete || len(d.Plan.Changes) != 1 || d.Plan.Changes[0] != c.want {
				t.Fatalf("the difference is %+v", d)
			}
			if outcome := pushOf(t, down, permit{errors.New("not now")}); outcome.Ending != serve.Stopped {
				t.Errorf("without a permit: %+v", outcome)
			}
			if _, err := os.Stat(have); err != nil {
				t.Errorf("removed without a permit: %v", err)
			}
			if outcome := pushOf(t, down, permit{}); outcome.Ending != serve.Pushed {
				t.Fatalf("remove: %+v", outcome)
			}
			removed, _ := os.ReadFile(filepath.Join(command.Directory, "removed"))
			if !strings.HasSuffix(string(removed), "db/schema push-9\n") {
				t.Errorf("the remove command was told %q", removed)
			}
			if d := diffOf(t, down); d.Outcome != serve.InSync || len(d.Current) > 0 {
				t.Errorf("when it is gone: %+v", d)
			}
		})
	}
}

func TestTurndownThatFailsSaysHow(t *testing.T) {
	command := kept(t)
	command.Remove, command.RetryableExitCodes = script("echo busy >&2; exit 75"), []int32{75}
	if outcome := push(t.Context(), t, command); outcome.Ending != serve.Pushed {
		t.Fatalf("push: %+v", outcome)
	}
	outcome := pushOf(t, turnedDown(t, command), permit{})
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "remove command of db/schema (/bin/sh) ended with exit code 75, and said: busy") {
		t.Errorf("%+v", outcome)
	}
}

// A diff that knows nothing of absence keeps the turndown open: it is never
// taken for done.
func TestTurndownIsDoneOnlyWhenNothingIsThere(t *testing.T) {
	command := proto.CloneOf(kept(t))
	command.Diff = script(`[ -e have ] && exit 0; echo gone; exit 2`)
	if d := diffOf(t, turnedDown(t, command)); d.Outcome != serve.Differs || d.Plan.Action != serve.ActionDelete {
		t.Errorf("%+v", d)
	}
	command.Remove = nil
	if d := diffOf(t, turnedDown(t, command)); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "has no remove command") {
		t.Errorf("%+v", d)
	}
}
