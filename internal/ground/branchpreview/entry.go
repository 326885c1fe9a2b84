package branchpreview

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
)

// documentPrefix begins the names of the documents that hold entries. Lehr alone edits them.
const documentPrefix = "previews-"

// Document is the name of the document that holds the entries of a rule.
func Document(rule string) string { return documentPrefix + rule }

// RuleOf is the rule whose entries a document of that name holds.
func RuleOf(name string) (rule string, ok bool) { return strings.CutPrefix(name, documentPrefix) }

// IsDocument reports whether a document of that name holds entries, which Lehr alone edits.
func IsDocument(name string) bool {
	_, ok := RuleOf(name)
	return ok
}

// Entry is one preview, as the document has it and as its generator reads it.
type Entry struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// PullRequest is its number, and Link where people see it; zero: it is of a branch.
	PullRequest int    `json:"pull_request,omitempty"`
	Link        string `json:"link,omitempty"`
	// URL is where the preview is seen; empty: the rule does not say.
	URL     string    `json:"url,omitempty"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`
	// Ending: it ends, for good. Nil: it lives.
	Ending *Ending `json:"ending,omitempty"`
}

// Ending is since when a preview ends, and why.
type Ending struct {
	Since time.Time `json:"since"`
	Cause Cause     `json:"cause"`
}

// Cause of an end.
type Cause string

// Causes of an end.
const (
	// BranchGone: a complete list of branches does not have it any more.
	BranchGone Cause = "branch-gone"
	// RequestClosed: the git host says that the pull request was closed or merged.
	RequestClosed Cause = "pull-request-closed"
	// Expired: nobody pushed to the branch for as long as the rule says.
	Expired Cause = "expired"
	// Unmatched: the patterns of the rule do not match the branch any more.
	Unmatched Cause = "unmatched"
)

var causes = map[Cause]string{
	BranchGone:    "its branch is gone",
	RequestClosed: "its pull request was closed or merged",
	Expired:       "it has expired: nobody pushed to its branch for as long as the rule says",
	Unmatched:     "the patterns of the rule do not match its branch any more",
}

// Text says for people why it ends.
func (c Cause) Text() string {
	if text := causes[c]; text != "" {
		return text
	}
	return "for a reason that this version does not know: " + string(c)
}

// Entries of a rule, by the names of the previews.
type Entries map[string]Entry

// Key tells entries and what is listed apart: a pull request by its number, a branch by its name.
func (e Entry) Key() Key { return Key{e.PullRequest, branchOf(e.PullRequest, e.Branch)} }

// Key of a branch or a pull request.
type Key struct {
	PullRequest int
	Branch      string
}

// branchOf is the branch as far as it tells one from another: people may rename the branch of a pull
// request.
func branchOf(request int, branch string) string {
	if request != 0 {
		return ""
	}
	return branch
}

// Parse reads a document of entries. One that is damaged is an error, and nothing of it counts:
// nothing is made or ended by it (S11).
func Parse(content []byte) (Entries, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	entries := Entries{}
	if err := decoder.Decode(&entries); err != nil {
		return nil, fault.New(fault.Internal, "the document of previews cannot be read: %w", err).WithHint("lehr document history shows who edited it; it is Lehr's own")
	}
	for name, e := range entries {
		if err := errors.Join(CheckName(name), e.check()); err != nil {
			return nil, fault.New(fault.Internal, "the document of previews has an entry %.100q that is none: %w", name, err)
		}
	}
	return entries, nil
}

func (e Entry) check() error {
	switch {
	case e.Branch == "" || e.Commit == "":
		return errors.New("it names no branch or no commit")
	case e.Created.IsZero() || e.Expires.IsZero():
		return errors.New("it has no times")
	case e.Ending != nil && e.Ending.Since.IsZero():
		return errors.New("it ends at no time")
	}
	return nil
}

// Operations make a document of entries what a decision says.
func Operations(changes []Change) (operations []document.Operation, _ error) {
	for _, c := range changes {
		o := document.Operation{Path: document.Path{c.Name}.String()}
		if c.Kind != Removed {
			text, err := json.Marshal(c.Entry)
			if err != nil {
				return nil, err
			}
			o.Value = text
		}
		operations = append(operations, o)
	}
	return operations, nil
}
