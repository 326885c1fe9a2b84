package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"lehr.dev/client"
	"lehr.dev/document"
	"lehr.dev/document/written"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
)

func (s *session) documentCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "document",
		Short: "Look at and edit documents: configuration that is held by Lehr, or edited in git, field by field",
		Long: `A document is configuration of a partition that people and programs edit field
by field; generators read it as a source. Fields are named by path, as
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
		Short: "Print a document, or what is at a path of it, as JSON",
		Long: `Prints a document as JSON, or what is at a path of it. With -o json it is in an
envelope with its revision: who changed it last, when and why.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				found, value, err := getDocument(command.Context(), c, partition, args[0], revision)
				if err != nil {
					return err
				}
				if len(args) == 2 {
					path, err := document.ParsePath(args[1])
					if err != nil {
						return err
					}
					inner, there := document.At(value, path)
					if !there {
						return fault.New(fault.NotFound, "document %s has nothing at %s at revision %s", args[0], args[1], brief(found.Revision.GetId())).
							WithHint("lehr document get %s shows what it has", args[0])
					}
					value = inner
				}
				if s.json() && len(args) == 1 {
					return printMessage(s.Out, found)
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
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s cannot be read: %w", file, err)
	}
	return written.Parse(file, text)
}

func (s *session) documentCreateCommand() *cobra.Command {
	var file, reason string
	command := &cobra.Command{
		Use: "create NAME", Short: "Make a document, of a file of YAML or JSON or empty", Args: cobra.ExactArgs(1),
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
	command.Flags().StringVar(base, "base", "", "refuse unless this is the revision still (default: the newest)")
}

// tellDocument says what became of it.
func (s *session) tellDocument(d *apipb.Document) error {
	if s.json() {
		return printMessage(s.Out, d)
	}
	r := d.Revision
	where := ""
	if d.Place != "" {
		where = ", in " + d.Place
	}
	fmt.Fprintf(s.Out, "Document %s of partition %s is at revision %s%s.\n", plain(d.Name), plain(d.Partition), plain(brief(r.GetId())), plain(where))
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

// editDocument makes operations of what the document is, and edits it.
func (s *session) editDocument(command *cobra.Command, name, base, reason string, operations func(value any, content string) ([]*apipb.DocumentOperation, error)) error {
	return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
		found, value, err := getDocument(command.Context(), c, partition, name, base)
		if err != nil {
			return err
		}
		list, err := operations(value, found.Content)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			if s.json() {
				return printMessage(s.Out, found)
			}
			fmt.Fprintf(s.Out, "Document %s says so already, at revision %s.\n", plain(name), plain(brief(found.Revision.GetId())))
			return nil
		}
		response, err := c.Documents.EditDocument(command.Context(), &apipb.EditDocumentRequest{
			Partition: partition, Name: name, Base: found.Revision.GetId(), Operations: list, Reason: reason,
		})
		if err != nil {
			return err
		}
		return s.tellDocument(response.Document)
	})
}

func (s *session) documentSetCommand() *cobra.Command {
	var base, reason string
	command := &cobra.Command{
		Use:   "set NAME PATH=VALUE ...",
		Short: "Set fields, all of them or none",
		Long: `Sets fields of a document in one edit, all of them or none. A value is JSON if it
is that, else a text. A field that is a text stays one: /version=1.10 is not
taken for a number there. PATH:=JSON is JSON whatever the field is. Maps on the
way are made; /list/- adds to a list.`,
		Example: `  lehr document set knobs /clusters/a/version=1.10 /clusters/a/replicas=5 --reason "the spring release"
  lehr document set knobs '/clusters/c:={"version": "1.10", "replicas": 2}'`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.editDocument(command, args[0], base, reason, func(value any, content string) (list []*apipb.DocumentOperation, err error) {
				for _, arg := range args[1:] {
					o, err := assignment(value, arg)
					if err != nil {
						return nil, err
					}
					list = append(list, o)
				}
				return changing(content, list)
			})
		},
	}
	baseFlag(command, &base)
	reasonFlag(command, &reason)
	return command
}

