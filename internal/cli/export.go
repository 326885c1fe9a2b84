package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/export"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

func (s *session) exportCommand() *cobra.Command {
	var q query
	var format, file string
	command := &cobra.Command{
		Use:   "export [INCARNATION|PARTITION]",
		Short: "Write an incarnation as JSON lines, protobuf or a tar, verified by its digest",
		Long: `Write every asset of an incarnation (default: head) for other programs: one JSON
object a line, length-prefixed protobuf messages, or a tar with a file for each
asset, the schema and a manifest. The output is verified by the incarnation's
digest, or with a filter by the digest of each asset. The same incarnation always
gives the same bytes. Fields that are marked as secret are left out.`,
		Example: `  lehr export shop@12 --format tar -o shop.tar
  lehr export shop --at release=spring --filter 'type == "Job"'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.export(command.Context(), q, strings.Join(args, ""), format, file)
		},
	}
	flags := command.Flags()
	flags.StringVar(&q.at, "at", "", "as of a time (2026-11-21T08:00:00Z, 2h ago as 2h), an id (12), or a label")
	flags.StringVar(&format, "format", "json", "json, proto or tar")
	flags.StringVar(&q.filter, "filter", "", "only assets for which this CEL expression is true")
	flags.StringVarP(&file, "output", "o", "-", "the file; - is standard output")
	return command
}

// export writes one incarnation, named by its id, or a partition's.
func (s *session) export(ctx context.Context, q query, name, format, file string) error {
	shape, err := export.ParseFormat(format)
	if err != nil {
		return err
	}
	if slices.Contains([]string{"json", "table", "wide"}, file) {
		return fault.New(fault.Invalid, "-o %s would be a file of that name", file).
			WithHint("write --format json, or -o ./%s if the file is meant", file)
	}
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "~") {
		if q.partition, err = s.choose(ctx, c); err == nil {
			q.incarnation = incarnationID(q.partition, name)
		}
	} else if strings.Contains(name, "@") {
		q.incarnation = name
		q.partition, _, _ = strings.Cut(name, "@")
	} else if name != "" {
		q.partition, err = s.namedPartition(name)
	} else {
		q.partition, err = s.choose(ctx, c)
	}
	if err != nil {
		return err
	}
	asOf, err := s.asOf(q)
	if err != nil {
		return err
	}
	request := &apipb.ExportIncarnationRequest{
		Partition: q.partition, Incarnation: asOf.incarnation, At: asOf.time, Label: asOf.label, Filter: q.filter,
	}
	if file == "-" {
		_, err := c.Export(ctx, request, shape, s.Out)
		return err
	}
	var exported export.Exported
	err = whole(file, func(w io.Writer) (err error) {
		exported, err = c.Export(ctx, request, shape, w)
		return err
	})
	if err == nil {
		fmt.Fprintf(s.Err, "%s: %s of %s, digest %s.\n", plain(file), count(exported.Count, "asset"), plain(exported.Incarnation), exported.Digest)
	}
	return err
}

// whole writes a file that is there when all of it is, or not at all. Others may
// not read it.
func whole(name string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return fault.New(fault.Invalid, "cannot write %s: %w", name, err)
	}
	defer os.Remove(file.Name())
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	return err
}

func (s *session) verifyExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify-export FILE",
		Short: "Check a tar that export wrote, without a server",
		Long: `Recompute every digest of a tar that lehr export --format tar wrote, and compare
them with its manifest. The command prints the incarnation and its digest; compare
them with those of lehr describe incarnation.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := files.OpenGiven(args[0])
			if err != nil {
				return fault.New(fault.Invalid, "cannot read the export: %w", err)
			}
			defer file.Close()
			exported, err := export.Verify(file)
			if err != nil {
				return err
			}
			if s.json() {
				return printJSON(s.Out, exported)
			}
			fields(s.Out, "incarnation", exported.Incarnation, "filter", exported.Filter, "assets", fmt.Sprint(exported.Count),
				"digest", exported.Digest.String(), "schema", exported.Schema.String())
			return nil
		},
	}
}
