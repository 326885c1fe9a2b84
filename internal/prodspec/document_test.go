package prodspec_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

// withKnobs is a world whose versions are in a document.
func withKnobs(t *testing.T) *world {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "  service: {files: [service.yaml]}", "  service: {files: [service.yaml]}\n  knobs: {document: tuning}")
	w.replace("lehr.yaml", "from: [service]", "from: [service, knobs]")
	w.replace("web.star", "version = cluster.version or service.version", `version = json("knobs/tuning.json")["clusters"][cluster.name]["version"]`)
	return w
}

func (w *world) edit(base, path, value string) document.Document {
	w.t.Helper()
	edit := document.Edit{Base: base, Operations: []document.Operation{{Path: path, Value: json.RawMessage(value)}}, Reason: "it is time"}
	made, err := w.store.EditDocument(context.Background(), "shop", "tuning", edit, person)
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

const tuning = `{"clusters": {"a": {"version": "1.4"}, "b": {"version": "1.5"}}}`

// TestAnUndoneEditGoesBack: what is published is known to go back where all that changed is an
// edit that undoes another, and not where anything else changed with it.
func TestAnUndoneEditGoesBack(t *testing.T) {
	w := withKnobs(t)
	w.start()
	w.wait("unavailable", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable })
	made, err := w.store.CreateDocument(t.Context(), "shop", "tuning", []byte(tuning), "begun", person)
	if err != nil {
		t.Fatal(err)
	}
	w.served(1)
	edited := w.edit(made.Revision.ID, "/clusters/a/version", `"2.0"`)
	w.served(2)
	undone, err := w.store.UndoDocument(t.Context(), "shop", "tuning", edited.Revision.ID, "slow", person)
	if err != nil {
		t.Fatal(err)
	}
	w.served(3)
	w.edit(undone.Revision.ID, "/clusters/a/version", `"3.0"`)
	w.served(4)
	for sequence, back := range map[intent.Sequence]bool{1: false, 2: false, 3: true, 4: false} {
		incarnation, err := w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: sequence})
		if err != nil || incarnation.Back != back {
			t.Errorf("%d goes back: %t, want %t; %v", sequence, incarnation.Back, back, err)
		}
	}
}

// TestAnUndoneCommitGoesBack: of a document in git, by what comes of it. A commit that says that
// it undoes another and does not is a change as any other, and so is the change made anew.
func TestAnUndoneCommitGoesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at a repository for seconds")
	}
	w, origin := inGit(t)
	w.replace("lehr.yaml", "branch: main, dir: prod, files: [service.yaml]", "branch: main, document: prod/service.yaml")
	content, err := os.ReadFile(filepath.Join(origin.Folder, "prod/service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	service := string(content)
	origin.Commit("Begin")
	w.start()
	w.served(1)
	sequence := intent.Sequence(1)
	for _, step := range []struct {
		subject, content string
		back             bool
	}{
		{"New", strings.Replace(service, `"1.0"`, `"2.0"`, 1), false},
		{"Undo", service, true},
		{"Anew", strings.Replace(service, `"1.0"`, `"2.0"`, 1), false},
		{"Lies\n\nLehr-Undo: 0123", strings.Replace(service, `"1.0"`, `"3.0"`, 1), false},
	} {
		origin.Write("prod/service.yaml", step.content)
		origin.Commit(step.subject)
		sequence++
		w.served(sequence)
		incarnation, err := w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: sequence})
		if err != nil || incarnation.Back != step.back {
			t.Errorf("%s: it goes back: %t, want %t; %v", step.subject, incarnation.Back, step.back, err)
		}
	}
}