// changing are the operations, unless the document is so already.
func changing(content string, list []*apipb.DocumentOperation) ([]*apipb.DocumentOperation, error) {
	operations := make([]document.Operation, len(list))
	for i, o := range list {
		operations[i].Path = o.Path
		if o.Value != "" {
			operations[i].Value = []byte(o.Value)
		}
	}
	after, err := document.Apply([]byte(content), operations)
	if err != nil || string(after) == content {
		return nil, err
	}
	return list, nil
}

// assignment is PATH=VALUE or PATH:=JSON.
func assignment(value any, text string) (*apipb.DocumentOperation, error) {
	at, to, found := strings.Cut(text, "=")
	if !found {
		return nil, fault.New(fault.Invalid, "%q sets nothing", text).WithHint("write PATH=VALUE, as /clusters/a/version=1.4")
	}
	at, exact := strings.CutSuffix(at, ":")
	path, err := document.ParsePath(at)
	if err != nil {
		return nil, err
	}
	json, err := document.Canonicalize([]byte(to))
	if exact {
		if err != nil {
			return nil, err
		}
		return &apipb.DocumentOperation{Path: at, Value: string(json)}, nil
	}
	before, there := document.At(value, path)
	_, isText := before.(string)
	switch quoted := strings.HasPrefix(to, `"`); {
	case err != nil || there && isText && !quoted:
		json = document.Canonical(to)
	case !there && string(json) != to && strings.Trim(to, "+-.0123456789eE") == "":
		return nil, fault.New(fault.Invalid, "%s: is %s a text or the number %s?", at, to, json).
			WithHint(`write '%s="%s"' for the text, or %s=%s for the number`, at, to, at, json)
	}
	return &apipb.DocumentOperation{Path: at, Value: string(json)}, nil
}

func (s *session) documentUnsetCommand() *cobra.Command {
	var base, reason string
	command := &cobra.Command{
		Use: "unset NAME PATH ...", Short: "Remove fields, all of them or none", Args: cobra.MinimumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.editDocument(command, args[0], base, reason, func(any, string) (list []*apipb.DocumentOperation, err error) {
				for _, path := range args[1:] {
					list = append(list, &apipb.DocumentOperation{Path: path})
				}
				return list, nil
			})
		},
	}
	baseFlag(command, &base)
	reasonFlag(command, &reason)
	return command
}

func (s *session) documentApplyCommand() *cobra.Command {
	var base, reason string
	var whole bool
	command := &cobra.Command{
		Use:   "apply NAME FILE",
		Short: "Set the fields that a file of YAML or JSON has",
		Long: `Sets the fields that a file has, all of them or none. Fields that it does not
have stay as they are: nothing is removed for not being mentioned. With --whole
the document becomes what the file says, and no more. Lists are set as a whole.`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			wanted, err := readDocumentFile(args[1])
			if err != nil {
				return err
			}
			return s.editDocument(command, args[0], base, reason, func(_ any, content string) ([]*apipb.DocumentOperation, error) {
				return difference(content, wanted, whole)
			})
		},
	}
	command.Flags().BoolVar(&whole, "whole", false, "also remove what the file does not have")
	baseFlag(command, &base)
	reasonFlag(command, &reason)
	return command
}

// difference is what makes a document what is wanted.
func difference(content string, wanted any, whole bool) (list []*apipb.DocumentOperation, err error) {
	changes, err := document.Compare([]byte(content), document.Canonical(wanted))
	for _, c := range changes {
		if c.After != nil || whole {
			list = append(list, &apipb.DocumentOperation{Path: c.Path, Value: string(c.After)})
		}
	}
	return list, err
}

