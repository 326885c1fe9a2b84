package prodspec

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/spell"
)

// placeholder is what looks like a name that something else is put in for.
var placeholder = regexp.MustCompile(`\{[a-z][a-z_]*\}`)

// filled are what tasks put something in for; models put in for others before.
var filled = []string{"{port}", "{task}"}

// seePlaceholders notes what a job leaves for nobody to fill in.
func (l *linter) seePlaceholders(id intent.AssetID, asset intent.Asset) error {
	job := &processpb.Job{}
	if asset.Payload.Type != intent.TypeName(job.ProtoReflect().Descriptor().FullName()) {
		return nil
	}
	if err := schema.Payload(asset, job); err != nil {
		return err
	}
	see := func(field, text string) {
		for _, match := range placeholder.FindAllString(text, -1) {
			if slices.Contains(filled, match) && field != "payload.binary" {
				continue
			}
			if l.placeholders[match] == nil {
				l.placeholders[match] = &intent.Finding{Asset: id, Field: field}
			}
		}
	}
	see("payload.binary", job.Binary)
	for i, argument := range job.Args {
		see(fmt.Sprintf("payload.args[%d]", i), argument)
	}
	for _, name := range slices.Sorted(maps.Keys(job.Env)) {
		see(fmt.Sprintf("payload.env[%q]", name), job.Env[name])
	}
	return nil
}

// unfilled warns of them, each at the first asset that has it.
func (l *linter) unfilled() {
	for _, text := range slices.Sorted(maps.Keys(l.placeholders)) {
		f := *l.placeholders[text]
		origin := l.origin(f.Asset)
		f.Rule, f.Severity, f.File, f.Line = "lint", intent.Warning, origin.File, origin.Line
		f.Message = fmt.Sprintf("asset %s: %s holds %s, for which nothing is put in", f.Asset, f.Field, text)
		f.Hint = "a task knows {port} and {task}, of its arguments and variables; models know {version} and {cluster}"
		if suggestion := spell.Nearest(text, append([]string{"{version}", "{cluster}"}, filled...)); suggestion != "" {
			f.Hint = "did you mean " + suggestion + "? " + f.Hint
		}
		l.findings = append(l.findings, f)
	}
}
