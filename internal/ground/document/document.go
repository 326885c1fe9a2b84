// Package document holds what documents are made of: configuration of a
// partition, by name, that people and programs edit field by field. It parses
// and prints their values, names fields by path, applies edits, and finds what
// differs. It is pure: package store keeps documents, and internal/prodspec/source/fetch
// those that lie in repositories. Package internal/ground/document/written edits files as people
// wrote them.
package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Limits.
const (
	// MaxBytes of a document's canonical JSON.
	MaxBytes = 500_000
	// MaxDepth of maps and lists in each other.
	MaxDepth = 64
	// MaxDocuments of a partition, deleted ones too.
	MaxDocuments = 1000
	// MaxOperations of one edit.
	MaxOperations = 1000
	// MaxPath is the most bytes of a path.
	MaxPath = 1000
	// MaxName and MaxReason are the most bytes of a document's name and of why
	// it was changed.
	MaxName   = 100
	MaxReason = 2000
	// MaxRevisions and MaxHistory bound what is kept of the changes of one
	// document: how many, and how many bytes. The oldest are forgotten first.
	MaxRevisions = 10_000
	MaxHistory   = 64 << 20
)

// Kinds of revisions.
const (
	Created = "create"
	Edited  = "edit"
	Undone  = "undo"
	Deleted = "delete"
	// Returned is an edit that gives fields what they had before, as a rollout's that
	// goes back.
	Returned = "return"
)

// Document is one as of a revision.
type Document struct {
	Partition intent.PartitionID
	Name      string
	// Revision that made it what it is.
	Revision Revision
	// Content is canonical JSON; nil: it is deleted, or only listed.
	Content []byte
	// Size of the content in bytes.
	Size int
	// Place says where it lies, if that is a file of a repository.
	Place string
}

// Revision is one change of a document.
type Revision struct {
	// ID is a number that only grows, or the commit.
	ID string
	// Kind is Created, Edited, Undone or Deleted. Of is the revision that was
	// undone.
	Kind, Of string
	By       intent.Actor
	// From is the address that the call came from; empty: Lehr itself.
	From   string
	At     time.Time
	Reason string
	// Changes in the order of their paths; empty where they were not asked for.
	Changes []Change
	// More changes were made than these.
	More bool
}

// GoesBack reports whether all that the revision did is undo what was done before.
func (r Revision) GoesBack() bool { return r.Kind == Undone || r.Kind == Returned }

// Change of one field. A list whose length changed is one field.
type Change struct {
	// Path is a JSON Pointer; empty: the whole document.
	Path string `json:"path"`
	// Before and After are canonical JSON; nil: there was, or is, nothing.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Edit changes fields of a document: all of them, or none.
type Edit struct {
	// Base is the revision that the edit was made on.
	Base string
	// Operations are carried out in their order.
	Operations []Operation
	Reason     string
	// Back: it gives the fields what they had before.
	Back bool
}

// Operation sets or removes what is at a path.
type Operation struct {
	// Path is a JSON Pointer (RFC 6901). Maps on the way that are not there are
	// made. A list's element is named by its place; "-" is the one behind the
	// last.
	Path string `json:"path"`
	// Value is JSON; nil: what is there is removed.
	Value json.RawMessage `json:"value,omitempty"`
}

var name = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// CheckName refuses what is no name of a document.
func CheckName(text string) error {
	if !name.MatchString(text) || len(text) > MaxName {
		return fault.New(fault.Invalid, "%.300q is no name of a document", text).
			WithHint("use small letters, digits, dots, dashes and underscores, at most %d, beginning with a letter or a digit", MaxName)
	}
	return nil
}

// CheckReason refuses one that is too long.
func CheckReason(text string) error {
	if len(text) > MaxReason {
		return fault.New(fault.Invalid, "the reason has %d bytes, at most %d are kept", len(text), MaxReason)
	}
	return nil
}

// File is the name under which a document is found by generators.
func File(name string) string { return name + ".json" }

// What says what a revision did, for people.
func (r Revision) What() string {
	switch {
	case r.Kind == Undone:
		return "undid " + r.Of
	case r.Kind == Created, r.Kind == Deleted:
		return r.Kind + "d the document"
	}
	var set, removed []string
	for _, c := range r.Changes {
		if c.After == nil {
			removed = append(removed, c.Path)
		} else {
			set = append(set, cmp.Or(c.Path, "the whole document"))
		}
	}
	var parts []string
	if len(set) > 0 {
		parts = append(parts, "set "+List(set))
	}
	if len(removed) > 0 {
		parts = append(parts, "removed "+List(removed))
	}
	if r.More {
		parts = append(parts, "and more")
	}
	return strings.Join(parts, ", ")
}

// Told says who did what in a revision, when and why.
func (r Revision) Told() string {
	text := fmt.Sprintf("%s %s (revision %.12s, %s)", r.By.Name, r.What(), r.ID, r.At.UTC().Format(time.RFC3339))
	if r.Reason != "" {
		text += ", saying: " + r.Reason
	}
	return text
}

// mostListed of names in a sentence.
const mostListed = 5

// List names a few of them, and says how many there are.
func List(names []string) string {
	if more := len(names) - mostListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// EncodeChanges is their JSON.
func EncodeChanges(changes []Change) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(changes)
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), err
}
