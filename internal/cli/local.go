package cli

import (
	"context"
	"crypto/x509"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/importer"
	"lehr.dev/sdk/client"
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
	// JSONSchema is that of a definition, of a common policy, which is named as its file, or of a
	// type, which may be of the definition named.
	JSONSchema func(ctx context.Context, definition, sources, typeName string) (map[string]any, []intent.Finding, error)
	// ReferenceFields are those of a type, which is found likewise.
	ReferenceFields func(ctx context.Context, definition, sources, typeName string) ([]schema.ReferenceField, []intent.Finding, error)
	// ReadCommonPolicy reads a common policy, in a repository too, and what is wrong with it.
	ReadCommonPolicy func(ctx context.Context, place, sources string) (*intentpb.CommonPolicy, []intent.Finding, error)
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
	// Owners asks a Kubernetes cluster who owns an object, its own owner first; nil: no
	// cluster can be asked.
	Owners func(ctx context.Context, query OwnerQuery) ([]LiveObject, error)
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
	// Outputs reads what a partition tells and grants to another one; nil: none is asked.
	Outputs func(ctx context.Context, of, reader intent.PartitionID) (outputs.Offer, error)
	// HasDocument reports whether there is a document of Lehr's own, which no definition
	// names; nil: there is none.
	HasDocument func(ctx context.Context, partition intent.PartitionID, name string) (bool, error)
	// Common is the common policy that is asked of it; nil: that of the Store, if it is read.
	Common func(ctx context.Context) (*intentpb.CommonPolicy, error)
	// Progress is told of the steps; nil: nobody waits to see them.
	Progress *measure.Progress
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
	// CommonPolicy says what is asked of many partitions; "none": nothing; empty: what was read last.
	CommonPolicy string
	// Quotas says how much each caller may keep and hold open; empty: the usual limits.
	Quotas string
	Listen string
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
