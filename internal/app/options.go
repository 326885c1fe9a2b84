package app

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/url"

	"lehr.dev/internal/access"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/annealing/enforcer"
	"lehr.dev/internal/annealing/previewer"
	"lehr.dev/internal/annealing/strategist"
	"lehr.dev/internal/annealing/workflows"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/store"
)

// Options of an app.
type Options struct {
	// Store is the path of the store's file. Its folder is made. With a
	// Database only what is this machine's lies there: word for clients, and the
	// locks of plugins.
	Store string
	// Database is the URL of a PostgreSQL database that holds the store instead,
	// shared with other replicas.
	Database string
	// Listen is a loopback address, or any with TLS, an access policy and URLs;
	// empty: no socket is opened.
	Listen string
	TLS    TLS
	// Metrics is an address at which metrics and health are served to whoever
	// reaches it, in the clear; empty: at none.
	Metrics string
	// Traces is the base URL of a collector, which speaks OTLP over HTTP; empty: the
	// variables of OpenTelemetry say whether there is one.
	Traces string
	// URLs by which people reach the server from other machines.
	URLs []*url.URL
	// Roots are whose certificates are believed; nil: the system's.
	Roots *x509.CertPool
	// Access is the file of the access policy; empty: there is only the local
	// user, and what the partitions' definitions grant.
	Access string
	// PluginServers is the file that lists the plugin servers which may be
	// dialled, and for which partitions; empty: none.
	PluginServers string
	// Sources is the file that says which secrets and networks sources may use;
	// empty: none.
	Sources string
	// Fetched is the folder in which sources are mirrored; empty: beside the store.
	Fetched string
	// Generators is the file that lists the partitions which may have native
	// programs run; empty: none. It is read whenever one is to run.
	Generators string
	// ExternalChecks is the file that says what rules and checks may ask outside; empty:
	// public URLs only.
	ExternalChecks string
	// Quotas is the file that says how much each caller may keep and hold open; empty:
	// the usual limits.
	Quotas string
	// CommonPolicy is the file that says what is asked of many partitions, by its absolute path
	// or its place in a repository; "none": nothing is any more; empty: what was read last.
	CommonPolicy string
	// Notifications is the file that says whom partitions may have told; empty:
	// nobody.
	Notifications string
	// Register are definitions to register at the start, by partition.
	Register map[intent.PartitionID]string
	Version  string
	Log      *slog.Logger
	Limits   enforcer.Limits
	// Collecting says what is forgotten, and when.
	Collecting Collecting
	// Checkpoints of the audit are sent elsewhere.
	Checkpoints Checkpoints
	Parts       Parts
}

// TLS names the files of a certificate and its key; both are empty without TLS.
type TLS struct{ Certificate, Key string }

// Parts may be replaced by a simulator's; what is unset is the real thing.
type Parts struct {
	// Store that outlives the app: it is not closed.
	Store store.All
	// Plugins returns the plugin that a command line runs.
	Plugins func(run []string) plugin.Plugin
	// Runner runs generators. With one that is set, Trial tries sources with
	// which a process ended; nil: nothing does.
	Runner  generate.Runner
	Trial   prodspec.Trial
	Runtime loop.Runtime
	// Outside answers what checks ask of monitoring; nil: the monitoring does,
	// but nobody where Plugins are replaced.
	Outside func(ctx context.Context, partition intent.PartitionID, q check.Question) (check.Answer, error)
	// Judge returns the plugin of checks of a name, which bounds how long it takes; nil:
	// what ExternalChecks lists, but nobody where Plugins are replaced.
	Judge func(name string) plugin.Judge
	// Notify delivers notifications to targets by their names, and bounds how long that
	// takes; nil: as Notifications says, but to nobody where a Runner is set.
	Notify func(ctx context.Context, target string, message notify.Message) error
	// Assess answers what rollouts ask their validations; nil: the monitoring
	// does, but nobody where Plugins are replaced.
	Assess func(ctx context.Context, of strategist.Assessing) (strategist.Assessed, error)
	// Sources is where sources are read from; nil: the disk.
	Sources source.Place
	// Documents reads them instead of the store; nil: the store does.
	Documents func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error)
	// Previews list branches and pull requests; nil: the partition's sources and the operator's git
	// hosts do, but nobody where Plugins or Outside are replaced.
	Previews previewer.Places
	// WithoutDelivery: nobody delivers, as in a world that has no versions.
	WithoutDelivery bool
	// WithoutWorkflows: nobody runs workflows, as in a world that has none.
	WithoutWorkflows bool
	// Verify runs a verification of an environment; nil: programs and services do, as the file
	// of ExternalChecks lets them.
	Verify func(context.Context, delivery.Verifying) (delivery.Finding, error)
	// Ask asks what constraints of environments ask; nil: services, programs and plugins are asked, as
	// the file of ExternalChecks lets them, but nobody where Plugins or Outside are replaced.
	Ask func(context.Context, delivery.Asking) (delivery.Reply, error)
	// CallWorkflow makes the requests of workflows; nil: HTTP does, as the file of ExternalChecks
	// lets it, but nobody where Plugins or Outside are replaced.
	CallWorkflow func(context.Context, workflows.Call) (workflows.Answer, error)
	// Replica is this one's name among those that share the Store; empty: it
	// has the Store for itself.
	Replica string
}

// DefaultOptions serve .lehr/lehr.db on a free port.
func DefaultOptions() Options {
	return Options{
		Store: ".lehr/lehr.db", Listen: "127.0.0.1:0", Version: "unknown",
		Log: slog.Default(), Limits: enforcer.DefaultLimits(), Collecting: DefaultCollecting(),
	}
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	if o.Store == "" && o.Parts.Store == nil {
		return fault.New(fault.Invalid, "no store was named").WithHint("use --store FILE")
	}
	if o.Log == nil {
		return fault.New(fault.Internal, "the app has no log")
	}
	if o.Collecting.Every <= 0 || o.Collecting.Keep.Incarnations < 1 {
		return fault.New(fault.Invalid, "the collector must pause between its runs and keep an incarnation at least")
	}
	if err := o.Checkpoints.validate(); err != nil {
		return err
	}
	return o.checkListen()
}

// checkListen refuses to let other machines speak to a server that could not
// tell who they are, or be sure that nobody listens.
func (o Options) checkListen() error {
	if o.Listen == "" {
		return nil
	}
	loopback, err := access.IsLoopback(o.Listen)
	if err != nil {
		return err
	}
	encrypted := o.TLS.Certificate != "" && o.TLS.Key != ""
	switch {
	case (o.TLS.Certificate == "") != (o.TLS.Key == ""):
		return fault.New(fault.Invalid, "a certificate needs its key, and a key its certificate").WithHint("give both --tls-cert FILE and --tls-key FILE")
	case !loopback && !encrypted:
		return fault.New(fault.Invalid, "listen address %q is not a loopback address, and without TLS everybody on the way could read and change what is said", o.Listen).
			WithHint("give --tls-cert FILE and --tls-key FILE, or use 127.0.0.1, [::1] or localhost")
	case encrypted && o.Access == "":
		return fault.New(fault.Invalid, "listen address %q would serve other machines, and no access policy says who may do what", o.Listen).
			WithHint("write one (docs/operate/access.md) and give --access FILE; without, a server has one user and listens on loopback in the clear")
	case !loopback && len(o.URLs) == 0:
		return fault.New(fault.Invalid, "listen address %q serves other machines, and nothing says by which name they know this one", o.Listen).
			WithHint("give --url https://lehr.example.com, once for each name; requests by other names are refused")
	}
	return nil
}
