package prodspec

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/prodspec/source"
)

const (
	// apart is how long after the first build the second begins: a clock that
	// tells seconds tells another one.
	apart = 1100 * time.Millisecond
	// mostDiffering assets are told.
	mostDiffering = 20
)

// Verify builds twice, as Build does: the second time with another runner, later,
// and from another path to the same files. What differs between the two is an
// error that names generator, asset and field.
func Verify(ctx context.Context, program Program, elsewhere generate.Runner, runtime loop.Runtime) (Built, error) {
	program.Progress.EnterPass("first build")
	first, firstBuilder, _, err := build(ctx, program, runtime.Now(), nil)
	if err != nil || !first.OK() {
		return first, err
	}
	if err := runtime.Wait(ctx, apart, nil); err != nil {
		return first, err
	}
	place, err := os.MkdirTemp("", "lehr-verify-")
	if err != nil {
		return first, fault.New(fault.Unavailable, "cannot make a place to build in again: %w", err)
	}
	defer os.RemoveAll(place)
	root := filepath.Join(place, "root")
	if err := os.Symlink("/", root); err != nil {
		return first, fault.New(fault.Unavailable, "cannot make a place to build in again: %w", err)
	}
	program.Runner = elsewhere
	program.Progress.EnterPass("second build")
	if at, err := source.ParseDefinition(program.Definition); err == nil && at.Git == nil {
		program.Definition = filepath.Join(root, program.Definition)
	}
	second, secondBuilder, _, err := build(ctx, program, runtime.Now(), nil)
	if err != nil {
		return first, err
	}
	if !slices.Equal(first.Sources, second.Sources) {
		return first, fault.New(fault.Unavailable, "the sources changed while they were built twice").WithHint("try again")
	}
	if !second.OK() {
		first.Findings = append(first.Findings, intent.Finding{
			Rule: "verify", Severity: intent.Error, File: firstBuilder.sources.file, Line: 1,
			Message: "it was built once, and could not be built again", Hint: "what follows was found the second time",
		})
		first.Findings, first.Assets = append(first.Findings, second.Findings...), nil
		return first, nil
	}
	differing, err := differing(ctx, firstBuilder, secondBuilder)
	if len(differing) > 0 {
		first.Findings, first.Assets = append(first.Findings, differing...), nil
	}
	return first, err
}

// differing says which members of two builds differ, and in what.
func differing(ctx context.Context, firstBuilder, secondBuilder *builder) (findings []intent.Finding, err error) {
	ids := make(map[intent.AssetID]bool, firstBuilder.members.len())
	for _, built := range []*builder{firstBuilder, secondBuilder} {
		for id := range built.members.all() {
			ids[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		firstMember, ok := firstBuilder.members.get(id)
		secondMember, second := secondBuilder.members.get(id)
		if ok && second && firstMember.output().Digest == secondMember.output().Digest {
			continue
		}
		if len(findings) == mostDiffering {
			break
		}
		m := firstMember
		if !ok {
			m = secondMember
		}
		origin := originOf(m.run, m.output())
		f := intent.Finding{
			Rule: "verify", Severity: intent.Error, Asset: id, File: origin.File, Line: max(origin.Line, 1),
			Hint: "a generator may not depend on clock, chance, the order of a map, or anything but its inputs: sort what has no order, and take the rest from a source",
		}
		switch {
		case !second:
			f.Message = fmt.Sprintf("generator %s gave the asset %s once, and not when it was run again", m.run.Generator, id)
		case !ok:
			f.Message = fmt.Sprintf("generator %s did not give the asset %s at first, and did when it was run again", m.run.Generator, id)
		default:
			if err := describe(ctx, &f, m.run.Generator, firstBuilder, firstMember, secondBuilder, secondMember); err != nil {
				return findings, err
			}
		}
		findings = append(findings, f)
	}
	return findings, nil
}

// describe names the first field in which two assets differ.
func describe(ctx context.Context, f *intent.Finding, generator string, firstBuilder *builder, firstMember member, secondBuilder *builder, secondMember member) error {
	firstAsset, _, err := firstBuilder.content(ctx, firstMember)
	if err != nil {
		return err
	}
	secondAsset, _, err := secondBuilder.content(ctx, secondMember)
	if err != nil {
		return err
	}
	fields, err := query.Differences(firstBuilder.set, firstAsset, secondBuilder.set, secondAsset)
	if err != nil {
		return err
	}
	f.Message = fmt.Sprintf("generator %s gave the asset %s otherwise when it was run again", generator, f.Asset)
	if len(fields) > 0 {
		f.Field = fields[0].Path
		f.Message += fmt.Sprintf(": %s was %.200q, then %.200q", fields[0].Path, fields[0].Current, fields[0].Target)
	}
	if len(fields) > 1 {
		f.Message += fmt.Sprintf(", and %d more fields differ", len(fields)-1)
	}
	return nil
}
