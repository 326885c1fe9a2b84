package mutation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// Weave writes copies of the files that mutants touch below a folder, all
// mutants in them, and the overlay that puts them in the files' places. Root
// is the module's folder; nothing in it is changed.
func Weave(root, into string) (overlay string, err error) {
	return weave(root, into, All)
}

func weave(root, into string, mutants []Mutant) (overlay string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", fault.New(fault.Invalid, "weaving mutants: %w", err)
	}
	if into, err = filepath.Abs(into); err != nil {
		return "", fault.New(fault.Invalid, "weaving mutants: %w", err)
	}
	replace := map[string]string{}
	for _, file := range files(mutants) {
		name := filepath.Join(root, filepath.FromSlash(file))
		source, err := os.ReadFile(name)
		if err != nil {
			return "", fault.New(fault.NotFound, "weaving mutants into %s: %w", file, err)
		}
		woven, err := weaveFile(file, string(source), mutants)
		if err != nil {
			return "", err
		}
		copied := filepath.Join(into, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return "", fault.New(fault.Unavailable, "weaving mutants into %s: %w", file, err)
		}
		if err := os.WriteFile(copied, []byte(woven), 0o600); err != nil {
			return "", fault.New(fault.Unavailable, "weaving mutants into %s: %w", file, err)
		}
		replace[name] = copied
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", fault.New(fault.Internal, "encoding the overlay: %w", err)
	}
	overlay = filepath.Join(into, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", fault.New(fault.Unavailable, "writing the overlay: %w", err)
	}
	return overlay, nil
}

// Build weaves and builds the command with all mutants, and returns where it
// is.
func Build(ctx context.Context, root, into string) (binary string, err error) {
	return BuildOf(ctx, root, into, "./cmd/lehr")
}

// BuildOf does so with another command of the module.
func BuildOf(ctx context.Context, root, into, command string) (binary string, err error) {
	overlay, err := Weave(root, into)
	if err != nil {
		return "", err
	}
	binary, err = filepath.Abs(filepath.Join(into, filepath.Base(command)))
	if err != nil {
		return "", fault.New(fault.Invalid, "building with mutants: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", binary, command)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fault.New(fault.Internal, "building with mutants: %w\n%s", err, output)
	}
	return binary, nil
}

// files that mutants touch, each once.
func files(mutants []Mutant) []string {
	var names []string
	for _, m := range mutants {
		names = append(names, m.File)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// replacement of one piece of a file by what all mutants of it make together.
type replacement struct {
	from, to int
	text     string
	names    []string
}

// weaveFile returns a file's text with all its mutants.
func weaveFile(file, source string, mutants []Mutant) (string, error) {
	byOld := map[string]*replacement{}
	var all []*replacement
	for _, m := range mutants {
		if m.File != file {
			continue
		}
		if err := m.check(source); err != nil {
			return "", err
		}
		if known := byOld[m.Old]; known != nil {
			if strings.Count(m.New, m.Old) != 1 {
				return "", fault.New(fault.Invalid, "mutant %s replaces in %s what %s does, and its New does not hold that once", m.Name, file, known.names[0])
			}
			known.text, known.names = strings.Replace(m.New, m.Old, known.text, 1), append(known.names, m.Name)
			continue
		}
		at := strings.Index(source, m.Old)
		byOld[m.Old] = &replacement{from: at, to: at + len(m.Old), text: m.New, names: []string{m.Name}}
		all = append(all, byOld[m.Old])
	}
	slices.SortFunc(all, func(a, b *replacement) int { return cmp.Compare(a.from, b.from) })
	var woven strings.Builder
	last := 0
	for i, r := range all {
		if r.from < last {
			return "", fault.New(fault.Invalid, "mutants %s and %s replace overlapping pieces of %s", all[i-1].names[0], r.names[0], file)
		}
		woven.WriteString(source[last:r.from] + r.text)
		last = r.to
	}
	woven.WriteString(source[last:])
	return importSwitches(file, woven.String())
}

// check holds the mutant to the file as it is now.
func (m Mutant) check(source string) error {
	if count := strings.Count(source, m.Old); m.Old == "" || count != 1 {
		return fault.New(fault.Conflict, "mutant %s: what it replaces occurs %d times in %s, not once: the code moved: adapt the mutant", m.Name, count, m.File)
	}
	return nil
}

// importSwitches adds the import after the package clause, in its line, so
// that the lines after it keep their numbers where mutants let them.
func importSwitches(file, source string) (string, error) {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, file, source, parser.PackageClauseOnly)
	if err != nil {
		return "", fault.New(fault.Invalid, "reading the woven %s: %w", file, err)
	}
	end := positions.Position(parsed.Name.End()).Offset
	return fmt.Sprintf("%s; import %q%s", source[:end], "lehr.dev/internal/sim/mutant", source[end:]), nil
}
