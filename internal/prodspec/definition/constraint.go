package definition

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// constraintKind is a kind of constraint of an environment: the key by which it is told, and its
// other keys.
type constraintKind struct {
	key     string
	keys    []string
	read    func(r *deliveryParser, c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string)
	example string
}

func constraintKinds() []constraintKind {
	return []constraintKind{
		{"depends_on", []string{"any", "stable"}, (*deliveryParser).dependsOn, "{depends_on: [test], stable: 30m}"},
		{"judgement", []string{"roles", "expires"}, (*deliveryParser).judgement, "{judgement: 2, expires: 7d}"},
		{"zone", []string{"open", "freezes", "holidays", "at_most"}, (*deliveryParser).times, `{zone: Europe/London, open: "Mon-Fri 09:00-17:00", at_most: 2}`},
		{"soak", []string{"in"}, (*deliveryParser).soak, "{soak: 4h, in: [staging]}"},
		{"task", nil, (*deliveryParser).completed, "{task: migrate}"},
		{"lag", []string{"behind"}, (*deliveryParser).lag, "{lag: 2, behind: [production]}"},
		{"min_age", nil, (*deliveryParser).versionAge, "{min_age: 1h}"},
		{"deny", nil, (*deliveryParser).denies, `{deny: [{version: "1.4.*", reason: it loses writes}]}`},
		{"verdict", []string{"expires"}, (*deliveryParser).outside, "{verdict: outside}"},
		{"http", askedKeys, (*deliveryParser).asks, "{http: changes}"},
		{"command", askedKeys, (*deliveryParser).asks, "{command: [/usr/local/bin/may-go]}"},
		{"plugin", askedKeys, (*deliveryParser).asks, "{plugin: quiet}"},
	}
}

// askedKeys are those of a constraint that asks, beside whom it asks.
var askedKeys = []string{"timeout", "every", "expires"}

// constraintWords are keys of each kind.
var constraintWords = []string{"rollbacks", "hotfixes"}

func (r *deliveryParser) constraint(key, value *yaml.Node, at string) *intentpb.DeliveryConstraint {
	kinds := constraintKinds()
	found := slices.IndexFunc(kinds, func(k constraintKind) bool { return child(value, k.key) != nil })
	if found < 0 {
		var examples []string
		for _, k := range kinds {
			examples = append(examples, k.example)
		}
		r.parser.at(key, at, "%s is no constraint", at).hint("write %s", strings.Join(examples, " or "))
		return nil
	}
	if !checkName().MatchString(key.Value) {
		r.parser.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
	}
	kind := kinds[found]
	fields := r.fields(value, at, slices.Concat([]string{kind.key}, constraintWords, kind.keys))
	c := &intentpb.DeliveryConstraint{Name: key.Value}
	if node := fields["rollbacks"]; node != nil {
		c.Rollbacks = choice(r.parser, node, at+".rollbacks", truths, "true or false")
	}
	if node := fields["hotfixes"]; node != nil {
		c.PassedByHotfix = !choice(r.parser, node, at+".hotfixes", truths, "true or false")
	}
	kind.read(r, c, fields, at)
	return c
}

func (r *deliveryParser) dependsOn(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	spec := &intentpb.DependsOn{Environments: r.texts(fields["depends_on"], at+".depends_on")}
	r.checkDuplicates(fields["depends_on"], at+".depends_on", spec.Environments, "environment")
	if node := fields["any"]; node != nil {
		spec.Any = choice(r.parser, node, at+".any", truths, "true or false")
	}
	if node := fields["stable"]; node != nil {
		spec.Stable = durationpb.New(r.duration(node, at+".stable"))
	}
	c.Kind = &intentpb.DeliveryConstraint_DependsOn{DependsOn: spec}
}

