package prodspec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/store"
)

// previewTable is a document of previews as it was parsed last.
type previewTable struct {
	file    string
	digest  intent.Digest
	entries branchpreview.Entries
}

// hasPreviews reports whether a source is there. A document of previews comes into being with the
// first of them; until then its generator has no runs. Others are always there.
func (s *sources) hasPreviews(ctx context.Context, src definition.Source, r *reading) (bool, error) {
	if src.Remote == nil || src.Remote.Git != nil || !branchpreview.IsDocument(src.Remote.Document) {
		return true, nil
	}
	if _, ok := s.folders[src.Name]; ok {
		return true, nil
	}
	return s.hasDocument(ctx, src.Remote.Document, src, r)
}

// readPreviews parses the entries of the rules of previews.
func (s *sources) readPreviews(ctx context.Context, r *reading) error {
	tables := map[string]previewTable{}
	r.previews = map[string]branchpreview.Entries{}
	for _, src := range r.definition.Sources {
		if src.Remote == nil || src.Remote.Git != nil {
			continue
		}
		rule, ok := branchpreview.RuleOf(src.Remote.Document)
		inputs := r.inputs.Sources[src.Name]
		if !ok || len(inputs) != 1 || r.previews[rule] != nil {
			continue
		}
		table := s.previews[rule]
		if table.digest != inputs[0].Digest || table.file != inputs[0].Name {
			content, err := s.open(inputs[0])
			if err != nil {
				return s.cannotRead(ctx, err, src, r)
			}
			entries, err := branchpreview.Parse(content)
			if err != nil {
				return s.cannotRead(ctx, err, src, r)
			}
			table = previewTable{inputs[0].Name, inputs[0].Digest, entries}
		}
		tables[rule], r.previews[rule] = table, table.entries
	}
	s.previews = tables
	return nil
}

// endedPlace is the document that says that an asset's preview has ended, and why.
func (s *sources) endedPlace(id intent.AssetID) (file string, line int, reason string) {
	for _, rule := range branchpreview.Rules(s.definition.definition.Policy) {
		preview, ok := rule.NameOf(id)
		entry, ends := s.previews[rule.GetName()].entries[preview]
		if ok && ends && entry.Ending != nil {
			return s.previews[rule.GetName()].file, 1, fmt.Sprintf("the preview %s of %s has ended: %s", preview, entry.Subject(), entry.Ending.Cause.Text())
		}
	}
	return s.file, 1, ""
}

// ended are the previews that end, and what runs that they name.
type ended struct {
	endings *branchpreview.Endings
	records []endedRecord
	// digest covers all of it: what runs may change while no source does.
	digest intent.Digest
}

// endedRecord is an enforced record of what an ended preview names.
type endedRecord struct {
	store.Enforced
	rule branchpreview.Rule
}

// readEnded finds the previews that end, has what is generated for them turned down, and lists what
// runs of them. A rule is an approval once head has it as the definition does: so a commit that
// brings it, or changes what it names, removes nothing by it (S23).
func (b *builder) readEnded(ctx context.Context, r *reading) (e ended, err error) {
	e.endings = &branchpreview.Endings{}
	rules := branchpreview.Rules(r.definition.Policy)
	if len(rules) == 0 {
		return e, nil
	}
	var served []branchpreview.Rule
	if !b.stored.head.IsZero() {
		policy, err := policyAt(ctx, b.stored.snapshots, b.stored.head)
		if err != nil {
			return e, err
		}
		served = branchpreview.Rules(policy)
	}
	for _, rule := range rules {
		isInForce := slices.ContainsFunc(served, func(s branchpreview.Rule) bool { return s.Digest == rule.Digest })
		e.endings.Add(rule, isInForce, r.previews[rule.GetName()])
	}
	if e.endings.IsEmpty() {
		return e, nil
	}
	r.rules = r.rules.EndPreviews(e.endings)
	var all intent.Parts
	all.Begin("lehr.previews.v1")
	all.AddText(e.endings.Digest().String())
	e.endings.Each(func(rule branchpreview.Rule, preview string, _ branchpreview.Entry) {
		if err != nil || b.stored.head.IsZero() {
			return
		}
		var records []store.Enforced
		if records, err = b.recordsOfPreview(ctx, rule, preview); err != nil {
			return
		}
		for _, record := range records {
			e.records = append(e.records, endedRecord{record, rule})
			all.AddText(string(record.Asset))
			all.AddText(record.Effective.String())
			all.AddText(record.Incarnation.String())
		}
	})
	e.digest = all.Sum()
	return e, err
}

// recordsOfPreview lists the enforced records of what a preview names and is there, as far as is
// known.
func (b *builder) recordsOfPreview(ctx context.Context, rule branchpreview.Rule, preview string) (records []store.Enforced, _ error) {
	const page = 1000
	prefix := rule.Prefix(preview)
	for cursor := intent.AssetID(prefix).JustBefore(); ; {
		list, err := b.stored.history.EnforcedPage(ctx, b.stored.head.Partition, cursor, page)
		if err != nil {
			return nil, err
		}
		for _, record := range list {
			if !strings.HasPrefix(string(record.Asset), prefix) {
				return records, nil
			}
			cursor = record.Asset
			if name, ok := rule.NameOf(record.Asset); ok && name == preview && !record.Absent {
				records = append(records, record)
			}
		}
		if len(list) < page {
			return records, nil
		}
	}
}

