package definition

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/intent"
)

const (
	// maxRollouts of a partition, and stages of one: each choice asks them all.
	maxRollouts, maxStages = 50, 100
	// longestPause bounds soaks, delays and the patience with what is unhealthy.
	longestPause = 30 * 24 * time.Hour
	// maxGrowth is how many times as many a wave may be as all before it.
	maxGrowth = 100
)

var (
	rolloutKeys = []string{"select", "by", "stages", "validate", "on_bad", "newer", "patience", "after", "emergency", "rollback"}
	stageKeys   = []string{"name", "scopes", "where", "rest", "by", "order", "parallel", "count", "percent", "factor", "most", "delay", "soak", "window", "plugin", "approval"}
	windowKeys  = []string{"zone", "open", "freezes", "holidays"}
)

var onBads = map[string]intentpb.Rollout_OnBad{
	"rollback": intentpb.Rollout_ON_BAD_ROLLBACK, "stop": intentpb.Rollout_ON_BAD_STOP,
}

var newers = map[string]intentpb.Rollout_Newer{
	"supersedes": intentpb.Rollout_NEWER_SUPERSEDES, "queues": intentpb.Rollout_NEWER_QUEUES, "held": intentpb.Rollout_NEWER_IS_HELD,
}

// grouping is what a stage is grouped by.
var grouping = regexp.MustCompile(`^(scope|label) +(\S+)$`)

// rollouts reads how what changes goes on.
func (p *parser) rollouts(node *yaml.Node, d *Definition) {
	p.eachPair(node, "rollouts", func(key, value *yaml.Node) {
		at := "rollouts." + key.Value
		if !checkName().MatchString(key.Value) {
			p.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
		}
		r := &rolloutParser{parser: p, at: at, sources: d.Sources, earlier: d.Policy.Rollouts, places: RulePlaces{"": {key.Line, key.Column}}}
		for _, v := range d.Policy.Validations {
			r.validations = append(r.validations, v.Name)
		}
		d.Policy.Rollouts = append(d.Policy.Rollouts, r.rollout(key, value))
		d.RolloutPlaces = append(d.RolloutPlaces, r.places)
	})
	if len(d.Policy.Rollouts) > maxRollouts {
		p.at(node, "rollouts", "there are %d rollouts, at most %d are allowed", len(d.Policy.Rollouts), maxRollouts).hint("join those whose stages are the same, by || in their select")
	}
}

// rolloutParser reads one rollout.
type rolloutParser struct {
	*parser
	at      string
	sources []Source
	// validations that there are, by name.
	validations []string
	// earlier are the rollouts that are written before it.
	earlier []*intentpb.Rollout
	places  RulePlaces
}

// place remembers where a field is written.
func (r *rolloutParser) place(field string, node *yaml.Node) {
	r.places[field] = Place{node.Line, node.Column}
}

func (r *rolloutParser) rollout(key, value *yaml.Node) *intentpb.Rollout {
	rollout := &intentpb.Rollout{Name: key.Value}
	fields := r.fields(value, r.at, rolloutKeys)
	for _, needed := range []string{"select", "stages"} {
		if fields[needed] == nil && value.Kind == yaml.MappingNode {
			r.parser.at(value, r.at+"."+needed, "%s.%s is missing", r.at, needed).
				hint(`write {select: type == "Job", stages: [{scopes: [a], soak: 10m}, {rest: true}]}`)
		}
	}
	for name, field := range fields {
		r.place(name, field)
	}
	if selects := r.expression(fields["select"], r.at+".select"); selects != nil {
		rollout.Select = selects.Text
	}
	if byNode := fields["by"]; byNode != nil {
		rollout.Field = r.field(byNode, r.at+".by")
	}
	rollout.Stages = r.stages(fields["stages"], "stages")
	if rollout.Emergency = r.stages(fields["emergency"], "emergency"); len(rollout.Emergency) > 0 {
		r.canary(fields["emergency"], rollout.Emergency)
	}
	if rollout.Rollback = r.stages(fields["rollback"], "rollback"); len(rollout.Rollback) > 0 {
		r.goesBack(fields["rollback"], rollout)
	}
	if list := fields["validate"]; list != nil {
		rollout.Validate = r.texts(list, r.at+".validate")
		r.checkDuplicates(list, r.at+".validate", rollout.Validate, "validation")
		for i, name := range rollout.Validate {
			if name != "" && !slices.Contains(r.validations, name) {
				r.parser.at(item(list, i), fmt.Sprintf("%s.validate[%d]", r.at, i), "there is no validation %q", name).
					hint("write it under validations; known: %s", strings.Join(r.validations, ", "))
			}
		}
	}
	if node := fields["on_bad"]; node != nil {
		rollout.OnBad = choice(r.parser, node, r.at+".on_bad", onBads, "rollback or stop")
	}
	if node := fields["newer"]; node != nil {
		rollout.Newer = choice(r.parser, node, r.at+".newer", newers, "supersedes, queues or held")
	}
	if list := fields["after"]; list != nil {
		rollout.After = r.predecessors(list, r.at+".after", rollout.Field != nil)
	}
	rollout.Patience = r.pause(fields["patience"], r.at+".patience")
	return rollout
}

