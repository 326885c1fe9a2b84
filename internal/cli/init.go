package cli

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// samples is the partition that init writes: a definition, a manifest and a
// generator, with comments for somebody who sees them for the first time.
//
//go:embed sample
var samples embed.FS

var sampleFiles = []string{"lehr.yaml", "service.yaml", "web.star"}

// What stands in the samples for the folder in which init writes, and for the line that
// names the partition.
const (
	folderPlaceholder = "@FOLDER@"
	partitionLine     = "\npartition: hello\n"
)

func (s *session) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a small partition to start from, named after its folder",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			folder := "."
			if len(args) == 1 {
				folder = args[0]
			}
			absolute, err := filepath.Abs(folder)
			if err != nil {
				return fault.New(fault.Invalid, "folder %q: %w", folder, err)
			}
			name := ""
			if command.Flag("partition").Changed {
				name = s.partition
			}
			partition, err := namePartition(absolute, name)
			if err != nil {
				return err
			}
			if err := writeSamples(folder, absolute, partition); err != nil {
				return err
			}
			if s.json() {
				return printJSON(s.Out, map[string]any{"folder": folder, "partition": partition, "files": sampleFiles})
			}
			change := ""
			if folder != "." {
				change = "  cd " + plain(folder) + "\n"
			}
			fmt.Fprintf(s.Out, `Wrote %s in %s: the partition %s. Go on with:
%s  lehr build                  what would be intended
  lehr plan                   how production differs from it
  lehr serve -p lehr.yaml     keep comparing (and, in mode enforce, pushing)
`, strings.Join(sampleFiles, ", "), plain(folder), partition, change)
			return nil
		},
	}
}

// writeSamples writes all files, or none when one is there already.
func writeSamples(folder, absolute string, partition intent.PartitionID) error {
	if err := os.MkdirAll(absolute, 0o755); err != nil {
		return fault.New(fault.Unavailable, "making the folder: %w", err)
	}
	for _, name := range sampleFiles {
		if _, err := os.Lstat(filepath.Join(absolute, name)); err == nil {
			return fault.New(fault.Conflict, "%s is there already; nothing was written", filepath.Join(folder, name)).
				WithHint("name another folder: lehr init DIR")
		}
	}
	for _, name := range sampleFiles {
		content, err := samples.ReadFile("sample/" + name)
		if err != nil {
			return err
		}
		text := strings.NewReplacer(folderPlaceholder, absolute, partitionLine, "\npartition: "+yamlText(string(partition))+"\n").Replace(string(content))
		file, err := os.OpenFile(filepath.Join(absolute, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			_, err = file.WriteString(text)
			if closing := file.Close(); err == nil {
				err = closing
			}
		}
		if err != nil {
			return fault.New(fault.Unavailable, "writing the sample: %w", err)
		}
	}
	return nil
}

// yamlText writes a text as a YAML scalar that every reader takes for a text: 2024 and
// null would be something else.
func yamlText(text string) string {
	written, err := yaml.Marshal(text)
	if err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(string(written), "\n")
}
