package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
)

func (s *session) buildCommand() *cobra.Command {
	var outDir string
	var options BuildOptions
	command := &cobra.Command{
		Use:   "build [lehr.yaml]",
		Short: "Run a partition's pipeline here, and show what it makes",
		Long: `Run sources, generators and validators without a server and without a store.
With --verify, run them twice and compare the results. The second time they run in
another order, each in a process of its own, at least a second later, and with
another clock and other random numbers where that is possible. A difference is an
error that names generator, asset and field. Long builds report progress on stderr.
The exit code is 1 when there are errors.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			var err error
			if options.Definition, err = definitionOf(command, args); err != nil {
				return err
			}
			var end func()
			options.Progress, end = s.showProgress()
			built, err := s.local.Build(command.Context(), options)
			end()
			if err != nil {
				return err
			}
			if outDir != "" && !hasErrors(built.Findings) {
				if err := writeAssets(outDir, built); err != nil {
					return err
				}
			}
			if err := s.printBuilt(built, outDir); err != nil {
				return err
			}
			if options.Verify && !s.json() {
				fmt.Fprintln(s.Out, "Built twice, to the same bytes.")
			}
			return nil
		},
	}
	command.Flags().StringVar(&outDir, "out", "", "also write each asset as DIR/<id>.json, and what is too large for one into DIR/blobs")
	_ = command.MarkFlagDirname("out")
	command.Flags().BoolVar(&options.Verify, "verify", false, "build twice, elsewhere and later, and compare the results")
	generatorsFlag(command, &options.Generators)
	sourcesFlag(command, &options.Sources)
	s.documentsFlag(command, &options)
	checksFlag(command.Flags(), &options.ExternalChecks)
	return command
}

func sourcesFlag(command *cobra.Command, file *string) {
	command.Flags().StringVar(file, "sources", os.Getenv("LEHR_SOURCES"), "file that lists the secrets and networks that sources may use (env LEHR_SOURCES; default: no secret, and no network of this machine's own)")
}

func generatorsFlag(command *cobra.Command, file *string) {
	command.Flags().StringVar(file, "generators", os.Getenv("LEHR_GENERATORS"), "file that lists the partitions that may run native programs (env LEHR_GENERATORS; default: none)")
}

// definitionOf is the definition that a command without a server is about.
func definitionOf(command *cobra.Command, args []string) (string, error) {
	if flag := command.Flag("partition"); flag != nil && flag.Changed {
		return "", fault.New(fault.Invalid, "-p names a partition of a server, and %s asks none", command.CommandPath()).
			WithHint("write %s lehr.yaml", command.CommandPath())
	}
	return definitionPath(definitionArgument(args))
}

func definitionArgument(args []string) string {
	if len(args) == 0 {
		return "lehr.yaml"
	}
	return args[0]
}

func hasErrors(findings []intent.Finding) bool { return hasSeverity(findings, intent.Error) }

func hasSeverity(findings []intent.Finding, severity intent.Severity) bool {
	return slices.ContainsFunc(findings, func(f intent.Finding) bool { return f.Severity == severity })
}

// writeAssets writes one file for each asset, and what they name into blobs; ids
// are safe as paths but for segments of dots, which their syntax excludes.
func writeAssets(folder string, built Built) error {
	write := func(path string, content []byte) error {
		path = filepath.Join(folder, filepath.FromSlash(path))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			return fault.New(fault.Unavailable, "writing %s: %w", path, err)
		}
		return nil
	}
	for _, asset := range built.Assets {
		if err := write(string(asset.ID)+".json", asset.JSON); err != nil {
			return err
		}
	}
	for digest, content := range built.Blobs {
		if err := write("blobs/"+digest.String(), content); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) printBuilt(built Built, outDir string) error {
	if s.json() {
		if err := s.printBuiltJSON(built); err != nil {
			return err
		}
	} else {
		var rows [][]string
		for _, asset := range built.Assets {
			rows = append(rows, []string{string(asset.ID), s.typeName(asset.Type), asset.Generator + " (" + asset.Place + ")"})
		}
		if len(rows) > 0 {
			table(s.Out, []string{"ASSET", "TYPE", "MADE BY"}, rows)
		}
		s.printBuiltResolved(built.Assets)
		s.printIntentFindings(built.Findings)
	}
	if hasErrors(built.Findings) {
		return exit{exitError}
	}
	if !s.json() {
		fmt.Fprintf(s.Out, "\nPartition %s: %s", plain(string(built.Partition)), count(len(built.Assets), "asset"))
		if outDir != "" {
			fmt.Fprintf(s.Out, ", written to %s", plain(outDir))
		}
		fmt.Fprintln(s.Out, ". Nothing was published.")
		if hasSeverity(built.Findings, intent.Holding) {
			fmt.Fprintln(s.Out, "A server would hold this until a person acknowledges it.")
		}
	}
	return nil
}

// printBuiltResolved lists what resolvers changed.
func (s *session) printBuiltResolved(assets []BuiltAsset) {
	first := true
	for _, asset := range assets {
		for _, r := range asset.Resolved {
			if first {
				fmt.Fprintln(s.Out)
			}
			first = false
			if r.By == outputs.Document {
				fmt.Fprintf(s.Out, "%s: %s asks for %s: %s\n", plain(string(asset.ID)), r.Field, plain(r.Was), plain(r.Reason))
				continue
			}
			fmt.Fprintf(s.Out, "%s: %s, which was %s, is set by generate.%s: %s\n", plain(string(asset.ID)), r.Field, plain(cmp.Or(r.Was, "not set")), r.By, plain(r.Reason))
		}
	}
}

func (s *session) typeName(name intent.TypeName) string {
	if s.wide() {
		return string(name)
	}
	return lastName(string(name))
}

func (s *session) printBuiltJSON(built Built) error {
	type asset struct {
		ID        intent.AssetID  `json:"id"`
		Type      intent.TypeName `json:"type"`
		Generator string          `json:"generator"`
		Place     string          `json:"place"`
		Resolved  []Resolved      `json:"resolved,omitempty"`
	}
	assets := []asset{}
	for _, a := range built.Assets {
		assets = append(assets, asset{a.ID, a.Type, a.Generator, a.Place, a.Resolved})
	}
	findings := built.Findings
	if findings == nil {
		findings = []intent.Finding{}
	}
	return printJSON(s.Out, map[string]any{"partition": built.Partition, "assets": assets, "findings": findings})
}

func (s *session) printIntentFindings(findings []intent.Finding) {
	var converted []*apipb.Finding
	for _, f := range findings {
		converted = append(converted, &apipb.Finding{
			Severity: string(f.Severity), Message: f.Message, Hint: f.Hint, File: f.File, Line: int32(f.Line),
			Column: int32(f.Column), Field: f.Field, Asset: string(f.Asset), Alike: int32(f.Alike), Examples: f.Examples.List(),
		})
	}
	s.printFindings(converted, "")
}

// checksFlag names the policy of external checks.
func checksFlag(flags *pflag.FlagSet, target *string) {
	flags.StringVar(target, "external-checks", os.Getenv("LEHR_EXTERNAL_CHECKS"), "file that lists the addresses that rules and checks may ask (env LEHR_EXTERNAL_CHECKS; default: public URLs only)")
}