// predecessors reads which rollouts it comes after: of those above it, so that there is no circle.
func (r *rolloutParser) predecessors(list *yaml.Node, at string, byField bool) []string {
	names := r.texts(list, at)
	r.checkDuplicates(list, at, names, "rollout")
	var candidates []string
	for _, earlier := range r.earlier {
		if earlier.Field == nil {
			candidates = append(candidates, earlier.Name)
		}
	}
	for i, name := range names {
		switch {
		case byField:
			r.parser.at(item(list, i), fmt.Sprintf("%s[%d]", at, i), "a rollout that sets a field of a document comes after none").hint("remove %s; a person starts it", at)
		case name != "" && !slices.Contains(candidates, name):
			r.parser.at(item(list, i), fmt.Sprintf("%s[%d]", at, i), "no rollout %q that goes by pins is written above this one", name).hint("known: %s", strings.Join(candidates, ", "))
		}
	}
	return names
}

// field that is set of a document; nil: assets go on by pins.
func (r *rolloutParser) field(node *yaml.Node, at string) *intentpb.DocumentField {
	if node.Kind == yaml.ScalarNode && node.Value == "pins" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		r.parser.at(node, at, "%s must be pins or a field of a document, is %s", at, describe(node)).hint(`write by: pins, or by: {document: knobs, field: "/clusters/{scope.cluster}/version"}`)
		return nil
	}
	fields := r.fields(node, at, []string{"document", "field", "pull_request"})
	for _, needed := range []string{"document", "field"} {
		if fields[needed] == nil {
			r.parser.at(node, at+"."+needed, "%s.%s is missing", at, needed).hint(`write by: {document: knobs, field: "/clusters/{scope.cluster}/version"}`)
			return nil
		}
	}
	field := &intentpb.DocumentField{Document: r.text(fields["document"], at+".document"), Pointer: r.text(fields["field"], at+".field")}
	r.place("by.field", fields["field"])
	r.document(fields["document"], field, at+".document")
	if request := fields["pull_request"]; request != nil {
		if field.PullRequest = r.text(request, at+".pull_request"); !field.InRepository && field.Source != "" {
			r.parser.at(request, at+".pull_request", "the document %q is no file of a repository, so no pull request can be opened for it", field.Document).
				hint("name a document in git, as knobs: {git: …, document: knobs.yaml}, or take pull_request out")
		}
	}
	if field.Pointer != "" {
		_, err := course.ParsePointer(field.Pointer)
		r.check(fields["field"], at+".field", err)
	}
	return field
}

// document finds the source of the document that a rollout sets fields of.
func (r *rolloutParser) document(node *yaml.Node, field *intentpb.DocumentField, at string) {
	switch documents, inGit := documentsOf(r.sources); {
	case field.Document == "":
	case documents[field.Document] != "":
		field.Source = documents[field.Document]
	case slices.Contains(inGit, field.Document):
		field.Source, field.InRepository = field.Document, true
	default:
		hint := "name one under sources: knobs: {document: knobs}"
		if names := append(slices.Sorted(maps.Keys(documents)), inGit...); len(names) > 0 {
			hint = "known: " + strings.Join(names, ", ")
		}
		r.parser.at(node, at, "no source is the document %q", field.Document).hint("%s", hint)
	}
}

