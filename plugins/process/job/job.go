// Package job keeps jobs of local processes as intended. What runs is read
// from /proc each time: tasks are recognised by their environment (see
// lehr.process.v1.Job), and there is no state file. Tasks outlive the plugin
// and Lehr. Changes are rolled out one task at a time.
//
// The exit of a task is hinted at once; what else changes is found by looking.
//
// It never signals a process that it has not just recognised, by identity
// and start time, and never restarts a task that runs as intended. Only the
// program lehr-process calls it, through sdk/serve.
package job

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

const (
	defaultHealthTimeout = time.Second
	defaultStopGrace     = 10 * time.Second
	defaultStartTimeout  = 30 * time.Second
)

// Jobs serves lehr.process.v1.Job.
type Jobs struct {
	// Logs is the folder of the tasks' logs: <Logs>/<job>/<task>.log.
	Logs string
	// Secrets reads what secret_env names; nil: nothing may be named.
	Secrets *resolver.Resolver
	// Exits are told of the processes that are seen; nil: no exit is hinted.
	Exits *Exits
}

var (
	_ serve.Resource[*processpb.Job]  = Jobs{}
	_ serve.Destroyer[*processpb.Job] = Jobs{}
	_ serve.Remover[*processpb.Job]   = Jobs{}
	_ serve.Yielder[*processpb.Job]   = Jobs{}
	_ serve.Watcher                   = Jobs{}
)

// Serving: processes have no compare-and-set, so only permits and the lock
// delay bound a late push. Starting and signalling take milliseconds.
func Serving() serve.Serving {
	return serve.Serving{Guarantee: serve.Unguarded, LongestEffect: time.Second}
}

// Resolve fills in the defaults, and lists each task as it should run.
func (j Jobs) Resolve(ctx context.Context, asset serve.Asset[*processpb.Job]) (*processpb.Job, error) {
	job := proto.CloneOf(asset.Payload)
	switch {
	case !filepath.IsLocal(job.Name) || job.Name != filepath.Clean(job.Name):
		return nil, fmt.Errorf("job name %q is not a relative path such as shop/a/frontend: mend it in the intent", job.Name)
	case !filepath.IsAbs(job.Binary):
		return nil, fmt.Errorf("binary %q of job %s is not an absolute path: write the whole path, or let the generator do so", job.Binary, job.Name)
	case job.BasePort != 0 && job.BasePort+job.Replicas > 65536:
		return nil, fmt.Errorf("job %s needs the ports %d to %d, but 65535 is the last there is: lower base_port or replicas",
			job.Name, job.BasePort, job.BasePort+job.Replicas-1)
	case job.Health != nil && job.BasePort == 0:
		return nil, fmt.Errorf("job %s has a health check but no port to ask: set base_port", job.Name)
	}
	if _, err := elastic(asset); err != nil {
		return nil, err
	}
	secrets, err := j.secretsOf(ctx, asset.SecretRequest(), job)
	if err != nil {
		return nil, err
	}
	wipe(secrets.values)
	job.Tasks = map[uint32]*processpb.Task{}
	for number := range job.Replicas {
		job.Tasks[number] = secrets.intended(job, number)
	}
	return job, nil
}

// intended is the task as it should run, but for its secrets.
func intended(job *processpb.Job, number uint32) *processpb.Task {
	fill := strings.NewReplacer("{port}", fmt.Sprint(port(job, number)), "{task}", fmt.Sprint(number)).Replace
	task := &processpb.Task{Binary: job.Binary, Version: job.Version, Env: map[string]string{}}
	for _, argument := range job.Args {
		task.Args = append(task.Args, fill(argument))
	}
	for name, value := range job.Env {
		task.Env[name] = fill(value)
	}
	return task
}

// port of a task; 0: none.
func port(job *processpb.Job, number uint32) uint32 {
	if job.BasePort == 0 {
		return 0
	}
	return job.BasePort + number
}

// Watch implements serve.Watcher.
func (j Jobs) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	return j.Exits.Watch(ctx, hint)
}

