package cli

import (
	"context"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/validation"
)

func (s *session) rolloutRecordCommand() *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "record RECORD",
		Short: "Fetch the data that a validation was judged by",
		Long: `Write the record of a validation as JSON: its settings, all samples, and the findings.
lehr rollout status names the records of its verdicts. lehr judge draws a record, and
judges it again.`,
		Example: `  lehr rollout record 20261123T131500Z/frontends@3/canary/errors -o errors.json
  lehr judge errors.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.rolloutRecord(command.Context(), args[0], file)
		},
	}
	command.Flags().StringVarP(&file, "output", "o", "-", "the file; - is standard output")
	return command
}

func (s *session) rolloutRecord(ctx context.Context, record, file string) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	partition, err := s.choose(ctx, c)
	if err != nil {
		return err
	}
	packed, err := c.Judgement(ctx, partition, record)
	if err != nil {
		return err
	}
	text, err := validation.Unpack(packed)
	if err != nil {
		return err
	}
	return s.give(file, text)
}
