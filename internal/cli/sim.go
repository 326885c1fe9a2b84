package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// SimKit is the simulator.
type SimKit struct {
	Version string
	// Build is Local's.
	Build func(ctx context.Context, options BuildOptions) (Built, error)
	// Play plays a script, and tells its story. False: something in it is not
	// so.
	Play func(ctx context.Context, script string, w io.Writer) (bool, error)
	// Run runs seeds, and tells of every run that ended, one at a time.
	Run func(ctx context.Context, runs SimRuns, each func(SimRun, SimSum)) (SimSum, error)
	// Shrink finds few disturbances that break what a run broke, in so many
	// runs at most.
	Shrink func(ctx context.Context, runs SimRuns, failed SimRun, most int) (SimRun, error)
	// Kinds of disturbances.
	Kinds func() []string
}

// SimRuns says what is run.
type SimRuns struct {
	Seed    uint64
	Hours   float64
	Density float64
	// Replicas that share the store; 1: a process has it for itself.
	Replicas int
	// Only are the disturbances that happen; nil: all. Without are kinds.
	Only    []int
	Without []string
	// Definition of a user's partition; empty: the simulator's own.
	Definition string
	// Before is its definition before an edit; empty: nothing is edited.
	Before string
	// Documents that the definition reads of a server, in JSON, by name.
	Documents map[string]string
	Trace     io.Writer
	// Runs from the seed on, or as many as TotalHours take.
	Runs       int
	TotalHours float64
	// Clock ends runs of TotalHours after so much real time (0: never), but with Complete
	// not before all required situations were met.
	Clock     time.Duration
	Complete  bool
	Workers   int
	KeepGoing bool
}

// SimRun is what came of one seed.
type SimRun struct {
	Seed         uint64
	Broken       []SimBroken
	Disturbances []SimDisturbance
	Story        []string
	// Value is the run for programs, Details with plan and story.
	Value, Details any
}

// SimBroken is one breach of a property.
type SimBroken struct {
	Property, Says, What string
	At                   time.Time
}

// SimDisturbance is one thing that was to happen, in words.
type SimDisturbance struct {
	Number int
	Text   string
}

// SimSum is what runs amount to.
type SimSum struct {
	Runs, Failed, Planned, Struck, Effects, Cells int

	Hours float64
	Steps uint64
	// Marks are situations that came about; Missing should and did not.
	Marks, Required int
	Missing         []string
	// Twice is how many runs were made again, to see that they are the same.
	Twice int
	// Checked counts how often each property was asked; Unchecked were not.
	Checked   map[string]int
	Unchecked []string
	Value     any
}

// simulation is one call of the command.
type simulation struct {
	output
	kit  SimKit
	runs SimRuns

	story, noShrink bool
	only, trace     string
	excluded        string
	// documents are files in the place of documents: NAME=FILE.
	documents []string
}

const simLong = `Try to make Lehr do wrong. The real server, with its pipeline, its store and its
API, runs in virtual time against a simulated production, while processes are
killed and paused, clocks jump, the store fails, plugins lie, sources break and
people use brakes. Monitors look on, and in the end all is healed and must come
to rest. Nothing real is touched, and one seed always gives the same run.

Given scripts, play them instead: each tells its story and what is not so.

Exit code 1 when something that Lehr promises was broken.`

