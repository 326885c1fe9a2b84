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
		Short: "Fetch what a validation was judged by",
		Long: `Writes the record of a validation, with its settings, all samples, and what was found,
in JSON. lehr rollout status names the records of its verdicts. lehr judge draws one, and
judges it anew.`,
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
