package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// editDocument makes operations of what the document is, and edits it.
func (s *session) editDocument(command *cobra.Command, name, base, reason string, operations func(value any, content string) ([]*apipb.DocumentOperation, error)) error {
	return s.onPartition(command.Context(), func(c *client.Client, partition string) error {
		doc, value, err := getDocument(command.Context(), c, partition, name, base)
		if err != nil {
			return err
		}
		list, err := operations(value, doc.Content)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			if s.json() {
				return printMessage(s.Out, doc)
			}
			fmt.Fprintf(s.Out, "Document %s says so already, at revision %s.\n", plain(name), plain(brief(doc.Revision.GetId())))
			return nil
		}
		response, err := c.Documents.EditDocument(command.Context(), &apipb.EditDocumentRequest{
			Partition: partition, Name: name, Base: doc.Revision.GetId(), Operations: list, Reason: reason,
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
		Long: `Set fields of a document in one edit, all of them or none. A value that is valid
JSON is taken as JSON, any other as a text. A field that is a text stays a text:
/version=1.10 does not become a number. PATH:=JSON always takes JSON. Missing maps
on the path are made; /list/- appends to a list.`,
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
	edited, err := document.Apply([]byte(content), operations)
	if err != nil || string(edited) == content {
		return nil, err
	}
	return list, nil
}

// assignment is PATH=VALUE or PATH:=JSON.
func assignment(value any, text string) (*apipb.DocumentOperation, error) {
	at, literal, ok := strings.Cut(text, "=")
	if !ok {
		return nil, fault.New(fault.Invalid, "%q sets nothing", text).WithHint("write PATH=VALUE, as /clusters/a/version=1.4")
	}
	at, exact := strings.CutSuffix(at, ":")
	path, err := field(at)
	if err != nil {
		return nil, err
	}
	read := func() ([]byte, error) { return document.ReadLiteral(value, path, literal) }
	if exact {
		read = func() ([]byte, error) { return document.Canonicalize([]byte(literal)) }
	}
	json, err := read()
	if err != nil {
		return nil, err
	}
	return &apipb.DocumentOperation{Path: at, Value: string(json)}, nil
}

// field is the path of one. An empty path is the whole document, and more often
// a variable of a shell that is not set.
func field(text string) (document.Path, error) {
	path, err := document.ParsePath(text)
	if err == nil && len(path) == 0 {
		err = fault.New(fault.Invalid, "the path is empty, which names no field").
			WithHint("write PATH=VALUE, as /clusters/a/version=1.4; lehr document apply NAME FILE --whole sets the whole document")
	}
	return path, err
}

func (s *session) documentUnsetCommand() *cobra.Command {
	var base, reason string
	command := &cobra.Command{
		Use: "unset NAME PATH ...", Short: "Remove fields, all of them or none", Args: cobra.MinimumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return s.editDocument(command, args[0], base, reason, func(any, string) (list []*apipb.DocumentOperation, err error) {
				for _, path := range args[1:] {
					if _, err := field(path); err != nil {
						return nil, err
					}
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
		Long: `Set the fields that a file has, all of them or none. Fields that the file does not
have stay as they are. With --whole, they are removed: the document becomes exactly
the file. Lists are set as a whole.`,
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
	command.Flags().BoolVar(&whole, "whole", false, "also remove fields that the file does not have")
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
		Long: `Open a document as JSON in $VISUAL or $EDITOR, and save the changes as one edit. If
the edit is refused, your file is kept, and its path is printed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			savedFile := ""
			err := s.editDocument(command, args[0], "", reason, func(value any, content string) ([]*apipb.DocumentOperation, error) {
				wanted, file, err := s.inEditor(command.Context(), args[0], value)
				if savedFile = file; err != nil {
					return nil, err
				}
				return difference(content, wanted, true)
			})
			if savedFile == "" {
				return err
			}
			if err != nil {
				fmt.Fprintf(s.Err, "What you wrote is in %s: lehr document apply %s %s --whole\n", plain(savedFile), plain(args[0]), plain(savedFile))
				return err
			}
			return os.Remove(savedFile)
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