// SimCommand is the simulator's command.
func SimCommand(kit SimKit) *cobra.Command {
	s := &simulation{kit: kit}
	command := &cobra.Command{
		Use:   "sim [SCRIPT.txtar...]",
		Short: "Simulate crashes, faults and people, and check Lehr's invariants",
		Long:  simLong,
		Example: `  lehr sim --hours 24                   # a day of one seed, chosen by the clock
  lehr sim --seed 1 --runs 100          # 100 seeds
  lehr sim --partition lehr.yaml        # a partition of your own, simulated
  lehr sim --before ../main/lehr.yaml --partition lehr.yaml  # an edit of it, before merging
  lehr sim --seed 32 --only 8,21 --story`,
		RunE: func(command *cobra.Command, args []string) error {
			s.output = output{command}
			if len(args) > 0 {
				if s.json() {
					return fault.New(fault.Invalid, "a script tells its story as text").WithHint("leave -o json out, or simulate seeds: lehr sim --runs 1 -o json")
				}
				return s.play(command.Context(), args)
			}
			return s.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.Uint64Var(&s.runs.Seed, "seed", 0, "the first seed (default: from the clock)")
	flags.Float64Var(&s.runs.Hours, "hours", 1, "hours of disturbances in each run")
	flags.IntVar(&s.runs.Runs, "runs", 1, "how many seeds to run")
	flags.Float64Var(&s.runs.TotalHours, "total-hours", 0, "run seeds until they have simulated so many hours, instead of --runs")
	flags.DurationVar(&s.runs.Clock, "for", 0, "end --total-hours earlier, after so much real time; with --complete, not before all situations were met")
	flags.IntVar(&s.runs.Workers, "workers", 0, "how many run at a time (default: one a core)")
	flags.Float64Var(&s.runs.Density, "density", 12, "disturbances an hour, about")
	flags.IntVar(&s.runs.Replicas, "replicas", 1, "how many replicas share the store, as on a database (at most 9)")
	flags.StringVar(&s.only, "only", "", "let only these disturbances happen: their numbers, or none")
	flags.StringVar(&s.excluded, "without", "", "leave out these kinds of disturbance, such as \"restart,edit\"")
	flags.BoolVar(&s.runs.Complete, "complete", false, "fail, too, when a situation was not met that a set of runs must bring about")
	flags.StringVar(&s.runs.Before, "before", "", "begin with this lehr.yaml, as the partition is now, and make the edit to --partition on the way")
	_ = command.MarkFlagFilename("before")
	flags.StringVarP(&s.runs.Definition, "partition", "p", "", "simulate the partition of this lehr.yaml, not the simulator's own")
	flags.StringArrayVar(&s.documents, "document", nil, "NAME=FILE: what a document is that the partition reads of a server, in YAML or JSON")
	flags.BoolVar(&s.story, "story", false, "tell all that happens")
	flags.BoolVar(&s.noShrink, "no-shrink", false, "do not look for fewer disturbances that break the same")
	flags.BoolVar(&s.runs.KeepGoing, "keep-going", false, "run on after a run that failed")
	flags.StringVar(&s.trace, "trace", "", "write every step of the run to this file")
	return command
}

// play plays scripts, one after the other.
func (s *simulation) play(ctx context.Context, scripts []string) error {
	failed := false
	for i, script := range scripts {
		if i > 0 {
			fmt.Fprintln(s.OutOrStdout())
		}
		fmt.Fprintf(s.OutOrStdout(), "%s\n", plain(script))
		good, err := s.kit.Play(ctx, script, s.OutOrStdout())
		if err != nil {
			return err
		}
		failed = failed || !good
	}
	if failed {
		return exit{exitError}
	}
	return nil
}

// settle checks the flags and fills in what they leave open.
func (s *simulation) settle() (err error) {
	r := &s.runs
	switch {
	case !(r.Hours > 0) || r.Hours > 10_000:
		return fault.New(fault.Invalid, "--hours is more than 0 and at most 10000").WithHint("write --total-hours to simulate longer, in many runs")
	case r.Clock < 0 || r.Clock > 0 && r.TotalHours == 0:
		return fault.New(fault.Invalid, "--for ends --total-hours earlier, and there is none").WithHint("lehr sim --total-hours 5000 --for 10m")
	case r.Runs < 1 || r.TotalHours < 0 || r.Workers < 0:
		return fault.New(fault.Invalid, "--runs, --total-hours and --workers count from 1 on")
	case !(r.Density > 0) || r.Density > 10_000:
		return fault.New(fault.Invalid, "--density is more than 0 and at most 10000")
	case r.Replicas < 1 || r.Replicas > 9:
		return fault.New(fault.Invalid, "--replicas is from 1 to 9")
	case s.trace != "" && (r.Runs > 1 || r.TotalHours > 0):
		return fault.New(fault.Invalid, "--trace is of one run").WithHint("leave out --runs and --total-hours")
	case s.only != "" && (r.Runs > 1 || r.TotalHours > 0):
		return fault.New(fault.Invalid, "--only numbers the disturbances of one run").WithHint("leave out --runs and --total-hours")
	}
	if !s.Flags().Changed("seed") {
		r.Seed = uint64(time.Now().UnixMilli() % 1_000_000_000)
	}
	if r.Workers == 0 {
		r.Workers = runtime.GOMAXPROCS(0)
	}
	if r.Only, err = parseOnly(s.only); err != nil {
		return err
	}
	if r.Without, err = parseKinds(s.excluded, s.kit.Kinds()); err != nil {
		return err
	}
	if r.Definition == "" && r.Before != "" {
		return fault.New(fault.Invalid, "--before says what a partition was, and no --partition says what it is to be").
			WithHint("lehr sim --before ../main/lehr.yaml --partition lehr.yaml")
	}
	if len(s.documents) > 0 && r.Definition == "" {
		return fault.New(fault.Invalid, "--document is of a partition of your own, and no --partition says which").
			WithHint("lehr sim --partition lehr.yaml --document knobs=knobs.json")
	}
	for _, path := range []*string{&r.Definition, &r.Before} {
		if *path != "" {
			if *path, err = definitionPath(*path); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseOnly returns nil for all disturbances.
func parseOnly(text string) ([]int, error) {
	switch text {
	case "":
		return nil, nil
	case "none":
		return []int{}, nil
	}
	var only []int
	for word := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || number < 0 {
			return nil, fault.New(fault.Invalid, "--only takes numbers of disturbances, not %q", word).WithHint("write --only 8,21, or --only none")
		}
		only = append(only, number)
	}
	return only, nil
}

// parseKinds splits a list of kinds at commas; some have one in their names.
func parseKinds(text string, allowed []string) (kinds []string, err error) {
	parts := strings.Split(text, ",")
	for start := 0; text != "" && start < len(parts); {
		end := len(parts)
		kind := ""
		for ; end > start; end-- {
			if kind = strings.TrimSpace(strings.Join(parts[start:end], ",")); slices.Contains(allowed, kind) {
				break
			}
		}
		if end == start {
			return nil, fault.New(fault.Invalid, "there is no disturbance %q", strings.TrimSpace(parts[start])).WithHint("there are: %s", strings.Join(allowed, "; "))
		}
		kinds = append(kinds, kind)
		start = end
	}
	return kinds, nil
}

func (s *simulation) run(ctx context.Context) error {
	if err := s.settle(); err != nil {
		return err
	}
	if s.runs.Definition != "" {
		if err := s.introduce(ctx); err != nil {
			return err
		}
	}
	if s.trace != "" {
		file, err := os.Create(s.trace)
		if err != nil {
			return fault.New(fault.Unavailable, "cannot write the trace: %w", err)
		}
		defer file.Close()
		s.runs.Trace = file
	}
	return newSimReport(s).run(ctx)
}

// document reads what is given for one that a server holds, and notes it for the runs.
func (s *simulation) document(_ context.Context, partition intent.PartitionID, name string) (doc document.Document, err error) {
	for _, argument := range s.documents {
		documentName, file, _ := strings.Cut(argument, "=")
		if documentName != name {
			continue
		}
		value, err := readDocumentFile(file)
		if err != nil {
			return doc, err
		}
		content := document.Canonical(value)
		if s.runs.Documents == nil {
			s.runs.Documents = map[string]string{}
		}
		s.runs.Documents[name] = string(content)
		return document.Document{Partition: partition, Name: name, Content: content, Revision: document.Revision{ID: "file", Reason: "the file " + file}}, nil
	}
	return doc, fault.New(fault.Invalid, "partition %s reads the document %s, which a server holds", partition, name).
		WithHint("say what it is: --document %s=%s (lehr document get %[1]s > %[2]s)", name, document.File(name))
}

// introduce says what will happen to a user's partition. One that does not
// build is told of as by "lehr build".
func (s *simulation) introduce(ctx context.Context) error {
	options := BuildOptions{Definition: s.runs.Definition, Documents: s.document}
	built, err := s.kit.Build(ctx, options)
	if err != nil {
		return err
	}
	if options.Definition = s.runs.Before; options.Definition != "" {
		if _, err := s.kit.Build(ctx, options); err != nil {
			return err
		}
	}
	terminal := Terminal{Out: s.ErrOrStderr(), Err: s.ErrOrStderr()}
	if hasErrors(built.Findings) {
		return (&session{Terminal: terminal, output: "table"}).printBuilt(built, "")
	}
	for _, argument := range s.documents {
		if name, _, _ := strings.Cut(argument, "="); s.runs.Documents[name] == "" {
			return fault.New(fault.Invalid, "--document %s: the definition reads no document %s that a server holds", argument, name).
				WithHint("name one of a source {document: NAME}")
		}
	}
	types := map[string]int{}
	var names []string
	for _, asset := range built.Assets {
		if types[string(asset.Type)]++; types[string(asset.Type)] == 1 {
			names = append(names, string(asset.Type))
		}
	}
	slices.Sort(names)
	fmt.Fprintf(terminal.Out, "Partition %s of %s, %s:\n", plain(string(built.Partition)), plain(s.runs.Definition), count(len(built.Assets), "asset"))
	for _, name := range names {
		fmt.Fprintf(terminal.Out, "  %4d  %s\n", types[name], plain(name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.runs.Documents)) {
		fmt.Fprintf(terminal.Out, "  with the document %s\n", plain(name))
	}
	fmt.Fprint(terminal.Out, `Its folder is copied into memory, and its generators run as they do in "lehr
build". Everything else is simulated: the store, production, and all plugins.
Nothing real is touched, and no plugin of yours is started. The partition's mode
is taken to be enforce.

`)
	return nil
}
