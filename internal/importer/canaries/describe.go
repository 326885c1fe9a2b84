package canaries

import (
	"bytes"
	_ "embed" // The program is a file.
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/sdk/generator/kubernetes"
)

//go:embed workloads.star
var program []byte

// pauseCondition lets the switch of a Service or the pods of a step through once a person says so. A check that an asset
// was last enforced with counts for what replaces it, too: without its first part, pods of the last step would wait
// for a person again when they are scaled down, as the old slot.
const pauseCondition = `!("pause" in labels) || diff.action == "create" || !diff.changes.exists(c, c.path.contains("spec.selector") || c.path.contains("spec.replicas"))`

// mapping is one of YAML, in the order in which it is written.
type mapping []any

// MarshalYAML implements yaml.Marshaler. Keys and values take turns.
func (m mapping) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(m); i += 2 {
		var key, value yaml.Node
		if err := key.Encode(m[i]); err != nil {
			return nil, err
		}
		if err := value.Encode(m[i+1]); err != nil {
			return nil, err
		}
		node.Content = append(node.Content, &key, &value)
	}
	return node, nil
}

func written(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err := encoder.Encode(plain(value))
	return text.Bytes(), err
}

// plain has numbers of JSON as those of YAML.
func plain(value any) any {
	switch value := value.(type) {
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		f, _ := value.Float64() // It was read as a number.
		return f
	case []any:
		made := make([]any, len(value))
		for i, item := range value {
			made[i] = plain(item)
		}
		return made
	case map[string]any:
		made := make(map[string]any, len(value))
		for key, item := range value {
			made[key] = plain(item)
		}
		return made
	case mapping:
		made := make(mapping, len(value))
		for i, item := range value {
			made[i] = plain(item)
		}
		return made
	case []map[string]any:
		made := make([]any, len(value))
		for i, fields := range value {
			made[i] = plain(fields)
		}
		return made
	case []service:
		made := make([]any, len(value))
		for i, s := range value {
			one := mapping{"step", s.step}
			if s.slot != "" {
				one = append(one, "slot", s.slot)
			}
			made[i] = append(one, "object", plain(s.object))
		}
		return made
	}
	return value
}

// describe writes the partition.
func (r *reading) describe() error {
	r.Files = map[string][]byte{}
	var rollouts mapping
	slotted, isHeld := 0, false
	for _, w := range r.workloads {
		if w.shares == atOnce {
			r.addDeployment(w)
		} else {
			slotted++
			if err := r.writeWorkload(w); err != nil {
				return err
			}
		}
		rollouts = append(rollouts, w.rollouts(r.settings.cluster)...)
		isHeld = isHeld || len(w.heldSteps()) > 0
	}
	hasManifests, err := r.writeManifests()
	if err != nil {
		return err
	}
	sources, generators := mapping{}, mapping{}
	if hasManifests {
		sources = append(sources, "manifests", map[string]any{"dir": "manifests", "files": []string{"*"}})
		generators = append(generators, "objects", mapping{"render", "kubernetes", "from", []string{"manifests"}, "with", map[string]any{"cluster": r.settings.cluster, "namespace": r.settings.namespace}})
	}
	if slotted > 0 {
		r.Files["workloads.star"] = program
		sources = append(sources, "workloads", map[string]any{"dir": "workloads", "files": []string{"*.yaml"}}, "slots", map[string]any{"dir": "slots", "files": []string{"**/*.yaml"}})
		generators = append(generators, "slotted", mapping{"starlark", "workloads.star", "from", []string{"workloads", "slots"}, "for_each", "file"})
	}
	definition := mapping{"sources", sources, "generate", generators}
	if checks := r.describeChecks(isHeld); len(checks) > 0 {
		definition = append(definition, "checks", checks)
	}
	if len(rollouts) > 0 {
		definition = append(definition, "rollouts", rollouts)
	}
	if len(r.validations) > 0 {
		validations := mapping{}
		for _, v := range r.validations {
			validations = append(validations, v.name, v.fields())
		}
		definition = append(definition, "validations", validations)
	}
	text, err := written(definition)
	if err != nil {
		return err
	}
	r.Definition = string(text) + `plugins:
  # clusters.yaml is the operator's: put it where only they can write, and name it by its path.
  lehr.kubernetes.v1.Object: {run: [lehr-kubernetes, --clusters, clusters.yaml]}
`
	r.tell(isHeld)
	return nil
}

// describeChecks are the gates, and the pauses for a person, whom an override lets through.
func (r *reading) describeChecks(isHeld bool) mapping {
	checks := r.checks
	if isHeld {
		checks = append(checks,
			"pause", mapping{"where", `labels.pause == "before"`, "must", pauseCondition, "message", "the release pauses before this step until a person lets it go on: lehr override ASSET --check pause --reason WHY"},
			"overrides", map[string]any{"allow": []string{"pause"}})
	}
	return checks
}

