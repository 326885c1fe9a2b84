// Package scaffold writes a new plugin: a Go module that builds and conforms at once, or
// a program in Python that does, and is to be changed from there. What it looks after is a file,
// something real and simple. The command "lehr plugin new" calls it.
package scaffold

import (
	"context"
	"embed"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// Options say what is written.
type Options struct {
	// Name of the plugin and of its program, such as "textfile".
	Name string
	// Folder to write; it is made, or is empty.
	Folder string
	// Type is the full name of the payload type; default: from Name.
	Type string
	// Lehr is the folder of Lehr's source; default: where the program or the
	// caller stands. Only a plugin in Go builds on it.
	Lehr string
	// Python: it is written in Python, not in Go.
	Python bool
}

//go:embed template
var templates embed.FS

var (
	pluginName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	typeName   = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+\.[A-Z][A-Za-z0-9]*$`)
)

// words are what the templates are filled in with.
type words struct {
	Name, Module, Type, Message, Package string
	// GoPackage is the generated package, ProtoFolder where it is.
	GoPackage, ProtoFolder string
	// Requirements are Lehr's own.
	Requirements, Lehr, GoVersion string
}

// New writes a plugin, and returns the files in the order of their names.
func New(ctx context.Context, options Options) ([]string, error) {
	if options.Python {
		return newPython(ctx, options)
	}
	filled, sums, err := prepare(options)
	if err != nil {
		return nil, err
	}
	if err := emptyFolder(options.Folder); err != nil {
		return nil, err
	}
	written, err := writeTemplates(templates, "template", filled, options)
	if err != nil {
		return nil, err
	}
	place := filepath.Join(options.Folder, "go.sum")
	if err := os.WriteFile(place, sums, 0o644); err != nil {
		return nil, fault.New(fault.Unavailable, "writing the plugin %s to %s: %w", options.Name, options.Folder, err)
	}
	generated, err := generateGo(ctx, options.Folder)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(append(append(written, place), generated...))), nil
}

// writeTemplates fills in the templates of a folder, and returns what it wrote.
func writeTemplates(from embed.FS, root string, filled words, options Options) (written []string, err error) {
	err = fs.WalkDir(from, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fill(from, name, filled)
		if err != nil {
			return err
		}
		place, mode := filled.place(strings.TrimPrefix(name, root+"/"))
		place = filepath.Join(options.Folder, filepath.FromSlash(place))
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		written = append(written, place)
		return os.WriteFile(place, content, mode)
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "writing the plugin %s to %s: %w", options.Name, options.Folder, err)
	}
	return written, nil
}

// name fills in what is known of the plugin's name and type.
func name(options Options) (words, error) {
	// A path with a dot is none of Go's own packages, whatever the name.
	filled := words{Name: options.Name, Module: "example.org/" + options.Name, Type: options.Type}
	if !pluginName.MatchString(options.Name) {
		return filled, fault.New(fault.Invalid, "the plugin's name %q is no lower-case word", options.Name).WithHint("write it as in: lehr plugin new text-file")
	}
	if filled.Type == "" {
		filled.Type = usualType(options.Name)
	}
	root, _, _ := strings.Cut(filled.Type, ".")
	if !typeName.MatchString(filled.Type) || root == "lehr" || root == "google" || root == "buf" {
		return filled, fault.New(fault.Invalid, "the type %q is no full name of a message of yours", filled.Type).WithHint("write it as in: --type acme.v1.Shelf")
	}
	dot := strings.LastIndexByte(filled.Type, '.')
	filled.Package, filled.Message = filled.Type[:dot], filled.Type[dot+1:]
	filled.ProtoFolder = "proto/" + strings.ReplaceAll(filled.Package, ".", "/")
	filled.GoPackage = path.Base(strings.TrimSuffix(filled.ProtoFolder, "/v1")) + "pb"
	return filled, nil
}

// prepare adds what a plugin in Go builds on.
func prepare(options Options) (words, []byte, error) {
	filled, err := name(options)
	if err != nil {
		return filled, nil, err
	}
	source, err := findLehr(options.Lehr)
	if err != nil {
		return filled, nil, err
	}
	filled.Lehr = source
	if filled.GoVersion, filled.Requirements, err = requirements(source); err != nil {
		return filled, nil, err
	}
	sums, err := files.Read(filepath.Join(source, "go.sum"), files.MostGiven)
	if err != nil {
		return filled, nil, fault.New(fault.Invalid, "reading Lehr's source: %w", err)
	}
	return filled, sums, nil
}

// usualType of the plugin "text-file" is text_file.v1.TextFile.
func usualType(name string) string {
	var message strings.Builder
	for _, part := range strings.Split(name, "-") {
		message.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return strings.ReplaceAll(name, "-", "_") + ".v1." + message.String()
}

// place is where a template goes, and its mode: names of Go files have a suffix, so that
// they are no part of this package.
func (w words) place(name string) (string, fs.FileMode) {
	name = strings.TrimSuffix(name, ".tmpl")
	switch name {
	case "payload.proto":
		return w.ProtoFolder + "/" + strings.ToLower(w.Message) + ".proto", 0o644
	case "gitignore":
		return ".gitignore", 0o644
	case "resource.py":
		return "resource_files.py", 0o644
	case "program":
		return w.Name, 0o755
	}
	return name, 0o644
}

func fill(from embed.FS, name string, filled words) ([]byte, error) {
	text, err := from.ReadFile(name)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var content strings.Builder
	err = parsed.Execute(&content, filled)
	return []byte(content.String()), err
}

// emptyFolder refuses a folder in which something is.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err == nil && len(entries) > 0 {
		return fault.New(fault.Conflict, "the folder %s is not empty", folder).WithHint("name another with --dir")
	}
	if err == nil || os.IsNotExist(err) {
		return nil
	}
	return fault.New(fault.Invalid, "looking into the folder %s: %w", folder, err)
}
