package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/document/written"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/client"
)

func (s *session) documentCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "document",
		Short: "Show and edit documents field by field, held by Lehr or in git",
		Long: `A document is configuration of a partition that people and programs edit field
by field, and that generators read as a source. A path names a field, for example
/clusters/a/version. Each edit is a revision, with who made it, when and why.`,
		Example: `  lehr document create knobs --file knobs.yaml --reason "what we had in the wiki"
  lehr document set knobs /clusters/a/version=1.4.2 --reason "the spring release"
  lehr document history knobs
  lehr document undo knobs 7 --reason "it is slow"`,
	}
	command.AddCommand(
		s.documentListCommand(), s.documentGetCommand(), s.documentCreateCommand(), s.documentSetCommand(), s.documentUnsetCommand(),
		s.documentApplyCommand(), s.documentEditCommand(), s.documentHistoryCommand(), s.documentDiffCommand(), s.documentUndoCommand(), s.documentDeleteCommand(),
	)
	return command
}

func (s *session) documentListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the documents of a partition", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Documents.ListDocuments(command.Context(), &apipb.ListDocumentsRequest{Partition: partition})
				if err != nil {
					return err
				}
				if s.json() {
					list := make([]proto.Message, len(response.Documents))
					for i, d := range response.Documents {
						list[i] = d
					}
					return printMessages(s.Out, list)
				}
				var rows [][]string
				for _, d := range response.Documents {
					rows = append(rows, []string{d.Name, brief(d.Revision.GetId()), fmt.Sprint(d.Size), d.Revision.GetBy().GetName(), s.ago(d.Revision.GetTime()), d.Revision.GetReason(), d.Place})
				}
				if len(rows) == 0 {
					fmt.Fprintf(s.Err, "Partition %s has no documents. Make one: lehr document create NAME --file FILE\n", plain(partition))
					return nil
				}
				table(s.Out, []string{"DOCUMENT", "REVISION", "BYTES", "BY", "CHANGED", "REASON", "PLACE"}, rows)
				return nil
			})
		},
	}
}

// getDocument reads one and its value.
func getDocument(ctx context.Context, c *client.Client, partition, name, revision string) (*apipb.Document, any, error) {
	response, err := c.Documents.GetDocument(ctx, &apipb.GetDocumentRequest{Partition: partition, Name: name, Revision: revision})
	if err != nil {
		return nil, nil, err
	}
	value, err := document.Parse([]byte(response.Document.Content))
	return response.Document, value, err
}

func (s *session) documentGetCommand() *cobra.Command {
	var revision string
	command := &cobra.Command{
		Use:   "get NAME [PATH]",
		Short: "Print a document, or the value at a path, as JSON",
		Long: `Print a document, or the value at a path, as JSON. With -o json, the revision is
printed too: who made the last edit, when and why.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				doc, value, err := getDocument(command.Context(), c, partition, args[0], revision)
				if err != nil {
					return err
				}
				if len(args) == 2 {
					path, err := document.ParsePath(args[1])
					if err != nil {
						return err
					}
					inner, ok := document.At(value, path)
					if !ok {
						return fault.New(fault.NotFound, "document %s has nothing at %s at revision %s", args[0], args[1], brief(doc.Revision.GetId())).
							WithHint("lehr document get %s shows what it has", args[0])
					}
					value = inner
				}
				if s.json() && len(args) == 1 {
					return printMessage(s.Out, doc)
				}
				fmt.Fprint(s.Out, plainJSON(string(document.Pretty(value))))
				return nil
			})
		},
	}
	command.Flags().StringVar(&revision, "revision", "", "as of this revision instead of the newest")
	return command
}

// readDocumentFile reads JSON or YAML, of a file or, as "-", of the input.
func readDocumentFile(file string) (any, error) {
	var text []byte
	var err error
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(os.Stdin, 4*document.MaxBytes))
	} else {
		text, err = files.Read(file, 4*document.MaxBytes)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s cannot be read: %w", file, err)
	}
	return written.Parse(file, text)
}

func (s *session) documentCreateCommand() *cobra.Command {
	var file, reason string
	command := &cobra.Command{
		Use: "create NAME", Short: "Make a document from a YAML or JSON file, or an empty one", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			value := any(map[string]any{})
			if file != "" {
				var err error
				if value, err = readDocumentFile(file); err != nil {
					return err
				}
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Documents.CreateDocument(command.Context(), &apipb.CreateDocumentRequest{
					Partition: partition, Name: args[0], Content: string(document.Canonical(value)), Reason: reason,
				})
				if err != nil {
					return err
				}
				return s.tellDocument(response.Document)
			})
		},
	}
	command.Flags().StringVar(&file, "file", "", `what it says: a file of YAML or JSON, or "-"`)
	reasonFlag(command, &reason)
	return command
}

func reasonFlag(command *cobra.Command, reason *string) {
	command.Flags().StringVar(reason, "reason", "", "why, for whoever reads its history")
}

func baseFlag(command *cobra.Command, base *string) {
	command.Flags().StringVar(base, "base", "", "refuse if this is not the newest revision any more (default: the newest)")
}

// tellDocument says what became of it.
func (s *session) tellDocument(d *apipb.Document) error {
	if s.json() {
		return printMessage(s.Out, d)
	}
	r := d.Revision
	place := ""
	if d.Place != "" {
		place = ", in " + d.Place
	}
	fmt.Fprintf(s.Out, "Document %s of partition %s is at revision %s%s.\n", plain(d.Name), plain(d.Partition), plain(brief(r.GetId())), plain(place))
	s.printDocumentChanges(r.GetChanges())
	return nil
}

func (s *session) printDocumentChanges(changes []*apipb.DocumentChange) {
	for _, c := range changes {
		path := c.Path
		if path == "" {
			path = "all of it"
		}
		fmt.Fprintf(s.Out, "  %s: %s → %s\n", plain(path), shownValue(c.Before), shownValue(c.After))
	}
}

func shownValue(text string) string {
	const most = 200
	switch {
	case text == "":
		return "(nothing)"
	case len(text) > most:
		return plain(strings.ToValidUTF8(text[:most], "")) + "…"
	}
	return plain(text)
}
