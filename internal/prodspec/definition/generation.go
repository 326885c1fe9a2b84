package definition

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

// What a rule of generations keeps that does not say, and how much at most.
const (
	usualGenerations = 3
	mostGenerations  = 100
)

var suffixes = map[string]intentpb.GenerationRule_Suffix{
	"hash": intentpb.GenerationRule_SUFFIX_HASH, "version": intentpb.GenerationRule_SUFFIX_VERSION,
}

// generations are rules by name: which assets with generated names are generations of one
// thing, and how many older ones are kept.
func (p *parser) generations(node *yaml.Node, d *Definition) {
	d.GenerationLines = map[string]int{}
	p.eachPair(node, "generations", func(key, value *yaml.Node) {
		at := "generations." + p.name(key, "generations")
		fields := p.fields(value, at, []string{"assets", "generator", "suffix", "keep"})
		for _, name := range []string{"assets", "generator", "suffix"} {
			if fields[name] == nil {
				p.at(key, at+"."+name, "%s.%s is missing", at, name).
					hint("write %s: {assets: kubernetes/live/shop/configmap/web-*, generator: NAME, suffix: hash, keep: %d}", key.Value, usualGenerations)
				return
			}
		}
		r := &intentpb.GenerationRule{Name: key.Value, Keep: usualGenerations, Generator: p.text(fields["generator"], at+".generator")}
		r.Prefix = p.generatedPrefix(fields["assets"], at+".assets")
		if suffix, ok := suffixes[fields["suffix"].Value]; ok {
			r.Suffix = suffix
		} else {
			p.at(fields["suffix"], at+".suffix", "%s.suffix: %s is no kind of suffix", at, describe(fields["suffix"])).hint("write hash or version")
		}
		if keep := fields["keep"]; keep != nil {
			if r.Keep = p.number(keep, at+".keep", 1); r.Keep > mostGenerations {
				p.at(keep, at+".keep", "%s.keep: %d are more than %d", at, r.Keep, mostGenerations).hint("write how many older generations to keep, for example %d", usualGenerations)
			}
		}
		p.generationGenerator(fields["generator"], at+".generator", r.Generator, d)
		p.generationOverlap(key, at, r, d.Policy.GetGenerations())
		d.Policy.Generations = append(d.Policy.Generations, r)
		d.GenerationLines[r.Name] = key.Line
	})
	slices.SortFunc(d.Policy.Generations, func(a, b *intentpb.GenerationRule) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// generatedPrefix is what stands before the one * of a pattern, which is its last character.
// A rule approves removals, so it must say what the name is of which generations are made.
func (p *parser) generatedPrefix(node *yaml.Node, at string) string {
	pattern := p.text(node, at)
	const example = "write all of the id but what is generated, as kubernetes/live/shop/configmap/web-config-*"
	prefix, isPattern := strings.CutSuffix(pattern, "*")
	if !isPattern || strings.ContainsAny(prefix, "*?[]{}") {
		p.at(node, at, "%s: %.300q does not end in *, with no other wildcard before it", at, pattern).hint(example)
		return prefix
	}
	if _, err := intent.ParseAssetID(prefix + "0"); err != nil {
		p.at(node, at, "%s: %.300q matches no id of an asset", at, pattern).hint(example)
		return prefix
	}
	name := path.Base(prefix)
	if strings.HasSuffix(prefix, "/") || !strings.ContainsAny(name[len(name)-1:], "-_.") || strings.Trim(name, "-_.") == "" {
		p.at(node, at, "%s: %.300q is too broad: before what is generated no name stands that ends in -, _ or .", at, pattern).hint(example)
	}
	if (generation.Rule{GenerationRule: &intentpb.GenerationRule{Prefix: prefix}}).HoldsOthers() {
		p.at(node, at, "%s: %.300q is of what takes others along when it is removed, or data, and no rule can be the approval of that", at, pattern).
			hint("turn it down by name, with an approval: lehr turndown")
	}
	return prefix
}

// generationGenerator refuses generators that there are not.
func (p *parser) generationGenerator(node *yaml.Node, at, name string, d *Definition) {
	var names []string
	for _, g := range d.Generators {
		names = append(names, g.Name)
	}
	if slices.Contains(names, name) {
		return
	}
	slices.Sort(names)
	hint := "known: " + strings.Join(names, ", ")
	if nearest := spell.Nearest(name, names); nearest != "" {
		hint = "did you mean " + nearest + "? " + hint
	}
	p.at(node, at, "there is no generator %q that gives assets", name).hint("%s", hint)
}

// generationOverlap refuses two rules that could be about one asset.
func (p *parser) generationOverlap(key *yaml.Node, at string, r *intentpb.GenerationRule, others []*intentpb.GenerationRule) {
	for _, other := range others {
		if strings.HasPrefix(r.GetPrefix(), other.GetPrefix()) || strings.HasPrefix(other.GetPrefix(), r.GetPrefix()) {
			p.at(key, at+".assets", "%s*, of %s, and %s*, of generations.%s, match the same assets", r.GetPrefix(), at, other.GetPrefix(), other.GetName()).
				hint("write more of the name in one of them")
		}
	}
}
