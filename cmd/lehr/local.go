package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lehr.dev/app"
	"lehr.dev/audit"
	"lehr.dev/cli"
	"lehr.dev/intent"
	"lehr.dev/prodspec"
)

// local is what commands do without a server, by package app.
func local() cli.Local {
	return cli.Local{Version: version(), Serve: serve, Open: app.OpenStore, StoreName: app.StoreName, VerifyAudit: verifyAudit, Build: build, Plan: plan, Commands: []*cobra.Command{demoCommand(), cli.PluginCommand(pluginKit()), cli.SimCommand(simKit())}}
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
	options.Database, options.Access = o.Database, o.Access
	options.Limits.Sweep = o.Sweep
	options.Checkpoints = app.Checkpoints{To: o.Checkpoints, Every: o.CheckpointPause}
	level := slog.LevelWarn
	if o.Verbose {
		level = slog.LevelInfo
	}
	options.Log = slog.New(slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: level}))
	options.Register = o.Register
	return app.Serve(ctx, options, func(running *app.App) {
		address := running.Address()
		ready(cli.Serving{URL: address.URL, Token: address.Token})
	})
}

func verifyAudit(ctx context.Context, s cli.AuditSource) (audit.Report, error) {
	return app.VerifyAudit(ctx, app.Verification{
		Store: s.Store, Database: s.Database, File: s.File, Checkpoints: s.Checkpoints, Partition: s.Partition,
	})
}

func build(ctx context.Context, definition string) (cli.Built, error) {
	built, err := app.Build(ctx, definition)
	if err != nil {
		return cli.Built{}, err
	}
	return toBuilt(built), nil
}

func toBuilt(built prodspec.Built) cli.Built {
	converted := cli.Built{Partition: built.Partition, Findings: built.Findings}
	for _, asset := range built.Assets {
		converted.Assets = append(converted.Assets, cli.BuiltAsset{
			ID: asset.ID, Type: asset.Type, JSON: asset.Asset,
			Generator: asset.Generator, Place: fmt.Sprintf("%s:%d", asset.File, asset.Line),
		})
	}
	return converted
}

func plan(ctx context.Context, definition string, holds []intent.Hold) (cli.Planned, error) {
	found, err := app.NewPlan(ctx, definition, holds, intent.Actor{Name: cli.Planner, Origin: "cli"})
	if err != nil {
		return cli.Planned{}, err
	}
	return cli.Planned{
		Partition: found.Built.Partition, Findings: found.Built.Findings, Client: found.Client, Close: found.Close,
	}, nil
}
