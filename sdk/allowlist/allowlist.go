// Package allowlist holds a plugin's operator's list: a file in which whoever runs the
// plugin says what may be used, such as endpoints, clusters or folders, and by which
// partitions. Intent is its tenants' and only names entries of it. The file is strict, and
// counts as it is now: it is read again when it has changed. One that is wrong permits
// nothing until it is right again, as the right that its operator took away may be in what
// cannot be read.
package allowlist

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/sdk/serve"
)

// Kind of list.
type Kind struct {
	// Noun is one entry, for people, such as "endpoint"; Name the whole file, by default
	// "list of endpoints".
	Noun, Name string
	// Key that the file begins with, whose value is v1, such as "http-endpoints"; Entries
	// the key of the list itself, such as "endpoints".
	Key, Entries string
	// Flag of the plugin that names the file, without dashes.
	Flag string
	// Page of the documentation that shows such a file.
	Page string
}

// Entry is what each entry has. A type of entries embeds it, with the tag `yaml:",inline"`.
type Entry struct {
	Name       string              `yaml:"name"`
	Partitions operator.Partitions `yaml:"partitions"`
}

func (e Entry) listed() Entry { return e }

// Listed is a type of entries: a struct that embeds Entry. It may have a method
// Check() error, which says what is wrong with an entry; its receiver is a value.
type Listed interface{ listed() Entry }

type checker interface{ Check() error }

// List is a file. Its methods may be called from many goroutines.
type List[E Listed] struct {
	kind Kind
	path string

	mutex   sync.Mutex
	entries []E
	// problem is what is wrong with the file as it is now.
	problem error
	stamp   stamp
}

// stamp changes when a file does.
type stamp struct {
	size, changed   int64
	modified        int64
	device, inode   uint64
	isSettled, isOK bool
}

// Open reads a list for the first time. An empty path is a list that permits nothing and
// says which flag names one. The error is what is wrong with the file: Unavailable or
// Invalid, with file, line and a hint.
func Open[E Listed](path string, kind Kind) (*List[E], error) {
	l := &List[E]{kind: kind, path: path}
	_, err := l.now()
	return l, err
}

// Decode decodes the text of another file of an operator as strictly: one document that
// begins with the kind's key, and whose keys and values a struct with yaml tags has. Errors
// have file, line and a hint. The path is for messages.
func Decode(path string, text []byte, kind Kind, target any) error {
	return operator.Decode(path, text, kind.file(), target)
}

// file is the kind in the words of package operator.
func (k Kind) file() operator.Kind {
	return operator.Kind{Name: cmp.Or(k.Name, "list of "+k.Noun+"s"), Key: k.Key, Flag: k.Flag, Page: k.Page}
}

// Permits returns the entry of a name that a partition may use. The error is Denied where
// there is none, and says nothing of what others may use. Where the file is wrong the error
// is that of Open.
func (l *List[E]) Permits(partition serve.PartitionID, name string) (E, error) {
	var none E
	entries, err := l.now()
	if err != nil {
		return none, err
	}
	var allowed []string
	for _, entry := range entries {
		listed := entry.listed()
		if !listed.Partitions.Has(partition) {
			continue
		}
		if listed.Name == name {
			return entry, nil
		}
		allowed = append(allowed, listed.Name)
	}
	return none, l.notListed(partition, name, spell.Nearest(name, allowed))
}

func (l *List[E]) notListed(partition serve.PartitionID, name, suggestion string) error {
	refused := fault.New(fault.Denied, "not listed: partition %s may use no %s %.100q", partition, l.kind.Noun, name)
	place := "the file that --" + l.kind.Flag + " names"
	if l.path == "" {
		return refused.WithHint("whoever operates the plugin starts it with --%s FILE and adds it there, with partitions: [%s]; see %s", l.kind.Flag, partition, l.kind.Page)
	}
	hint := fmt.Sprintf("whoever operates the plugin adds it to %s, with partitions: [%s]", place, partition)
	if suggestion != "" {
		hint = fmt.Sprintf("did you mean %s? Else %s", suggestion, hint)
	}
	return refused.WithHint("%s", hint)
}