// tell says what was read, by feature, and what a person has to do.
func (r *reading) tell(isHeld bool) {
	r.Read = append(r.Read, fmt.Sprintf("workloads: %d, validations: %d", len(r.workloads), len(r.validations)))
	total, carried := 0, 0
	for _, feature := range features {
		if r.total[feature] > 0 {
			r.Read = append(r.Read, feature+": "+share(r.carried[feature], r.total[feature])+" values are carried over")
		}
		total, carried = total+r.total[feature], carried+r.carried[feature]
	}
	r.Read = append(r.Read, "all: "+share(carried, total))
	for _, name := range slices.Sorted(maps.Keys(r.sources)) {
		at := "the Prometheus that is asked today"
		if r.sources[name] != "" {
			at = r.sources[name]
		}
		r.addHint(fmt.Sprintf("list %s under monitoring as %s (kind: prometheus), in the operator's file of --external-checks", at, name))
	}
	if isHeld {
		r.addHint("where a release pauses for a person, that person says lehr override ASSET --check pause --reason WHY; lehr why names the asset")
	}
	r.addHint("mode: observe compares and pushes nothing. Before mode: enforce, stop the controller of " + r.tool + " for these workloads, as docs/use/from-argo-rollouts.md says: two controllers would fight about Services")
}

// addDeployment adds the Deployment of a workload that is updated in place.
func (r *reading) addDeployment(w *workload) {
	metadata := maps.Clone(w.metadata)
	metadata["name"], metadata["namespace"] = w.name, w.namespace
	spec := maps.Clone(w.deployment)
	spec["selector"], spec["template"] = w.selector, w.template
	if w.autoscaler == nil {
		spec["replicas"] = w.replicas
	}
	r.objects = append(r.objects, &object{
		kind: "Deployment.apps", namespace: w.namespace, name: w.name, file: w.words.object.file, node: w.words.object.node,
		fields: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
	})
}

// writeManifests writes the objects that stay as they are, or whose weights alone were set.
func (r *reading) writeManifests() (bool, error) {
	var manifests []kubernetes.Manifest
	for _, o := range r.objects {
		if o.taken {
			continue
		}
		text, err := written(o.fields)
		if err != nil {
			return false, err
		}
		kind, _, _ := strings.Cut(o.kind, ".")
		manifests = append(manifests, kubernetes.Manifest{File: segment(kind) + "-" + segment(o.namespace+"-"+o.name) + ".yaml", Text: text})
	}
	made, findings := kubernetes.Import(manifests, kubernetes.Settings{Cluster: r.settings.cluster, Namespace: r.settings.namespace})
	maps.Copy(r.Files, made.Files)
	for _, left := range made.LeftOut {
		r.leftOut(left.What, left.Why, left.Wrong)
	}
	for _, f := range findings {
		r.addHint(fmt.Sprintf("%s: %s; %s", f.File, f.Message, f.Hint))
	}
	return len(made.Files) > 0, nil
}

// writeWorkload writes what the program reads of a workload.
func (r *reading) writeWorkload(w *workload) error {
	data := mapping{
		"live", "blue", "id", w.id, "name", w.name, "namespace", w.namespace, "cluster", r.settings.cluster,
		"slot_label", w.slotLabel, "shares", w.shares, "replicas", w.replicas, "held", w.heldSteps(), "parts", w.parts,
		"metadata", w.metadata, "selector", w.selector, "deployment", w.deployment, "services", w.services, "routes", w.routes, "autoscaler", nil,
	}
	if w.autoscaler != nil {
		data[len(data)-1] = w.autoscaler
	}
	if w.mirror != nil {
		// In the first run routes come last, and one that copies requests is part of a release.
		data = append(data, "mirror", mapping{"active", false, "service", w.mirror.service, "until", w.firstStep()})
	}
	text, err := written(data)
	if err != nil {
		return err
	}
	about := fmt.Sprintf("# A release is one commit: it writes the pods of the slot that is not live, in slots/%s, and makes that slot live.\n", w.id)
	r.Files[path.Join("workloads", w.id+".yaml")] = append([]byte(about), text...)
	for _, slot := range []string{"blue", "green"} {
		text, err := written(w.affinity.apply(w.template, w.slotLabel, slot))
		if err != nil {
			return err
		}
		r.Files[path.Join("slots", w.id, slot+".yaml")] = text
	}
	return nil
}

