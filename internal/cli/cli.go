// Package cli is Lehr's commands: it parses flags, speaks to a server through
// package client, and prints for people or programs. What works without a
// server (build, plan, serve, stop on a file) is handed in as Local. It holds
// no rule of the domain. cmd/lehr calls Run; nothing else parses flags.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/client"
)

// Exit codes, stable.
const (
	exitOK       = 0
	exitError    = 1
	exitDiffers  = 2
	exitTimedOut = 3
)

// Terminal is what a command reads and writes.
type Terminal struct {
	Out, Err io.Writer
	Getenv   func(string) string
	// ShowsProgress: a command that takes seconds tells on Err what it does meanwhile.
	ShowsProgress bool
}

// session is one run of the program.
type session struct {
	Terminal
	local Local
	now   func() time.Time

	store, database, partition, output string
	// asJSON is the same as output json.
	asJSON bool
	// servers are URLs, of which any may answer.
	servers []string
	// storeGiven, databaseGiven, serverGiven, partitionGiven: it was named by its
	// flag. What flags name counts before what the environment does.
	storeGiven, databaseGiven, serverGiven, partitionGiven bool
	// settled: the command line was understood.
	settled bool
	closers []func() error
}

// exit ends the program with a code, after everything was said.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Main runs the program on this process's terminal and returns its exit code.
func Main(local Local) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	cobra.EnableCommandSorting = false // What comes first is shown first.
	return Run(ctx, local, Terminal{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, ShowsProgress: true}, os.Args[1:])
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, local Local, terminal Terminal, args []string) int {
	s := &session{Terminal: terminal, local: local, now: time.Now}
	if local.Now != nil {
		s.now = local.Now
	}
	root := s.root()
	root.SetArgs(args)
	root.SetOut(terminal.Out)
	root.SetErr(terminal.Err)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !s.settled && fault.KindOf(err) == fault.Internal {
		// It was not understood, so nothing was begun.
		err = misunderstood(command, err)
	}
	for _, closer := range s.closers {
		if closing := closer(); closing != nil {
			err = errors.Join(err, closing)
		}
	}
	code := s.report(err, ctx.Err() != nil)
	if _, ok := errors.AsType[exit](err); !ok && code == exitError && hasNoVerdict(command) {
		return exitDiffers
	}
	return code
}

// hasNoVerdict reports whether an error of the command is no verdict.
func hasNoVerdict(command *cobra.Command) bool {
	_, ok := command.Annotations[noVerdict]
	return ok
}

// didYouMean is what cobra puts before names like the one that is not known.
const didYouMean = "\n\nDid you mean this?\n"

// misunderstood says how the command is given.
func misunderstood(command *cobra.Command, err error) error {
	message, suggestions, _ := strings.Cut(err.Error(), didYouMean)
	problem := fault.New(fault.Invalid, "%s", message)
	switch suggestions := strings.Fields(suggestions); {
	case len(suggestions) > 0:
		return problem.WithHint("did you mean %s %s? %s --help lists what there is", command.CommandPath(), strings.Join(suggestions, " or "), command.CommandPath())
	case strings.Contains(message, "in duration"):
		return problem.WithHint("write a number with its unit: 30s, 90m, 2h")
	case command.HasSubCommands():
		return problem.WithHint("%s --help lists what there is", command.CommandPath())
	default:
		return problem.WithHint("write %s; %s --help tells more", command.UseLine(), command.CommandPath())
	}
}

// Command is the tree of commands, for whoever asks what there is and how it
// is called.
func Command(local Local) *cobra.Command { return (&session{local: local}).root() }

// report prints an error and chooses the exit code. interrupted: a person or a
// supervisor told the program to end.
func (s *session) report(err error, interrupted bool) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exit](err); ok {
		return code.code
	}
	if detail := client.Detail(err); s.json() && detail.GetConflict() != nil {
		_ = printMessage(s.Out, detail.Conflict) // What a program needs to try again.
	}
	cause, ok := errors.AsType[*fault.Error](err)
	switch {
	case errors.Is(err, context.Canceled) && (interrupted || !ok):
		fmt.Fprintln(s.Err, "lehr: interrupted")
	case errors.Is(err, context.DeadlineExceeded) && !ok:
		fmt.Fprintln(s.Err, "lehr: timed out")
		return exitTimedOut
	case ok && err == error(cause):
		fmt.Fprintf(s.Err, "lehr: %s\n", plain(cause.Message))
		if cause.Hint != "" {
			fmt.Fprintf(s.Err, "      %s\n", plain(cause.Hint))
		}
	default:
		fmt.Fprintf(s.Err, "lehr: %s\n", plain(err.Error()))
	}
	return exitError
}

