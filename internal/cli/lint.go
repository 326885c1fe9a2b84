package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/intent"
)

func (s *session) lintCommand() *cobra.Command {
	var options BuildOptions
	var strict bool
	command := &cobra.Command{
		Use:   "lint [lehr.yaml]",
		Short: "Find errors in a definition, and what is probably a mistake",
		Long: `Run sources, generators, validators and rules without a server, and look for probable
mistakes: a source that nothing reads, a generator that gives nothing, a rule or a budget
that covers no asset, an expression of a check that has no value for some assets, a
placeholder that is never replaced, values that look like secrets. The exit code is 1 when
there is an error or a hold, and with --strict also when there is a warning.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			var err error
			if options.Definition, err = definitionOf(command, args); err != nil {
				return err
			}
			var end func()
			options.Progress, end = s.showProgress()
			built, err := s.local.Lint(command.Context(), options)
			end()
			if err != nil {
				return err
			}
			if err := s.printLinted(built); err != nil {
				return err
			}
			f := built.Findings
			if hasSeverity(f, intent.Error) || hasSeverity(f, intent.Holding) || strict && len(f) > 0 {
				return exit{exitError}
			}
			return nil
		},
	}
	command.Flags().BoolVar(&strict, "strict", false, "exit code 1 for warnings too")
	generatorsFlag(command, &options.Generators)
	sourcesFlag(command, &options.Sources)
	s.documentsFlag(command, &options)
	s.commonPolicyFlag(command, &options)
	checksFlag(command.Flags(), &options.ExternalChecks)
	return command
}

func (s *session) printLinted(built Built) error {
	if s.json() {
		findings := built.Findings
		if findings == nil {
			findings = []intent.Finding{}
		}
		return printJSON(s.Out, map[string]any{"partition": built.Partition, "findings": findings})
	}
	s.printIntentFindings(built.Findings)
	counts := map[intent.Severity]int{}
	for _, f := range built.Findings {
		counts[f.Severity] += 1 + f.Alike
	}
	fmt.Fprintf(s.Out, "Partition %s: %s, %s, %s.\n", plain(string(built.Partition)),
		count(counts[intent.Error], "error"), count(counts[intent.Holding], "hold"), count(counts[intent.Warning], "warning"))
	return nil
}
