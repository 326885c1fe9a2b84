package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/importer"
)

func (s *session) importCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "import KIND … --to FOLDER",
		Short: "Write a partition from what exists, in mode observe",
		Long: `Read what exists, and write a partition into a new folder: lehr.yaml in mode observe,
sources, and the generators that turn them into assets. The command changes nothing
where it reads, and overwrites nothing. It lists what it left out, and why.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Help()
			}
			return fault.New(fault.Invalid, "there is nothing called %q to import", args[0]).WithHint("lehr import --help lists what there is")
		},
	}
	for _, kind := range s.local.Imports {
		command.AddCommand(s.importKind(kind))
	}
	return command
}

func (s *session) importKind(kind importer.Kind) *cobra.Command {
	var folder string
	command := &cobra.Command{
		Use: strings.TrimSpace(kind.Name+" "+kind.Arguments) + " --to FOLDER", Short: kind.Short, Long: kind.Long,
		Args: cobra.MinimumNArgs(kind.Args.Least),
	}
	if kind.Args.Most >= 0 {
		command.Args = cobra.RangeArgs(kind.Args.Least, kind.Args.Most)
	}
	read := kind.Bind(command.Flags())
	command.Flags().StringVar(&folder, "to", "", "folder to write, new or empty")
	_ = command.MarkFlagDirname("to")
	_ = command.MarkFlagRequired("to")
	command.RunE = func(command *cobra.Command, args []string) error {
		name := ""
		if command.Flag("partition").Changed {
			name = s.partition
		}
		return s.runImport(command.Context(), read, args, folder, name)
	}
	return command
}

// imported is what was done, as -o json shows it.
type imported struct {
	Folder    string             `json:"folder"`
	Partition intent.PartitionID `json:"partition"`
	// Partitions, where it wrote several.
	Partitions []intent.PartitionID `json:"partitions,omitempty"`
	Files      []string             `json:"files"`
	Read       []string             `json:"read"`
	LeftOut    []importer.LeftOut   `json:"leftOut"`
	Hints      []string             `json:"hints"`
	Next       []string             `json:"next"`
}

func (s *session) runImport(ctx context.Context, read importer.Reader, args []string, folder, name string) error {
	partition, unnamed := namePartition(folder, name)
	if unnamed != nil && name != "" {
		return unnamed
	}
	if err := mustBeNew(folder); err != nil {
		return err
	}
	result, err := read(ctx, args)
	if err != nil {
		return err
	}
	if name == "" && result.Name != "" {
		partition, unnamed = intent.ParsePartitionID(result.Name)
	}
	if unnamed != nil {
		return unnamed
	}
	files := maps.Clone(result.Files)
	if files == nil {
		files = map[string][]byte{}
	}
	if result.ForOperator != nil {
		maps.Copy(files, result.ForOperator(string(partition)))
	}
	summary := imported{
		Folder: folder, Partition: partition,
		Read: append([]string{}, result.Read...), LeftOut: append([]importer.LeftOut{}, result.LeftOut...), Hints: append([]string{}, result.Hints...),
	}
	first := "lehr.yaml"
	if len(result.Parts) == 0 {
		files[first] = definitionText(partition, result.Definition)
	} else {
		first = path.Join(result.Parts[0].Name, "lehr.yaml")
		if summary.Partitions, err = addParts(files, result.Parts, name); err != nil {
			return err
		}
	}
	if err := writeNew(folder, files); err != nil {
		return err
	}
	summary.Files = slices.Sorted(maps.Keys(files))
	at := shellWord(filepath.Join(folder, filepath.FromSlash(first)))
	summary.Next = []string{"lehr plan " + at, "lehr serve -p " + at}
	return s.printImported(summary)
}

func definitionText(partition intent.PartitionID, rest string) []byte {
	return fmt.Appendf(nil, `# Made by lehr import. It is yours now: edit it.
lehr: v1
partition: %s

# observe compares and shows; nothing is pushed. Change it to: enforce
mode: observe