// documentsOf the sources: by the names of those that Lehr holds, the first source
// that reads each; and those in repositories, by the names of their sources.
func documentsOf(sources []Source) (stored map[string]string, inGit []string) {
	stored = map[string]string{}
	for _, s := range sources {
		switch remote := s.Remote; {
		case remote == nil:
		case remote.Document != "":
			if stored[remote.Document] == "" {
				stored[remote.Document] = s.Name
			}
		case remote.Git != nil && remote.Git.Document != "":
			inGit = append(inGit, s.Name)
		}
	}
	return stored, inGit
}

// stages of a list, each of which some asset can belong to.
func (r *rolloutParser) stages(node *yaml.Node, list string) (stages []*intentpb.RolloutStage) {
	if node == nil {
		return nil
	}
	rest := ""
	r.elements(node, r.at+"."+list, list+": [{scopes: [a], soak: 10m}, {rest: true}]", func(node *yaml.Node, at string) {
		field := strings.TrimPrefix(at, r.at+".")
		stage, ok := r.stage(node, at, field, len(stages))
		if slices.ContainsFunc(stages, func(s *intentpb.RolloutStage) bool { return s.Name == stage.Name }) {
			r.parser.at(node, at+".name", "two stages of %s are named %q", r.at, stage.Name).hint("rename one of them; a stage without a name has its place in the list for one")
		}
		if earlier := reachedBefore(stages, stage); rest != "" {
			r.parser.at(node, at, "%s can have no assets, for the stage %s before it has all that are left", at, rest).hint("put the stage with rest: true last")
		} else if earlier != "" {
			r.parser.at(node, at, "%s can have no assets, for the stage %s before it has them", at, earlier).hint("name other scopes, or remove the stage")
		}
		if stages = append(stages, stage); ok && rest == "" {
			rest = stage.Name
		}
	})
	if len(stages) > maxStages {
		r.parser.at(node, r.at+"."+list, "%s.%s has %d stages, at most %d are allowed", r.at, list, len(stages), maxStages).hint("let groups follow each other within a stage: {rest: true, by: scope cluster}")
	}
	return stages
}

// reachedBefore names the stage that has all that another could have; empty: none
// that can be told.
func reachedBefore(stages []*intentpb.RolloutStage, stage *intentpb.RolloutStage) string {
	for _, s := range stages {
		inScopes := func(scope string) bool { return slices.Contains(s.Scopes, scope) }
		wider := len(s.Scopes) == 0 || len(stage.Scopes) > 0 && !slices.ContainsFunc(stage.Scopes, func(scope string) bool { return !inScopes(scope) })
		if wider && (s.Where == stage.Where || s.Where == "") && (len(s.Scopes) > 0 || s.Where != "") {
			return s.Name
		}
	}
	return ""
}

// stage at a place in a list, and whether all that are left belong to it.
func (r *rolloutParser) stage(node *yaml.Node, at, field string, index int) (stage *intentpb.RolloutStage, rest bool) {
	stage = &intentpb.RolloutStage{Name: fmt.Sprint(index + 1)}
	fields := r.fields(node, at, stageKeys)
	r.place(field, node)
	for name, value := range fields {
		r.place(field+"."+name, value)
	}
	if name := fields["name"]; name != nil {
		// Digits alone are a number to YAML.
		if stage.Name = name.Value; name.Kind != yaml.ScalarNode || !checkName().MatchString(name.Value) {
			r.parser.at(name, at+".name", "%s: %s is not a name", at, describe(name)).hint("use a-z, 0-9, - and _, at most 63")
		}
	}
	if rest = r.members(node, fields, at, stage); node.Kind != yaml.MappingNode {
		return stage, rest
	}
	r.groups(fields, at, stage)
	r.wave(fields, at, stage)
	stage.Delay = r.pause(fields["delay"], at+".delay")
	stage.Soak = r.pause(fields["soak"], at+".soak")
	if window := fields["window"]; window != nil {
		stage.Window = r.opening(window, at+".window")
	}
	if pluginNode := fields["plugin"]; pluginNode != nil {
		if stage.Plugin = pluginNode.Value; pluginNode.Kind != yaml.ScalarNode || !checkName().MatchString(pluginNode.Value) {
			r.parser.at(pluginNode, at+".plugin", "%s.plugin must be the name of a plugin of checks, is %s", at, describe(pluginNode)).hint("whoever runs the server lists it under plugins, in the file of --external-checks")
		}
	}
	if approval := fields["approval"]; approval != nil {
		stage.Approval = r.approval(approval, at+".approval")
	}
	return stage, rest
}