func (s *session) root() *cobra.Command {
	root := &cobra.Command{
		Use: "lehr", Version: s.local.Version,
		Short: "Keep production as intended, safely and continuously",
		Long: `Lehr turns the configuration that you have into one uniform intent, keeps comparing
it with production, and changes production only when every check agrees. When it
does not act, it says why: lehr why ASSET.

Exit codes: 0 done, 1 error, 2 differences or not converged, 3 timed out.`,
		Example: `  lehr init hello && cd hello   # a small partition to start from
  lehr plan                     # what would change; changes nothing
  lehr serve -p lehr.yaml       # then, in another terminal: lehr get reports`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(command *cobra.Command, args []string) error {
			return s.settle(command, args)
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&s.store, "store", "", "the store's file (env LEHR_STORE; default .lehr/lehr.db)")
	flags.StringVar(&s.database, "database", "", "PostgreSQL database that holds the store in place of a file, postgres://USER@HOST/NAME (env LEHR_DATABASE)")
	flags.StringSliceVar(&s.servers, "server", nil, "URL of a server, after lehr auth login or with a token in LEHR_TOKEN; give several replicas to ask one that answers (env LEHR_SERVER)")
	flags.StringVarP(&s.partition, "partition", "p", "", "the partition (env LEHR_PARTITION; default: the only one)")
	flags.StringVarP(&s.output, "output", "o", "table", "table, wide (more columns, where there are more) or json")
	flags.BoolVar(&s.asJSON, "json", false, "the same as -o json")
	root.AddGroup(
		&cobra.Group{ID: "begin", Title: "Begin:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "act", Title: "Brake and allow:"},
		&cobra.Group{ID: "keep", Title: "Keep the store:"},
	)
	addGroup := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
		}
		root.AddCommand(commands...)
	}
	addGroup("begin", s.initCommand(), s.importCommand(), s.buildCommand(), s.lintCommand(), s.schemaCommand(), s.planCommand(), s.serveCommand(), s.partitionCommand(), s.policyCommand(), s.documentCommand(), s.kubernetesCommand())
	addGroup("look",
		s.whyCommand(), s.timelineCommand(), s.notifyCommand(), s.blameCommand(), s.findCommand(), s.whereCommand(), s.getCommand(), s.describeCommand(), s.watchCommand(), s.topCommand(), s.waitCommand(), s.diffCommand(), s.judgeCommand(), s.workflowCommand(), s.auditCommand(), s.pageCommand(),
		s.exportCommand(), s.verifyExportCommand(), s.blobCommand(),
	)
	addGroup("act",
		s.stopCommand(), s.resumeCommand(), s.holdCommand(), s.unholdCommand(), s.retryCommand(), s.pinCommand(), s.unpinCommand(),
		s.rolloutCommand(), s.deliveryCommand(), s.releaseCommand(), s.approveCommand(), s.rejectCommand(), s.overrideCommand(), s.turndownCommand(), s.disownCommand(), s.labelCommand(),
		s.authCommand(),
	)
	addGroup("keep", s.backupCommand(), s.restoreCommand(), s.storeCommand(), s.debugCommand())
	root.AddCommand(s.versionCommand())
	addGroup("begin", s.local.Commands...)
	return root
}

const defaultStore = ".lehr/lehr.db"

// ownOutput annotates a command with an output that only it has.
const ownOutput = "output"

// settle fills in what flags left to the environment.
func (s *session) settle(command *cobra.Command, args []string) error {
	switch {
	case s.asJSON && s.output != "table" && s.output != "json":
		return fault.New(fault.Invalid, "both --json and -o %s are asked for", s.output).WithHint("name one of them")
	case s.asJSON:
		s.output = "json"
	case slices.Contains([]string{"table", "wide", "json"}, s.output), s.output == command.Annotations[ownOutput]:
	default:
		known := []string{"-o table", "-o wide", "-o json"}
		if own := command.Annotations[ownOutput]; own != "" {
			known = append(known, "-o "+own)
		}
		last := len(known) - 1
		return fault.New(fault.Invalid, "output %q is not known", s.output).WithHint("use %s or %s", strings.Join(known[:last], ", "), known[last])
	}
	if err := command.ValidateRequiredFlags(); err != nil {
		return err
	}
	s.settled = true
	changed := command.Root().PersistentFlags().Changed
	s.storeGiven, s.databaseGiven, s.serverGiven, s.partitionGiven = changed("store"), changed("database"), changed("server"), changed("partition")
	if err := s.refuseIgnored(command, args); err != nil {
		return err
	}
	if s.serverGiven && (s.databaseGiven || s.storeGiven) {
		return fault.New(fault.Invalid, "both a server and a store are named").
			WithHint("name --server to ask it, or --store or --database to work on the store itself")
	}
	if named := s.Getenv("LEHR_SERVER"); len(s.servers) == 0 && named != "" && !s.storeGiven {
		s.servers = strings.Split(named, ",")
	}
	for _, setting := range []struct {
		value    *string
		variable string
		usual    string
	}{
		{&s.store, "LEHR_STORE", defaultStore},
		{&s.database, "LEHR_DATABASE", ""},
		{&s.partition, "LEHR_PARTITION", ""},
	} {
		if *setting.value == "" {
			*setting.value = s.Getenv(setting.variable)
		}
		if *setting.value == "" {
			*setting.value = setting.usual
		}
	}
	// For as long as the command runs, its store is no input of what it builds or
	// imports.
	files.Guard([]string{s.store}, nil)
	return nil
}

func (s *session) json() bool { return s.output == "json" }

func (s *session) wide() bool { return s.output == "wide" }
