package app

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
)

// trials build partitions with other documents, one at a time. Nothing of them is stored.
type trials struct {
	app   *App
	mutex sync.Mutex
}

var _ server.Trials = (*trials)(nil)

// longestTrial is how long a trial may take.
const longestTrial = time.Minute

// Try implements server.Trials.
func (t *trials) Try(ctx context.Context, partition store.Partition, edits map[string][]document.Operation) (tried server.Tried, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	ctx, cancel := loop.WithTimeout(ctx, t.app.runtime, longestTrial)
	defer cancel()
	files, err := t.filesOf(ctx, partition, edits)
	if err != nil {
		return tried, err
	}
	edges := versionEdges{declares: map[intent.AssetID]string{}}
	built, err := prodspec.BuildEach(ctx, t.program(partition, edits, files), t.app.runtime.Now(), edges.add)
	if err != nil {
		return tried, err
	}
	for _, f := range built.Findings {
		if f.Severity == intent.Error {
			tried.Refused = append(tried.Refused, f)
		}
	}
	tried.Unmet = edges.unmet()
	return tried, nil
}

// filesOf are the edits of documents that are files of repositories.
func (t *trials) filesOf(ctx context.Context, partition store.Partition, edits map[string][]document.Operation) (files []fetch.FileEdit, err error) {
	if len(edits) == 0 {
		return nil, nil
	}
	named, err := t.app.written.named(ctx, partition)
	for _, d := range named {
		if operations := edits[d.Name]; len(operations) > 0 {
			files = append(files, fetch.FileEdit{URL: d.Git.URL, Branch: d.Git.Branch, Path: d.Git.Document, Operations: operations})
		}
	}
	return files, err
}

// program builds a partition in a folder of its own, as its pipeline would if the documents were edited. The files are
// those of them that lie in repositories.
func (t *trials) program(partition store.Partition, edits map[string][]document.Operation, files []fetch.FileEdit) prodspec.Program {
	a := t.app
	runner := a.options.Parts.Runner
	if process, ok := runner.(*generate.Process); ok {
		runner = process.Of(partition.ID)
	}
	elsewhere := a.elsewhere.optionsOf(a.options, partition.ID, partition.Definition)
	elsewhere.Folder = filepath.Join(elsewhere.Folder, ".trials")
	elsewhere.Runtime, elsewhere.Mode, elsewhere.Edits = a.runtime, fetch.Once, files
	read := elsewhere.Documents
	if read == nil {
		read = func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error) {
			return a.store.Document(ctx, partition, name, "")
		}
	}
	elsewhere.Documents = func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error) {
		doc, err := read(ctx, partition, name)
		if err != nil || len(edits[name]) == 0 {
			return doc, err
		}
		doc.Content, err = document.Apply(doc.Content, edits[name])
		return doc, err
	}
	return prodspec.Program{
		Definition: partition.Definition, Partition: partition.ID, Runner: runner, Place: a.options.Parts.Sources, Elsewhere: elsewhere,
		HasDocument: prodspec.HasDocument(read),
		Against:     &prodspec.Against{Store: a.store, Head: partition.Head},
	}
}

// versionEdges are what assets of a candidate need of each other's versions.
type versionEdges struct {
	needs    []server.UnmetVersion
	declares map[intent.AssetID]string
	types    *rule.Environment
}

func (v *versionEdges) add(types *schema.Set, content intent.Asset) error {
	needs := &intentpb.Dependencies{}
	if _, err := schema.Addon(content, needs); err != nil {
		return err
	}
	for _, edge := range needs.GetDependencies() {
		if edge.GetRule() == intentpb.Dependency_RULE_VERSION {
			v.needs = append(v.needs, server.UnmetVersion{Asset: content.ID, On: intent.AssetID(edge.GetOn()), AtLeast: edge.GetAtLeast()})
		}
	}
	declared := &intentpb.Version{}
	if ok, err := schema.Addon(content, declared); err != nil || !ok {
		return err
	}
	if v.types == nil {
		v.types = rule.New(types)
	}
	expression, err := v.types.Compile(declared.GetExpression(), content.Payload.Type)
	if err != nil {
		return err
	}
	text, err := expression.Text(content)
	v.declares[content.ID] = text
	return err
}

// unmet are the needs that what is declared does not meet, in the order of their assets. What cannot be compared is
// for checks to tell.
func (v *versionEdges) unmet() (list []server.UnmetVersion) {
	for _, need := range v.needs {
		declares, ok := v.declares[need.On]
		if !ok {
			continue
		}
		need.Declares = declares
		if order, err := check.Compare(declares, need.AtLeast); err == nil && order < 0 {
			list = append(list, need)
		}
	}
	slices.SortFunc(list, func(a, b server.UnmetVersion) int {
		return strings.Compare(string(a.Asset)+" "+string(a.On), string(b.Asset)+" "+string(b.On))
	})
	return list
}
