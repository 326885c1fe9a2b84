// Package tasks serves lehr.task.v1.Task: programs that must have run. A push begins a run and
// leaves it to a keeper (package runkeeper); what ran is in a folder of this machine and in a
// memo (package runrecord), and whether another run is due package runplan decides. Nothing is
// begun of which no memo is kept. Only the program lehr-task calls it, through sdk/serve.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/plugins/task/runkeeper"
	"lehr.dev/plugins/task/runplan"
	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/serve"
)

const (
	// cadence is how long a task rests of which nothing is to come.
	cadence = 10 * time.Minute
	// longestEffect is the start of a keeper: what it notes durably may take a while on top.
	longestEffect = runkeeper.BeginWithin + time.Second
)

// Options of Tasks.
type Options struct {
	// Folder holds the records of this machine, absolute. Program is this program, which is
	// called as the keeper of a run.
	Folder, Program string
	// Host is the name of this machine: unique, and the same for as long as its folder lives.
	Host string
	// Await is how long a push stays to see its run end.
	Await time.Duration
	// Programs are those that may be run; nil: all.
	Programs *allowlist.List[Program]
	// Now is the clock; nil: the machine's.
	Now func() time.Time
}

// Program is an entry of the operator's list: its name is the absolute path.
type Program struct {
	allowlist.Entry `yaml:",inline"`
}

// ProgramList is the kind of the operator's list.
var ProgramList = allowlist.Kind{Noun: "program", Key: "task-programs", Entries: "programs", Flag: "programs", Page: "docs/use/task.md"}

// Tasks is the kind.
type Tasks struct {
	Options
	wakes *wakes
}

var (
	_ serve.Kind    = (*Tasks)(nil)
	_ serve.Watcher = (*Tasks)(nil)
)

// New serves tasks.
func New(options Options) *Tasks {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Tasks{Options: options, wakes: newWakes()}
}

// Served: the number of a run is taken by creating a file that must not exist, so a late push
// begins none. That is compare-and-set on what is never reused.
func (t *Tasks) Served() serve.Served {
	return serve.Served{Type: "lehr.task.v1.Task", Guarantee: serve.CompareAndSet, LongestEffect: longestEffect, Cadence: cadence}
}

// Watch hints tasks whose run has ended, and whose time has come.
func (t *Tasks) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	return t.wakes.Watch(ctx, hint)
}

// Diff decides of each asset.
func (t *Tasks) Diff(_ context.Context, assets []serve.Intent) []serve.Difference {
	differences := make([]serve.Difference, len(assets))
	for i, asset := range assets {
		look, err := t.look(asset)
		if err != nil {
			differences[i] = serve.Difference{Outcome: serve.Unknown, Reason: fmt.Sprintf("%s: %v", asset.ID, err)}
			t.wakes.set(look.identity, wake{})
			continue
		}
		differences[i] = look.difference()
		t.wakes.set(look.identity, wake{folder: look.folder, isLive: look.state.IsLive, at: look.verdict.LookAt})
	}
	return differences
}

// look is what is known of an asset, and decided.
type look struct {
	identity  identity
	task      *taskpb.Task
	name      string
	folder    runrecord.Folder
	key       serve.ResourceKey
	isRemoved bool
	want      runplan.Want
	state     runplan.State
	verdict   runplan.Verdict
	now       time.Time
}

func (t *Tasks) look(asset serve.Intent) (look, error) {
	l := look{identity: identity{asset.Incarnation.Partition, asset.ID}, task: &taskpb.Task{}, isRemoved: asset.TurnedDown(), now: t.Now()}
	// Fields that this build does not know are of a newer type: what it runs would not be
	// what is meant.
	if err := proto.Unmarshal(asset.Payload.Bytes, l.task); err != nil {
		return l, fmt.Errorf("reading the intent as lehr.task.v1.Task: %w", err)
	}
	if len(l.task.ProtoReflect().GetUnknown()) > 0 {
		return l, errors.New("the intent has fields that this lehr-task does not know: run the one that came with Lehr")
	}
	if l.name = l.task.Name; l.name == "" {
		l.name = string(asset.ID)
	}
	partition := string(asset.Incarnation.Partition)
	if partition == "" || strings.ContainsAny(partition, "/\x00") || strings.HasPrefix(partition, ".") {
		return l, fmt.Errorf("the partition %q is no name of a folder", partition)
	}
	l.folder = runrecord.FolderOf(t.Folder, partition, l.name)
	l.key = serve.ResourceKey(fmt.Sprintf("task:%s/%s/%s", t.Host, partition, l.name))
	var err error
	if l.want, err = runplan.Read(l.task); err != nil && !l.isRemoved {
		return l, err
	}
	if t.Programs != nil && !l.isRemoved {
		if _, err := t.Programs.Permits(asset.Incarnation.Partition, l.task.Command[0]); err != nil {
			return l, err
		}
	}
	record, err := l.folder.Load()
	if err != nil {
		return l, err
	}
	memo, err := runrecord.FromMemos(asset.Memos)
	if err != nil {
		return l, err
	}
	l.state = runplan.Merge(t.Host, record, memo)
	if l.isRemoved {
		l.verdict = runplan.DecideRemoval(l.state)
		return l, nil
	}
	if l.want.Batch != "" {
		if l.state.Items, err = l.folder.LoadItems(l.want.Batch); err != nil {
			return l, err
		}
	}
	l.verdict = runplan.Decide(l.want, l.state, l.now)
	return l, nil
}

// difference is what Lehr is told.
func (l look) difference() serve.Difference {
	v := l.verdict
	d := serve.Difference{ResourceKey: l.key, Base: l.base(), Current: l.current(), Reason: v.Reason}
	if !l.isRemoved {
		d.Health = runplan.Health(l.want, l.state, v, l.now)
	}
	switch v.Kind {
	case runplan.Happened:
		d.Outcome, d.Reason = serve.InSync, ""
	case runplan.Due:
		d.Outcome, d.Plan, d.Reason = serve.Differs, l.plan(), ""
	case runplan.UnderWay:
		d.Outcome, d.PendingSince, d.PendingEnd = serve.Pending, v.Since, "the end of the run"
	case runplan.Pausing:
		d.Outcome, d.PendingSince, d.PendingEnd = serve.Pending, v.Since, "the next run, at "+v.LookAt.UTC().Format(time.RFC3339)
	default:
		d.Outcome = serve.Unknown
	}
	return d
}

// base changes with each run that is reserved, begun and ended, and is never the same again.
func (l look) base() string {
	run := l.state.Run
	if run == nil {
		return "0"
	}
	base := fmt.Sprintf("%d %d %s", l.state.Newest, run.Number, run.ID)
	if run.End != nil {
		base += " " + string(run.End.Ending)
	}
	return base
}

// current is the intent itself where it has happened, else what happened last of it.
func (l look) current() []byte {
	good := l.state.Run.EndedWell()
	task := l.task
	switch {
	case l.isRemoved && l.verdict.Kind == runplan.Happened:
		return nil
	case l.isRemoved, l.verdict.Kind == runplan.Happened && !l.want.IsRecurring():
	case good == nil:
		return nil
	default:
		task = proto.CloneOf(l.task)
		task.Version = good.Version
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(task)
	if err != nil {
		return nil
	}
	return content
}
