package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// documentsFlag has a command that builds read documents: of the files that are
// named in their place, else of a server.
func (s *session) documentsFlag(command *cobra.Command, options *BuildOptions) {
	var files []string
	command.Flags().StringArrayVar(&files, "document", nil, "NAME=FILE: use a YAML or JSON file in place of a document that a server holds (default: ask the server of --server, or the one that runs here)")
	announced, used := map[string]bool{}, map[string]bool{}
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		err := run(command, args)
		if err != nil && err != error(exit{exitDiffers}) {
			return err
		}
		for _, argument := range files {
			if name, _, _ := strings.Cut(argument, "="); !used[name] {
				return fault.New(fault.Invalid, "--document %s: the definition reads no document %s that a server holds", argument, name).
					WithHint("name one of a source {document: NAME}")
			}
		}
		return err
	}
	options.HasDocument = func(ctx context.Context, partition intent.PartitionID, name string) (bool, error) {
		if slices.ContainsFunc(files, func(argument string) bool { return strings.HasPrefix(argument, name+"=") }) {
			return true, nil
		}
		asks := command.Name() == planName || command.Name() == rbacName
		return asks && s.hasDocument(ctx, partition, name), nil
	}
	options.Outputs = s.readOffer
	options.Documents = func(ctx context.Context, partition intent.PartitionID, name string) (doc document.Document, err error) {
		for _, argument := range files {
			documentName, file, ok := strings.Cut(argument, "=")
			if !ok || documentName == "" || file == "" {
				return doc, fault.New(fault.Invalid, "--document %s is no NAME=FILE", argument).WithHint("write --document %s=%s", name, document.File(name))
			}
			if documentName != name {
				continue
			}
			used[name] = true
			value, err := readDocumentFile(file)
			content := document.Canonical(value)
			return document.Document{
				Partition: partition, Name: name, Content: content,
				Revision: document.Revision{ID: "file-" + intent.Sum("lehr.document.v1", content).Short(), By: s.actor(), Reason: "the file " + file, At: s.now()},
			}, err
		}
		server, err := s.connect(ctx)
		if err != nil {
			return doc, fault.New(fault.Unavailable, "document %s of partition %s is held by a server, and none is known here", name, partition).
				WithHint("name it with --server URL or LEHR_SERVER, or give a file in its place: --document %s=%s", name, document.File(name))
		}
		read, _, err := getDocument(ctx, server, string(partition), name, "")
		if err != nil {
			return doc, err
		}
		if !announced[name] {
			fmt.Fprintf(s.Err, "Document %s of partition %s is read at revision %s, from %s.\n", plain(name), plain(string(partition)), plain(read.Revision.GetId()), plain(server.URL))
			announced[name] = true
		}
		r := read.Revision
		return document.Document{
			Partition: partition, Name: name, Content: []byte(read.Content),
			Revision: document.Revision{ID: r.GetId(), By: intent.Actor{Name: r.GetBy().GetName(), Origin: r.GetBy().GetOrigin()}, Reason: r.GetReason(), At: r.GetTime().AsTime()},
		}, nil
	}
}

// hasDocument reports whether a server is there that holds a document of the partition
// which no definition names: of what was turned down by command, and of what assets told.
// A plan is of what the server would serve; build and lint are of what the sources say.
func (s *session) hasDocument(ctx context.Context, partition intent.PartitionID, name string) bool {
	server, err := s.connect(ctx)
	if err != nil {
		return false
	}
	_, _, err = getDocument(ctx, server, string(partition), name, "")
	return err == nil
}