func (s *session) documentEditCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use:   "edit NAME",
		Short: "Edit a document in $EDITOR",
		Long: `Opens a document as JSON in $VISUAL or $EDITOR, and makes what was changed there
one edit. If it is refused, the file stays and is named.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			kept := ""
			err := s.editDocument(command, args[0], "", reason, func(value any, content string) ([]*apipb.DocumentOperation, error) {
				wanted, file, err := s.inEditor(command.Context(), args[0], value)
				if kept = file; err != nil {
					return nil, err
				}
				return difference(content, wanted, true)
			})
			if kept == "" {
				return err
			}
			if err != nil {
				fmt.Fprintf(s.Err, "What you wrote is in %s: lehr document apply %s %s --whole\n", plain(kept), plain(args[0]), plain(kept))
				return err
			}
			return os.Remove(kept)
		},
	}
	reasonFlag(command, &reason)
	return command
}

// inEditor returns what a person made of a value, and the file that has it.
func (s *session) inEditor(ctx context.Context, name string, value any) (any, string, error) {
	editor := s.Getenv("VISUAL")
	if editor == "" {
		editor = s.Getenv("EDITOR")
	}
	if editor == "" {
		return nil, "", fault.New(fault.Invalid, "neither VISUAL nor EDITOR names an editor").
			WithHint("set one: export EDITOR=vi; or use lehr document set %s PATH=VALUE", name)
	}
	file, err := os.CreateTemp("", "lehr-"+name+"-*.json")
	if err == nil {
		_, err = file.Write(document.Pretty(value))
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return nil, "", fault.New(fault.Unavailable, "a file to edit cannot be made: %w", err)
	}
	// As git does: the variable may hold arguments.
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$@"`, editor, file.Name())
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, s.Out, s.Err
	if err := run.Run(); err != nil {
		return nil, file.Name(), fault.New(fault.Invalid, "the editor %s: %w", editor, err)
	}
	wanted, err := readDocumentFile(file.Name())
	return wanted, file.Name(), err
}

func (s *session) documentHistoryCommand() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use: "history NAME", Short: "List who changed what of a document, when and why, the newest first", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				request := &apipb.ListDocumentRevisionsRequest{Partition: partition, Name: args[0]}
				var found []*apipb.DocumentRevision
				more, err := pages(limit, func(most int32) (int, bool, error) {
					request.Limit = most
					response, err := c.Documents.ListDocumentRevisions(command.Context(), request)
					if err != nil {
						return 0, false, err
					}
					found = append(found, response.Revisions...)
					request.Before = response.Next
					return len(response.Revisions), response.Next != "", nil
				})
				if err != nil {
					return err
				}
				if s.json() {
					list := make([]proto.Message, len(found))
					for i, r := range found {
						list[i] = r
					}
					return printMessages(s.Out, list)
				}
				for _, r := range found {
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
		Short: "Show what differs between two revisions, field by field; exit code 2 if anything does",
		Long: `Shows what differs between two revisions of a document, or one and the newest,
field by field. The exit code is 0 when nothing differs, and 2 when something does.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(command *cobra.Command, args []string) error {
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				from, _, err := getDocument(command.Context(), c, partition, args[0], args[1])
				if err != nil {
					return err
				}
				to, _, err := getDocument(command.Context(), c, partition, args[0], strings.Join(args[2:], ""))
				if err != nil {
					return err
				}
				changes, err := document.Compare([]byte(from.Content), []byte(to.Content))
				if err != nil {
					return err
				}
				shown := &apipb.DocumentRevision{Id: to.Revision.GetId()}
				for _, change := range changes {
					shown.Changes = append(shown.Changes, &apipb.DocumentChange{Path: change.Path, Before: string(change.Before), After: string(change.After)})
				}
				if s.json() {
					if err := printMessage(s.Out, shown); err != nil {
						return err
					}
				} else {
					s.printDocumentChanges(shown.Changes)
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
		Short: "Give the fields that a revision changed their values of before",
		Long: `Makes a new revision, in which the fields that an earlier one changed have their
values of before; all others stay as they are. It is refused if one of them was
changed since. Undoing a deletion brings the document back.`,
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
		Short: "Delete a document; undoing that brings it back",
		Long: `Deletes a document. What is built from it stays as it is, and the partition says
that a source is missing. Its history stays, and undoing brings it back.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := reasoned(command, reason); err != nil {
				return err
			}
			return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
				if base == "" {
					found, _, err := getDocument(command.Context(), c, partition, args[0], "")
					if err != nil {
						return err
					}
					base = found.Revision.GetId()
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
