package prodspec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// stored is what a build knows of what was served and enforced before it; without a head
// nothing was.
type stored struct {
	snapshots store.Snapshots
	history   validate.History
	head      intent.IncarnationID
}

// generations are the rules in force, and what runs that each of them names.
type generations struct {
	rules []generationRecords
	// digest covers all of it: what older generations there are may change while no source
	// does.
	digest intent.Digest
}

// generationRecords are a rule and the enforced records of what it names, in the order of the
// ids.
type generationRecords struct {
	generation.Rule
	records []store.Enforced
}

// readGenerations finds the rules that are in force and what they name. A rule is in force
// once head has it as the definition does: so a commit that brings it, or loosens it, removes
// nothing by it, and whoever reviews the incarnation sees it first (S23).
func (b *builder) readGenerations(ctx context.Context, d definition.Definition) (g generations, err error) {
	if len(d.Policy.GetGenerations()) == 0 || b.stored.head.IsZero() {
		return g, nil
	}
	headPolicy, err := policyAt(ctx, b.stored.snapshots, b.stored.head)
	if err != nil {
		return g, err
	}
	served := generation.Rules(headPolicy)
	var all intent.Parts
	all.Begin("lehr.generations.v1")
	for _, r := range generation.Rules(d.Policy) {
		if !slices.ContainsFunc(served, func(s generation.Rule) bool { return s.Digest == r.Digest }) {
			continue
		}
		records, err := b.recordsOf(ctx, r)
		if err != nil {
			return g, err
		}
		g.rules = append(g.rules, generationRecords{r, records})
		all.AddText(r.Digest.String())
		for _, record := range records {
			all.AddText(string(record.Asset))
			all.AddText(record.Effective.String())
			all.AddText(record.Incarnation.String())
		}
	}
	g.digest = all.Sum()
	return g, nil
}

// recordsOf lists the enforced records of what a rule names and is there, as far as is known.
func (b *builder) recordsOf(ctx context.Context, r generation.Rule) (records []store.Enforced, _ error) {
	const page = 1000
	for cursor := intent.AssetID(r.GetPrefix()); ; {
		list, err := b.stored.history.EnforcedPage(ctx, b.stored.head.Partition, cursor, page)
		if err != nil {
			return nil, err
		}
		for _, record := range list {
			if !strings.HasPrefix(string(record.Asset), r.GetPrefix()) {
				return records, nil
			}
			if cursor = record.Asset; r.Names(record.Asset) && !record.Absent {
				records = append(records, record)
			}
		}
		if len(list) < page {
			return records, nil
		}
	}
}

// provideSurplus gives the older generations that rules do not keep, as they were enforced
// last, with a Turndown that names the rule. Where a generator gives no generation of the
// thing that is to stay, all of them have left, and nothing is removed: absence never deletes (S5).
func (b *builder) provideSurplus(ctx context.Context, r *reading, g generations, now time.Time) error {
	var provided []work.Asset
	for _, rule := range g.rules {
		older, contents, err := b.older(ctx, rule, r.turndowns)
		if err != nil {
			return err
		}
		surplus := rule.Surplus(older)
		if len(surplus) == 0 {
			continue
		}
		isGiven, err := b.givesGenerationOf(ctx, rule.Rule)
		if err != nil {
			return err
		}
		if !isGiven {
			continue
		}
		line := r.definition.GenerationLines[rule.GetName()]
		for _, o := range surplus {
			asset, err := b.bringBack(contents[o.Asset], &intentpb.Turndown{
				Reason: fmt.Sprintf("an older generation: the rule %s of generations keeps the newest %d that head has no more",
					rule.GetName(), rule.GetKeep()),
				Generation: &intentpb.GenerationRemoval{Rule: rule.GetName(), Digest: rule.Digest.String()},
			}, b.givenByGenerator)
			if err != nil {
				r.warnings = append(r.warnings, intent.Finding{
					Rule: "generation", Severity: intent.Warning, Asset: o.Asset, File: b.sources.file, Line: max(line, 1), Field: "generations." + rule.GetName(),
					Message: fmt.Sprintf("the older generation %s stays, as an orphan: %s", o.Asset, message(err)),
					Hint:    "lehr turndown " + string(o.Asset) + " --reason WHY has it removed, with an approval",
				})
				continue
			}
			asset.File, asset.Line = b.sources.file, max(line, 1)
			provided = append(provided, asset)
		}
	}
	if len(provided) == 0 && !b.providesSurplus {
		return nil
	}
	b.providesSurplus = len(provided) > 0
	return b.graph.Provide(definition.GenerationSource, provided, now)
}

// older lists what a rule names, its generator made, and nobody gives any more, with what it
// was. What asks for people's approval, or is partly production's own, is none of it.
func (b *builder) older(ctx context.Context, rule generationRecords, turndowns []turndown.Entry) (list []generation.Older, contents map[intent.AssetID]intent.Asset, _ error) {
	contents = map[intent.AssetID]intent.Asset{}
	for _, record := range rule.records {
		isAsked := slices.ContainsFunc(turndowns, func(e turndown.Entry) bool { return e.Asset == record.Asset })
		if isAsked || b.givenByGenerator(record.Asset) || len(b.readers[record.Asset]) > 0 {
			continue
		}
		made, content, err := b.madeBy(ctx, record)
		if err != nil {
			return nil, nil, err
		}
		isOurs := made == rule.GetGenerator()
		if made == definition.GenerationSource {
			isOurs, err = isRemovedBy(content, rule.GetName())
		}
		if err != nil {
			return nil, nil, err
		}
		if !isOurs || isReserved(content) {
			continue
		}
		contents[record.Asset] = content
		list = append(list, generation.Older{Asset: record.Asset, Sequence: record.Incarnation.Sequence, At: record.At})
	}
	return list, contents, nil
}

