// Package processes reads running processes of this user as jobs that
// lehr-process serves. It reads /proc, and sends no signal. What a process holds
// in its environment is never copied, for it may be secret (S13): of variables
// only the names are told. cmd/lehr lists its kind.
package processes

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer"
)

// Kind imports processes.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "processes", Arguments: "[NAME|PID …]", Short: "Running processes of this user, as jobs",
		Long: `Read running processes of this user from /proc, and write them as jobs for
lehr-process: program, arguments, the port on which they listen. Choose them by the
name of their program, by pid, or with --match by their command line. Nothing is
sent to them. Values of their environment are not copied, for they may be secrets;
nor is a process whose arguments look like one.`,
	}
	kind.Args.Most = -1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		match := flags.String("match", "", "a regular expression that command lines match")
		return func(_ context.Context, args []string) (importer.Import, error) {
			pattern, err := regexp.Compile(*match)
			if err != nil {
				return importer.Import{}, fault.New(fault.Invalid, "--match: %w", err)
			}
			if len(args) == 0 && *match == "" {
				return importer.Import{}, fault.New(fault.Invalid, "no process is named").
					WithHint("name programs or pids, or write --match PATTERN; ps -u $USER -o pid,args lists what runs")
			}
			all, err := running()
			if err != nil {
				return importer.Import{}, fault.New(fault.Unavailable, "reading the processes of this machine: %w", err).WithHint("this takes Linux, with /proc")
			}
			chosen, err := choose(all, args, *match != "", pattern)
			if err != nil {
				return importer.Import{}, err
			}
			return write(chosen)
		}
	}
	return kind
}

// choose takes those that are named or match, and leaves out the parts of
// others of the same program: they are their parents' to start.
func choose(all []process, names []string, matching bool, pattern *regexp.Regexp) (chosen []process, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p process) bool { return p.called(name) }) {
			return nil, fault.New(fault.NotFound, "no process of this user is called %q", name).
				WithHint("name a program as ps -u $USER -o pid,comm does, or a pid")
		}
	}
	byPID := map[int]process{}
	for _, p := range all {
		if p.pid != os.Getpid() && (slices.ContainsFunc(names, p.called) || matching && pattern.MatchString(p.line())) {
			byPID[p.pid] = p
		}
	}
	for _, p := range all {
		if _, ok := byPID[p.pid]; !ok {
			continue
		}
		if parent, ok := byPID[p.parent]; ok && parent.executable == p.executable {
			continue
		}
		chosen = append(chosen, p)
	}
	if len(chosen) == 0 {
		return nil, fault.New(fault.NotFound, "no process of this user matches %q", pattern).WithHint("ps -u $USER -o pid,args lists what runs")
	}
	return chosen, nil
}

// job is a Job of lehr-process, as it is written.
type job struct {
	Name     string   `yaml:"name"`
	Replicas int      `yaml:"replicas"`
	Binary   string   `yaml:"binary"`
	Args     []string `yaml:"args,omitempty"`
	Port     int      `yaml:"base_port,omitempty"`
	// origins are the processes that it was read from.
	origins []process
}

const (
	// maxPort is the highest of a job's first task.
	maxPort     = 64500
	maxReplicas = 1000
)

func write(chosen []process) (result importer.Import, err error) {
	leave := func(p process, reason string, arguments ...any) {
		result.LeftOut = append(result.LeftOut, importer.LeftOut{What: fmt.Sprintf("process %d (%s)", p.pid, p.name()), Why: fmt.Sprintf(reason, arguments...)})
	}
	var jobs []*job
	counts := map[string]int{}
	for _, p := range chosen {
		if reason := p.unfit(); reason != "" {
			leave(p, "%s", reason)
			continue
		}
		if same := slices.IndexFunc(jobs, func(j *job) bool {
			return len(p.ports) == 0 && j.Port == 0 && j.Binary == p.binary && slices.Equal(j.Args, p.arguments) && j.Replicas < maxReplicas
		}); same >= 0 {
			jobs[same].Replicas++
			jobs[same].origins = append(jobs[same].origins, p)
			continue
		}
		name := segment(p.name())
		if counts[name]++; counts[name] > 1 {
			name = fmt.Sprintf("%s-%d", name, counts[name])
		}
		j := &job{Name: name, Replicas: 1, Binary: p.binary, Args: p.arguments, origins: []process{p}}
		switch {
		case len(p.ports) == 1 && p.ports[0] <= maxPort:
			j.Port = p.ports[0]
		case len(p.ports) > 0:
			leave(p, "of its ports %v none was taken over: a task has one, of at most %d", p.ports, maxPort)
		}
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		reason := ""
		for _, l := range result.LeftOut {
			reason += "; " + l.What + ": " + l.Why
		}
		return result, fault.New(fault.NotFound, "none of the processes can be taken over%s", reason)
	}
	result.Definition = `sources:
  files: {dir: jobs, files: ["*.yaml"]}

# One asset for each file.
generate:
  jobs: {starlark: jobs.star, from: [files], for_each: file}

plugins:
  Job: {run: lehr-process}
`
	result.Files = map[string][]byte{"jobs.star": []byte(`"""A job for each file."""

def generate(ctx):
    job = decode("lehr.process.v1.Job", ctx.file)
    return [asset("job/" + job.name, job)]
`)}
	for _, j := range jobs {
		text, err := yaml.Marshal(j)
		if err != nil {
			return result, fault.New(fault.Internal, "writing job %s: %w", j.Name, err)
		}
		result.Files["jobs/"+j.Name+".yaml"] = append([]byte(j.comment()), text...)
		result.Read = append(result.Read, fmt.Sprintf("job %s: %s", j.Name, j.processes()))
	}
	result.Hints = []string{
		"give each job the variables that it needs, under env: secrets as the name of a file or variable that holds them, never themselves",
		"what runs now was not started as a task, so lehr plan shows each job as missing; stop it when Lehr is to start the job, for it holds the port",
	}
	for _, j := range jobs {
		if paths := j.origins[0].relative(); len(paths) > 0 {
			result.Hints = append(result.Hints, fmt.Sprintf("write these arguments of job %s as whole paths, for tasks run in the folder / and it runs in %s: %s", j.Name, j.origins[0].folder, strings.Join(paths, ", ")))
		}
	}
	return result, nil
}

