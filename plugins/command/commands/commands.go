// Package commands looks after resources by commands: one that tells the
// difference, one that pushes, one that removes (see lehr.command.v1.Command). It gives
// nothing to a shell, and believes exit codes only. Only the program
// lehr-command calls it, through sdk/serve.
package commands

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/sdk/serve"
	"lehr.dev/sdk/subprocess"
)

const (
	defaultGrace   = 5 * time.Second
	defaultTimeout = time.Minute
	// atOnce is how many commands of one batch run at a time; diffWithin how
	// long the batch may take, because Lehr waits for 10 s; diffGrace is a
	// diff's time to end when it must.
	atOnce     = 32
	diffWithin = 8 * time.Second
	diffGrace  = 500 * time.Millisecond

	exitDiffers = 2
	exitAbsent  = 3

	shownLines = 50
	shownBytes = 200
)

// Commands serves lehr.command.v1.Command.
type Commands struct {
	// grace is the longest grace period that a command may have.
	grace  time.Duration
	runner *subprocess.Runner
}

var _ serve.Kind = Commands{}

// New serves commands of at most such a grace period. The lock is the plugin's; nil without
// one.
func New(grace time.Duration, lock *os.File) Commands {
	return Commands{grace: grace, runner: subprocess.New(subprocess.Options{Lock: lock})}
}

// Served: nobody compares anything at the target, and a push that has lost
// its permit may go on for its grace period.
func (c Commands) Served() serve.Served {
	return serve.Served{Type: "lehr.command.v1.Command", Guarantee: serve.Unguarded, LongestEffect: c.grace + subprocess.KillMargin}
}

// Diff runs the diff commands of the assets, in any order, so that slow ones
// do not always keep the same others from being told.
func (c Commands) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	ctx, cancel := context.WithTimeoutCause(ctx, diffWithin, fmt.Errorf("all diffs asked for at once did not end within %v", diffWithin))
	defer cancel()
	differences := make([]serve.Difference, len(assets))
	// Not a queue of the runner: another batch, of another partition, waits for none of these.
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, i := range rand.Perm(len(assets)) {
		slots <- struct{}{}
		running.Go(func() {
			differences[i], _ = c.difference(ctx, assets[i])
			<-slots
		})
	}
	running.Wait()
	return differences
}

// difference runs a diff command and returns its output as well.
func (c Commands) difference(ctx context.Context, asset serve.Intent) (serve.Difference, []byte) {
	unknown := func(err error) (serve.Difference, []byte) {
		return serve.Difference{Outcome: serve.Unknown, Reason: err.Error()}, nil
	}
	command, err := c.decode(asset)
	if err != nil {
		return unknown(err)
	}
	result, err := c.run(ctx, invocation{
		command: command, argv: command.Diff, variables: variables(command, asset, nil), grace: min(grace(command), diffGrace),
	})
	if err != nil {
		return unknown(fmt.Errorf("running the diff command of %s: %w", asset.ID, err))
	}
	difference := serve.Difference{
		ResourceKey: serve.ResourceKey(fmt.Sprintf("command:%s/%s", asset.Incarnation.Partition, asset.ID)),
		Base:        fmt.Sprintf("%x", sha256.Sum256(result.output)),
		Health:      serve.Health{State: serve.HealthUnknown},
	}
	switch {
	case result.overflowed:
		return unknown(fmt.Errorf("the diff command of %s (%s) wrote more than %d bytes: let it summarise", asset.ID, command.Diff[0], maxOutput))
	case result.Exit != 0 && result.Exit != exitDiffers && result.Exit != exitAbsent:
		return unknown(fmt.Errorf("the diff command of %s (%s) ended with %s: 0 says in sync, %d differs, %d nothing is there", asset.ID, command.Diff[0], result.written(), exitDiffers, exitAbsent))
	}
	difference.Outcome, difference.Plan = serve.InSync, judge(command, asset.TurnedDown(), result)
	if difference.Plan.Action != "" {
		difference.Outcome = serve.Differs
	}
	if result.Exit == 0 {
		// As far as anybody can tell, the thing is as the intent says.
		difference.Current = asset.Payload.Bytes
		if command.Outputs {
			if difference.Outputs, err = readOutputs(result.output); err != nil {
				return unknown(fmt.Errorf("the diff command of %s (%s) ended with 0, and what it printed is no JSON object of outputs: %w", asset.ID, command.Diff[0], err))
			}
		}
	}
	return difference, result.output
}