// approval is what a stage asks of people before it begins.
func (r *rolloutParser) approval(node *yaml.Node, at string) *intentpb.Judgement {
	fields := r.fields(node, at, []string{"quorum", "roles", "expires"})
	spec := &intentpb.Judgement{}
	if quorum := fields["quorum"]; quorum != nil {
		if spec.Quorum = r.number(quorum, at+".quorum", 1); spec.Quorum > maxQuorum {
			r.parser.at(quorum, at+".quorum", "%s.quorum: %d people are more than %d", at, spec.Quorum, maxQuorum).hint("write how many must approve, for example 2")
		}
	}
	if roles := fields["roles"]; roles != nil {
		spec.Roles = r.texts(roles, at+".roles")
		for i, role := range spec.Roles {
			_, err := intent.ParseRole(role)
			r.check(item(roles, i), at+".roles", err)
		}
	}
	if expires := fields["expires"]; expires != nil {
		spec.Expires = durationpb.New(r.duration(expires, at+".expires"))
	}
	return spec
}

// members reads which assets belong to a stage.
func (r *rolloutParser) members(node *yaml.Node, fields map[string]*yaml.Node, at string, stage *intentpb.RolloutStage) (rest bool) {
	scopes, whereNode := fields["scopes"], fields["where"]
	if all := fields["rest"]; all != nil {
		rest = choice(r.parser, all, at+".rest", map[string]bool{"true": true}, "rest: true, or remove it")
	}
	if scopes != nil {
		stage.Scopes = r.texts(scopes, at+".scopes")
		r.checkDuplicates(scopes, at+".scopes", stage.Scopes, "scope")
	}
	if condition := r.expression(whereNode, at+".where"); condition != nil {
		stage.Where = condition.Text
	}
	switch {
	case node.Kind != yaml.MappingNode:
	case fields["rest"] != nil && (scopes != nil || whereNode != nil):
		r.parser.at(fields["rest"], at+".rest", "%s has all that are left, and only those of its scopes or where", at).hint("remove rest, or scopes and where")
	case fields["rest"] == nil && scopes == nil && whereNode == nil:
		r.parser.at(node, at, "%s does not say which assets belong to it", at).hint("write scopes: [a], where: CONDITION, or rest: true for all that are left")
	}
	return rest
}

// groups reads how the assets of a stage follow each other.
func (r *rolloutParser) groups(fields map[string]*yaml.Node, at string, stage *intentpb.RolloutStage) {
	if byNode := fields["by"]; byNode != nil {
		switch match := grouping.FindStringSubmatch(byNode.Value); {
		case byNode.Kind != yaml.ScalarNode || match == nil:
			r.parser.at(byNode, at+".by", "%s.by must be a scope or a label, is %s", at, describe(byNode)).hint("write by: scope cluster, or by: label tier")
		case match[1] == "scope":
			stage.By = &intentpb.RolloutStage_ByScope{ByScope: match[2]}
		default:
			stage.By = &intentpb.RolloutStage_ByLabel{ByLabel: match[2]}
		}
	}
	if order := fields["order"]; order != nil {
		stage.Order = r.texts(order, at+".order")
		r.checkDuplicates(order, at+".order", stage.Order, "group")
	}
	if parallel := fields["parallel"]; parallel != nil {
		stage.Parallel = r.number(parallel, at+".parallel", 1)
	}
	for _, name := range []string{"order", "parallel"} {
		if fields[name] != nil && fields["by"] == nil {
			r.parser.at(fields[name], at+"."+name, "%s.%s is of groups, and there are none", at, name).hint("write by: scope cluster, or remove it")
		}
	}
}

