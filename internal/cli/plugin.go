package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
)

// PluginKit is what commands do for authors of plugins.
type PluginKit struct {
	// Rules of the protocol that a plugin is held to, or one of checks.
	Rules func(checks bool) []PluginRule
	// Test holds a plugin to them, with one example after the other.
	Test func(ctx context.Context, test PluginTest) ([]PluginReport, error)
	// New writes a new plugin, and returns its files.
	New func(ctx context.Context, plugin NewPlugin) ([]string, error)
	// Generate writes what is generated of the types of the plugin in a folder.
	Generate func(ctx context.Context, folder string) error
}

// PluginRule is one rule, and what it says.
type PluginRule struct {
	Rule string `json:"rule"`
	Says string `json:"says"`
}

// PluginTest says what is tested.
type PluginTest struct {
	// Run is the program with its arguments, or Socket where one serves, or
	// Dial the addresses of one or two plugin servers.
	Run    []string
	Socket string
	Dial   []string
	// CA, Certificate and Key are PEM files for dialling, Name is what the
	// servers' certificates must bear; empty: the host.
	CA, Certificate, Key, Name string
	// Examples are files, Types a folder of .proto files.
	Examples []string
	Types    string
	// SecretFile is what references of examples name; empty: no secret is rotated.
	// SecretOpensOnly: it opens the target, and is no part of what is pushed.
	SecretFile      string
	SecretOpensOnly bool
	// Checks: it is a plugin of checks, by Run, and needs no examples.
	Checks bool
	// Begin and Tell are told how it goes.
	Begin func(example string)
	Tell  func(PluginResult)
}