// relative are the arguments that lead to something from the process's folder.
func (p process) relative() (paths []string) {
	if p.folder == "/" {
		return nil
	}
	for _, argument := range p.arguments {
		path := argument
		if name, value, assigned := strings.Cut(argument, "="); assigned && strings.HasPrefix(name, "-") {
			path = value
		}
		if path == "" || filepath.IsAbs(path) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(p.folder, path)); err == nil {
			paths = append(paths, argument)
		}
	}
	return paths
}

func (j *job) processes() string {
	var pids []string
	for _, p := range j.origins {
		pids = append(pids, strconv.Itoa(p.pid))
	}
	return fmt.Sprintf("%s, from process %s", j.Binary, strings.Join(pids, ", "))
}

// comment tells what is no part of a job.
func (j *job) comment() string {
	p := j.origins[0]
	text := fmt.Sprintf("# %s, in the folder %q.\n", j.processes(), p.folder)
	if len(p.variables) > 0 {
		text += fmt.Sprintf("# Variables that it has, beside PATH and HOME, whose values were not copied:\n# %s\n", strings.Join(p.variables, " "))
	}
	return text
}

// secretArgument is the number, from 1, of the first argument that looks like a
// secret; 0: none does.
func secretArgument(arguments []string) int {
	list := make([]any, len(arguments))
	for i, argument := range arguments {
		list[i] = argument
	}
	for _, hit := range secrecy.Find(list) {
		if at, err := strconv.Atoi(strings.Trim(hit.Path, "[]")); err == nil {
			return at + 1
		}
	}
	return 0
}

// segment is a name as a part of an asset id and of a file's name.
func segment(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || b.Len() > 0 && strings.ContainsRune("._-", r) {
			b.WriteRune(r)
		} else if b.Len() > 0 {
			b.WriteByte('-')
		}
	}
	return cmp.Or(strings.TrimRight(b.String()[:min(b.Len(), 100)], "-._"), "job")
}

// interpreters run a script that gives them their name.
var interpreters = regexp.MustCompile(`^(python[0-9.]*|node|nodejs|ruby[0-9.]*|perl[0-9.]*|php[0-9.]*|java|sh|bash|dash|zsh)$`)

// name of the program, or of the script that it runs.
func (p process) name() string {
	program := filepath.Base(p.binary)
	if interpreters.MatchString(program) {
		for _, argument := range p.arguments {
			if !strings.HasPrefix(argument, "-") && filepath.Ext(argument) != "" && !strings.ContainsAny(argument, " \n=") {
				return strings.TrimSuffix(filepath.Base(argument), filepath.Ext(argument))
			}
		}
	}
	return program
}

// called reports whether that is its pid or program.
func (p process) called(name string) bool {
	return strconv.Itoa(p.pid) == name || filepath.Base(p.binary) == name || filepath.Base(p.executable) == name || p.name() == name
}

func (p process) line() string { return strings.Join(append([]string{p.binary}, p.arguments...), " ") }

// unfit says why a process cannot be a job.
func (p process) unfit() string {
	switch at := secretArgument(p.arguments); {
	case p.task != "":
		return fmt.Sprintf("it is a task of the job %s already", p.task)
	case p.deleted:
		return "its program was replaced or removed since it was started: start it again first"
	case p.retitled:
		return "it wrote over its command line, so with which arguments it was started is not known"
	case at > 0:
		return fmt.Sprintf("its argument %d looks like a secret, which everybody on this machine can read: give it a file or a variable instead", at)
	case slices.ContainsFunc(p.arguments, func(a string) bool { return strings.Contains(a, "{port}") || strings.Contains(a, "{task}") }):
		return "its arguments contain {port} or {task}, which stand for something else in a job"
	}
	return ""
}
