package scaffold

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// module is how Lehr's go.mod begins.
const module = "module lehr.dev\n"

// findLehr returns the folder of Lehr's source: the one that is named, or else
// the one that the program, or whoever calls it, stands in.
func findLehr(named string) (string, error) {
	if named != "" {
		source, err := filepath.Abs(named)
		if err == nil && !isLehr(source) {
			err = fault.New(fault.Invalid, "%s is not the source of Lehr: its go.mod does not begin with %q", named, strings.TrimSpace(module))
		}
		return source, err
	}
	var starts []string
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	if current, err := os.Getwd(); err == nil {
		starts = append(starts, current)
	}
	for _, folder := range starts {
		for ; ; folder = filepath.Dir(folder) {
			if isLehr(folder) {
				return folder, nil
			}
			if folder == filepath.Dir(folder) {
				break
			}
		}
	}
	return "", fault.New(fault.Invalid, "the source of Lehr is not found, which a plugin in Go builds on").
		WithHint("name its folder: --lehr DIR")
}

func isLehr(folder string) bool {
	text, err := files.Read(filepath.Join(folder, "go.mod"), files.MostGiven)
	return err == nil && strings.HasPrefix(string(text), module)
}

var (
	goLine      = regexp.MustCompile(`(?m)^go (\S+)$`)
	requireLine = regexp.MustCompile(`(?ms)^require \(.*?^\)$`)
)

// requirements are those of Lehr, so that the plugin builds with what Lehr was
// built with; "go mod tidy" leaves those that it needs.
func requirements(source string) (version, require string, err error) {
	text, err := files.Read(filepath.Join(source, "go.mod"), files.MostGiven)
	if err != nil {
		return "", "", fault.New(fault.Invalid, "reading Lehr's source: %w", err)
	}
	match := goLine.FindStringSubmatch(string(text))
	if match == nil {
		return "", "", fault.New(fault.Invalid, "the go.mod of Lehr in %s names no version of Go", source)
	}
	return match[1], strings.Join(requireLine.FindAllString(string(text), -1), "\n\n"), nil
}