// readOutputs reads what a diff command prints of what is in sync.
func readOutputs(printed []byte) ([]serve.Output, error) {
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(printed))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("something follows the object")
	}
	return serve.EncodeOutputs(values)
}

// judge takes the exit code for what is to be done; nothing is a plan without
// an action. What is turned down is to go, in sync with the intent or not.
func judge(command *commandpb.Command, turnedDown bool, result result) serve.Plan {
	show := func(action serve.Action) serve.Plan { return plan(action, command.Destructive, result.output) }
	switch {
	case turnedDown && result.Exit == exitAbsent, !turnedDown && result.Exit == 0:
		return serve.Plan{}
	case turnedDown && len(result.output) == 0:
		there := serve.FieldChange{Path: "resource", Current: "is there", Destructive: true}
		return serve.Plan{Action: serve.ActionDelete, Changes: []serve.FieldChange{there}}
	case turnedDown:
		return show(serve.ActionDelete)
	case result.Exit == exitAbsent:
		return show(serve.ActionCreate)
	default:
		return show(serve.ActionUpdate)
	}
}

// writerOf takes the line out that says who wrote what is there.
func writerOf(lines []string) (others []string, writer string) {
	const says = "lehr-writer: "
	for i, line := range lines {
		if name, ok := strings.CutPrefix(line, says); ok {
			return slices.Delete(lines, i, i+1), strings.TrimSpace(name)
		}
	}
	return lines, ""
}

// plan shows the output's lines; a digest stands for what is not shown.
func plan(action serve.Action, destructive bool, output []byte) serve.Plan {
	plan := serve.Plan{Action: action}
	lines, writer := writerOf(strings.Split(strings.TrimRight(strings.ToValidUTF8(string(output), "?"), "\n"), "\n"))
	add := func(path, text string) {
		change := serve.FieldChange{Path: path, Target: text, Destructive: destructive, Writer: writer}
		if action == serve.ActionDelete {
			change.Current, change.Target, change.Destructive = text, "", true
		}
		plan.Changes = append(plan.Changes, change)
	}
	cut := !utf8.Valid(output)
	if strings.Join(lines, "") == "" {
		lines = []string{"it differs; the diff command printed nothing"}
	}
	for i, text := range lines[:min(len(lines), shownLines)] {
		if len(text) > shownBytes {
			text, cut = strings.ToValidUTF8(text[:shownBytes], "")+"…", true
		}
		path := "difference"
		if len(lines) > 1 {
			path = fmt.Sprintf("difference[%d]", i)
		}
		add(path, text)
	}
	if cut || len(lines) > shownLines {
		add("difference.whole", fmt.Sprintf("%d lines in all, sha256 %x", len(lines), sha256.Sum256(output)))
	}
	return plan
}

// Push runs the diff command again, and the push or remove command if the plan
// is the one that was admitted.
func (c Commands) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	difference, output := c.difference(ctx, push.Asset)
	switch {
	case ctx.Err() != nil:
		return serve.Outcome{Ending: serve.Stopped, Reason: context.Cause(ctx).Error()}
	case difference.Outcome == serve.Unknown:
		return serve.Outcome{Ending: serve.Failed, Reason: difference.Reason, Retryable: true}
	case difference.Outcome == serve.InSync:
		return serve.Outcome{Ending: serve.Pushed, Reason: "already in sync"}
	case difference.Plan.Digest() != push.Plan:
		return serve.Outcome{Ending: serve.Stale, Reason: "the diff command says something else now"}
	case difference.Base != push.Base:
		if err := permits.Cover(ctx, difference.Base); err != nil {
			return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
		}
	}
	return c.carry(ctx, push, permits, output)
}

