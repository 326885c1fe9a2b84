package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// generations judges the rules by which assets are generations of one thing. Each is the
// approval of removals, so what one matches must be made by its generator and end in what is
// generated: a rule that would match what people name is refused.
func (j *judging) generations(ctx context.Context) error {
	rules := generation.Rules(j.CandidatePolicy)
	served := generation.Rules(j.HeadPolicy)
	fresh := slices.DeleteFunc(slices.Clone(rules), func(r generation.Rule) bool {
		return slices.ContainsFunc(served, func(s generation.Rule) bool { return s.Digest == r.Digest })
	})
	for _, entry := range j.delta {
		if entry.Removed || entry.Body == nil {
			continue
		}
		if err := j.generated(rules, entry.Asset, entry.Body); err != nil {
			return err
		}
	}
	if len(fresh) == 0 || j.Rest == nil {
		return nil
	}
	covered := func(id intent.AssetID, _ intent.TypeName) bool {
		return slices.ContainsFunc(fresh, func(r generation.Rule) bool { return r.Covers(id) })
	}
	err := j.Rest(ctx, covered, func(id intent.AssetID, body []byte) error { return j.generated(fresh, id, body) })
	if err != nil {
		return err
	}
	return j.announce(ctx, fresh)
}

// generated judges one asset by the rules.
func (j *judging) generated(rules []generation.Rule, id intent.AssetID, body []byte) error {
	origin := Origin{}
	if j.Origin != nil {
		origin = j.Origin(id)
	}
	for _, r := range rules {
		if !r.Covers(id) || origin.Generator == generation.Name {
			continue
		}
		field := "generations." + r.GetName()
		switch {
		case !r.Names(id):
			j.add(intent.Finding{
				Rule: "generation", Severity: intent.Error, Asset: id, Field: field,
				Message: fmt.Sprintf("the rule %s of generations matches %s, which does not end in a %s: somebody named it so", r.GetName(), id, suffixWords[r.GetSuffix()]),
				Hint:    "write more of the name in assets of the rule, or rename the asset",
			})
		case origin.Generator != r.GetGenerator():
			j.add(intent.Finding{
				Rule: "generation", Severity: intent.Error, Asset: id, Field: field,
				Message: fmt.Sprintf("the rule %s of generations matches %s, which is made by %q and not by %q", r.GetName(), id, origin.Generator, r.GetGenerator()),
				Hint:    "name that generator in the rule, or write more of the name in its assets",
			})
		}
	}
	if origin.Generator == generation.Name || origin.Generator == branchpreview.Provided {
		return nil
	}
	content, err := schema.Decode(body)
	if err != nil {
		return err
	}
	turndown := &intentpb.Turndown{}
	if _, err := schema.Addon(content, turndown); err != nil {
		return err
	}
	if turndown.GetGeneration() != nil {
		j.add(intent.Finding{
			Rule: "generation", Severity: intent.Error, Asset: id, Field: string(turndownType) + ".generation",
			Message: fmt.Sprintf("asset %s has a Turndown that names the rule %q of generations, which Lehr alone sets", id, turndown.GetGeneration().GetRule()),
			Hint:    "leave out generation: the removal then waits for an approval",
		})
	}
	isEnded := slices.ContainsFunc(origin.Derived, func(d Derived) bool { return d.Derivation == branchpreview.Provided })
	if turndown.GetPreview() != nil && !isEnded {
		j.add(intent.Finding{
			Rule: "preview", Severity: intent.Error, Asset: id, Field: string(turndownType) + ".preview",
			Message: fmt.Sprintf("asset %s has a Turndown that names the preview %q, which Lehr alone sets", id, turndown.GetPreview().GetPreview()),
			Hint:    "leave out preview: the removal then waits for an approval",
		})
	}
	return nil
}

var suffixWords = map[intentpb.GenerationRule_Suffix]string{
	intentpb.GenerationRule_SUFFIX_HASH: "hash", intentpb.GenerationRule_SUFFIX_VERSION: "version",
}

// announce says what a rule that is new or changed would have removed once it is in force,
// from the next incarnation on.
func (j *judging) announce(ctx context.Context, fresh []generation.Rule) error {
	if j.Base.IsZero() {
		return nil
	}
	for _, r := range fresh {
		older, err := j.olderBy(ctx, r)
		if err != nil {
			return err
		}
		surplus := r.Surplus(older)
		if len(surplus) == 0 {
			continue
		}
		var names []string
		for _, o := range surplus[:min(len(surplus), mostLost)] {
			names = append(names, string(o.Asset))
		}
		if more := len(surplus) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		j.add(intent.Finding{
			Rule: "generation", Severity: intent.Warning, Asset: intent.PolicyAsset, Field: "generations." + r.GetName(),
			Message: fmt.Sprintf("the rule %s of generations is in force from the incarnation after this one on, and is then the approval to remove what %s made of %s", r.GetName(), r.GetGenerator(), strings.Join(names, ", ")),
			Hint:    "let keep be more in the rule to keep them",
		})
	}
	return nil
}

// olderBy lists what a rule names, runs as far as is known, and is not in the candidate.
func (j *judging) olderBy(ctx context.Context, r generation.Rule) (older []generation.Older, _ error) {
	const page = 1000
	for cursor := intent.AssetID(r.GetPrefix()); ; {
		list, err := j.History.EnforcedPage(ctx, j.Base.Partition, cursor, page)
		if err != nil {
			return nil, err
		}
		for _, record := range list {
			if !strings.HasPrefix(string(record.Asset), r.GetPrefix()) {
				return older, nil
			}
			cursor = record.Asset
			member, err := j.member(ctx, record.Asset)
			if err != nil {
				return nil, err
			}
			if r.Names(record.Asset) && !record.Absent && member.Digest.IsZero() {
				older = append(older, generation.Older{Asset: record.Asset, Sequence: record.Incarnation.Sequence, At: record.At})
			}
		}
		if len(list) < page {
			return older, nil
		}
	}
}