// apply keeps the pods of a slot from machines with those of the other.
func (a *affinity) apply(template map[string]any, label, slot string) map[string]any {
	if a == nil {
		return template
	}
	made, spec := maps.Clone(template), maps.Clone(digMap(template, "spec"))
	term := map[string]any{
		"topologyKey": "kubernetes.io/hostname",
		"labelSelector": map[string]any{
			"matchLabels":      a.labels,
			"matchExpressions": []any{map[string]any{"key": label, "operator": "NotIn", "values": []any{slot}}},
		},
	}
	key, entry := "preferredDuringSchedulingIgnoredDuringExecution", map[string]any{"weight": max(1, a.weight), "podAffinityTerm": term}
	if a.isRequired {
		key, entry = "requiredDuringSchedulingIgnoredDuringExecution", term
	}
	all := maps.Clone(digMap(spec, "affinity"))
	if all == nil {
		all = map[string]any{}
	}
	anti := maps.Clone(digMap(all, "podAntiAffinity"))
	if anti == nil {
		anti = map[string]any{}
	}
	others, _ := anti[key].([]any)
	anti[key] = append(slices.Clone(others), entry)
	all["podAntiAffinity"], spec["affinity"], made["spec"] = anti, all, spec
	return made
}

// firstStep is the one that brings the first requests.
func (w *workload) firstStep() string {
	if len(w.steps) > 0 {
		return w.steps[0].name()
	}
	return stepAll
}

// heldSteps are the names of steps that a person lets begin.
func (w *workload) heldSteps() []string {
	names := []string{}
	if w.mirror != nil && w.mirror.held {
		names = append(names, stepMirror)
	}
	for _, s := range w.steps {
		if s.held {
			names = append(names, s.name())
		}
	}
	if w.held {
		names = append(names, stepAll)
	}
	return names
}

// rollouts are those of lehr.yaml, by name.
func (w *workload) rollouts(cluster string) mapping {
	selecting := fmt.Sprintf("labels.workload == %q", w.id)
	switch w.shares {
	case atOnce:
		if len(w.during) == 0 && !w.isHeld {
			return nil
		}
		id := strings.ToLower(fmt.Sprintf("kubernetes/%s/%s/deployment.apps/%s", cluster, w.namespace, w.name))
		return mapping{w.id, w.rollout(fmt.Sprintf("id == %q", id), nil, w.during, mapping{"rest", true})}
	case byReplicas:
		return mapping{w.id, w.rollout(selecting, nil, w.during, w.stages()...)}
	}
	pods, old := w.id+"-pods", w.id+"-old"
	return mapping{
		pods, w.rollout(selecting+` && labels.step == "candidate"`, nil, w.before, paused(mapping{"rest", true}, 0, w.podsSoak)),
		w.id, w.rollout(selecting+` && !(labels.step in ["candidate", "old"])`, []string{pods}, w.during, w.stages()...),
		old, w.rollout(selecting+` && labels.step == "old"`, []string{w.id}, nil, paused(mapping{"rest", true}, w.delay, 0)),
	}
}

// stages of the steps; by replicas the other slot is scaled down in the last one.
func (w *workload) stages() []mapping {
	var list []mapping
	if w.mirror != nil {
		list = append(list, paused(mapping{"name", stepMirror, "where", `labels.step == "mirror"`}, 0, w.mirror.soak))
	}
	for _, s := range w.steps {
		list = append(list, paused(mapping{"name", s.name(), "where", fmt.Sprintf("labels.step == %q", s.name())}, 0, s.soak))
	}
	if w.shares == byServices {
		return append(list, paused(mapping{"name", "all", "rest", true}, 0, w.soak))
	}
	last := func(p part) bool { return p.Step == stepAll }
	served := func(s service) bool { return s.step == stepAll }
	if slices.ContainsFunc(w.parts, last) || slices.ContainsFunc(w.services, served) {
		list = append(list, paused(mapping{"name", "all", "where", `labels.step == "100"`}, 0, w.soak))
	}
	return append(list, paused(mapping{"name", stepOld, "rest", true}, w.delay, 0))
}

func paused(stage mapping, delay, soak time.Duration) mapping {
	if delay > 0 {
		stage = append(stage, "delay", delay.String())
	}
	if soak > 0 {
		stage = append(stage, "soak", soak.String())
	}
	return stage
}

func (w *workload) rollout(selects string, after, validate []string, stages ...mapping) mapping {
	made := mapping{"select", selects}
	if len(after) > 0 {
		made = append(made, "after", after)
	} else if w.isHeld {
		made = append(made, "newer", "held")
	}
	made = append(made, "stages", stages)
	if validate = distinct(validate); len(validate) > 0 {
		made = append(made, "validate", validate)
	}
	return append(made, "patience", w.patience.String())
}