// isRemovedBy reports whether content is what a rule of that name turned down. It is the last that
// is known of a thing that the rule had removed, and that a late push made again.
func isRemovedBy(content intent.Asset, rule string) (bool, error) {
	removal := &intentpb.Turndown{}
	_, err := schema.Addon(content, removal)
	return removal.GetGeneration().GetRule() == rule, err
}

var (
	approvalType, unmanagedType = addonType(&intentpb.Approval{}), addonType(&intentpb.Unmanaged{})
	turndownType                = addonType(&intentpb.Turndown{})
)

func addonType(addon proto.Message) intent.TypeName {
	return intent.TypeName(addon.ProtoReflect().Descriptor().FullName())
}

// isReserved reports whether an asset says that people decide of it, or production does.
func isReserved(content intent.Asset) bool {
	_, isMarked := content.Addon(approvalType)
	_, isUnmanaged := content.Addon(unmanagedType)
	return isMarked || isUnmanaged
}

// madeBy returns which generator gave what an asset was enforced as last, and that content;
// an empty name: it is not known.
func (b *builder) madeBy(ctx context.Context, record store.Enforced) (string, intent.Asset, error) {
	member, body, err := b.stored.snapshots.Content(ctx, record.Incarnation, record.Asset)
	if fault.Is(err, fault.NotFound) {
		return "", intent.Asset{}, nil
	}
	if err != nil {
		return "", intent.Asset{}, err
	}
	reader, ok := b.stored.snapshots.(provenance.Reader)
	if !ok || member.Effective != record.Effective {
		return "", intent.Asset{}, nil
	}
	first := intent.IncarnationID{Partition: record.Incarnation.Partition, Sequence: member.Since}
	_, origin, err := provenance.Read(ctx, reader, first, record.Asset)
	if fault.Is(err, fault.NotFound) {
		return "", intent.Asset{}, nil
	}
	if err != nil {
		return "", intent.Asset{}, err
	}
	content, err := schema.Decode(body)
	return origin.Generator, content, err
}

// givesGenerationOf reports whether the rule's generator gives a generation now that is to stay:
// one that people turn down takes nobody's place.
func (b *builder) givesGenerationOf(ctx context.Context, r generation.Rule) (bool, error) {
	pending := b.graph.Pending()
	for _, run := range pending {
		for _, o := range run.Outputs {
			if run.Generator != r.GetGenerator() || !r.Names(o.ID) {
				continue
			}
			if stays, err := b.isToStay(ctx, run, o.Digest); stays || err != nil {
				return stays, err
			}
		}
	}
	for id, m := range b.members.all() {
		if !r.Names(id) || m.run.Generator != r.GetGenerator() || slices.Contains(pending, m.run) {
			continue
		}
		if stays, err := b.isToStay(ctx, m.run, m.output().Digest); stays || err != nil {
			return stays, err
		}
	}
	return false, nil
}

// isToStay reports whether what a run gave has no Turndown.
func (b *builder) isToStay(ctx context.Context, run *generate.Run, digest intent.Digest) (bool, error) {
	body, err := b.graph.Body(ctx, run, digest)
	if err != nil {
		return false, err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return false, err
	}
	_, isTurnedDown := content.Addon(turndownType)
	return !isTurnedDown, nil
}

// bringBack is the content of an asset that left intent, with a Turndown; isThere reports what is in
// intent beside it. Dependencies on what
// is not there any more are left out; where anything else of it refers to such, it cannot
// come back.
func (b *builder) bringBack(content intent.Asset, addon *intentpb.Turndown, isThere func(intent.AssetID) bool) (work.Asset, error) {
	dependencies := &intentpb.Dependencies{}
	if exists, err := schema.Addon(content, dependencies); err != nil {
		return work.Asset{}, err
	} else if exists {
		dependencies.Dependencies = slices.DeleteFunc(dependencies.Dependencies, func(d *intentpb.Dependency) bool { return !isThere(intent.AssetID(d.GetOn())) })
		packed, err := b.set.Pack(dependencies)
		if err != nil {
			return work.Asset{}, err
		}
		content.Addons = slices.DeleteFunc(slices.Clone(content.Addons), func(m intent.Message) bool { return m.Type == packed.Type })
		if len(dependencies.Dependencies) > 0 {
			content.Addons = append(content.Addons, packed)
		}
	}
	asset, content, err := b.encodeTurnedDown(content, addon)
	if err != nil {
		return asset, err
	}
	references, err := b.set.References(content)
	if err != nil {
		return asset, err
	}
	for _, reference := range references {
		if !isThere(reference.To) {
			return asset, fault.New(fault.Conflict, "it refers to %s in %s, which is not in intent", reference.To, reference.Field)
		}
	}
	return asset, nil
}
