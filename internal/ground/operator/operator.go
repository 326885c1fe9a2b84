// Package operator reads the files in which whoever runs a server says what its
// tenants may use of it: plugin servers, native programs, secrets and networks
// of sources, questions of rules. Definitions are the tenants' and only name such
// things. Every file is strict, one YAML document, and begins with its kind and
// version. Package app and those that hold tenants to a file call it.
package operator

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
)

// Kind of file.
type Kind struct {
	// Name for people, such as "list of plugin servers".
	Name string
	// Key that the file begins with, and the flag that names it.
	Key, Flag string
	// Page of the documentation that shows one.
	Page string
}

const version = "v1"

// Read decodes a file into a struct, which has a field for the kind's key.
// Unavailable: it cannot be read. Invalid: it is not of the kind, says what is
// not known, or holds more than one document.
func Read(path string, kind Kind, target any) error {
	data, err := files.Read(path, files.MostGiven)
	if err != nil {
		return fault.New(fault.Unavailable, "reading the %s: %w", kind.Name, err).WithHint("name a file that can be read with --%s FILE", kind.Flag)
	}
	return Decode(path, data, kind, target)
}

// Decode decodes the text of a file, as Read does. The path is for messages.
func Decode(path string, data []byte, kind Kind, target any) error {
	var node yaml.Node
	if yaml.Unmarshal(data, &node) == nil {
		if tagged, ok := document.UnknownTag(&node); ok {
			return fault.New(fault.Invalid, "%s:%d: the tag %.100s is not known", path, tagged.Line, tagged.Tag).WithHint("write the value that is meant, as %s shows", kind.Page)
		}
		if problem := checkDocument(&node, target); problem != nil {
			return fault.New(fault.Invalid, "%s:%d: %s", path, problem.node.Line, problem.reason).WithHint("%s; %s shows such a file", problem.hint, kind.Page)
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(target); err != nil {
		problem := plain(err)
		if matches := linePrefix.FindStringSubmatch(problem.Error()); matches != nil {
			return fault.New(fault.Invalid, "%s:%s: %s", path, matches[1], matches[2]).WithHint("%s shows a %s", kind.Page, kind.Name)
		}
		return fault.New(fault.Invalid, "%s is no %s: %w", path, kind.Name, problem).WithHint("write it as %s shows", kind.Page)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "%s holds more than one document", path)
	}
	var begins map[string]any
	if err := yaml.Unmarshal(data, &begins); err != nil || begins[kind.Key] != version {
		return fault.New(fault.Invalid, "%s is no %s of version %s", path, kind.Name, version).WithHint("start it with %s: %s", kind.Key, version)
	}
	return nil
}

// checkDocument is check of a file that says something.
func checkDocument(node *yaml.Node, target any) *problem {
	if len(node.Content) == 0 {
		return nil
	}
	return check(node, reflect.TypeOf(target), "")
}

// linePrefix is how a decoder says where something is wrong.
var linePrefix = regexp.MustCompile(`(?s)^(?:yaml: )?line (\d+): (.*)$`)

// plain puts a decoder's error in one line.
func plain(err error) error {
	if several, ok := errors.AsType[*yaml.TypeError](err); ok {
		return errors.New(strings.Join(several.Errors, "; "))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	return err
}

// everyPartition stands for all.
const everyPartition = "*"

// Partitions that may use something: their names, or "*" for all.
type Partitions []string

// Check is Invalid when none is named, or a name is none.
func (p Partitions) Check() error {
	if len(p) == 0 {
		return fault.New(fault.Invalid, `no partition may use it: write partitions: [NAME], or ["*"] for all`)
	}
	for _, name := range p {
		if _, err := intent.ParsePartitionID(name); name != everyPartition && err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether a partition is among them.
func (p Partitions) Has(partition intent.PartitionID) bool {
	return slices.Contains(p, everyPartition) || slices.Contains(p, string(partition))
}
