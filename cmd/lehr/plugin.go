package main

import (
	"context"
	"path/filepath"
	"slices"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/pluginhost/remote"
	"lehr.dev/internal/pluginhost/scaffold"
	"lehr.dev/internal/pluginhost/trial"
	"lehr.dev/sdk/plugintest/conformance"
)

// pluginKit is what commands do for authors of plugins.
func pluginKit() cli.PluginKit {
	return cli.PluginKit{
		Rules: pluginRules, Test: testPlugin, Generate: scaffold.Generate,
		New: func(ctx context.Context, plugin cli.NewPlugin) ([]string, error) {
			return scaffold.New(ctx, scaffold.Options{Name: plugin.Name, Folder: plugin.Folder, Type: plugin.Type, Lehr: plugin.Lehr, Python: plugin.Python})
		},
	}
}

func pluginRules(checks bool) []cli.PluginRule {
	var rules []cli.PluginRule
	if checks {
		for _, rule := range conformance.CheckRules {
			rules = append(rules, cli.PluginRule{Rule: rule.Name, Says: rule.Says})
		}
		return rules
	}
	for _, rule := range conformance.Rules {
		rules = append(rules, cli.PluginRule{Rule: rule.Name, Says: rule.Says})
	}
	return rules
}

func testPlugin(ctx context.Context, test cli.PluginTest) ([]cli.PluginReport, error) {
	tell := func(result conformance.Result) {
		if test.Tell != nil {
			test.Tell(pluginResult(result))
		}
	}
	if test.Checks {
		report := conformance.CheckChecks(ctx, test.Run, tell)
		return []cli.PluginReport{pluginReport("", report)}, ctx.Err()
	}
	schemas, err := trial.Types(ctx, test.Types)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses(test) {
		if err := address.Validate(); err != nil {
			return nil, err
		}
	}
	// All are read before anything is tried.
	var examples []trial.Example
	for _, file := range test.Examples {
		example, err := trial.Read(file, schemas)
		if err != nil {
			return nil, err
		}
		examples = append(examples, example)
	}
	namesSecret := func(e trial.Example) bool { return secretOf(test, e) != nil }
	if test.SecretFile != "" && !slices.ContainsFunc(examples, namesSecret) {
		return nil, fault.New(fault.Invalid, "no example names the secret %s", test.SecretFile).WithHint("name it in both intents, as a file with this path")
	}
	var reports []cli.PluginReport
	for _, example := range examples {
		if test.Begin != nil {
			test.Begin(example.File)
		}
		report := conformance.Check(ctx, conformance.Target{
			Run: test.Run, Socket: test.Socket, Dial: addresses(test), First: example.First, Second: example.Second,
			Secret: secretOf(test, example), Tell: tell,
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		reports = append(reports, pluginReport(filepath.Clean(example.File), report))
	}
	return reports, nil
}

// secretOf returns the secret of the test, if the example names it.
func secretOf(test cli.PluginTest, example trial.Example) *conformance.Secret {
	if test.SecretFile == "" || !conformance.NamesSecret(example.First, test.SecretFile) {
		return nil
	}
	return &conformance.Secret{File: test.SecretFile, OpensOnly: test.SecretOpensOnly}
}

// addresses are the plugin servers to be tested.
func addresses(test cli.PluginTest) (list []remote.Address) {
	for _, address := range test.Dial {
		list = append(list, remote.Address{HostPort: address, Name: test.Name, CA: test.CA, Certificate: test.Certificate, Key: test.Key})
	}
	return list
}

func pluginResult(result conformance.Result) cli.PluginResult {
	return cli.PluginResult{Rule: result.Name, Outcome: string(result.Outcome), Detail: result.Detail}
}

func pluginReport(example string, report conformance.Report) cli.PluginReport {
	converted := cli.PluginReport{
		Example: example, Plugin: report.Plugin, Version: report.Version, Type: string(report.Type),
		Declared: string(report.Declared), Measured: string(report.Measured), Left: report.Left,
	}
	for _, result := range report.Results {
		converted.Results = append(converted.Results, pluginResult(result))
	}
	return converted
}