func (r *deliveryParser) judgement(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	spec := &intentpb.Judgement{Quorum: r.number(fields["judgement"], at+".judgement", 1)}
	if spec.Quorum > maxQuorum {
		r.parser.at(fields["judgement"], at+".judgement", "%s.judgement: %d people are more than %d", at, spec.Quorum, maxQuorum).hint("write how many must approve, for example 2")
	}
	if node := fields["roles"]; node != nil {
		spec.Roles = r.texts(node, at+".roles")
		for i, role := range spec.Roles {
			_, err := intent.ParseRole(role)
			r.check(item(node, i), at+".roles", err)
		}
	}
	if node := fields["expires"]; node != nil {
		spec.Expires = durationpb.New(r.duration(node, at+".expires"))
	}
	c.Kind = &intentpb.DeliveryConstraint_Judgement{Judgement: spec}
}

func (r *deliveryParser) times(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	spec := &intentpb.AllowedTimes{Calendar: r.opens(fields, at)}
	if node := fields["at_most"]; node != nil {
		spec.AtMost = r.number(node, at+".at_most", 1)
	}
	c.Kind = &intentpb.DeliveryConstraint_Times{Times: spec}
}

func (r *deliveryParser) soak(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	spec := &intentpb.DeliverySoak{Time: durationpb.New(r.duration(fields["soak"], at+".soak"))}
	if node := fields["in"]; node != nil {
		spec.Environments = r.texts(node, at+".in")
		r.checkDuplicates(node, at+".in", spec.Environments, "environment")
	} else {
		r.parser.at(fields["soak"], at+".in", "%s does not say where it soaks", at).hint("write {soak: 4h, in: [staging]}")
	}
	c.Kind = &intentpb.DeliveryConstraint_Soak{Soak: spec}
}

func (r *deliveryParser) versionAge(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	c.Kind = &intentpb.DeliveryConstraint_Age{Age: &intentpb.VersionAge{Age: durationpb.New(r.duration(fields["min_age"], at+".min_age"))}}
}

func (r *deliveryParser) denies(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	list := &intentpb.DeniedVersions{}
	r.elements(fields["deny"], at+".deny", `deny: [{version: "1.4.*", reason: it loses writes}]`, func(node *yaml.Node, field string) {
		parts := r.fields(node, field, []string{"version", "commit", "reason"})
		entry := &intentpb.DeniedVersion{}
		switch version, hash := parts["version"], parts["commit"]; {
		case parts["reason"] == nil:
			r.parser.at(node, field+".reason", "%s.reason is missing", field).hint("say why it is denied: whoever waits for it reads that")
			return
		case (version == nil) == (hash == nil):
			r.parser.at(node, field, "%s names a version or a commit", field).hint(`write {version: "1.4.*", reason: …} or {commit: 1f2e3d4, reason: …}`)
			return
		case version != nil:
			entry.What = &intentpb.DeniedVersion_Version{Version: r.text(version, field+".version")}
		case !commit.MatchString(hash.Value):
			r.parser.at(hash, field+".commit", "%s.commit: %s is no commit", field, describe(hash)).hint("write at least its first 7 digits")
		default:
			entry.What = &intentpb.DeniedVersion_Commit{Commit: hash.Value}
		}
		entry.Reason = r.text(parts["reason"], field+".reason")
		list.Entries = append(list.Entries, entry)
	})
	c.Kind = &intentpb.DeliveryConstraint_Deny{Deny: list}
}

// verdicts are who decides a constraint that is decided elsewhere.
var verdicts = map[string]bool{"outside": true}

func (r *deliveryParser) outside(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	choice(r.parser, fields["verdict"], at+".verdict", verdicts, "outside: programs tell the verdict")
	spec := &intentpb.OutsideVerdict{}
	if node := fields["expires"]; node != nil {
		spec.Expires = durationpb.New(r.duration(node, at+".expires"))
	}
	c.Kind = &intentpb.DeliveryConstraint_Outside{Outside: spec}
}

// mostAskEvery is the longest pause between two questions about a version.
const mostAskEvery = 24 * time.Hour