// Entries are all entries as the file is now, in its order.
func (l *List[E]) Entries() ([]E, error) {
	entries, err := l.now()
	return slices.Clone(entries), err
}

// now reads the file when it has changed.
func (l *List[E]) now() ([]E, error) {
	if l.path == "" {
		return nil, nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	// Looked at before it is read: what changes in between is read again.
	stamp := stampOf(l.path, time.Now())
	if stamp.isOK && stamp.isSettled && stamp == l.stamp {
		return l.entries, l.problem
	}
	l.entries, l.problem = l.read()
	if l.problem != nil {
		l.entries = nil
	}
	l.stamp = stamp
	return l.entries, l.problem
}

// settledAfter is how long a file must have been left alone for its times to tell a further
// change: the clock of a file system may be that coarse.
const settledAfter = 2 * time.Second

// stampOf is not OK of a file that cannot be looked at.
func stampOf(path string, now time.Time) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano(), isOK: true, isSettled: true}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode, s.changed = system.Dev, system.Ino, system.Ctim.Nano()
	}
	s.isSettled = now.Sub(time.Unix(0, max(s.changed, s.modified))) > settledAfter
	return s
}

// read reads the file and checks each entry.
func (l *List[E]) read() ([]E, error) {
	info, err := os.Stat(l.path)
	if err == nil && info.Mode().Perm()&0o002 != 0 {
		return nil, fault.New(fault.Denied, "%s can be written by every user of this machine, so it is not the operator's alone", l.path).WithHint("chmod o-w %s", l.path)
	}
	// A struct with the keys of this kind.
	whole := reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "Version", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(fmt.Sprintf("yaml:%q", l.kind.Key))},
		{Name: "Entries", Type: reflect.TypeFor[[]E](), Tag: reflect.StructTag(fmt.Sprintf("yaml:%q", l.kind.Entries))},
	}))
	if err := operator.Read(l.path, l.kind.file(), whole.Interface()); err != nil {
		return nil, err
	}
	entries := whole.Elem().Field(1).Interface().([]E)
	lines, empty := l.lines()
	if empty > 0 {
		return nil, fault.New(fault.Invalid, "%s:%d: an entry of %s is empty", l.path, empty, l.kind.Entries).WithHint("remove it, or write it as %s shows", l.kind.Page)
	}
	seen := map[string]bool{}
	for i, entry := range entries {
		listed := entry.listed()
		var wrong error
		switch {
		case strings.TrimSpace(listed.Name) == "":
			wrong = fault.New(fault.Invalid, "it has no name: write name: NAME, as intent names it")
		case seen[listed.Name]:
			wrong = fault.New(fault.Invalid, "another %s has the same name: rename one", l.kind.Noun)
		default:
			wrong = listed.Partitions.Check()
		}
		if check, ok := any(entry).(checker); ok && wrong == nil {
			wrong = check.Check()
		}
		if wrong != nil {
			return nil, fault.New(fault.Invalid, "%s%s: %s %.100q: %w", l.path, lineOf(lines, i), l.kind.Noun, listed.Name, wrong).WithHint("write it as %s shows", l.kind.Page)
		}
		seen[listed.Name] = true
	}
	return entries, nil
}

func lineOf(lines []int, i int) string {
	if i >= len(lines) {
		return "" // The file was replaced meanwhile.
	}
	return fmt.Sprintf(":%d", lines[i])
}

// lines are where the entries begin. The line of one that says nothing, which a decoder
// passes over, is empty.
func (l *List[E]) lines() (lines []int, empty int) {
	data, err := files.Read(l.path, files.MostGiven)
	if err != nil {
		return nil, 0
	}
	var node yaml.Node
	if yaml.Unmarshal(data, &node) != nil || len(node.Content) == 0 {
		return nil, 0
	}
	whole := node.Content[0].Content
	for i := 0; i+1 < len(whole); i += 2 {
		if whole[i].Value == l.kind.Entries {
			for _, entry := range whole[i+1].Content {
				lines = append(lines, entry.Line)
				if entry.Tag == "!!null" {
					empty = entry.Line
				}
			}
		}
	}
	return lines, empty
}