%s`, yamlText(string(partition)), rest)
}

// addParts adds the files of several partitions, each in a folder of its own. A name that was
// given begins those of all.
func addParts(files map[string][]byte, parts []importer.Part, prefix string) (list []intent.PartitionID, err error) {
	for _, part := range parts {
		name := part.Name
		if prefix != "" {
			name = prefix + "-" + name
		}
		partition, err := intent.ParsePartitionID(name)
		if err != nil {
			return nil, err
		}
		list = append(list, partition)
		files[path.Join(part.Name, "lehr.yaml")] = definitionText(partition, part.Definition)
		for file, text := range part.Files {
			files[path.Join(part.Name, file)] = text
		}
	}
	return list, nil
}

var notInPartition = regexp.MustCompile(`[^a-z0-9._-]+`)

// namePartition returns the name that was given, or one like the folder's.
func namePartition(folder, name string) (intent.PartitionID, error) {
	if name != "" {
		return intent.ParsePartitionID(name)
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return "", fault.New(fault.Invalid, "folder %q: %w", folder, err)
	}
	name = strings.Trim(notInPartition.ReplaceAllString(strings.ToLower(filepath.Base(absolute)), "-"), "._-")
	partition, err := intent.ParsePartitionID(name[:min(len(name), 63)])
	if err != nil {
		return "", fault.New(fault.Invalid, "the folder %q gives no name for a partition", folder).WithHint("name it: --partition NAME")
	}
	return partition, nil
}

// mustBeNew refuses a folder that holds anything.
func mustBeNew(folder string) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fault.New(fault.Invalid, "looking into %q: %w", folder, err).WithHint("name a folder that is new or empty: --to FOLDER")
	case len(entries) > 0:
		return fault.New(fault.Conflict, "%q is not empty: it has %s; nothing was read or written", folder, entries[0].Name()).
			WithHint("name a folder that is new or empty: --to FOLDER")
	}
	return nil
}

// writeNew writes all files, or none: what it wrote before it failed is removed.
func writeNew(folder string, files map[string][]byte) (err error) {
	var written []string
	defer func() {
		if err == nil {
			return
		}
		for _, name := range slices.Backward(written) {
			os.Remove(name)
		}
		err = fault.New(fault.Unavailable, "writing the partition: %w", err)
	}()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q would lie outside of the folder", name)
		}
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		file, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		written = append(written, at)
		_, err = file.Write(files[name])
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) printImported(summary imported) error {
	var ending error
	if slices.ContainsFunc(summary.LeftOut, func(l importer.LeftOut) bool { return l.Wrong }) {
		ending = exit{exitDiffers}
	}
	if s.json() {
		if err := printJSON(s.Out, summary); err != nil {
			return err
		}
		return ending
	}
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintln(s.Out, title)
		for _, line := range lines {
			fmt.Fprintln(s.Out, "  "+plain(line))
		}
	}
	var leftOut, wrong []string
	for _, l := range summary.LeftOut {
		if l.Wrong {
			wrong = append(wrong, l.What+": "+l.Why)
		} else {
			leftOut = append(leftOut, l.What+": "+l.Why)
		}
	}
	list("Read:", summary.Read)
	list("Left out:", leftOut)
	list("Left out, for it is wrong as it stands:", wrong)
	list("To do:", summary.Hints)
	wrote := "partition " + string(summary.Partition)
	if n := len(summary.Partitions); n > 0 {
		wrote = fmt.Sprintf("%s, each in its folder", count(n, "partition"))
	}
	fmt.Fprintf(s.Out, "\nWrote %s, %s, into %s. Go on with:\n", wrote, count(len(summary.Files), "file"), plain(summary.Folder))
	for i, purpose := range []string{"how production differs from it; changes nothing", "keep comparing; it pushes nothing in mode observe"} {
		fmt.Fprintf(s.Out, "  %s  # %s\n", plain(summary.Next[i]), purpose)
	}
	return ending
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./@:+-]+$`)

// shellWord is a word as a shell takes it.
func shellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
