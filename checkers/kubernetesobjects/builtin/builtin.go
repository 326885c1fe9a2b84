// Package builtin has the kinds of three minor versions of Kubernetes: their fields, by the OpenAPI
// documents of these versions, and which versions of an API were deprecated or removed, by the
// lifecycle that their Go types tell. The tables are made by the program tablegen, and committed.
package builtin

import (
	"bytes"
	"compress/gzip"
	_ "embed" // The tables.
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Tables of all versions.
type Tables struct {
	// Releases by the minor version, such as 1.37, to the release that it was read from.
	Releases map[string]string `json:"releases"`
	// Kinds by minor version, and by GROUP/VERSION/KIND, to the name of the type.
	Kinds map[string]map[string]string `json:"kinds"`
	// Types by minor version, and by name, to an index of Structs: most are the same in all versions.
	Types   map[string]map[string]int `json:"types"`
	Structs []Struct                  `json:"structs"`
	// Lifecycles by GROUP/VERSION/KIND, of those which have an end.
	Lifecycles map[string]Lifecycle `json:"lifecycles"`
}

// Struct has fields by name: string, bytes (base64), int32, int64, number, bool, quantity, int-or-string, time and
// any; []T is a list, {}T a map, and #NAME a struct.
type Struct struct {
	Fields   map[string]string `json:"f"`
	Required []string          `json:"r,omitempty"`
}

// Lifecycle of a version of an API. Versions are minors of Kubernetes 1; 0: never.
type Lifecycle struct {
	Deprecated int `json:"d,omitempty"`
	Removed    int `json:"r,omitempty"`
	// Replacement is GROUP/VERSION/KIND; empty: there is none.
	Replacement string `json:"n,omitempty"`
}

//go:generate go run ../tablegen -to tables.json.gz

//go:embed tables.json.gz
var packed []byte

// Load the tables.
var Load = sync.OnceValues(func() (*Tables, error) { return Unpack(packed) })

// Unpack reads tables as Pack wrote them.
func Unpack(packed []byte) (*Tables, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("reading the tables of Kubernetes: %w", err)
	}
	tables := &Tables{}
	if err := json.NewDecoder(reader).Decode(tables); err != nil {
		return nil, fmt.Errorf("reading the tables of Kubernetes: %w", err)
	}
	return tables, nil
}

// Pack writes tables; equal tables give equal bytes.
func Pack(tables *Tables) ([]byte, error) {
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(writer).Encode(tables); err != nil {
		return nil, err
	}
	err = writer.Close()
	return out.Bytes(), err
}

// Version is what one minor version of Kubernetes has.
type Version struct {
	Name  string
	Minor int

	tables *Tables
	groups map[string]bool
}

// Versions that there are tables of, the newest last.
func (t *Tables) Versions() []string { return slices.Sorted(maps.Keys(t.Releases)) }

// Version by its name, such as 1.37; a release, such as 1.37.2 or v1.37.2, is of its minor version.
func (t *Tables) Version(name string) (Version, error) {
	parts := strings.Split(strings.TrimPrefix(name, "v"), ".")
	minor := strings.Join(parts[:min(2, len(parts))], ".")
	v := Version{Name: minor, tables: t, groups: map[string]bool{}}
	if t.Kinds[minor] == nil {
		return v, fmt.Errorf("there are no tables of Kubernetes %q: write one of %s, the nearest to that of the cluster", name, strings.Join(t.Versions(), ", "))
	}
	if _, err := fmt.Sscanf(minor, "1.%d", &v.Minor); err != nil {
		return v, fmt.Errorf("%q is no version of Kubernetes: %w", name, err)
	}
	for kind := range t.Kinds[minor] {
		v.groups[groupOf(kind)] = true
	}
	for kind := range t.Lifecycles {
		v.groups[groupOf(kind)] = true
	}
	return v, nil
}

// Key is GROUP/VERSION/KIND, where the group of the core is empty.
func Key(apiVersion, kind string) string {
	if !strings.Contains(apiVersion, "/") {
		apiVersion = "/" + apiVersion
	}
	return apiVersion + "/" + kind
}

// Named is a key as manifests write it: APIVERSION KIND.
func Named(key string) string {
	at := strings.LastIndexByte(key, '/')
	return strings.TrimPrefix(key[:at], "/") + " " + key[at+1:]
}

func groupOf(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group
}

// Struct of a kind.
func (v Version) Struct(key string) (Struct, bool) {
	name, ok := v.tables.Kinds[v.Name][key]
	if !ok {
		return Struct{}, false
	}
	return v.Type(name), true
}

// Type by its name, which a field or a kind has.
func (v Version) Type(name string) Struct { return v.tables.Structs[v.tables.Types[v.Name][name]] }

// TypeName of a kind; empty: it has none.
func (v Version) TypeName(key string) string { return v.tables.Kinds[v.Name][key] }

// HasGroup reports whether a group is one of Kubernetes itself.
func (v Version) HasGroup(key string) bool { return v.groups[groupOf(key)] }

// Kinds that the version has, sorted.
func (v Version) Kinds() []string { return slices.Sorted(maps.Keys(v.tables.Kinds[v.Name])) }

// Lifecycle of a version of an API, if it has an end.
func (v Version) Lifecycle(key string) (Lifecycle, bool) {
	l, ok := v.tables.Lifecycles[key]
	return l, ok
}

// Since is the oldest version of the tables that has a kind; empty: none has it.
func (v Version) Since(key string) string {
	for _, name := range v.tables.Versions() {
		if v.tables.Kinds[name][key] != "" {
			return name
		}
	}
	return ""
}