// A document that is not there yet is asked for by the command that makes it.
// Once it is, it is built from, and each edit of it, long before sources would be
// looked at again; provenance has its revision, and who made it, when and why.
func TestADocumentIsBuiltFrom(t *testing.T) {
	w := withKnobs(t)
	w.start()
	status := w.wait("unavailable", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable })
	if f := status.Findings[0]; f.Field != "sources.knobs" || !strings.Contains(f.Hint, "lehr document create tuning -p shop --file tuning.json") {
		t.Errorf("finding %+v does not say how to make it", f)
	}
	made, err := w.store.CreateDocument(t.Context(), "shop", "tuning", []byte(tuning), "begun", person)
	if err != nil {
		t.Fatal(err)
	}
	w.served(1)
	for sequence := 2; sequence <= 4; sequence++ {
		made = w.edit(made.Revision.ID, "/clusters/a/version", `"2.`+made.Revision.ID+`"`)
		w.served(intent.Sequence(sequence))
	}
	incarnation, err := w.store.Incarnation(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 4})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(incarnation.Sources, func(r intent.SourceRevision) bool { return r.Source == "knobs" })
	r := incarnation.Sources[at]
	if r.Revision != "4" || r.Commit.Author != person.Name || r.Commit.Subject != "it is time" || !r.Commit.Time.Equal(made.Revision.At.Truncate(time.Second)) {
		t.Errorf("provenance %+v, want that of %+v", r, made.Revision)
	}
	// What does not change what is generated is covered.
	w.edit("4", "/note", `"x"`)
	w.eventually("knobs", "covered at revision 5", func(r intent.SourceRevision) bool { return r.Revision == "5" })
	w.served(4)
}

// Deleted, a document stays in use as it was, and it is said who deleted it;
// after a restart too.
func TestADeletedDocumentIsNotEmpty(t *testing.T) {
	w := withKnobs(t)
	w.start()
	if _, err := w.store.CreateDocument(t.Context(), "shop", "tuning", []byte(tuning), "begun", person); err != nil {
		t.Fatal(err)
	}
	w.served(1)
	if _, err := w.store.DeleteDocument(t.Context(), "shop", "tuning", "1", "not needed", person); err != nil {
		t.Fatal(err)
	}
	told := w.eventually("knobs", "failing", failing)
	if told.Revision != "1" || !strings.Contains(told.Failing.Reason, "deleted in revision 2 by ann") {
		t.Errorf("coverage %+v", told)
	}
	w.served(1)
	w.stop()
	w.start()
	w.served(1)
	if again := w.eventually("knobs", "failing", failing); again.Failing.Since != told.Failing.Since {
		t.Errorf("coverage %+v after a restart, before %+v", again, told)
	}
	if _, err := w.store.UndoDocument(t.Context(), "shop", "tuning", "2", "needed", person); err != nil {
		t.Fatal(err)
	}
	w.eventually("knobs", "mended", func(r intent.SourceRevision) bool { return !failing(r) && r.Revision == "3" })
	w.served(1)
}

// Without a store, a document comes from whoever is asked for it, or it is said
// how to name one.
func TestABuildAsksForDocuments(t *testing.T) {
	w := withKnobs(t)
	program := prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.processes(), Elsewhere: w.elsewhere()}
	built, err := prodspec.Build(t.Context(), program, time.Now())
	if err != nil || built.OK() || !strings.Contains(built.Findings[0].Hint, "--server URL") {
		t.Errorf("built %+v, %v", built.Findings, err)
	}
	program.Elsewhere.Documents = func(_ context.Context, partition intent.PartitionID, name string) (document.Document, error) {
		if partition != "shop" || name != "tuning" {
			t.Errorf("asked for %s of %s", name, partition)
		}
		return document.Document{Name: name, Revision: document.Revision{ID: "7"}, Content: []byte(tuning)}, nil
	}
	built, err = prodspec.Build(t.Context(), program, time.Now())
	if err != nil || !built.OK() || len(built.Assets) != 3 || !strings.Contains(string(built.Assets[1].Asset), "1.4") {
		t.Errorf("built %+v, %v", built, err)
	}
}
