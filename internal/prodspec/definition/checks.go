package definition

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

// ownCheck is a kind of check that a partition may have of its own: the key by
// which it is told, its other keys, and the word for it in overrides.
type ownCheck struct {
	key, word string
	keys      []string
	read      func(p *parser, c *intentpb.Check, fields map[string]*yaml.Node, at string, d *Definition)
	example   string
}

// ownChecks are the kinds of a partition's own checks.
func ownChecks() []ownCheck {
	return []ownCheck{
		{"min_age", "min_age", []string{"of"}, (*parser).minimumAge, "{min_age: 30m}"},
		{"deny", "denylist", []string{"version"}, (*parser).denylist, `{deny: [{version: "1.4.*", reason: it loses writes}]}`},
		{"must", "condition", []string{"message"}, (*parser).condition, "{must: size(diff.changes) < 10}"},
		{"zone", "calendar", []string{"open", "freezes", "holidays"}, (*parser).calendar, `{zone: Europe/London, open: "Mon-Fri 09:00-17:00", holidays: GB}`},
		{"at_most", "rate", []string{"per", "by", "scope"}, (*parser).rate, "{at_most: 3, per: 1h, by: asset}"},
		{"partition", "partition", []string{"in_sync"}, (*parser).otherPartition, "{partition: platform, in_sync: 95%}"},
		{"train", "train", []string{"environment", "longest"}, (*parser).train, "{train: payments, environment: production, longest: 72h}"},
		// Before query, which a peak has too.
		{"headroom", "peak", []string{"prometheus", "query", "serves", "dimension", "labels", "keep"}, (*parser).peak, "{prometheus: main, query: …, headroom: 1.3}"},
		{"query", "query", []string{"prometheus", "below", "above", "over", "labels", "keep", "absent"}, (*parser).metric, "{prometheus: main, query: error_ratio, below: 0.02}"},
		{"alerts", "alerts", []string{"alertmanager", "silenced", "inhibited", "labels", "keep"}, (*parser).alerts, `{alertmanager: main, alerts: 'severity="page"'}`},
		{"http", "protection", protectionKeys, (*parser).protection, `{http: "https://guard.example.com/may-push"}`},
		{"command", "protection", protectionKeys, (*parser).protection, "{command: [/usr/local/bin/may-push]}"},
		{"plugin", "protection", protectionKeys, (*parser).protection, "{plugin: quiet}"},
	}
}

// builtinChecks are the keys of checks that every partition has.
var builtinChecks = []string{"budget", "turndown", "approval", "overrides"}

// takenChecks are what else a check cannot be called: the names of what is
// asked of every push.
var takenChecks = []string{"stop", "mode", "hold", "verification", "order", "capacity", "version", "rejected", "retry", "claim", "lease", "fencing", "journal", "requirements"}

// overridableChecks are the built-in ones that policy may let people override.
var overridableChecks = []string{"order", "capacity", "version"}

// maxChecks of a partition: each pass over an asset that differs asks them all.
const maxChecks = 50

