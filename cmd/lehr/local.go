package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lehr.dev/internal/app"
	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/importer/apis"
	"lehr.dev/internal/importer/argocd"
	"lehr.dev/internal/importer/canaries"
	"lehr.dev/internal/importer/cluster"
	"lehr.dev/internal/importer/databases"
	"lehr.dev/internal/importer/flux"
	"lehr.dev/internal/importer/helmreleases"
	"lehr.dev/internal/importer/inventories"
	"lehr.dev/internal/importer/kargo"
	"lehr.dev/internal/importer/keel"
	"lehr.dev/internal/importer/manifests"
	"lehr.dev/internal/importer/processes"
	"lehr.dev/internal/importer/tfstate"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// local is what commands do without a server, by package app.
func local() cli.Local {
	return cli.Local{Version: version(), Serve: serve, Open: app.OpenStore, StoreName: app.StoreName, VerifyAudit: verifyAudit, Keeping: keeping(), Build: build, Lint: lint, JSONSchema: app.JSONSchema, ReferenceFields: app.ReferenceFields, ReadDefinition: app.ReadDefinition, ReadCommonPolicy: app.ReadCommonPolicy, Plan: plan, Range: askRange, Imports: imports(), Owners: owners, Commands: []*cobra.Command{demoCommand(), cli.PluginCommand(pluginKit()), cli.SimCommand(simKit())}}
}

// imports are the kinds of what exists that become partitions.
func imports() []importer.Kind {
	return []importer.Kind{databases.Postgres(), databases.SQLite(), processes.Kind(), manifests.Kind(), cluster.Kind(), flux.Kind(fluxTools()), tfstate.Kind(), apis.Kind(), inventories.Kind(), argocd.Kind(renderObjects, cluster.ObjectsIn), keel.Kind(), kargo.Kind(), canaries.ArgoRollouts(), canaries.Flagger(), helmreleases.Kind(renderObjects)}
}

// renderObjects builds a definition that an import made, for the Kubernetes objects that it gives.
func renderObjects(ctx context.Context, file string) (argocd.Rendered, error) {
	built, err := app.Build(ctx, app.Building{Definition: file})
	if err != nil {
		return argocd.Rendered{}, err
	}
	made := argocd.Rendered{Objects: map[string][]argocd.Object{}}
	for _, f := range built.Findings {
		if f.Severity == intent.Error {
			made.Problems = append(made.Problems, f.Message)
		}
	}
	for _, asset := range built.Assets {
		var read struct{ Payload struct{ JSON string } }
		var fields map[string]any
		if json.Unmarshal(asset.Asset, &read) != nil || json.Unmarshal([]byte(read.Payload.JSON), &fields) != nil {
			continue // The policy, or an object that is too large to be looked into.
		}
		made.Objects[asset.Generator] = append(made.Objects[asset.Generator], argocd.Object{ID: string(asset.ID), Fields: fields})
	}
	return made, nil
}

// version is what the build recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return info.Main.Version + " (" + setting.Value[:min(12, len(setting.Value))] + ")"
		}
	}
	return info.Main.Version
}

func serve(ctx context.Context, o cli.ServeOptions, ready func(cli.Serving)) error {
	options := app.DefaultOptions()
	options.Store, options.Listen, options.Version = o.Store, o.Listen, version()
	options.Database, options.Access, options.PluginServers = o.Database, o.Access, o.PluginServers
	options.Sources, options.CommonPolicy = o.Sources, o.CommonPolicy
	options.Generators, options.Quotas = o.Generators, o.Quotas
	options.ExternalChecks, options.Notifications = o.ExternalChecks, o.Notifications
	options.TLS, options.URLs, options.Roots = app.TLS{Certificate: o.TLSCert, Key: o.TLSKey}, o.URLs, o.Roots
	options.Limits.Sweep = o.Sweep
	options.Metrics, options.Traces = o.Metrics, o.Traces
	options.Checkpoints = app.Checkpoints{To: o.Checkpoints, Every: o.CheckpointPause}
	log, err := newLog(o.Log, o.LogFormat, o.LogLevel)
	if err != nil {
		return err
	}
	options.Log = log
	options.Register = o.Register
	return app.Serve(ctx, options, func(running *app.App) {
		address := running.Address()
		ready(cli.Serving{URL: address.URL, Token: address.Token, Remote: running.Remote(), Metrics: running.Monitoring()})
	})
}