// PluginResult is how a plugin fared with one rule: passed, failed or skipped.
type PluginResult struct {
	Rule    string `json:"rule"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
}

// PluginReport is what was found with one example.
type PluginReport struct {
	Example string         `json:"example"`
	Plugin  string         `json:"plugin"`
	Version string         `json:"version"`
	Type    string         `json:"type"`
	Results []PluginResult `json:"results"`
	// Declared and Measured guarantee class; empty when not to be measured.
	Declared string `json:"declared"`
	Measured string `json:"measured"`
	// Left: the example may still be there.
	Left bool `json:"left"`
}

// NewPlugin says what is written.
type NewPlugin struct {
	Name, Folder, Type, Lehr string
	// Python: in that language, not in Go.
	Python bool
}

// PluginCommand is the tree of commands for authors of plugins.
func PluginCommand(kit PluginKit) *cobra.Command {
	command := family("plugin", "Begin a plugin, and hold plugins to the protocol")
	command.AddCommand(testPluginCommand(kit), newPluginCommand(kit), generatePluginCommand(kit))
	return command
}

func testPluginCommand(kit PluginKit) *cobra.Command {
	var test PluginTest
	var list bool
	command := &cobra.Command{
		Use:   "test [flags] -- PROGRAM [ARGUMENT...]",
		Short: "Test that a plugin keeps the protocol, with real effects on an example",
		Long: `Start a plugin, test every rule of the protocol on an example resource, and measure
the guarantee class that the plugin declares. The test does not rely on what the
plugin says. It really creates and changes the example, and removes it in the end if
the plugin can.

An example is a file of two YAML documents, each with a type and a payload: two
intents for one resource that does not exist yet.

  type: lehr.process.v1.Job
  payload: {name: test/sleep, replicas: 2, binary: /bin/sleep, args: ["300"], version: "1"}
  ---
  type: lehr.process.v1.Job
  payload: {name: test/sleep, replicas: 2, binary: /bin/sleep, args: ["301"], version: "2"}

A plugin of checks, which protections ask, needs no example: use --checks.

Exit code 1 when a rule is broken.`,
		RunE: func(command *cobra.Command, args []string) error {
			printer := output{command}
			if list {
				return printer.rules(kit.Rules(test.Checks))
			}
			test.Run = args
			if err := test.validate(); err != nil {
				return err
			}
			if !printer.json() {
				test.Begin, test.Tell = printer.begin, printer.tell
			}
			reports, err := kit.Test(command.Context(), test)
			if err != nil && command.Context().Err() != nil {
				fmt.Fprintln(command.ErrOrStderr(), "The example may still be there.")
			}
			if err != nil {
				return err
			}
			return printer.summary(reports)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&test.Checks, "checks", false, "test a plugin of checks, which protections ask: PROGRAM alone, without an example")
	flags.StringArrayVar(&test.Examples, "example", nil, "file with two intents for one resource; may be repeated")
	flags.StringVar(&test.Types, "types", "", "folder of the .proto files of the payload's type (default: those that come with Lehr)")
	flags.StringVar(&test.SecretFile, "secret-file", "", "file that a secret of both intents names: the test removes it, rotates it, and restores it in the end")
	flags.BoolVar(&test.SecretOpensOnly, "secret-opens-only", false, "the secret only gives access to the target, as a password does, and is not pushed")
	flags.StringVar(&test.Socket, "socket", "", "unix socket on which the plugin already serves, in place of PROGRAM")
	flags.StringArrayVar(&test.Dial, "dial", nil, "HOST:PORT where the plugin already serves, in place of PROGRAM; give a second process of it too, to measure the class")
	flags.StringVar(&test.CA, "ca", "", "PEM file with the certificate authorities of the plugin server")
	flags.StringVar(&test.Certificate, "cert", "", "PEM file with the client certificate")
	flags.StringVar(&test.Key, "key", "", "PEM file with the key of the client certificate")
	flags.StringVar(&test.Name, "server-name", "", "name that the server's certificate must have (default: the host of --dial)")
	flags.BoolVar(&list, "list", false, "list the rules, and test nothing")
	return command
}

func (t PluginTest) validate() error {
	const usage = "lehr plugin test --example example.yaml -- ./my-plugin"
	ways := 0
	for _, way := range []bool{len(t.Run) > 0, t.Socket != "", len(t.Dial) > 0} {
		if way {
			ways++
		}
	}
	switch {
	case ways == 0:
		return fault.New(fault.Invalid, "there is no plugin to test").WithHint(usage)
	case ways > 1:
		return fault.New(fault.Invalid, "a plugin is tested by its program, by its --socket or by --dial, by one of them").WithHint(usage)
	case len(t.Dial) > 2:
		return fault.New(fault.Invalid, "--dial was given %d times: a plugin is tested by one process, or two", len(t.Dial)).WithHint(usage)
	case t.Checks && (len(t.Run) == 0 || len(t.Examples) > 0):
		return fault.New(fault.Invalid, "a plugin of checks is tested by its program, and without an example").WithHint("lehr plugin test --checks -- ./my-checks")
	case t.Checks:
		return nil
	case len(t.Examples) == 0:
		return fault.New(fault.Invalid, "there is no example to test it with").WithHint(usage)
	case t.SecretFile == "" && t.SecretOpensOnly:
		return fault.New(fault.Invalid, "--secret-opens-only says something of a secret, and there is none").WithHint("name its file by --secret-file")
	case t.SecretFile != "" && !filepath.IsAbs(t.SecretFile):
		return fault.New(fault.Invalid, "--secret-file %s is no absolute path", t.SecretFile).WithHint("write it as the reference of the example does")
	}
	return nil
}

func newPluginCommand(kit PluginKit) *cobra.Command {
	var plugin NewPlugin
	command := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a new plugin in Go or Python that passes the tests, to start from",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			plugin.Name = args[0]
			plugin.Folder = cmp.Or(plugin.Folder, plugin.Name)
			files, err := kit.New(command.Context(), plugin)
			if err != nil {
				return err
			}
			printer := output{command}
			if printer.json() {
				return printer.print(map[string][]string{"files": files})
			}
			for _, file := range files {
				fmt.Fprintln(command.OutOrStdout(), plain(file))
			}
			build := "go build"
			if plugin.Python {
				build = "python3 -m unittest"
			}
			fmt.Fprintf(command.OutOrStdout(), "\nNext, in %s:\n  %s\n  lehr plugin test --types proto --example example.yaml -- ./%s\n", plain(plugin.Folder), build, plain(plugin.Name))
			if plugin.Python {
				fmt.Fprintln(command.OutOrStdout(), "\nIt needs gRPC and protobuf for Python: apt-get install python3-grpcio python3-protobuf")
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&plugin.Folder, "dir", "", "the folder to write (default: NAME)")
	flags.StringVar(&plugin.Type, "type", "", "full name of the payload's type, such as acme.v1.Shelf (default: from NAME)")
	flags.StringVar(&plugin.Lehr, "lehr", "", "folder of Lehr's source, for a plugin in Go (default: found from the program or from here)")
	flags.BoolVar(&plugin.Python, "python", false, "write the plugin in Python, with a copy of Lehr's package, so that it needs no source of Lehr")
	_ = command.MarkFlagDirname("dir")
	_ = command.MarkFlagDirname("lehr")
	return command
}

func generatePluginCommand(kit PluginKit) *cobra.Command {
	return &cobra.Command{
		Use:   "generate [DIR]",
		Short: "Generate the code for the types in DIR/proto of a plugin, for Go or Python",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return kit.Generate(command.Context(), cmp.Or(append(args, ".")[0], "."))
		},
	}
}

// output prints for people or programs.
type output struct{ *cobra.Command }

func (o output) json() bool {
	flag := o.Flag("output")
	return flag != nil && flag.Value.String() == "json"
}

func (o output) print(value any) error {
	encoder := json.NewEncoder(o.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func (o output) rules(rules []PluginRule) error {
	if o.json() {
		return o.print(rules)
	}
	for _, rule := range rules {
		fmt.Fprintf(o.OutOrStdout(), "%s\n  %s\n", rule.Rule, rule.Says)
	}
	return nil
}

func (o output) begin(example string) { fmt.Fprintf(o.OutOrStdout(), "%s\n", plain(example)) }

func (o output) tell(result PluginResult) {
	fmt.Fprintf(o.OutOrStdout(), "  %-8s %s\n", result.Outcome, plain(result.Rule))
	if result.Detail != "" {
		fmt.Fprintf(o.OutOrStdout(), "           %s\n", plain(result.Detail))
	}
}

// summary says all in a line for each example.
func (o output) summary(reports []PluginReport) error {
	broken := false
	for _, report := range reports {
		count := map[string]int{}
		for _, result := range report.Results {
			count[result.Outcome]++
		}
		broken = broken || count["failed"] > 0
		if o.json() {
			continue
		}
		if report.Plugin == "" {
			fmt.Fprintf(o.OutOrStdout(), "\nThe plugin did not say what it is: nothing was measured.\n")
			continue
		}
		fmt.Fprintf(o.OutOrStdout(), "\n%s %s, %s: %d passed, %d skipped, %d failed.\n", plain(report.Plugin), plain(report.Version),
			plain(cmp.Or(report.Type, "no type")), count["passed"], count["skipped"], count["failed"])
		if report.Example == "" {
			continue // A plugin of checks has no effects.
		}
		fmt.Fprintf(o.OutOrStdout(), "Guarantee class: %s declared, %s measured.\n", cmp.Or(report.Declared, "none"), cmp.Or(report.Measured, "none"))
		if report.Left {
			fmt.Fprintf(o.OutOrStdout(), "The example of %s may still be there: the plugin did not remove it.\n", plain(report.Example))
		}
	}
	if o.json() {
		if err := o.print(reports); err != nil {
			return err
		}
	}
	if broken {
		return exit{exitError}
	}
	return nil
}
