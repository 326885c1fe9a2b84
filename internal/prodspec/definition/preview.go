package definition

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

// What a rule of previews has that does not say, and what it may say at most.
const (
	usualPreviews, mostPreviews = 20, 200
	usualPreviewExpiry          = 3 * 24 * time.Hour
	leastPreviewExpiry          = time.Minute
	usualPreviewLook            = time.Minute
	leastPreviewLook            = time.Second
	// mostPreviewPatterns of branches in one rule, and mostPreviewRules of a partition.
	mostPreviewPatterns, mostPreviewRules = 50, 20
)

var previewKeys = []string{"branches", "of", "pull_requests", "assets", "generator", "expires", "at_most", "every", "link", "statuses"}

// previewWord is where the name of a preview is put.
const previewWord = "{preview}"

// previews are rules by name: for which branches or pull requests there is an environment.
func (p *parser) previews(node *yaml.Node, d *Definition) {
	d.PreviewLines = map[string]int{}
	p.eachPair(node, "previews", func(key, value *yaml.Node) {
		at := "previews." + p.name(key, "previews")
		if err := document.CheckName(branchpreview.Document(key.Value)); err != nil {
			p.check(key, at, err)
			return
		}
		r := &previewParser{parser: p, key: key, at: at, fields: p.fields(value, at, previewKeys), definition: d}
		rule := r.rule()
		if len(d.Policy.Previews) == mostPreviewRules {
			p.at(key, at, "there are more than %d rules of previews", mostPreviewRules).hint("define several partitions")
			return
		}
		d.Policy.Previews = append(d.Policy.Previews, rule)
		d.PreviewLines[rule.Name] = key.Line
	})
	slices.SortFunc(d.Policy.Previews, func(a, b *intentpb.PreviewRule) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// previewParser reads one rule.
type previewParser struct {
	*parser
	key        *yaml.Node
	at         string
	fields     map[string]*yaml.Node
	definition *Definition
}

func (r *previewParser) rule() *intentpb.PreviewRule {
	rule := &intentpb.PreviewRule{
		Name: r.key.Value, AtMost: usualPreviews, Expires: durationpb.New(usualPreviewExpiry), Every: durationpb.New(usualPreviewLook),
	}
	for _, name := range []string{"assets", "generator"} {
		if r.fields[name] == nil {
			r.missing(name)
			return rule
		}
	}
	r.place(rule)
	r.pattern(rule)
	rule.Generator = r.text(r.fields["generator"], r.at+".generator")
	r.template(rule)
	if node := r.fields["expires"]; node != nil {
		rule.Expires = r.least(node, "expires", leastPreviewExpiry)
	}
	if node := r.fields["every"]; node != nil {
		rule.Every = r.least(node, "every", leastPreviewLook)
	}
	if node := r.fields["at_most"]; node != nil {
		if rule.AtMost = r.number(node, r.at+".at_most", 1); rule.AtMost > mostPreviews {
			r.parser.at(node, r.at+".at_most", "%s.at_most: %d are more than %d", r.at, rule.AtMost, mostPreviews).hint("write how many previews there may be at a time, for example %d", usualPreviews)
		}
	}
	if node := r.fields["link"]; node != nil {
		rule.Link = r.text(node, r.at+".link")
		if !strings.HasPrefix(rule.Link, "https://") && !strings.HasPrefix(rule.Link, "http://") {
			r.parser.at(node, r.at+".link", "%s.link: %.200q is no URL", r.at, rule.Link).hint("write where a preview is seen, as https://%s.example.com", previewWord)
		}
	}
	return rule
}

func (r *previewParser) missing(name string) {
	r.parser.at(r.key, r.at+"."+name, "%s.%s is missing", r.at, name).
		hint(`write %s: {branches: ["feature/*"], of: SOURCE, assets: "preview/%s/*", generator: NAME}, or pull_requests: HOST in place of branches and of`, r.key.Value, previewWord)
}

func (r *previewParser) least(node *yaml.Node, name string, least time.Duration) *durationpb.Duration {
	read := r.duration(node, r.at+"."+name)
	if read != 0 && read < least {
		r.parser.at(node, r.at+"."+name, "%s.%s: %s is shorter than %s", r.at, name, describe(node), least).hint("write %s or more", least)
	}
	return durationpb.New(max(read, least))
}

// place says where branches or pull requests are listed.
func (r *previewParser) place(rule *intentpb.PreviewRule) {
	branches, of, requests := r.fields["branches"], r.fields["of"], r.fields["pull_requests"]
	if statuses := r.fields["statuses"]; statuses != nil {
		rule.Host = r.text(statuses, r.at+".statuses")
	}
	switch {
	case requests != nil && (branches != nil || of != nil):
		r.parser.at(requests, r.at+".pull_requests", "%s lists branches and pull requests", r.at).hint("keep branches and of, or pull_requests; two rules can do both")
	case requests != nil && r.fields["statuses"] != nil:
		r.parser.at(r.fields["statuses"], r.at+".statuses", "%s.statuses: statuses of pull requests are posted where these are", r.at).hint("leave statuses out")
	case requests != nil:
		rule.Host = r.text(requests, r.at+".pull_requests")
	case branches == nil:
		r.missing("branches")
	case of == nil:
		r.missing("of")
	default:
		rule.Branches, rule.Source = r.texts(branches, r.at+".branches"), r.text(of, r.at+".of")
		if len(rule.Branches) == 0 || len(rule.Branches) > mostPreviewPatterns {
			r.parser.at(branches, r.at+".branches", "%s.branches has %d patterns, 1 to %d are possible", r.at, len(rule.Branches), mostPreviewPatterns).hint(`write branches: ["feature/*"]`)
		}
		for _, pattern := range rule.Branches {
			if pattern != "" && branchpreview.CheckPattern(pattern) != nil {
				r.parser.at(branches, r.at+".branches", "%s.branches: %.200q is no pattern of branches", r.at, pattern).hint("* stands for any text without /, and ** for any text, as in feature/*")
			}
		}
		rule.Repository = r.gitSource(of, rule.Source)
	}
}

// gitSource is the repository of a source. One that is in none is refused.
func (r *previewParser) gitSource(node *yaml.Node, name string) (repository string) {
	var names []string
	for _, s := range r.definition.Sources {
		if s.Remote == nil || s.Remote.Git == nil {
			continue
		}
		if names = append(names, s.Name); s.Name == name {
			return s.Remote.Git.URL
		}
	}
	if name == "" {
		return ""
	}
	hint := "write a source in git, as shop: {git: …}"
	if len(names) > 0 {
		hint = "known: " + strings.Join(names, ", ")
		if nearest := spell.Nearest(name, names); nearest != "" {
			hint = "did you mean " + nearest + "? " + hint
		}
	}
	r.parser.at(node, r.at+".of", "there is no source %q in git", name).hint("%s", hint)
	return ""
}

// pattern is how the ids of a preview's assets are formed. A rule approves removals, so nothing else
// may be named like it: text stands before the preview's name, and what follows the name is none.
func (r *previewParser) pattern(rule *intentpb.PreviewRule) {
	node, at := r.fields["assets"], r.at+".assets"
	pattern := r.text(node, at)
	if pattern == "" {
		return
	}
	const example = `write the ids with the preview's name in them, as "preview/{preview}/*"`
	before, after, found := strings.Cut(pattern, previewWord)
	after, isOpen := strings.CutSuffix(after, "*")
	rule.Before, rule.After, rule.Whole = before, after, !isOpen
	switch {
	case !found || strings.ContainsAny(before+after, "*?[]{}"):
		r.parser.at(node, at, "%s: %.300q has not %s once and * at its end alone", at, pattern, previewWord).hint(example)
	case len(before) < 3 || !strings.ContainsAny(before[len(before)-1:], "/-_.") || strings.Trim(before, "/-_.") == "":
		r.parser.at(node, at, "%s: %.300q is too broad: before %s no text stands that ends in /, -, _ or .", at, pattern, previewWord).hint(example)
	case after == "" && isOpen, after != "" && !strings.ContainsAny(after[:1], "/_."):
		r.parser.at(node, at, "%s: in %.300q nothing tells where the preview's name ends", at, pattern).hint("write /, _ or . behind %s, or nothing at all", previewWord)
	default:
		id := before + "x" + after
		if isOpen {
			id += "x"
		}
		if _, err := intent.ParseAssetID(id); err != nil {
			r.parser.at(node, at, "%s: %.300q matches no id of an asset", at, pattern).hint(example)
		}
		r.overlap(node, rule)
	}
}

// overlap refuses two rules that could be about one asset.
func (r *previewParser) overlap(node *yaml.Node, rule *intentpb.PreviewRule) {
	own := branchpreview.New(rule)
	for _, other := range r.definition.Policy.GetPreviews() {
		if own.Overlaps(other.GetBefore()) {
			r.parser.at(node, r.at+".assets", "%s and previews.%s match the same assets", r.at, other.GetName()).hint("write another text before %s in one of them", previewWord)
		}
	}
	for _, other := range generation.Rules(r.definition.Policy) {
		if own.Overlaps(other.GetPrefix()) {
			r.parser.at(node, r.at+".assets", "%s and generations.%s match the same assets", r.at, other.GetName()).hint("write another text before %s", previewWord)
		}
	}
}

// template is the generator that makes the assets, in a run for each entry of the rule's document.
func (r *previewParser) template(rule *intentpb.PreviewRule) {
	node, at := r.fields["generator"], r.at+".generator"
	r.generationGenerator(node, at, rule.Generator, r.definition)
	wanted := branchpreview.Document(rule.Name)
	for _, g := range r.definition.Generators {
		if g.Name != rule.Generator {
			continue
		}
		isOf := func(s Source) bool {
			return len(g.Sources) > 0 && s.Name == g.Sources[0] && s.Remote != nil && s.Remote.Git == nil && s.Remote.Document == wanted
		}
		if len(g.Sources) > 0 {
			rule.Entries = g.Sources[0]
		}
		if g.Keys == nil || len(g.Keys.Path) > 0 || !slices.ContainsFunc(r.definition.Sources, isOf) {
			r.parser.at(node, at, "the generator %s does not have a run for each preview of the document %s", rule.Generator, wanted).
				hint("write sources: {NAME: {document: %s}}, and in the generator from: [NAME, …] with that source first, and for_each: key", wanted)
		}
	}
}