// newLog writes records as text or JSON, one a line.
func newLog(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fault.New(fault.Invalid, "log level %.40q is not known", level).WithHint("write --log-level debug, info, warn or error")
	}
	switch options := (&slog.HandlerOptions{Level: least}); format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fault.New(fault.Invalid, "log format %.40q is not known", format).WithHint("write --log-format text or --log-format json")
}

func verifyAudit(ctx context.Context, s cli.AuditSource) (audit.Report, error) {
	return app.VerifyAudit(ctx, app.Verification{
		Store: s.Store, Database: s.Database, File: s.File, Checkpoints: s.Checkpoints, Partition: s.Partition,
	})
}

func build(ctx context.Context, o cli.BuildOptions) (cli.Built, error) {
	built, err := app.Build(ctx, app.Building(o))
	if err != nil {
		return cli.Built{}, err
	}
	return toBuilt(built), nil
}

func lint(ctx context.Context, o cli.BuildOptions) (cli.Built, error) {
	built, err := app.Lint(ctx, app.Building(o))
	if err != nil {
		return cli.Built{}, err
	}
	return toBuilt(built), nil
}

func toBuilt(built prodspec.Built) cli.Built {
	converted := cli.Built{Partition: built.Partition, Findings: built.Findings, Blobs: built.Blobs}
	for _, asset := range built.Assets {
		made := cli.BuiltAsset{
			ID: asset.ID, Type: asset.Type, JSON: asset.Asset,
			Generator: asset.Generator, Place: place(asset.File, asset.Line),
		}
		for _, r := range asset.Resolved {
			made.Resolved = append(made.Resolved, cli.Resolved{Field: r.Field, Was: r.Was, By: r.Resolver, Reason: r.Reason})
		}
		converted.Assets = append(converted.Assets, made)
	}
	return converted
}

// place that made an asset; a program may not say which line.
func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

func plan(ctx context.Context, o cli.BuildOptions, partition intent.PartitionID, holds []intent.Hold) (cli.Planned, error) {
	found, err := app.NewPlan(ctx, app.Building(o), partition, holds, intent.Actor{Name: "lehr plan", Origin: "cli"})
	if err != nil {
		return cli.Planned{}, err
	}
	return cli.Planned{
		Partition: partition, Findings: found.Built.Findings, Assets: toBuilt(found.Built).Assets, Answer: found.Message(found.Base),
	}, nil
}

// keeping is what package app does to stores, in the words of package cli.
func keeping() cli.Keeping {
	return cli.Keeping{
		Adopt: func(ctx context.Context, place cli.StorePlace, reason string, beyond uint64, actor intent.Actor) (cli.Adopted, error) {
			done, err := app.Adopt(ctx, app.Place(place), store.Adoption{Reason: reason, Beyond: beyond, By: actor})
			adopted := cli.Adopted{
				Generation: done.History.Generation, Lost: done.Found.Lost, Unsure: done.Found.Unsure, Doubted: done.Doubted, Voided: done.Voided,
			}
			if done.Found.Stop != nil {
				adopted.Why, adopted.Since = done.Found.Stop.Reason, done.Found.Stop.Since
			}
			for _, p := range done.Partitions {
				adopted.Partitions = append(adopted.Partitions, cli.AdoptedPartition{ID: string(p.ID), Epoch: p.Epoch, Head: p.Head.String()})
			}
			return adopted, err
		},
		Verify: func(ctx context.Context, place cli.StorePlace) (cli.Verified, error) {
			verified, err := app.Verify(ctx, app.Place(place))
			return cli.Verified(verified), err
		},
		Backup: func(ctx context.Context, path, target string) (cli.Verified, error) {
			verified, err := app.Backup(ctx, path, target)
			return cli.Verified(verified), err
		},
		Restore: func(ctx context.Context, backup, path string) (string, cli.Verified, error) {
			aside, verified, err := app.Restore(ctx, backup, path)
			return aside, cli.Verified(verified), err
		},
	}
}