func (r *deliveryParser) asks(c *intentpb.DeliveryConstraint, fields map[string]*yaml.Node, at string) {
	spec := &intentpb.AskedVerdict{}
	switch {
	case fields["http"] != nil:
		spec.Ask = &intentpb.AskedVerdict_Http{Http: r.askedService(fields["http"], at+".http")}
	case fields["plugin"] != nil:
		spec.Ask = &intentpb.AskedVerdict_Plugin{Plugin: r.askedPlugin(fields["plugin"], at+".plugin")}
	default:
		spec.Ask = &intentpb.AskedVerdict_Command{Command: r.askedProgram(fields["command"], at+".command")}
	}
	if node := fields["timeout"]; node != nil {
		spec.Timeout = r.askedTimeout(node, at+".timeout")
	}
	if node := fields["every"]; node != nil {
		every := r.duration(node, at+".every")
		if every > 0 && every < leastEvery || every > mostAskEvery {
			r.parser.at(node, at+".every", "%s.every is not between %s and %s", at, leastEvery, mostAskEvery).hint("write every: 1m")
		}
		spec.Every = durationpb.New(every)
	}
	if node := fields["expires"]; node != nil {
		spec.Expires = durationpb.New(r.duration(node, at+".expires"))
	}
	c.Kind = &intentpb.DeliveryConstraint_Asked{Asked: spec}
}

// deliverySchema is an application.
func deliverySchema() map[string]any {
	var constraints []any
	for _, kind := range constraintKinds() {
		properties := map[string]any{}
		for _, key := range slices.Concat([]string{kind.key}, constraintWords, kind.keys) {
			properties[key] = constraintField(key)
		}
		required := []string{kind.key}
		if kind.key == "soak" {
			required = append(required, "in")
		}
		if kind.key == "lag" {
			required = append(required, "behind")
		}
		constraints = append(constraints, object(properties, required...))
	}
	set := func() map[string]any {
		return map[string]any{"document": text(), "field": text(), "digest": text(), "pull_request": text()}
	}
	taskSet := set()
	taskSet["parameters"] = text()
	task := object(map[string]any{
		"set": object(taskSet, "document", "field"), "assets": expression(), "partition": text(), "each": texts(), "constraints": mapOf(anyOf(constraints...)),
		"after": texts(), "on_failure": texts(), "attempts": number(1), "retry": duration(),
	}, "set", "assets")
	environment := object(map[string]any{
		"set": object(set(), "document", "field"), "assets": expression(), "partition": text(),
		"each":        anyOf(texts(), object(map[string]any{"by": map[string]any{"type": "string", "pattern": grouping.String()}, "where": expression()}, "by")),
		"constraints": mapOf(anyOf(constraints...)), "verify": verifySchema(), "on_bad": enum(slices.Sorted(maps.Keys(deliveryOnBads))),
		"newer": enum(slices.Sorted(maps.Keys(deliveryNewers))), "attempts": number(1), "retry": duration(),
	}, "set", "assets")
	return object(map[string]any{
		"versions":     text(),
		"releases":     text(),
		"order":        orderSchema(),
		"environments": mapOf(environment),
		"tasks":        mapOf(task),
	}, "versions", "environments")
}

// orderSchema says how versions are ordered.
func orderSchema() map[string]any {
	names := enum(slices.Sorted(maps.Keys(orders)))
	return anyOf(names, object(map[string]any{"by": names, "match": text(), "layout": text(), "prereleases": texts()}))
}

// constraintField is a key of a constraint.
func constraintField(key string) map[string]any {
	switch key {
	case "depends_on", "in", "roles", "behind":
		return texts()
	case "any", "rollbacks", "hotfixes":
		return map[string]any{"type": "boolean"}
	case "stable", "expires", "soak":
		return duration()
	case "judgement":
		return number(1)
	case "lag":
		return number(0)
	case "deny":
		entries := listOf(object(map[string]any{"version": text(), "commit": map[string]any{"type": []string{"string", "integer"}}, "reason": text()}, "reason"))
		entries["minItems"] = 1
		return entries
	case "verdict":
		return enum(slices.Sorted(maps.Keys(verdicts)))
	default:
		return checkField(key)
	}
}
