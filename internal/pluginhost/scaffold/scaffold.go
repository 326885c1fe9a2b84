// Package scaffold writes a new plugin: a Go module that builds and conforms
// at once, and is to be changed from there. What it looks after is a file,
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
	// caller stands.
	Lehr string
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
	filled, sums, err := prepare(options)
	if err != nil {
		return nil, err
	}
	if err := emptyFolder(options.Folder); err != nil {
		return nil, err
	}
	var written []string
	write := func(name string, content []byte) error {
		name = filepath.Join(options.Folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		written = append(written, name)
		return os.WriteFile(name, content, 0o644)
	}
	err = fs.WalkDir(templates, "template", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fill(name, filled)
		if err != nil {
			return err
		}
		return write(filled.place(name), content)
	})
	if err == nil {
		err = write("go.sum", sums)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "writing the plugin %s to %s: %w", options.Name, options.Folder, err)
	}
	generated, err := generate(ctx, options.Folder)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(append(written, generated...))), nil
}

func prepare(options Options) (words, []byte, error) {
	// A path with a dot is none of Go's own packages, whatever the name.
	filled := words{Name: options.Name, Module: "example.org/" + options.Name, Type: options.Type}
	if !pluginName.MatchString(options.Name) {
		return filled, nil, fault.New(fault.Invalid, "the plugin's name %q is no lower-case word", options.Name).WithHint("write it as in: lehr plugin new text-file")
	}
	if filled.Type == "" {
		filled.Type = usualType(options.Name)
	}
	root, _, _ := strings.Cut(filled.Type, ".")
	if !typeName.MatchString(filled.Type) || root == "lehr" || root == "google" || root == "buf" {
		return filled, nil, fault.New(fault.Invalid, "the type %q is no full name of a message of yours", filled.Type).WithHint("write it as in: --type acme.v1.Shelf")
	}
	dot := strings.LastIndexByte(filled.Type, '.')
	filled.Package, filled.Message = filled.Type[:dot], filled.Type[dot+1:]
	filled.ProtoFolder = "proto/" + strings.ReplaceAll(filled.Package, ".", "/")
	filled.GoPackage = path.Base(strings.TrimSuffix(filled.ProtoFolder, "/v1")) + "pb"
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

// place is where a template goes: names of Go files have a suffix, so that
// they are no part of this package.
func (w words) place(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "template/"), ".tmpl")
	switch name {
	case "payload.proto":
		return w.ProtoFolder + "/" + strings.ToLower(w.Message) + ".proto"
	case "gitignore":
		return ".gitignore"
	}
	return name
}

func fill(name string, filled words) ([]byte, error) {
	text, err := templates.ReadFile(name)
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
