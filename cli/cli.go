// Package cli is Lehr's commands: it parses flags, speaks to a server through
// package client, and prints for people or programs. What works without a
// server (build, plan, serve, stop on a file) is handed in as Local. It holds
// no rule of the domain. cmd/lehr calls Run; nothing else parses flags.
package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lehr.dev/access"
	"lehr.dev/audit"
	"lehr.dev/client"
	"lehr.dev/document"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/importer"
	"lehr.dev/intent"
)

// Exit codes, stable.
const (
	exitOK       = 0
	exitError    = 1
	exitDiffers  = 2
	exitTimedOut = 3
)

// Local is what commands do without a server.
type Local struct {
	Version string
	// Serve runs a server until the context ends. It calls ready when it
	// listens.
	Serve func(ctx context.Context, options ServeOptions, ready func(Serving)) error
	// StoreName is what people may see of a store's name.
	StoreName func(store string) string
	// Open returns a client that works on a store's file, or on the database at
	// a URL, with or without a server beside. It never creates a store.
	Open func(ctx context.Context, store string, actor intent.Actor) (*client.Client, func() error, error)
	// VerifyAudit recomputes an audit without a server.
	VerifyAudit func(ctx context.Context, source AuditSource) (audit.Report, error)
	// Build runs a partition's pipeline, and publishes nothing; Lint warns of
	// what is probably not meant, too.
	Build, Lint func(ctx context.Context, options BuildOptions) (Built, error)
	// JSONSchema is that of a definition, or of a type, which may be of the
	// definition named.
	JSONSchema func(ctx context.Context, definition, sources, typeName string) (map[string]any, []intent.Finding, error)
	// ReadDefinition reads a definition, in a repository too.
	ReadDefinition func(ctx context.Context, definition, sources string) ([]byte, error)
	// Plan builds, looks at production, and changes nothing. The holds are those of
	// a server whose store cannot be read.
	Plan func(ctx context.Context, options BuildOptions, partition intent.PartitionID, holds []intent.Hold) (Planned, error)
	// Range asks Prometheus for samples to judge.
	Range func(ctx context.Context, query RangeQuery) ([]Ranged, error)
	// Keeping is what is done to stores.
	Keeping Keeping
	// Imports are the kinds of what exists that import reads.
	Imports []importer.Kind
	// Commands are added to the root as they are.
	Commands []*cobra.Command
	// Client, if any, is the server of every command, and Now the time: a
	// simulation's.
	Client *client.Client
	Now    func() time.Time
}

// BuildOptions are build's and plan's flags. Files that are not named allow
// nothing.
type BuildOptions struct {
	Definition string
	// Generators lists who may have native programs run.
	Generators string
	// Sources says which secrets and networks sources may use.
	Sources string
	// PluginServers lists those which may be dialled.
	PluginServers string
	// ExternalChecks says what rules and checks may ask outside; without it, public URLs
	// only.
	ExternalChecks string
	// Verify builds again elsewhere, and compares.
	Verify bool
	// Store, a file or the URL of a database, of which a plan takes over what is
	// known of the partition; empty, or where there is none: nothing is.
	Store string
	// Documents reads those that a server holds; nil: none is asked.
	Documents func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error)
}

// ServeOptions are serve's flags.
type ServeOptions struct {
	Store string
	// Database is a PostgreSQL URL; empty: the store is a file.
	Database string
	// Access is the file of the access policy; empty: there is none.
	Access string
	// PluginServers lists the plugin servers that may be dialled; empty: none.
	PluginServers string
	// Generators lists who may have native programs run; empty: nobody.
	Generators string
	// Sources says which secrets and networks sources may use; empty: none.
	Sources string
	// ExternalChecks says what rules and checks may ask outside; empty: public URLs only.
	ExternalChecks string
	// Notifications says whom partitions may have told; empty: nobody.
	Notifications string
	Listen        string
	// Metrics is the address of metrics and health; empty: they have none of their
	// own.
	Metrics string
	// Traces is the base URL of a collector of traces; empty: variables say.
	Traces string
	// TLSCert and TLSKey are the files of a certificate and its key.
	TLSCert, TLSKey string
	// URLs by which other machines know the server.
	URLs []*url.URL
	// Roots are whose certificates are believed; nil: the system's.
	Roots *x509.CertPool
	// Sweep is the longest pause between two looks at a quiet asset.
	Sweep time.Duration
	// Checkpoints of the audit are added to this file, or posted to this URL.
	Checkpoints     string
	CheckpointPause time.Duration
	// Register are definitions to register first, by partition.
	Register map[intent.PartitionID]string
	// LogFormat is text or json, LogLevel the least that is told: debug, info, warn
	// or error.
	LogFormat, LogLevel string
	Log                 io.Writer
}

