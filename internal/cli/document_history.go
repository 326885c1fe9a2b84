package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/sdk/client"
)

func (s *session) documentHistoryCommand() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use: "history NAME", Short: "List who changed what of a document, when and why", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				request := &apipb.ListDocumentRevisionsRequest{Partition: partition, Name: args[0]}
				var revisions []*apipb.DocumentRevision
				more, err := pages(limit, func(most int32) (int, bool, error) {
					request.Limit = most
					response, err := c.Documents.ListDocumentRevisions(command.Context(), request)
					if err != nil {
						return 0, false, err
					}
					revisions = append(revisions, response.Revisions...)
					request.Before = response.Next
					return len(response.Revisions), response.Next != "", nil
				})
				if err != nil {
					return err
				}
				if s.json() {
					list := make([]proto.Message, len(revisions))
					for i, r := range revisions {
						list[i] = r
					}
					return printMessages(s.Out, list)
				}
				for _, r := range revisions {
					fmt.Fprintf(s.Out, "%s  %s  %s  %s %s\n", plain(brief(r.Id)), r.Time.AsTime().UTC().Format(time.RFC3339), plain(r.By.GetName()), plain(kindShown(r)), plain(r.Reason))
					if r.Kind != document.Created && r.Kind != document.Deleted {
						s.printDocumentChanges(r.Changes)
					}
				}
				if more {
					fmt.Fprintln(s.Err, "There may be more; --limit raises the number shown.")
				}
				return nil
			})
		},
	}
	command.Flags().IntVar(&limit, "limit", 20, "at most this many revisions")
	return command
}

func kindShown(r *apipb.DocumentRevision) string {
	if r.Kind == document.Undone {
		return "undo of " + brief(r.Of) + ":"
	}
	return r.Kind + ":"
}

func (s *session) documentDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff NAME FROM [TO]",
		Short: "Show the differences between two revisions; exit code 2 if any",
		Long: `Show the differences between two revisions of a document, or between one and the
newest, field by field. The exit code is 0 without differences, and 2 with any.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				older, _, err := getDocument(command.Context(), c, partition, args[0], args[1])
				if err != nil {
					return err
				}
				newer, _, err := getDocument(command.Context(), c, partition, args[0], strings.Join(args[2:], ""))
				if err != nil {
					return err
				}
				changes, err := document.Compare([]byte(older.Content), []byte(newer.Content))
				if err != nil {
					return err
				}
				revision := &apipb.DocumentRevision{Id: newer.Revision.GetId()}
				for _, change := range changes {
					revision.Changes = append(revision.Changes, &apipb.DocumentChange{Path: change.Path, Before: string(change.Before), After: string(change.After)})
				}
				if s.json() {
					if err := printMessage(s.Out, revision); err != nil {
						return err
					}
				} else {
					s.printDocumentChanges(revision.Changes)
				}
				if len(changes) > 0 {
					return exit{exitDiffers}
				}
				return nil
			})
		},
	}
}

func (s *session) documentUndoCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use:   "undo NAME REVISION",
		Short: "Restore the fields that a revision changed to their earlier values",
		Long: `Make a new revision in which the fields that an earlier revision changed have their
previous values again. All other fields stay as they are. The command is refused if
one of these fields was changed since. Undoing a deletion brings the document back.`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				response, err := c.Documents.UndoDocument(command.Context(), &apipb.UndoDocumentRequest{Partition: partition, Name: args[0], Revision: args[1], Reason: reason})
				if err != nil {
					return err
				}
				return s.tellDocument(response.Document)
			})
		},
	}
	reasonFlag(command, &reason)
	return command
}

func (s *session) documentDeleteCommand() *cobra.Command {
	var base, reason string
	command := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a document; lehr document undo brings it back",
		Long: `Delete a document. What was built from it stays as it is, and the partition reports
that a source is missing. The history stays: lehr document undo brings it back.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if base == "" {
					doc, _, err := getDocument(command.Context(), c, partition, args[0], "")
					if err != nil {
						return err
					}
					base = doc.Revision.GetId()
				}
				response, err := c.Documents.DeleteDocument(command.Context(), &apipb.DeleteDocumentRequest{Partition: partition, Name: args[0], Base: base, Reason: reason})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response.Document)
				}
				fmt.Fprintf(s.Out, "Deleted document %s. To bring it back: lehr document undo %s %s\n", plain(args[0]), plain(args[0]), plain(response.Document.GetRevision().GetId()))
				return nil
			})
		},
	}
	baseFlag(command, &base)
	reasonFlag(command, &reason)
	return command
}
