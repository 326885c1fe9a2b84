package generate

import (
	"context"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/generate/work"
)

// splitRequest asks for the entries of a file; splitReply has them, or findings.
type splitRequest struct {
	File string    `json:"file"`
	Text []byte    `json:"text"`
	Keys work.Keys `json:"keys"`
}

type splitReply struct {
	Entries  []work.Entry     `json:"entries,omitempty"`
	Findings []intent.Finding `json:"findings,omitempty"`
}

// Split implements Runner. What takes the child along is a finding.
func (p *Process) Split(ctx context.Context, file string, text []byte, keys work.Keys) ([]work.Entry, []intent.Finding, error) {
	var reply splitReply
	death, err := p.ask(ctx, schema.Builtin(), frameSplit, splitRequest{file, text, keys}, "reading the keys of "+file, &reply)
	if err != nil {
		return nil, nil, err
	}
	if death != nil {
		f := death.Findings[0]
		f.File, f.Line, f.Hint = file, 1, "make the file smaller; it is not read again until it changes"
		return nil, []intent.Finding{f}, nil
	}
	return reply.Entries, reply.Findings, nil
}

// Split implements Runner.
func (p InProcess) Split(ctx context.Context, file string, text []byte, keys work.Keys) ([]work.Entry, []intent.Finding, error) {
	entries, findings := starlark.Split(file, text, keys)
	return entries, findings, ctx.Err()
}

// splitFile is what a file was split into, without the values.
type splitFile struct {
	entries  []Input
	findings []intent.Finding
}

// keyed are the entries that a generator runs for.
type keyed struct {
	items []Input
	// values of those whose files were split just now, by the entries' names.
	values   map[string][]byte
	findings []intent.Finding
	files    map[string]Input
}

// keyMark stands between the file and the key in the name of an entry.
const keyMark = "#"

// EntryFile is the file of an entry by its name, and any other name as it is.
func EntryFile(name string) string {
	file, _, _ := strings.Cut(name, keyMark)
	return file
}

// split the files of a generator's first source, those that changed in a child.
func (g *Graph) split(ctx context.Context, generator definition.Generator, inputs Inputs) (*keyed, error) {
	if generator.Keys == nil {
		return nil, nil
	}
	keysText := fmt.Sprintf("%q", append([]string{generator.Keys.By}, generator.Keys.Path...))
	k := &keyed{values: map[string][]byte{}, files: map[string]Input{}}
	splits, previous := map[string]splitFile{}, g.splits[generator.Name]
	for _, file := range inputs.Sources[generator.Sources[0]] {
		if strings.Contains(file.Name, keyMark) {
			k.findings = append(k.findings, intent.Finding{
				Rule: "generate", Severity: intent.Error, File: file.Name, Line: 1,
				Message: "a file with a " + keyMark + " in its name cannot be used by for_each: key", Hint: "rename it",
			})
			continue
		}
		mark := intent.Sum("lehr.split.v1", []byte(file.Name), file.Digest[:], []byte(keysText)).String()
		part, ok := previous[mark]
		if !ok {
			entries, findings, err := g.splitNow(ctx, *generator.Keys, inputs, file)
			if err != nil {
				return nil, err
			}
			part.findings = findings
			for _, entry := range entries {
				input := Input{Name: file.Name + keyMark + entry.Key, Digest: valueDigest(entry.Key, entry.Value)}
				part.entries = append(part.entries, input)
				k.values[input.Name] = entry.Value
			}
		}
		splits[mark] = part
		k.items, k.findings = append(k.items, part.entries...), append(k.findings, part.findings...)
		k.files[file.Name] = file
	}
	g.splits[generator.Name] = splits
	return k, nil
}

func valueDigest(key string, value []byte) intent.Digest {
	return intent.Sum("lehr.entry.v1", []byte(key), value)
}

func (g *Graph) splitNow(ctx context.Context, keys work.Keys, inputs Inputs, file Input) ([]work.Entry, []intent.Finding, error) {
	text, err := inputs.Open(file)
	if err != nil {
		return nil, nil, err
	}
	return g.runner.Split(ctx, file.Name, text, keys)
}

// value of an entry. A file that was split before is split again.
func (s *stage) value(ctx context.Context, g *Graph, name string) ([]byte, error) {
	if value, ok := s.keyed.values[name]; ok {
		return value, nil
	}
	file := s.keyed.files[EntryFile(name)]
	entries, _, err := g.splitNow(ctx, *s.generator.Keys, s.inputs, file)
	for _, entry := range entries {
		s.keyed.values[file.Name+keyMark+entry.Key] = entry.Value
	}
	return s.keyed.values[name], err
}
