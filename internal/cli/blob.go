package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

func (s *session) blobCommand() *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "blob URI",
		Short: "Fetch what an asset names as blob:sha256:DIGEST, verified",
		Long: `Write a content that is too large for an asset. The asset names it in a
lehr.intent.v1.ExternalRef as blob:sha256:DIGEST, and the content is verified
by this digest.`,
		Example: `  lehr blob blob:sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae -o large.bin`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.blob(command.Context(), args[0], file)
		},
	}
	command.Flags().StringVarP(&file, "output", "o", "-", "the file; - is standard output")
	return command
}

func (s *session) blob(ctx context.Context, uri, file string) error {
	digest, ok := intent.BlobDigest("blob:sha256:" + strings.TrimPrefix(uri, "blob:sha256:"))
	if !ok {
		return fault.New(fault.Invalid, "%.120q names no blob", uri).WithHint("write blob:sha256: and 64 digits of hex, as lehr describe asset shows it")
	}
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	partition, err := s.choose(ctx, c)
	if err != nil {
		return err
	}
	content, err := c.Blob(ctx, partition, digest)
	if err != nil {
		return err
	}
	return s.give(file, content)
}

// give content as a file; -: on standard output.
func (s *session) give(file string, content []byte) error {
	if file == "-" {
		_, err := s.Out.Write(content)
		return err
	}
	err := whole(file, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err == nil {
		fmt.Fprintf(s.Err, "%s: %s.\n", plain(file), count(len(content), "byte"))
	}
	return err
}