// Destructive: none of the tasks is to remain.
func (Jobs) Destructive(change serve.Change[*processpb.Job]) []string {
	if change.Target.Replicas != 0 {
		return nil
	}
	var paths []string
	for _, field := range change.Plan.Changes {
		if field.Path == "replicas" {
			paths = append(paths, field.Path)
		}
	}
	return paths
}

// Read looks at all processes once, and asks the tasks how they are.
func (j Jobs) Read(ctx context.Context, assets []serve.Asset[*processpb.Job]) ([]serve.State[*processpb.Job], error) {
	j.prefetch(ctx, assets)
	demands := make([]demand, len(assets))
	for i, asset := range assets {
		demands[i].Job = asset.Payload
		if !asset.TurnedDown() {
			demands[i].secrets = j.seenSecrets(ctx, asset.SecretRequest(), asset.Payload)
		}
		// What may not be left to production is refused by Resolve.
		demands[i].elastic, _ = elastic(asset)
	}
	sightings, err := look(ctx, demands)
	if err != nil {
		return nil, err
	}
	machine, err := machineName()
	if err != nil {
		return nil, err
	}
	states := make([]serve.State[*processpb.Job], len(assets))
	for i, asset := range assets {
		j.Exits.watch(asset.Incarnation.Partition, asset.ID, sightings[i])
		states[i] = state(asset.Payload, sightings[i])
		states[i].Key = serve.ResourceKey("process:" + machine + "/" + asset.Payload.Name)
		if asset.TurnedDown() && len(sightings[i].tasks) == 0 {
			states[i].Current = nil
		}
	}
	return states, nil
}

// state tells what was seen in the payload's type. Fields that only direct
// this plugin are no part of production and are as intended; so are binary,
// arguments and environment of the job, of which the tasks give account.
func state(job *processpb.Job, seen sighting) serve.State[*processpb.Job] {
	result := serve.State[*processpb.Job]{
		Base:    seen.base(),
		Health:  seen.health(),
		Impacts: []serve.Impact{{Dimension: "tasks", Current: float64(len(seen.tasks)), Target: float64(len(seen.wanted))}},
		Notes:   map[string]string{},
	}
	if len(seen.tasks) == 0 && job.Replicas > 0 {
		return result
	}
	current := proto.CloneOf(job)
	current.Replicas = uint32(len(seen.tasks))
	current.Tasks = map[uint32]*processpb.Task{}
	var versions []string
	for number, task := range seen.tasks {
		current.Tasks[number] = task.runs(job, seen.secrets)
		versions = append(versions, task.main().version)
	}
	for _, number := range seen.wanted {
		if seen.tasks[number] == nil {
			result.Notes[fmt.Sprintf("tasks[%d].binary", number)] = fmt.Sprintf("task %d is not running", number)
		}
	}
	slices.Sort(versions)
	if len(versions) > 0 {
		current.Version = strings.Join(slices.Compact(versions), ", ")
	}
	result.Current = current
	return result
}

// base stands for the very processes seen.
func (s sighting) base() string {
	var lines []string
	for number, task := range s.tasks {
		for _, p := range task.processes {
			lines = append(lines, fmt.Sprintf("%d %d %d %q", number, p.pid, p.started, p.argv))
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, "\n"))))[:32]
}

// health of the job: that of its wanted tasks.
func (s sighting) health() serve.Health {
	var reasons, versions []string
	for _, number := range s.wanted {
		task := s.tasks[number]
		if task == nil {
			reasons = append(reasons, fmt.Sprintf("task %d is not running", number))
			continue
		}
		versions = append(versions, cmp.Or(task.reported, task.main().version))
		if task.trouble != "" {
			reasons = append(reasons, fmt.Sprintf("task %d %s", number, task.trouble))
		}
	}
	slices.Sort(versions)
	health := serve.Health{State: serve.Healthy, ObservedVersion: strings.Join(slices.Compact(versions), ", ")}
	if len(reasons) > 0 {
		health.State, health.Reason = serve.Unhealthy, strings.Join(reasons, "; ")
	}
	return health
}

// machineName is what tells this machine from others.
func machineName() (string, error) {
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && len(strings.TrimSpace(string(id))) > 0 {
		return strings.TrimSpace(string(id)), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("naming this machine: neither /etc/machine-id nor a host name is to be had: %w", err)
	}
	return name, nil
}