// Serving is how to reach a server that listens.
type Serving struct {
	URL, Token string
	// Remote is the address for other machines; empty: there is none.
	Remote string
	// Metrics is the address of metrics and health; empty: they have none.
	Metrics string
}

// Built is what a pipeline made.
type Built struct {
	Partition intent.PartitionID
	Assets    []BuiltAsset
	Findings  []intent.Finding
	// Blobs that the assets name.
	Blobs map[intent.Digest][]byte
}

// BuiltAsset is one asset, rendered.
type BuiltAsset struct {
	ID   intent.AssetID
	Type intent.TypeName
	// Generator, and the place in its program, that made it.
	Generator, Place string
	JSON             []byte
	Resolved         []Resolved
}

// Resolved is a field that a resolver changed, what it was, empty if it was not
// set, and why.
type Resolved struct {
	Field  string `json:"field"`
	Was    string `json:"was,omitempty"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Planned is a partition as it would be.
type Planned struct {
	Partition intent.PartitionID
	Findings  []intent.Finding
	// Assets that were built, in the order of their ids.
	Assets []BuiltAsset
	// Answer of what was found; empty when the findings have errors.
	Answer *apipb.PlanCandidateResponse
}

// Terminal is what a command reads and writes.
type Terminal struct {
	Out, Err io.Writer
	Getenv   func(string) string
}

// session is one run of the program.
type session struct {
	Terminal
	local Local
	now   func() time.Time

	store, database, partition, output string
	// servers are URLs, of which any may answer.
	servers []string
	// storeGiven, databaseGiven, serverGiven: it was named by its flag. What flags
	// name counts before what the environment does.
	storeGiven, databaseGiven, serverGiven bool
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
	return Run(ctx, local, Terminal{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:])
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
		err = errors.Join(err, closer())
	}
	code := s.report(err)
	if _, said := errors.AsType[exit](err); !said && code == exitError && hasNoVerdict(command) {
		return exitDiffers
	}
	return code
}

// hasNoVerdict reports whether an error of the command is no verdict.
func hasNoVerdict(command *cobra.Command) bool {
	_, is := command.Annotations[noVerdict]
	return is
}

// didYouMean is what cobra puts before names like the one that is not known.
const didYouMean = "\n\nDid you mean this?\n"

// misunderstood says how the command is given.
func misunderstood(command *cobra.Command, err error) error {
	message, meant, _ := strings.Cut(err.Error(), didYouMean)
	problem := fault.New(fault.Invalid, "%s", message)
	switch meant := strings.Fields(meant); {
	case len(meant) > 0:
		return problem.WithHint("did you mean %s %s? %s --help lists what there is", command.CommandPath(), strings.Join(meant, " or "), command.CommandPath())
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

// report prints an error and chooses the exit code.
func (s *session) report(err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exit](err); ok {
		return code.code
	}
	if detail := client.Detail(err); s.json() && detail.GetConflict() != nil {
		_ = printMessage(s.Out, detail.Conflict) // What a program needs to try again.
	}
	known, ok := errors.AsType[*fault.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(s.Err, "lehr: interrupted")
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(s.Err, "lehr: timed out")
		return exitTimedOut
	case ok && err == error(known):
		fmt.Fprintf(s.Err, "lehr: %s\n", plain(known.Message))
		if known.Hint != "" {
			fmt.Fprintf(s.Err, "      %s\n", plain(known.Hint))
		}
	default:
		fmt.Fprintf(s.Err, "lehr: %s\n", plain(err.Error()))
	}
	return exitError
}

func (s *session) root() *cobra.Command {
	root := &cobra.Command{
		Use: "lehr", Version: s.local.Version,
		Short: "Keeps production as intent says, safely and continuously",
		Long: `Lehr turns configuration into one uniform intent, compares it with production
all the time, and changes production only when every check agrees. It can
always say why it is not acting: lehr why ASSET.

Exit codes: 0 done, 1 error, 2 differences or not converged, 3 timed out.`,
		Example: `  lehr init hello && cd hello   # a small partition to start from
  lehr plan                     # what would change; changes nothing
  lehr serve -p lehr.yaml       # then, in another terminal: lehr get reports`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			return s.settle(command)
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&s.store, "store", "", "the store's file (env LEHR_STORE; default .lehr/lehr.db)")
	flags.StringVar(&s.database, "database", "", "the PostgreSQL database that holds the store instead, postgres://USER@HOST/NAME (env LEHR_DATABASE)")
	flags.StringSliceVar(&s.servers, "server", nil, "URL of a server, after lehr auth login or with a token in LEHR_TOKEN; of several replicas, one that answers is asked (env LEHR_SERVER)")
	flags.StringVarP(&s.partition, "partition", "p", "", "the partition (env LEHR_PARTITION; default: the only one)")
	flags.StringVarP(&s.output, "output", "o", "table", "table, wide or json")
	root.AddGroup(
		&cobra.Group{ID: "begin", Title: "Begin:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "act", Title: "Brake and allow:"},
		&cobra.Group{ID: "keep", Title: "Keep the store:"},
	)
	in := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
		}
		root.AddCommand(commands...)
	}
	in("begin", s.initCommand(), s.importCommand(), s.buildCommand(), s.lintCommand(), s.schemaCommand(), s.planCommand(), s.serveCommand(), s.partitionCommand(), s.documentCommand())
	in("look",
		s.whyCommand(), s.timelineCommand(), s.notifyCommand(), s.blameCommand(), s.getCommand(), s.describeCommand(), s.watchCommand(), s.topCommand(), s.waitCommand(), s.diffCommand(), s.judgeCommand(), s.auditCommand(), s.pageCommand(),
		s.exportCommand(), s.verifyExportCommand(), s.blobCommand(),
	)
	in("act",
		s.stopCommand(), s.resumeCommand(), s.holdCommand(), s.unholdCommand(), s.retryCommand(), s.pinCommand(), s.unpinCommand(),
		s.approveCommand(), s.rejectCommand(), s.overrideCommand(), s.disownCommand(), s.labelCommand(),
		s.authCommand(),
	)
	in("keep", s.backupCommand(), s.restoreCommand(), s.storeCommand(), s.debugCommand())
	root.AddCommand(s.versionCommand())
	in("begin", s.local.Commands...)
	return root
}

