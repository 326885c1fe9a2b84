// Package schedule keeps programs that this machine runs at certain times as
// intended. For each schedule there is a keeper, a process that package job keeps
// as a job of one task: what it keeps is in its environment, and read from there
// each time. The keeper (keep.go) alone starts runs, and remembers the last one
// in a file, from which its health is told.
package schedule

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/plugins/process/cron"
	"lehr.dev/plugins/process/job"
	"lehr.dev/sdk/serve"
)

const (
	defaultStartWithin = 10 * time.Second
	defaultStopGrace   = 10 * time.Second
	// late is how long after its time a run that has not begun is told of.
	late = 30 * time.Second
)

// Variables of the environment: what a keeper keeps, and whose run a process is.
const (
	variableKeep     = "LEHR_KEEP"
	variableSchedule = "LEHR_SCHEDULE"
	variableRun      = "LEHR_RUN"
)

// Command is the argument that makes the plugin's program a keeper.
const Command = "keep"

// Schedules serves lehr.process.v1.Schedule.
type Schedules struct {
	// Logs is the folder of the jobs' logs. What keepers and runs write is below
	// Schedules/<name> in it.
	Logs string
	// Program is the keeper's, which is called with Command.
	Program string
	// Exits are told of the keepers that are seen; nil: no exit is hinted.
	Exits *job.Exits
}

var (
	_ serve.Resource[*processpb.Schedule] = Schedules{}
	_ serve.Remover[*processpb.Schedule]  = Schedules{}
	_ serve.Watcher                       = Schedules{}
)

// Serving is that of the job that a keeper is.
func Serving() serve.Serving { return job.Serving() }

func (s Schedules) jobs() job.Jobs { return job.Jobs{Logs: s.Logs, Exits: s.Exits} }

// Self is the path of this program.
func Self() (string, error) {
	path, err := os.Executable()
	// It may have been replaced since by a newer one of the same path.
	return strings.TrimSuffix(path, " (deleted)"), err
}

// Resolve fills in the defaults and the keeper.
func (s Schedules) Resolve(_ context.Context, asset serve.Asset[*processpb.Schedule]) (*processpb.Schedule, error) {
	resolved := proto.CloneOf(asset.Payload)
	if _, err := timesOf(resolved); err != nil {
		return nil, err
	}
	if !filepath.IsLocal(resolved.Name) || resolved.Name != filepath.Clean(resolved.Name) {
		return nil, fmt.Errorf("schedule name %q is not a relative path such as shop/a/report: mend it in the intent", resolved.Name)
	}
	if !filepath.IsAbs(resolved.Binary) {
		return nil, fmt.Errorf("binary %q of schedule %s is not an absolute path: write the whole path, or let the generator do so", resolved.Binary, resolved.Name)
	}
	fields, err := asset.Unmanaged()
	if err != nil {
		return nil, fmt.Errorf("reading the Unmanaged addon of schedule %s: %w", resolved.Name, err)
	}
	if len(fields) > 0 {
		return nil, fmt.Errorf("schedule %s leaves nothing to production, and the Unmanaged addon names %v: take it away", resolved.Name, fields)
	}
	if resolved.Concurrency == processpb.Concurrency_CONCURRENCY_UNSPECIFIED {
		resolved.Concurrency = processpb.Concurrency_CONCURRENCY_FORBID
	}
	resolved.Keeper = &processpb.Keeper{Program: s.Program, Folder: s.folder(resolved.Name)}
	return resolved, nil
}

func timesOf(s *processpb.Schedule) (*cron.Times, error) {
	zone, err := time.LoadLocation(s.Zone)
	if err != nil || s.Zone == "Local" {
		return nil, fmt.Errorf("schedule %s: %q is not a time zone: write one such as Europe/London, or leave it empty for UTC", s.Name, s.Zone)
	}
	times, err := cron.Parse(s.Cron, zone)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: cron: %w", s.Name, err)
	}
	return times, nil
}

// jobName cannot be that of a job: the names of those have no capital letters.
func jobName(name string) string { return "Schedules/" + name }

func (s Schedules) folder(name string) string { return filepath.Join(s.Logs, jobName(name)) }

// keeperOf is the job of a resolved schedule's keeper.
func keeperOf(s *processpb.Schedule) *processpb.Job {
	kept := proto.CloneOf(s)
	kept.Keeper = &processpb.Keeper{Folder: s.GetKeeper().GetFolder()}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(kept)
	if err != nil {
		text = []byte("{}") // Texts that are no UTF-8, which no intent has.
	}
	// The library puts spaces where it likes, and a job fills these in.
	words := strings.NewReplacer("{port}", `\u007bport}`, "{task}", `\u007btask}`).Replace(compact(text))
	return &processpb.Job{
		Name: jobName(s.Name), Replicas: 1, Binary: s.GetKeeper().GetProgram(), Args: []string{Command},
		Env: map[string]string{variableKeep: words}, Version: s.Version,
	}
}

// kept is what a keeper was told to keep.
func kept(words string) (*processpb.Schedule, error) {
	s := &processpb.Schedule{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(words), s); err != nil {
		return nil, fmt.Errorf("the variable %s does not hold a schedule: %w", variableKeep, err)
	}
	return s, nil
}

// asJob is the asset of the keeper's job.
func (s Schedules) asJob(ctx context.Context, asset serve.Asset[*processpb.Schedule]) serve.Asset[*processpb.Job] {
	resolved, err := s.Resolve(ctx, asset)
	if err != nil {
		resolved = asset.Payload // Resolve says what is wrong; what is there is read all the same.
	}
	return serve.Asset[*processpb.Job]{ID: asset.ID, Incarnation: asset.Incarnation, Payload: keeperOf(resolved), Addons: asset.Addons}
}