// carry runs the command that the asset asks for.
func (c Commands) carry(ctx context.Context, push serve.Push, permits serve.Permits, output []byte) serve.Outcome {
	command, err := c.decode(push.Asset)
	if err != nil {
		return serve.Outcome{Ending: serve.Failed, Reason: err.Error()}
	}
	word, argv := "push", command.Push
	if push.Asset.TurnedDown() {
		word, argv = "remove", command.Remove
	}
	file, err := keep(output)
	if err != nil {
		return serve.Outcome{Ending: serve.Failed, Retryable: true, Reason: fmt.Sprintf("keeping the difference of %s for its %s command: %v", push.Asset.ID, word, err)}
	}
	defer os.Remove(file)
	if err := permits.Effect(ctx); err != nil {
		return serve.Outcome{Ending: serve.Stopped, Reason: err.Error()}
	}
	more := map[string]string{"LEHR_DIFF": file, "LEHR_PUSH": string(push.ID)}
	if push.Traceparent != "" {
		more["TRACEPARENT"] = push.Traceparent
	}
	result, err := c.run(ctx, invocation{
		command: command, argv: argv, grace: grace(command),
		variables: variables(command, push.Asset, more), tell: push.Progress,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return serve.Outcome{Ending: serve.Stopped, Reason: context.Cause(ctx).Error()}
	case err != nil:
		return serve.Outcome{Ending: serve.Failed, Reason: fmt.Sprintf("running the %s command of %s: %v", word, push.Asset.ID, err)}
	case result.Exit != 0:
		return serve.Outcome{
			Ending: serve.Failed, Retryable: slices.Contains(command.RetryableExitCodes, result.code()),
			Reason: fmt.Sprintf("the %s command of %s (%s) ended with %s", word, push.Asset.ID, argv[0], result),
		}
	}
	return serve.Outcome{Ending: serve.Pushed}
}

// keep writes the difference to a file that only this user can read.
func keep(output []byte) (name string, err error) {
	file, err := os.CreateTemp("", "lehr-diff-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(output)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return file.Name(), err
}

// decode reads the payload and fills in the defaults.
func (c Commands) decode(asset serve.Intent) (*commandpb.Command, error) {
	command := &commandpb.Command{}
	if err := proto.Unmarshal(asset.Payload.Bytes, command); err != nil {
		return nil, fmt.Errorf("reading the intent of %s as %s: %w", asset.ID, c.Served().Type, err)
	}
	if command.Directory == "" {
		command.Directory = "/"
	}
	switch {
	case len(command.Diff) == 0 || len(command.Push) == 0:
		return nil, fmt.Errorf("%s has no diff or no push command: name both", asset.ID)
	case asset.TurnedDown() && len(command.Remove) == 0:
		return nil, fmt.Errorf("%s cannot be turned down, as it has no remove command: give it one, or remove the resource by hand and take the asset out of intent", asset.ID)
	case !filepath.IsAbs(command.Directory):
		return nil, fmt.Errorf("directory %q of %s is not an absolute path: write the whole path", command.Directory, asset.ID)
	case grace(command) > c.grace:
		return nil, fmt.Errorf("grace_period %v of %s is longer than the plugin allows: lower it, or start lehr-command with --grace=%v", grace(command), asset.ID, grace(command))
	}
	return command, nil
}

func grace(command *commandpb.Command) time.Duration {
	if command.GracePeriod == nil {
		return defaultGrace
	}
	return command.GracePeriod.AsDuration()
}

func timeout(command *commandpb.Command) time.Duration {
	if command.Timeout == nil {
		return defaultTimeout
	}
	return command.Timeout.AsDuration()
}

// variables are a function of the intent, but for what the push brings.
func variables(command *commandpb.Command, asset serve.Intent, more map[string]string) map[string]string {
	list := map[string]string{}
	maps.Copy(list, command.Env)
	list["LEHR_ASSET"] = string(asset.ID)
	maps.Copy(list, more)
	return list
}