var checkName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`) })

func (p *parser) checks(node *yaml.Node, d *Definition) {
	fields := map[string]*yaml.Node{}
	p.eachPair(node, "checks", func(key, value *yaml.Node) {
		if slices.Contains(builtinChecks, key.Value) {
			fields[key.Value] = value
			return
		}
		if c, places := p.ownCheck(key, value, d); c != nil {
			d.Policy.Checks, d.CheckPlaces = append(d.Policy.Checks, c), append(d.CheckPlaces, places)
		}
	})
	if len(d.Policy.Checks) > maxChecks {
		p.at(node, "checks", "there are %d checks, at most %d are allowed", len(d.Policy.Checks), maxChecks).hint("join those of one kind")
	}
	policy := d.Policy
	if turndown := fields["turndown"]; turndown != nil {
		inFlight := p.fields(turndown, "checks.turndown", []string{"in_flight"})["in_flight"]
		if inFlight == nil {
			p.at(turndown, "checks.turndown.in_flight", "checks.turndown.in_flight is missing").hint("write turndown: {in_flight: 1}")
		} else {
			policy.Turndowns = p.number(inFlight, "checks.turndown.in_flight", 1)
		}
	}
	if budget := fields["budget"]; budget != nil {
		policy.Budgets = p.budget(budget)
	}
	if approval := fields["approval"]; approval != nil {
		policy.Approval = p.approval(approval)
	}
	if overrides := fields["overrides"]; overrides != nil {
		policy.Overrides = p.overrides(overrides, policy.Checks)
	}
}

// ownCheck reads a check that the partition has of its own; its kind is told by
// its keys.
func (p *parser) ownCheck(key, value *yaml.Node, d *Definition) (*intentpb.Check, RulePlaces) {
	name, at := key.Value, "checks."+key.Value
	kinds := ownChecks()
	kind := slices.IndexFunc(kinds, func(k ownCheck) bool { return child(value, k.key) != nil })
	if kind < 0 {
		var words []string
		for _, k := range kinds {
			words = append(words, k.example)
		}
		hint := "write one of your own as " + strings.Join(words, " or ") + "; those of every partition are " + strings.Join(builtinChecks, ", ")
		if suggestion := spell.Nearest(name, builtinChecks); suggestion != "" {
			hint = "did you mean " + suggestion + "? " + hint
		}
		p.at(key, at, "%s is no check", at).hint("%s", hint)
		return nil, nil
	}
	k := kinds[kind]
	namesake := slices.IndexFunc(kinds, func(namesake ownCheck) bool { return namesake.word == name && name != k.word })
	switch {
	case !checkName().MatchString(name):
		p.at(key, at, "%q is not a name", name).hint("use a-z, 0-9, - and _, at most 63")
	case slices.Contains(takenChecks, name) || namesake >= 0:
		p.at(key, at, "the name %s means something else of a check", name).hint("choose another name")
	}
	fields := p.fields(value, at, append([]string{k.key, "where", "rollbacks"}, k.keys...))
	c := &intentpb.Check{Name: name}
	if filter := p.expression(fields["where"], at+".where"); filter != nil {
		c.Where = filter.Text
	}
	if rollbacks := fields["rollbacks"]; rollbacks != nil {
		c.Rollbacks = choice(p, rollbacks, at+".rollbacks", truths, "true or false")
	}
	k.read(p, c, fields, at, d)
	places := RulePlaces{"": {key.Line, key.Column}}
	for name, field := range fields {
		places[name] = Place{field.Line, field.Column}
	}
	return c, places
}

func (p *parser) minimumAge(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	minimumAge := &intentpb.MinimumAge{Age: durationpb.New(p.duration(fields["min_age"], at+".min_age"))}
	if ofNode := fields["of"]; ofNode != nil {
		minimumAge.OfContent = choice(p, ofNode, at+".of", ages, "incarnation or content")
	}
	c.Kind = &intentpb.Check_MinAge{MinAge: minimumAge}
}

// ages are what a minimum age may be of; true: of the asset's content.
var ages = map[string]bool{"incarnation": false, "content": true}

var commit = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

func (p *parser) denylist(c *intentpb.Check, fields map[string]*yaml.Node, at string, d *Definition) {
	list := &intentpb.Denylist{}
	if version := p.expression(fields["version"], at+".version"); version != nil {
		list.Version = version.Text
	}
	entries := fields["deny"]
	if entries.Kind != yaml.SequenceNode || len(entries.Content) == 0 {
		p.at(entries, at+".deny", "%s.deny must be a list that is not empty, is %s", at, describe(entries)).hint(`write deny: [{version: "1.4.*", reason: it loses writes}]`)
	} else {
		for i, entry := range entries.Content {
			list.Entries = append(list.Entries, p.denied(resolve(entry), fmt.Sprintf("%s.deny[%d]", at, i), d))
		}
	}
	c.Kind = &intentpb.Check_Deny{Deny: list}
}

func (p *parser) condition(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	condition := &intentpb.Condition{}
	if must := p.expression(fields["must"], at+".must"); must != nil {
		condition.Must = must.Text
	}
	if message := fields["message"]; message != nil {
		condition.Message = p.text(message, at+".message")
	}
	c.Kind = &intentpb.Check_Condition{Condition: condition}
}

func (p *parser) otherPartition(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	partition := &intentpb.OtherPartition{Id: p.text(fields["partition"], at+".partition")}
	if _, err := intent.ParsePartitionID(partition.Id); partition.Id != "" {
		p.check(fields["partition"], at+".partition", err)
	}
	if share := fields["in_sync"]; share != nil {
		partition.InSync = p.percent(share, at+".in_sync")
	}
	c.Kind = &intentpb.Check_Partition{Partition: partition}
}

func (p *parser) denied(node *yaml.Node, at string, d *Definition) *intentpb.Denied {
	fields := p.fields(node, at, []string{"version", "commit", "source", "reason"})
	entry := &intentpb.Denied{}
	if reason := fields["reason"]; reason != nil {
		entry.Reason = p.text(reason, at+".reason")
	} else if node.Kind == yaml.MappingNode {
		p.at(node, at+".reason", "%s.reason is missing", at).hint("say why, for whoever waits: reason: it loses writes")
	}
	version, revision, source := fields["version"], fields["commit"], fields["source"]
	switch {
	case node.Kind != yaml.MappingNode:
	case (version == nil) == (revision == nil):
		p.at(node, at, "%s needs a version or a commit, and not both", at).hint(`write {version: "1.4.*", reason: …} or {commit: 3f2a9c1, reason: …}`)
	case version != nil:
		entry.What = &intentpb.Denied_Version{Version: p.text(version, at+".version")}
		if source != nil {
			p.at(source, at+".source", "%s.source is for commits", at).hint("remove it")
		}
	default:
		// Digits alone are a number to YAML.
		if revision.Kind != yaml.ScalarNode || !commit.MatchString(revision.Value) {
			p.at(revision, at+".commit", "%s.commit: %s is no commit", at, describe(revision)).hint("write 7 to 64 of its hexadecimal digits, as lehr describe incarnation shows them")
		}
		entry.What = &intentpb.Denied_Commit{Commit: revision.Value}
		if source == nil {
			break
		}
		entry.Source = p.text(source, at+".source")
		names := []string{DefinitionSource, ProgramSource, TypeSource}
		for _, s := range d.Sources {
			names = append(names, s.Name)
		}
		if !slices.Contains(names, entry.Source) && entry.Source != "" {
			p.at(source, at+".source", "there is no source %q", entry.Source).hint("known: %s", strings.Join(names, ", "))
		}
	}
	return entry
}

func (p *parser) overrides(node *yaml.Node, own []*intentpb.Check) *intentpb.OverridePolicy {
	overridable := slices.Clone(overridableChecks)
	for _, kind := range ownChecks() {
		if !slices.Contains(overridable, kind.word) {
			overridable = append(overridable, kind.word)
		}
	}
	for _, c := range own {
		if !slices.Contains(overridable, c.Name) {
			overridable = append(overridable, c.Name)
		}
	}
	fields := p.fields(node, "checks.overrides", []string{"allow", "longest"})
	policy := &intentpb.OverridePolicy{}
	if list := fields["allow"]; list != nil {
		policy.Allow = p.texts(list, "checks.overrides.allow")
		for i, name := range policy.Allow {
			if !slices.Contains(overridable, name) {
				p.at(item(list, i), fmt.Sprintf("checks.overrides.allow[%d]", i), "the check %q cannot be overridden", name).hint("those that can are %s", strings.Join(overridable, ", "))
			}
		}
		slices.Sort(policy.Allow)
	}
	if node := fields["longest"]; node != nil {
		policy.Longest = durationpb.New(p.duration(node, "checks.overrides.longest"))
	}
	return policy
}