// Watch implements serve.Watcher: the exit of a keeper is hinted.
func (s Schedules) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	return s.Exits.Watch(ctx, hint)
}

// Read looks at the keepers, and at what they remember.
func (s Schedules) Read(ctx context.Context, assets []serve.Asset[*processpb.Schedule]) ([]serve.State[*processpb.Schedule], error) {
	keepers := make([]serve.Asset[*processpb.Job], len(assets))
	for i, asset := range assets {
		keepers[i] = s.asJob(ctx, asset)
	}
	seen, err := s.jobs().Read(ctx, keepers)
	if err != nil {
		return nil, err
	}
	states := make([]serve.State[*processpb.Schedule], len(assets))
	for i, asset := range assets {
		states[i] = s.state(asset, seen[i])
	}
	return states, nil
}

func (s Schedules) state(asset serve.Asset[*processpb.Schedule], keeper serve.State[*processpb.Job]) serve.State[*processpb.Schedule] {
	state := serve.State[*processpb.Schedule]{Err: keeper.Err, Base: keeper.Base, Key: keeper.Key, Health: keeper.Health}
	if keeper.Err != nil {
		return state
	}
	if keeper.Current != nil {
		state.Current = current(asset.Payload.Name, keeper.Current)
		state.Health = s.health(asset.Payload, state.Current, keeper.Health)
		return state
	}
	state.Health = serve.Health{State: serve.Unhealthy, Reason: "nothing keeps the schedule: no run will begin"}
	if asset.TurnedDown() {
		// Its runs are to end too.
		runs, err := job.Carriers(variableSchedule, asset.Payload.Name)
		if state.Err = err; len(runs) > 0 {
			state.Current = &processpb.Schedule{Name: asset.Payload.Name}
		}
	}
	return state
}

// current is the schedule that is really kept.
func current(name string, keeper *processpb.Job) *processpb.Schedule {
	seen := &processpb.Schedule{Name: name}
	duplicates := max(len(keeper.Tasks)-1, 0)
	task := keeper.Tasks[0]
	for number, other := range keeper.Tasks {
		if duplicates += int(other.Duplicates); task == nil || number == 0 {
			task = other
		}
	}
	folder := ""
	if of, err := kept(task.GetEnv()[variableKeep]); err == nil && of.Name == name {
		seen, folder = of, of.GetKeeper().GetFolder()
	}
	program := task.GetBinary()
	if arguments := task.GetArgs(); len(arguments) != 1 || arguments[0] != Command {
		program += " " + strings.Join(arguments, " ")
	}
	seen.Keeper = &processpb.Keeper{Program: program, Folder: folder, Duplicates: uint32(duplicates)}
	return seen
}

// health tells of the keeper, and of the last run.
func (s Schedules) health(intended, current *processpb.Schedule, keeper serve.Health) serve.Health {
	if keeper.State != serve.Healthy {
		return keeper
	}
	remembered, err := load(filepath.Join(s.folder(intended.Name), recordName))
	if err != nil {
		return serve.Health{State: serve.Unhealthy, Reason: err.Error()}
	}
	health := serve.Health{State: serve.Healthy, Reason: remembered.words(), ObservedVersion: keeper.ObservedVersion}
	if !remembered.Last.ok() {
		health.State = serve.Unhealthy
	}
	if times, err := timesOf(current); err == nil && !remembered.Considered.IsZero() {
		due := times.Next(remembered.Considered)
		if !due.IsZero() && time.Since(due) > startWithin(current)+late {
			health.State = serve.Unhealthy
			health.Reason = fmt.Sprintf("the run of %s has not begun: look at %s; %s", due.Format(time.RFC3339), filepath.Join(s.folder(intended.Name), "0.log"), health.Reason)
		}
	}
	return health
}

func startWithin(s *processpb.Schedule) time.Duration {
	if s.StartWithin == nil {
		return defaultStartWithin
	}
	return s.StartWithin.AsDuration()
}

func stopGrace(s *processpb.Schedule) time.Duration {
	if s.StopGrace == nil {
		return defaultStopGrace
	}
	return s.StopGrace.AsDuration()
}

// Apply starts the keeper, or puts another in its place. Runs that are under way
// go on: the new keeper finds them.
func (s Schedules) Apply(ctx context.Context, change serve.Change[*processpb.Schedule], permit serve.Permit) error {
	keeper, err := s.change(ctx, change)
	if err != nil {
		return err
	}
	return s.jobs().Apply(ctx, keeper, permit)
}

// Remove stops the keeper, and then its runs.
func (s Schedules) Remove(ctx context.Context, change serve.Change[*processpb.Schedule], permit serve.Permit) error {
	keeper, err := s.change(ctx, change)
	if err != nil {
		return err
	}
	if err := s.jobs().Remove(ctx, keeper, permit); err != nil {
		return err
	}
	list := func() ([]job.Carrier, error) {
		runs, err := job.Carriers(variableSchedule, change.Asset.Payload.Name)
		for _, run := range runs {
			change.Progress(fmt.Sprintf("stopping process %d of the run of %s, as the schedule is turned down", run.PID, run.Environment[variableRun]))
		}
		return runs, err
	}
	return job.StopAll(ctx, list, stopGrace(change.Asset.Payload), permit.Effect)
}

// change of the keeper's job.
func (s Schedules) change(ctx context.Context, change serve.Change[*processpb.Schedule]) (serve.Change[*processpb.Job], error) {
	asset := s.asJob(ctx, change.Asset)
	target, err := s.jobs().Resolve(ctx, asset)
	return serve.Change[*processpb.Job]{
		Asset: asset, Target: target, Plan: change.Plan, Push: change.Push, Token: change.Token,
		Progress: change.Progress, SaveMemo: change.SaveMemo,
	}, err
}
