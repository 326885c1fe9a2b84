package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/inquiry"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/braked"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/sdk/client"
)

// OpenStore returns a client that works in this process on a store's file, or
// on the database at a URL, beside running servers or without any: for reading,
// and for the brakes. It never makes a store. The actor is this machine's local
// user, who may do anything that the file's or the database's own rights allow.
func OpenStore(ctx context.Context, name string, actor intent.Actor) (*client.Client, func() error, error) {
	opened, err := openBeside(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	api := server.New(server.Options{
		Store: opened, Schemas: newSchemas(opened), Runtime: loop.Real(), Location: StoreName(name),
		Identify: func(context.Context) (store.Caller, error) { return store.Caller{Actor: actor, Local: true}, nil },
		// Who may write the file needs nobody's leave.
		Alone: func(context.Context) bool { return true },
	})
	return client.InProcess(api.Handler()), opened.Close, nil
}

// StoreName is what people may see of a store's name: no password.
func StoreName(name string) string {
	if postgres.Is(name) {
		return postgres.Name(name)
	}
	return name
}

// openBeside opens a file, or a database, that others may serve meanwhile.
func openBeside(ctx context.Context, name string) (store.All, error) {
	log := slog.New(slog.DiscardHandler)
	if postgres.Is(name) {
		return ifOpened(postgres.OpenBeside(ctx, postgres.Options{URL: name, Log: log}))
	}
	if err := checkStoreExists(name); err != nil {
		return nil, err
	}
	opened, err := ifOpened(sqlite.OpenUnlocked(ctx, sqlite.Options{Path: name, Log: log}))
	if err != nil {
		return nil, err
	}
	braking, err := braked.New(opened, braked.Options{Beside: name, Runtime: loop.Real(), Log: log})
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return braking, nil
}

// checkStoreExists is NotFound unless there is such a file.
func checkStoreExists(name string) error {
	if _, err := os.Stat(name); err != nil {
		return fault.New(fault.NotFound, "there is no store at %s: %w", name, err).
			WithHint("name it with --store FILE or --database URL, or start a server with: lehr serve")
	}
	return nil
}

// Building is what is built, and how. Files that are not named allow nothing.
type Building struct {
	Definition string
	// Generators is the file that lists the partitions which may have native
	// programs run.
	Generators string
	// Sources is the file that says which secrets and networks sources may use.
	Sources string
	// PluginServers is the file that lists those which may be dialled.
	PluginServers string
	// ExternalChecks is the file that says what rules and checks may ask outside; without
	// it, public URLs only.
	ExternalChecks string
	// Verify runs it again elsewhere; what differs is a finding.
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

// Build runs a definition's pipeline once, and keeps nothing but compiled
// modules.
func Build(ctx context.Context, building Building) (prodspec.Built, error) {
	return building.run(ctx, prodspec.Build)
}

func (b Building) run(ctx context.Context, build func(context.Context, prodspec.Program, time.Time) (prodspec.Built, error)) (prodspec.Built, error) {
	elsewhere, end, err := temporaryOptions(b.Sources)
	if err != nil {
		return prodspec.Built{}, err
	}
	defer end()
	return b.buildAgainst(ctx, elsewhere, nil, build)
}

// buildAgainst builds against something, with what reads sources elsewhere.
func (b Building) buildAgainst(ctx context.Context, elsewhere fetch.Options, baseline *prodspec.Against, build func(context.Context, prodspec.Program, time.Time) (prodspec.Built, error)) (prodspec.Built, error) {
	elsewhere.Documents = b.Documents
	elsewhere.Outputs = b.Outputs
	if _, err := external.ReadPolicy(b.ExternalChecks); err != nil {
		return prodspec.Built{}, err
	}
	if b.Generators != "" {
		if _, err := readGenerators(b.Generators); err != nil {
			return prodspec.Built{}, err
		}
	}
	real := loop.Real()
	options := runner(ownModules(), b.Generators)
	options.Progress = b.Progress
	program := prodspec.Program{
		Definition: b.Definition, Runner: generate.NewProcess(options), Elsewhere: elsewhere, HasDocument: b.HasDocument,
		Outside: inquiry.New(b.ExternalChecks, real.Now).Ask, Against: baseline, Common: b.Common,
		Progress: b.Progress,
	}
	if !b.Verify {
		return build(ctx, program, real.Now())
	}
	options.Elsewhere = true
	return prodspec.Verify(ctx, program, generate.NewProcess(options), real)
}

// CommonPolicyFile is the name under which JSONSchema gives that of a common policy.
const CommonPolicyFile = "lehr-policy.yaml"

// JSONSchema is that of a lehr.yaml, when no type is named, or of a type in JSON
// or YAML: a built-in one, or one of the definition, which may be empty.
func JSONSchema(ctx context.Context, definitionPath, sources, typeName string) (map[string]any, []intent.Finding, error) {
	if typeName == "" {
		return definition.Schema(), nil, nil
	}
	if typeName == CommonPolicyFile {
		return definition.CommonSchema(), nil, nil
	}
	schemaSet, name, findings, err := findType(ctx, definitionPath, sources, typeName)
	if err != nil || len(findings) > 0 {
		return nil, findings, err
	}
	jsonSchema, err := schemaSet.JSONSchema(name)
	return jsonSchema, nil, err
}

// ReferenceFields lists the fields of a type that hold references. The type is found as by
// JSONSchema.
func ReferenceFields(ctx context.Context, definitionPath, sources, typeName string) ([]schema.ReferenceField, []intent.Finding, error) {
	schemaSet, name, findings, err := findType(ctx, definitionPath, sources, typeName)
	if err != nil || len(findings) > 0 {
		return nil, findings, err
	}
	fields, err := schemaSet.ReferenceFields(name)
	return fields, nil, err
}

// findType returns the type's full name, and the schema that has it: the built-in one, or
// that of a definition.
func findType(ctx context.Context, definitionPath, sources, typeName string) (schemaSet *schema.Set, name intent.TypeName, findings []intent.Finding, err error) {
	schemaSet = schema.Builtin()
	if definitionPath != "" {
		elsewhere, end, err := temporaryOptions(sources)
		if err != nil {
			return nil, "", nil, err
		}
		defer end()
		program := prodspec.Program{Definition: definitionPath, Runner: generate.NewProcess(runner(ownModules(), "")), Elsewhere: elsewhere}
		if schemaSet, findings, err = prodspec.Types(ctx, program, loop.Real().Now()); err != nil || len(findings) > 0 {
			return nil, "", findings, err
		}
	}
	name, err = schemaSet.Resolve(typeName)
	return schemaSet, name, nil, err
}

// ReadDefinition reads a definition, wherever it lies.
func ReadDefinition(ctx context.Context, place, sources string) ([]byte, error) {
	elsewhere, end, err := temporaryOptions(sources)
	if err != nil {
		return nil, err
	}
	defer end()
	return prodspec.ReadDefinition(ctx, prodspec.Program{Definition: place, Elsewhere: elsewhere}, loop.Real().Now())
}

// Serve runs an app until the context ends; ready is called when it listens.
func Serve(ctx context.Context, options Options, ready func(*App)) error {
	running, err := New(options)
	if err != nil {
		return err
	}
	if err := running.Start(ctx); err != nil {
		return err
	}
	ready(running)
	<-ctx.Done()
	if err := running.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("ending: %w", err)
	}
	return nil
}
