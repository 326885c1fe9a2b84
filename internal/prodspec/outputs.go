package prodspec

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/derive"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
)

// outputTable is the document of outputs as it was parsed last.
type outputTable struct {
	digest   intent.Digest
	table    outputs.Table
	findings []intent.Finding
}

// readOutputs reads the document of what assets told. Definitions may name it as a source,
// so that generators read all of it; whether they do or not, payloads ask for values of it.
// It comes into being with the first output.
func (s *sources) readOutputs(ctx context.Context, now time.Time, changes source.Changes, r *reading) error {
	src := definition.Source{
		Name: definition.OutputSource, Directory: definition.OutputSource, Files: []string{"**"}, Line: 1,
		Remote: &source.Remote{Document: outputs.Document},
	}
	list := r.definition.Sources
	declared := slices.IndexFunc(list, func(d definition.Source) bool { return d.Name == definition.OutputSource })
	if declared >= 0 {
		src = list[declared]
	}
	if _, ok := s.folders[src.Name]; !ok {
		exists, err := s.hasDocument(ctx, outputs.Document, src, r)
		if err != nil || !exists {
			return err
		}
	}
	inputs, err := s.readOne(ctx, now, changes, src, r)
	if err != nil || len(r.findings) > 0 || len(inputs) != 1 {
		return err
	}
	if declared >= 0 {
		r.inputs.Sources[src.Name] = inputs
	}
	if s.outputTable.digest != inputs[0].Digest {
		content, err := s.open(inputs[0])
		if err != nil {
			return s.cannotRead(ctx, err, src, r)
		}
		table, findings := outputs.Parse(content)
		s.outputTable = outputTable{inputs[0].Digest, table, findings}
	}
	r.outputs = s.outputTable.table.Values
	r.findings = append(r.findings, s.outputTable.findings...)
	return nil
}

// useOutputs has payloads filled in with what the partition's own assets told, and those of
// others as far as they grant it.
func (s *sources) useOutputs(ctx context.Context, r *reading) error {
	values, grants := maps.Clone(r.outputs), map[intent.PartitionID]outputs.Grants{}
	s.grantedTables = map[intent.PartitionID]grantedTable{}
	for _, src := range r.definition.Sources {
		if src.Remote == nil || src.Remote.Outputs == "" || len(r.findings) > 0 {
			continue
		}
		table, own, err := s.readGranted(src, r)
		if err != nil {
			return s.cannotRead(ctx, err, src, r)
		}
		if values == nil {
			values = outputs.Values{}
		}
		for id, value := range table.Values {
			id.Partition = src.Remote.Outputs
			values[id] = value
		}
		grants[src.Remote.Outputs] = own
		s.grantedTables[src.Remote.Outputs] = grantedTable{src.Name, table.Lines}
	}
	r.rules = r.rules.WithOutputs(values, grants)
	return nil
}

// grantedTable is the source that has the outputs of another partition, and in which line
// each stands.
type grantedTable struct {
	source string
	lines  map[outputs.ID]int
}

// readGranted reads what a source has of another partition.
func (s *sources) readGranted(src definition.Source, r *reading) (table outputs.Table, grants outputs.Grants, err error) {
	for _, input := range r.inputs.Sources[src.Name] {
		content, err := s.open(input)
		if err != nil {
			return table, nil, err
		}
		if path.Base(input.Name) == outputs.GrantFile {
			if err := json.Unmarshal(content, &grants); err != nil {
				return table, nil, err
			}
			continue
		}
		var findings []intent.Finding
		if table, findings = outputs.Parse(content); len(findings) > 0 {
			return table, nil, fault.New(fault.Internal, "%s: %s", input.Name, findings[0].Message)
		}
	}
	return table, grants, nil
}

// outputPlace is where the document has the output that was filled in, and why it is that.
func (s *sources) outputPlace(d derive.Derived) (file string, line int, reason string) {
	if other := d.Output.Partition; other != "" {
		return s.grantedPlace(d)
	}
	if d.Unknown {
		return "", 0, fmt.Sprintf("%s did not tell it yet", d.Output.Asset)
	}
	return outputs.File(), max(s.outputTable.table.Lines[d.Output], 1), fmt.Sprintf("%s told it", d.Output.Asset)
}

// grantedPlace is the same of an output of another partition.
func (s *sources) grantedPlace(d derive.Derived) (file string, line int, reason string) {
	other, id := d.Output.Partition, d.Output
	table, ok := s.grantedTables[other]
	switch {
	case !ok:
		return s.file, 1, fmt.Sprintf("no source reads the outputs of partition %s", other)
	case d.Unknown:
		return "", 0, fmt.Sprintf("%s of partition %s did not tell it yet, or it is not granted", id.Asset, other)
	}
	id.Partition = ""
	return table.source + "/" + document.File(outputs.Document), max(table.lines[id], 1),
		fmt.Sprintf("%s of partition %s told it: lehr document history %s -p %s", id.Asset, other, outputs.Document, other)
}

// outputCircles refuses that a run which reads the whole document of outputs gives an asset
// whose outputs are in it: what that tells would change what it is, for ever. Circles of
// what payloads ask for are found as those of dependencies are.
func (b *builder) outputCircles(r reading) (findings []intent.Finding) {
	if len(r.outputs) == 0 {
		return nil
	}
	tellers := map[intent.AssetID]bool{}
	for id := range r.outputs {
		tellers[id.Asset] = true
	}
	for _, run := range b.graph.Pending() {
		if !slices.ContainsFunc(run.Reads(), func(read generate.Read) bool { return read.Name == outputs.File() }) {
			continue
		}
		for i := range run.Outputs {
			output := &run.Outputs[i]
			if !tellers[output.ID] {
				continue
			}
			findings = append(findings, intent.Finding{
				Rule: "output", Severity: intent.Error, Asset: output.ID, File: output.File, Line: max(int(output.Line), 1),
				Message: fmt.Sprintf("asset %s tells outputs, and %s, which reads all outputs, makes it: what it tells would change what it is", output.ID, run.Generator),
				Hint:    "let payloads ask for values, ${output:ASSET#NAME}, or make it by another generator",
			})
		}
	}
	return intent.GroupFindings(findings)
}