const defaultStore = ".lehr/lehr.db"

// ownOutput annotates a command with an output that only it has.
const ownOutput = "output"

// settle fills in what flags left to the environment.
func (s *session) settle(command *cobra.Command) error {
	switch {
	case slices.Contains([]string{"table", "wide", "json"}, s.output), s.output == command.Annotations[ownOutput]:
	default:
		return fault.New(fault.Invalid, "output %q is not known", s.output).WithHint("use -o table, -o wide or -o json")
	}
	if err := command.ValidateRequiredFlags(); err != nil {
		return err
	}
	s.settled = true
	changed := command.Flags().Changed
	s.storeGiven, s.databaseGiven, s.serverGiven = changed("store"), changed("database"), changed("server")
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
	return nil
}

func (s *session) json() bool { return s.output == "json" }
func (s *session) wide() bool { return s.output == "wide" }

// actor is who runs the program.
func (s *session) actor() intent.Actor {
	name := s.Getenv("USER")
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	return intent.Actor{Name: name, Origin: "cli"}
}

// databaseMeant reports whether a database is named beside whatever server there
// is: who means that does not act on what another server has.
func (s *session) databaseMeant() bool {
	return s.database != "" && !s.serverGiven && (s.databaseGiven || !s.storeGiven)
}

// connect returns a client of the server; of the database, if one is named.
func (s *session) connect(ctx context.Context) (*client.Client, error) {
	found, err := s.dial()
	if !s.databaseMeant() || s.local.Client != nil {
		return found, err
	}
	toDo := "name one of its servers with --server URL, or leave the database out to ask the server that runs here"
	if len(s.servers) > 0 {
		toDo = "name one of its servers with --server URL; LEHR_SERVER names one of another store"
	}
	wanted := s.local.StoreName(s.database)
	if missing, ok := errors.AsType[*fault.Error](err); ok {
		return found, fault.New(missing.Kind, "this takes a server of %s: %s", wanted, missing.Message).WithHint("%s", toDo)
	}
	if err != nil {
		return found, err
	}
	about, err := found.Server.GetServer(ctx, serverRequest)
	if err == nil && about.Store != wanted {
		err = fault.New(fault.Conflict, "this takes a server of %s, and the one at %s has another store, %s", wanted, found.URL, about.Store).WithHint("%s", toDo)
	}
	return found, err
}