// wave reads how many go on at a time.
func (r *rolloutParser) wave(fields map[string]*yaml.Node, at string, stage *intentpb.RolloutStage) {
	if count := fields["count"]; count != nil {
		stage.Count = r.number(count, at+".count", 1)
	}
	if most := fields["most"]; most != nil {
		stage.Most = r.number(most, at+".most", 1)
	}
	if percent := fields["percent"]; percent != nil {
		// None of the group would be all of it.
		if stage.Percent = float64(r.percent(percent, at+".percent")); percent.Value == "0%" {
			r.parser.at(percent, at+".percent", "%s.percent lets nothing go on", at).hint("write percent: 10%%; it is rounded up")
		}
		for _, conflicting := range []string{"count", "factor"} {
			if fields[conflicting] != nil {
				r.parser.at(fields[conflicting], at+"."+conflicting, "%s says twice how many go on at a time", at).hint("write percent: 10%%, or count: 1, which grows with factor: 2")
			}
		}
	}
	if factor := fields["factor"]; factor != nil {
		findingsBefore := len(r.findings)
		if stage.Factor = r.measure(factor, at+".factor"); len(r.findings) == findingsBefore && (stage.Factor <= 1 || stage.Factor > maxGrowth) {
			r.parser.at(factor, at+".factor", "%s.factor must be more than 1 and at most %d, is %s", at, maxGrowth, describe(factor)).hint("write factor: 2, so that twice as many have gone on after each wave")
		}
	}
}

// pause is a length of time; nil: none is said.
func (r *rolloutParser) pause(node *yaml.Node, at string) *durationpb.Duration {
	if node == nil {
		return nil
	}
	d := r.duration(node, at)
	if d > longestPause {
		r.parser.at(node, at, "%s is longer than 30 days", at).hint("write at most 30d")
	}
	return durationpb.New(d)
}

// opening is a calendar of a stage.
func (r *rolloutParser) opening(node *yaml.Node, at string) *intentpb.Calendar {
	fields := r.fields(node, at, windowKeys)
	if fields["zone"] == nil {
		if node.Kind == yaml.MappingNode {
			r.parser.at(node, at+".zone", "%s.zone is missing", at).hint(`write window: {zone: Europe/London, open: "Mon-Fri 09:00-17:00"}`)
		}
		return nil
	}
	return r.opens(fields, at)
}

// canary: also in an emergency a part comes before the rest.
func (r *rolloutParser) canary(node *yaml.Node, stages []*intentpb.RolloutStage) {
	first := stages[0]
	bounded := len(first.Scopes) > 0 || first.Count > 0 || first.Percent > 0 || first.Factor > 0 || first.Most > 0
	if len(stages) < 2 || !bounded {
		r.parser.at(node, r.at+".emergency", "%s.emergency lets all go on at once", r.at).
			hint("keep a canary: two stages at least, the first of some scopes, or of so many at a time: [{scopes: [a], soak: 1m}, {rest: true}]")
	}
}

// goesBack: no calendar, no plugin and no person keeps what goes back, and a field goes back by itself.
func (r *rolloutParser) goesBack(node *yaml.Node, made *intentpb.Rollout) {
	at := r.at + ".rollback"
	if made.Field != nil {
		r.parser.at(node, at, "a rollout that sets a field of a document has no stages to go back by").hint("remove %s; undo edits the document, and that goes as any change does", at)
	}
	for i, s := range made.Rollback {
		if s.Window != nil || s.Plugin != "" || s.Approval != nil {
			r.parser.at(item(node, i), fmt.Sprintf("%s[%d]", at, i), "a stage of %s has a window, a plugin or an approval: they could keep what was found bad", at).hint("remove them; delay and soak say how fast it goes")
		}
	}
}

// checkDuplicates finds what a list names two times.
func (p *parser) checkDuplicates(node *yaml.Node, at string, list []string, kind string) {
	for i, name := range list {
		if name != "" && slices.Contains(list[:i], name) {
			p.at(item(node, i), fmt.Sprintf("%s[%d]", at, i), "the %s %s is named twice", kind, name).hint("remove one")
		}
	}
}
