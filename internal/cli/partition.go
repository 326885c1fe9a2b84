package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/client"
)

func (s *session) partitionCommand() *cobra.Command {
	var reason, name string
	changes := []*cobra.Command{
		{
			Use:   "add PATH|REPOSITORY//PATH?ref=BRANCH",
			Short: "Register a partition by its lehr.yaml, on disk or in a git repository",
			Args:  cobra.ExactArgs(1),
			RunE: func(command *cobra.Command, args []string) error {
				return s.addPartition(command, args[0], name, reason)
			},
		},
		{
			Use:   "remove PARTITION",
			Short: "Forget a partition; production stays as it is",
			Args:  cobra.ExactArgs(1),
			RunE: func(command *cobra.Command, args []string) error {
				partition, err := s.namedPartition(args[0])
				if err != nil {
					return err
				}
				c, err := s.connect(command.Context())
				if err != nil {
					return err
				}
				response, err := c.Partitions.RemovePartition(command.Context(), &apipb.RemovePartitionRequest{Id: partition, Reason: reason})
				if err != nil {
					return err
				}
				if s.json() {
					return printMessage(s.Out, response)
				}
				fmt.Fprintf(s.Out, "Forgot partition %s. What it made in production stays as it is.\n", plain(args[0]))
				return nil
			},
		},
	}
	for _, change := range changes {
		change.Flags().StringVar(&reason, "reason", "", "why, for the audit")
	}
	changes[0].Flags().StringVar(&name, "name", "", "name of the partition (default: the name in the definition, which is read here)")
	command := family("partition", "Register and forget partitions")
	command.AddCommand(append(changes,
		&cobra.Command{
			Use:   "list",
			Short: "The same as: lehr get partitions",
			Args:  cobra.NoArgs,
			RunE: func(command *cobra.Command, _ []string) error {
				partitions, err := findNoun("partitions")
				if err != nil {
					return err
				}
				return s.get(command.Context(), partitions, query{})
			},
		},
	)...)
	return command
}

func (s *session) addPartition(command *cobra.Command, path, id, reason string) error {
	definition, err := definitionPath(path)
	if err != nil {
		return err
	}
	if id == "" {
		if id, err = s.partitionOf(command.Context(), definition, os.Getenv("LEHR_SOURCES")); err != nil {
			return err
		}
	}
	c, err := s.connect(command.Context())
	if err != nil {
		return err
	}
	response, err := c.Partitions.AddPartition(command.Context(), &apipb.AddPartitionRequest{Id: id, Definition: definition, Reason: reason})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, response.Partition)
	}
	fmt.Fprintf(s.Out, "Registered partition %s from %s.\n", plain(response.Partition.Id), plain(definition))
	return nil
}

// inRepository reports whether a definition's place is one in a repository.
func inRepository(definition string) bool {
	return strings.Contains(definition, "://") || strings.Contains(definition, ".git//")
}

// definitionPath is the absolute path of a definition; a folder means the
// lehr.yaml in it. A place in a repository stays as it is.
func definitionPath(path string) (string, error) {
	if inRepository(path) {
		return path, nil
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fault.New(fault.Invalid, "definition %q: %w", path, err)
	}
	info, err := os.Stat(absolute)
	if err == nil && info.IsDir() {
		absolute = filepath.Join(absolute, "lehr.yaml")
		_, err = os.Stat(absolute)
	}
	if err != nil {
		return "", fault.New(fault.NotFound, "no definition at %s: %w", absolute, err).WithHint("lehr init writes one to start from")
	}
	return absolute, nil
}

// partitionOf reads the partition's name from a definition, without judging
// the rest: the pipeline does, and reports findings.
func (s *session) partitionOf(ctx context.Context, definition, sources string) (string, error) {
	read := func() ([]byte, error) { return files.Read(definition, files.MostGiven) }
	if inRepository(definition) {
		read = func() ([]byte, error) { return s.local.ReadDefinition(ctx, definition, sources) }
	}
	text, err := read()
	if cause, isFault := errors.AsType[*fault.Error](err); isFault {
		return "", cause
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, "reading the definition: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "partition:"); ok {
			value, _, _ = strings.Cut(value, " #")
			return strings.Trim(strings.TrimSpace(value), `"'`), nil
		}
	}
	return "", fault.New(fault.Invalid, "%s does not say which partition it defines", definition).WithHint("write a line such as: partition: shop")
}

func (s *session) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and of the server if one answers",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			versions := map[string]string{"client": s.local.Version}
			c, err := s.connect(command.Context())
			switch {
			case err == nil:
				versions["server"] = serverVersion(command, c)
			case s.serverGiven || s.databaseGiven:
				return err
			}
			if s.json() {
				return printJSON(s.Out, versions)
			}
			fields(s.Out, "client", versions["client"], "server", versions["server"])
			return nil
		},
	}
}

func serverVersion(command *cobra.Command, c *client.Client) string {
	response, err := c.Server.GetServer(command.Context(), serverRequest)
	if err != nil {
		return "does not answer"
	}
	return response.Version
}
