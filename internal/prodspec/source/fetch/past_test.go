package fetch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
)

// Of a file in git it is known which commits changed it since another, and which
// commit each line is from; what was before the first fetch is said to be so.
func TestGitTellsWhoChangedWhat(t *testing.T) {
	o := newOrigin(t)
	var first string
	for i := range pastCommits + 5 {
		o.Write("other.yaml", fmt.Sprint(i))
		if i == 2 {
			o.Write("prod/a b.yaml", "one: 1\ntwo: 2\n")
		}
		if i == pastCommits {
			o.Write("prod/ä.yaml", "x: 1\n")
		}
		first = o.Commit(fmt.Sprint("Change ", i))
	}
	r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder, Branch: "main", Directory: "prod"}}, "**/*.yaml")
	if _, _, err := r.read(); err != nil {
		t.Fatal(err)
	}
	lines := func(file string) (told []string) {
		t.Helper()
		found, err := r.folder.Lines(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range found {
			text := c.Commit.Subject + " by " + c.Commit.Author
			if c.Earlier {
				text += ", or earlier"
			}
			told = append(told, text)
		}
		return told
	}
	if diff := cmp.Diff([]string{"Change 5 by Ann Author <ann@example.com>, or earlier", "Change 5 by Ann Author <ann@example.com>, or earlier"}, lines("a b.yaml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{fmt.Sprintf("Change %d by Ann Author <ann@example.com>", pastCommits)}, lines("ä.yaml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o.Write("prod/a b.yaml", "one: 1\ntwo: 3\n")
	second := o.Commit("Change two")
	o.Write("other.yaml", "again")
	o.Commit("Change nothing of it")
	o.Write("prod/a b.yaml", "one: 1\n  two:   3\nthree: 3\n")
	third := o.Commit("Add three")
	if _, _, err := r.read(); err != nil {
		t.Fatal(err)
	}
	want := []string{"Change 5 by Ann Author <ann@example.com>, or earlier", "Change two by Ann Author <ann@example.com>", "Add three by Ann Author <ann@example.com>"}
	if diff := cmp.Diff(want, lines("a b.yaml")); diff != "" {
		t.Errorf("what is only indented is not changed (-want +got):\n%s", diff)
	}
	changes, err := r.folder.Changes(t.Context(), first)
	if err != nil || len(changes) != 1 || len(changes["a b.yaml"]) != 2 || changes["a b.yaml"][0].Revision != third || changes["a b.yaml"][1].Revision != second {
		t.Errorf("%+v, %v", changes, err)
	}
	if changes, err := r.folder.Changes(t.Context(), strings.Repeat("0", 40)); err != nil || changes != nil {
		t.Errorf("since a commit that is not there: %+v, %v", changes, err)
	}
	all, err := r.folder.Changes(t.Context(), "")
	if err != nil || len(all["ä.yaml"]) != 1 || all["ä.yaml"][0].Earlier {
		t.Errorf("%+v, %v", all, err)
	}
}

// Of a document it is known which revision gave a field its value.
func TestDocumentsTellWhoChangedWhat(t *testing.T) {
	revisions := []string{`{"a": {"n": 1, "m": 1}, "b": {"n": 1}}`, `{"a": {"n": 2, "m": 1}, "b": {"n": 1}}`, `{"a": {"n": 2, "m": 1}, "b": {"n": 2}}`}
	at := func(_ context.Context, _ intent.PartitionID, _, revision string) (document.Document, error) {
		n, err := strconv.Atoi(revision)
		if err != nil || n < 1 || n > len(revisions) {
			return document.Document{}, fault.New(fault.NotFound, "no revision %s", revision)
		}
		r := document.Revision{ID: revision, Reason: "edit " + revision, By: intent.Actor{Name: "ann"}, At: time.Unix(int64(n), 0)}
		return document.Document{Content: []byte(revisions[n-1]), Revision: r}, nil
	}
	r := newReader(t, source.Remote{Document: "knobs"})
	r.options.DocumentAt = at
	r.options.Documents = func(ctx context.Context, p intent.PartitionID, name string) (document.Document, error) {
		return at(ctx, p, name, strconv.Itoa(len(revisions)))
	}
	r.files = []string{document.File("knobs")}
	files, _, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := r.folder.Lines(t.Context(), document.File("knobs"))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, line := range lines {
		told = append(told, line.Revision)
	}
	// {, a: {, m, n, }, b: {, n, }, }
	if diff := cmp.Diff([]string{"1", "1", "1", "2", "1", "1", "3", "1", "1"}, told); diff != "" {
		t.Errorf("of %s (-want +got):\n%s", files[document.File("knobs")], diff)
	}
	changes, err := r.folder.Changes(t.Context(), "1")
	if err != nil || len(changes[document.File("knobs")]) != 2 || changes[document.File("knobs")][0].Commit.Subject != "edit 3" {
		t.Errorf("%+v, %v", changes, err)
	}
}
