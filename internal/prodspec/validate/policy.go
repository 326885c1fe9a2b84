package validate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

var policyType = intent.TypeName((*intentpb.Policy)(nil).ProtoReflect().Descriptor().FullName())

// served are the payload types whose plugins come with Lehr: who writes them
// means them to be enforced.
var served = map[intent.TypeName]string{
	"lehr.caddy.v1.Balancer":     "lehr-caddy",
	"lehr.command.v1.Command":    "lehr-command",
	"lehr.http.v1.Resource":      "lehr-http",
	"lehr.process.v1.Job":        "lehr-process",
	"lehr.process.v1.Schedule":   "lehr-process",
	"lehr.sqlschema.v1.Schema":   "lehr-sqlschema",
	"lehr.task.v1.Task":          "lehr-task",
	"lehr.workflow.v1.Procedure": "lehr-workflow",
}

// apart are the payload types whose plugins are built apart from Lehr, and how each is bound.
var apart = map[intent.TypeName]string{
	"lehr.kubernetes.v1.Object": "run: [lehr-kubernetes, --clusters, FILE]",
}

// policy judges which plugin serves which type.
func (j *judging) policy(ctx context.Context) error {
	if j.CandidatePolicy == nil {
		return nil
	}
	bound := map[intent.TypeName]bool{}
	for i, binding := range j.CandidatePolicy.GetPlugins() {
		name, field := intent.TypeName(binding.GetType()), fmt.Sprintf("plugins[%d].type", i)
		switch {
		case name == policyType:
			j.policyError(field, fmt.Sprintf("a plugin is bound to %s, which says how assets are enforced and is none itself", name), "remove the binding")
		case bound[name]:
			j.policyError(field, fmt.Sprintf("two plugins are bound to %s", name), "remove one binding")
		default:
			j.knownType(name, field, "a plugin is bound to")
		}
		bound[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(j.CandidatePolicy.GetTypeModes())) {
		j.knownType(intent.TypeName(name), fmt.Sprintf("type_modes[%q]", name), "a mode is set for")
	}
	for i, name := range j.CandidatePolicy.GetModels() {
		field := fmt.Sprintf("models[%d]", i)
		if bound[intent.TypeName(name)] {
			j.policyError(field, fmt.Sprintf("the type %s is a model, and a plugin is bound to it", name), "remove one of the two")
		}
		j.knownType(intent.TypeName(name), field, "what is declared a model is")
	}
	return j.unserved(ctx, bound)
}

// unserved warns of types that no plugin serves and that are no models: those of the
// assets that are new or changed, those whose plugins come with Lehr, and those that
// head's policy binds.
func (j *judging) unserved(ctx context.Context, bound map[intent.TypeName]bool) error {
	plugins := map[intent.TypeName]string{}
	for name, program := range served {
		plugins[name] = "run: " + program
	}
	for _, binding := range j.HeadPolicy.GetPlugins() {
		if len(binding.GetRun()) > 0 {
			plugins[intent.TypeName(binding.GetType())] = "run: " + binding.GetRun()[0]
		} else {
			plugins[intent.TypeName(binding.GetType())] = "dial: " + binding.GetDial()
		}
	}
	for _, entry := range j.delta {
		if _, ok := plugins[entry.Member.Type]; !entry.Removed && !ok && !entry.Member.Type.IsIntent() {
			plugins[entry.Member.Type] = cmp.Or(apart[entry.Member.Type], "run: PROGRAM")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		if bound[name] || slices.Contains(j.CandidatePolicy.GetModels(), string(name)) {
			continue
		}
		example, err := j.anyOf(ctx, name)
		if err != nil {
			return err
		}
		if example != "" {
			j.add(intent.Finding{
				Rule: "plugin", Severity: intent.Warning, Asset: example, Field: "plugins",
				Message: fmt.Sprintf("no plugin is bound to %s, so asset %s and others of this type are not looked at and will never be enforced", name, example),
				Hint:    fmt.Sprintf("bind one in lehr.yaml: plugins: {%s: {%s}}; or say that they are only to be read: models: [%s]", name, plugins[name], name),
			})
		}
	}
	return nil
}

func (j *judging) knownType(name intent.TypeName, field, subject string) {
	if j.types.Has(name) {
		return
	}
	_, err := j.types.New(name)
	j.policyError(field, fmt.Sprintf("%s %q, which is no known message type", subject, name), FromError("", "", err).Hint)
}

func (j *judging) policyError(field, message, hint string) {
	j.add(intent.Finding{
		Rule: "plugin", Severity: intent.Error, Asset: intent.PolicyAsset,
		Field: string(policyType) + "." + field, Message: message, Hint: hint,
	})
}

// anyOf names an asset of the type in the candidate, if there is one.
func (j *judging) anyOf(ctx context.Context, name intent.TypeName) (intent.AssetID, error) {
	for _, entry := range j.delta {
		if !entry.Removed && entry.Member.Type == name {
			return entry.Asset, nil
		}
	}
	if j.Base.IsZero() {
		return "", nil
	}
	// Only assets that the delta touches are passed over, so few pages are read.
	filter := store.AssetFilter{Type: name, Limit: 100}
	for {
		members, err := j.Snapshots.Members(ctx, j.Base, filter)
		if err != nil || len(members) == 0 {
			return "", err
		}
		for _, member := range members {
			if j.entries[member.Asset] == nil {
				return member.Asset, nil
			}
			filter.After = member.Asset
		}
	}
}