// dial returns a client of the server that is named, or runs here.
func (s *session) dial() (*client.Client, error) {
	if s.local.Client != nil {
		return s.local.Client, nil
	}
	if len(s.servers) == 0 {
		return client.Discover(s.store, s.actor())
	}
	servers := make([]string, len(s.servers))
	for i, named := range s.servers {
		var err error
		if servers[i], err = client.ParseServer(named); err != nil {
			return nil, err
		}
	}
	// A token of one replica is known to all.
	secret, err := s.secret(servers[0])
	if err != nil {
		return nil, err
	}
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	return client.DialWithRoots(servers[0], secret, s.actor(), roots, servers[1:]...), nil
}

// connectOrOpen returns a client of the server; or of the store itself, file or
// database, when no server answers or a flag names it.
func (s *session) connectOrOpen(ctx context.Context) (*client.Client, error) {
	if s.local.Client != nil {
		return s.local.Client, nil
	}
	if s.databaseGiven || s.storeGiven {
		return s.open(ctx)
	}
	return s.answeringOrOpen(ctx)
}

// connectOrRead returns a client of the server; or of the database, if one is
// named, when no server of it answers.
func (s *session) connectOrRead(ctx context.Context) (*client.Client, error) {
	if s.local.Client != nil || s.database == "" {
		return s.dial()
	}
	return s.answeringOrOpen(ctx)
}

func (s *session) answeringOrOpen(ctx context.Context) (*client.Client, error) {
	found, err := s.dial()
	var about *apipb.GetServerResponse
	if err == nil {
		about, err = found.Server.GetServer(ctx, serverRequest)
	}
	switch {
	case err == nil && s.databaseMeant() && about.Store != s.local.StoreName(s.database):
		fmt.Fprintf(s.Err, "The server at %s has another store, %s; it is not asked.\n", plain(found.URL), plain(about.Store))
	case err == nil:
		return found, nil
	case len(s.servers) > 0 && s.database == "", !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable):
		return found, err
	}
	opened, openErr := s.open(ctx)
	name, _ := s.storeMeant()
	if silent, ok := errors.AsType[*fault.Error](err); ok && found != nil && fault.Is(openErr, fault.NotFound) {
		// What the server has is elsewhere, and it told why it is not to be had.
		return nil, fault.New(fault.Unavailable, "%s; and there is no store here to work on without it: %s", silent.Message, s.local.StoreName(name)).
			WithHint("mend that, or name the store that it serves: --database URL, or --store FILE")
	}
	return opened, openErr
}

// storeMeant is the store to work on without a server, and whether a flag names it.
func (s *session) storeMeant() (name string, given bool) {
	if s.database != "" && (s.databaseGiven || !s.storeGiven) {
		return s.database, s.databaseGiven
	}
	return s.store, s.storeGiven
}

// open returns a client of the store itself, and says so unless that is what
// was asked for.
func (s *session) open(ctx context.Context) (*client.Client, error) {
	name, given := s.storeMeant()
	opened, closer, err := s.local.Open(ctx, name, s.actor())
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, closer)
	shown := plain(s.local.StoreName(name))
	if !given {
		fmt.Fprintf(s.Err, "No server answers; working on its store %s directly.\n", shown)
	} else if found, err := access.ReadRendezvous(s.store); err == nil && s.databaseGiven {
		fmt.Fprintf(s.Err, "Working on the database %s directly; the server at %s is not asked.\n", shown, plain(found.URL))
	}
	return opened, nil
}
