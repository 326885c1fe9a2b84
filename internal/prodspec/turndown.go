package prodspec

import (
	"context"
	"errors"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
)

// turnedDown is the document of turndowns as it was parsed last.
type turnedDown struct {
	digest   intent.Digest
	entries  []turndown.Entry
	findings []intent.Finding
}

// readTurndowns reads the document of what was turned down by command, which is a source
// that no definition names. A partition without it has no such source.
func (s *sources) readTurndowns(ctx context.Context, now time.Time, changes source.Changes, r *reading) error {
	src := definition.Source{
		Name: definition.TurndownSource, Directory: definition.TurndownSource, Files: []string{"**"}, Line: 1,
		Remote: &source.Remote{Document: turndown.Document},
	}
	if _, ok := s.folders[src.Name]; !ok {
		exists, err := s.hasDocument(ctx, turndown.Document, src, r)
		if err != nil || !exists {
			return err
		}
	}
	inputs, err := s.readOne(ctx, now, changes, src, r)
	if err != nil || len(r.findings) > 0 || len(inputs) != 1 {
		return err
	}
	if s.turnedDown.digest != inputs[0].Digest {
		content, err := s.open(inputs[0])
		if err != nil {
			return s.cannotRead(ctx, err, src, r)
		}
		entries, findings := turndown.Parse(content)
		s.turnedDown = turnedDown{inputs[0].Digest, entries, findings}
	}
	r.turndowns = append([]turndown.Entry{}, s.turnedDown.entries...)
	r.findings = append(r.findings, s.turnedDown.findings...)
	r.rules = r.rules.TurnDown(reasonsOf(r.turndowns))
	return nil
}

func reasonsOf(entries []turndown.Entry) map[intent.AssetID]string {
	reasons := make(map[intent.AssetID]string, len(entries))
	for _, e := range entries {
		reasons[e.Asset] = e.Reason
	}
	return reasons
}

// provideTurnedDown gives the assets that were turned down and that no generator gives,
// as they were enforced last, with their Turndown.
func (b *builder) provideTurnedDown(r reading, now time.Time) ([]intent.Finding, error) {
	var assets []work.Asset
	var findings []intent.Finding
	for _, e := range r.turndowns {
		if e.Orphan == nil || b.givenByGenerator(e.Asset) {
			continue
		}
		asset, err := b.turnedDownAsset(e)
		if err != nil {
			findings = append(findings, intent.Finding{
				Rule: "turndown", Severity: intent.Error, Asset: e.Asset, File: turndown.File(), Line: e.Line, Field: turndown.PathOf(e.Asset),
				Message: "the orphan " + string(e.Asset) + " cannot be brought back to be turned down: " + message(err),
				Hint:    "let the types of the partition have what it is of, or lehr turndown --undo " + string(e.Asset),
			})
			continue
		}
		assets = append(assets, asset)
	}
	if len(findings) > 0 {
		return findings, nil
	}
	return nil, b.graph.Provide(definition.TurndownSource, assets, now)
}

// turnedDownAsset is an orphan's content with a Turndown.
func (b *builder) turnedDownAsset(e turndown.Entry) (asset work.Asset, _ error) {
	content, err := schema.Decode(e.Orphan.Body)
	if err != nil {
		return asset, err
	}
	if content.ID != e.Asset {
		return asset, errors.New("its body is of " + string(content.ID))
	}
	asset, _, err = b.encodeTurnedDown(content, &intentpb.Turndown{Reason: e.Reason})
	asset.File, asset.Line = turndown.File(), e.Line
	return asset, err
}

// encodeTurnedDown gives content that left intent its Turndown, in the types that there are.
func (b *builder) encodeTurnedDown(content intent.Asset, turndown *intentpb.Turndown) (asset work.Asset, _ intent.Asset, _ error) {
	if _, err := b.set.Unpack(content.Payload); err != nil {
		return asset, content, err
	}
	addon, err := b.set.Pack(turndown)
	if err != nil {
		return asset, content, err
	}
	content.Addons = append(slices.DeleteFunc(slices.Clone(content.Addons), func(m intent.Message) bool { return m.Type == addon.Type }), addon)
	body, digest, err := b.set.Encode(content)
	return work.Asset{ID: content.ID, Type: content.Payload.Type, Digest: digest, Body: body}, content, err
}

// isProvided reports whether a run is none of a generator: it gives what left intent, with a
// Turndown.
func isProvided(run *generate.Run) bool {
	return slices.Contains([]string{definition.TurndownSource, definition.GenerationSource, definition.PreviewSource}, run.Generator)
}

// givenByGenerator reports whether a generator gives an asset, by what runs gave now.
func (b *builder) givenByGenerator(id intent.AssetID) bool {
	pending := b.graph.Pending()
	for _, run := range pending {
		if !isProvided(run) && slices.ContainsFunc(run.Outputs, func(o generate.Output) bool { return o.ID == id }) {
			return true
		}
	}
	m, ok := b.members.get(id)
	return ok && !isProvided(m.run) && !slices.Contains(pending, m.run)
}

// turndownPlace is where the document says that an asset is turned down, and why.
func (s *sources) turndownPlace(asset intent.AssetID) (line int, reason string) {
	for _, e := range s.turnedDown.entries {
		if e.Asset == asset {
			return e.Line, e.Reason
		}
	}
	return 1, ""
}