// provideEnded gives what ended previews made and their template does not give any more, as it was
// enforced last, with its Turndown. What another generator made is none of it, nor what people turn
// down by command.
func (b *builder) provideEnded(ctx context.Context, r *reading, e ended, now time.Time) error {
	type left struct {
		rule    branchpreview.Rule
		content intent.Asset
	}
	there := map[intent.AssetID]left{}
	for _, record := range e.records {
		isAsked := slices.ContainsFunc(r.turndowns, func(t turndown.Entry) bool { return t.Asset == record.Asset })
		if isAsked || b.givenByGenerator(record.Asset) {
			continue
		}
		made, content, err := b.madeBy(ctx, record.Enforced)
		if err != nil {
			return err
		}
		isOurs := made == record.rule.GetGenerator()
		if made == definition.PreviewSource {
			isOurs = removedByPreview(content) == record.rule.GetName()
		}
		if isOurs && !isReserved(content) {
			there[record.Asset] = left{record.rule, content}
		}
	}
	var provided []work.Asset
	for again := true; again; {
		provided, again = nil, false
		for _, record := range e.records {
			l, ok := there[record.Asset]
			if !ok {
				continue
			}
			addon, _ := e.endings.Turndown(record.Asset, false)
			asset, err := b.bringBack(l.content, addon, func(id intent.AssetID) bool {
				_, isLeft := there[id]
				return isLeft || b.givenByGenerator(id)
			})
			file, line, _ := b.sources.endedPlace(record.Asset)
			if err != nil {
				r.warnings = append(r.warnings, intent.Finding{
					Rule: "preview", Severity: intent.Warning, Asset: record.Asset, File: file, Line: line, Field: "previews." + l.rule.GetName(),
					Message: fmt.Sprintf("%s, which an ended preview made, stays as an orphan: %s", record.Asset, message(err)),
					Hint:    "lehr turndown " + string(record.Asset) + " --reason WHY has it removed, with an approval",
				})
				delete(there, record.Asset)
				again = true // Others may refer to it.
				break
			}
			asset.File, asset.Line = file, line
			provided = append(provided, asset)
		}
	}
	if len(provided) == 0 && !b.providesEnded {
		return nil
	}
	b.providesEnded = len(provided) > 0
	return b.graph.Provide(definition.PreviewSource, provided, now)
}

// removedByPreview is the rule of previews that turned an asset down; empty: none did.
func removedByPreview(content intent.Asset) string {
	addon := &intentpb.Turndown{}
	if _, err := schema.Addon(content, addon); err != nil {
		return ""
	}
	return addon.GetPreview().GetRule()
}

// judgePreviews refuses what would let a preview be about assets that are not its own: a template
// that names an asset as no preview of its run is named, and another generator that names one as a
// preview is named. Changed runs are judged, and all where the rules changed.
func (b *builder) judgePreviews(d definition.Definition) (findings []intent.Finding) {
	rules := branchpreview.Rules(d.Policy)
	if len(rules) == 0 {
		b.judgedPreviews = intent.Digest{}
		return nil
	}
	var all intent.Parts
	all.Begin("lehr.previews.judged.v1")
	for _, rule := range rules {
		all.AddText(rule.Digest.String())
	}
	digest := all.Sum()
	pending, isPending := b.graph.Pending(), map[*generate.Run]bool{}
	for _, run := range pending {
		isPending[run] = true
		for i := range run.Outputs {
			findings = append(findings, judgePreview(rules, run, &run.Outputs[i])...)
		}
	}
	if digest != b.judgedPreviews {
		for _, m := range b.members.all() {
			if !isPending[m.run] {
				findings = append(findings, judgePreview(rules, m.run, m.output())...)
			}
		}
	}
	if len(findings) == 0 {
		b.judgedPreviews = digest
	}
	return intent.GroupFindings(findings)
}

func judgePreview(rules []branchpreview.Rule, run *generate.Run, output *generate.Output) []intent.Finding {
	if isProvided(run) {
		return nil
	}
	for _, rule := range rules {
		preview, isNamed := rule.NameOf(output.ID)
		isTemplate := run.Generator == rule.GetGenerator()
		f := intent.Finding{Rule: "preview", Severity: intent.Error, Asset: output.ID, File: output.File, Line: int(output.Line), Field: "previews." + rule.GetName()}
		_, of, _ := strings.Cut(run.File, "#")
		switch {
		case isTemplate && (!isNamed || preview != of):
			f.Message = fmt.Sprintf("the generator %s makes %s in its run for the preview %s, whose assets are named %s", run.Generator, output.ID, of, patternOf(rule, of))
			f.Hint = "put ctx.key into the id, as asset(\"" + rule.Prefix("\" + ctx.key + \"") + "…\", …)"
		case isNamed && !isTemplate:
			f.Message = fmt.Sprintf("%s is named like an asset of a preview of the rule %s, and is made by %q and not by %q", output.ID, rule.GetName(), run.Generator, rule.GetGenerator())
			f.Hint = "rename the asset, or write another text before {preview} in assets of the rule: a preview that ends removes what it names"
		default:
			continue
		}
		return []intent.Finding{f}
	}
	return nil
}

// patternOf is how the assets of a preview are named.
func patternOf(rule branchpreview.Rule, preview string) string {
	if rule.GetWhole() {
		return rule.Prefix(preview)
	}
	return rule.Prefix(preview) + "*"
}
