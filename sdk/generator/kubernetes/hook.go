package kubernetes

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
)

// Hooks says what is made of hooks of Helm and Argo CD.
type Hooks int

const (
	// HooksAreObjects like others, whatever their annotations say: of what is in a cluster.
	HooksAreObjects Hooks = iota
	// HooksLeftOut are told of by file and line.
	HooksLeftOut
	// HooksIncluded are objects in the order that they say, as far as that can be said; the others
	// are told of.
	HooksIncluded
	// HooksByContent are included, and Jobs among them have a hash of their content at the end of
	// their names: one that changes is another Job, and no replacement of the one before.
	HooksByContent
)

// phase of an object within what is rendered.
type phase int

const (
	before phase = iota - 1
	among
	after
)

// Annotations that make an object a hook, or order objects.
const (
	helmHook, helmWeight, helmPolicy = "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy"
	argoHook, argoWave, argoPolicy   = "argocd.argoproj.io/hook", "argocd.argoproj.io/sync-wave", "argocd.argoproj.io/hook-delete-policy"
)

// hookEvents are those that order can say. Of all others, such as rollbacks, deletions, failures
// and tests, there are none where a state is kept.
var hookEvents = map[string]phase{
	"pre-install": before, "pre-upgrade": before, "post-install": after, "post-upgrade": after,
	"PreSync": before, "Sync": among, "PostSync": after,
}

// rank is an object's place in an order: by phase, then by weight or wave.
type rank struct {
	phase  phase
	weight int
}

func compareRanks(a, b rank) int {
	return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.weight, b.weight))
}

// hook takes what annotations say of when an object is there. False: it is left out.
func (r *reader) hook(m Manifest, line int, o *kubernetespb.Object, fields map[string]any) (place rank, ok bool) {
	if r.settings.Hooks == HooksAreObjects {
		return rank{}, true
	}
	tool, text := "Argo CD", Annotation(fields, argoHook)
	if helm := Annotation(fields, helmHook); text == "" && helm != "crd-install" {
		tool, text = "Helm", helm
	}
	if place.weight, ok = r.weight(m, line, o, fields); !ok {
		return place, false
	}
	if text == "" {
		return place, true
	}
	events := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
	var said, unsaid []string
	for _, event := range events {
		if at, ok := hookEvents[event]; ok {
			said, place.phase = append(said, event), at
		} else {
			unsaid = append(unsaid, event)
		}
	}
	omit := fmt.Sprintf("with: {omit: %s/%s} leaves it out in silence", kindOf(o), o.Name)
	phases := map[phase]bool{}
	for _, event := range said {
		phases[hookEvents[event]] = true
	}
	switch {
	case len(said) == 0:
		r.lose(o, m, line, "Lehr keeps a state, and has no such event; "+omit, "%s %s is a hook of %s for %s", o.Kind, o.Name, tool, strings.Join(unsaid, ", "))
		return place, false
	case r.settings.Hooks == HooksLeftOut:
		r.lose(o, m, line, "with: {hooks: include} makes an object of it, in its order; "+omit, "%s %s is a hook of %s (%s)", o.Kind, o.Name, tool, text)
		return place, false
	case len(phases) > 1:
		r.lose(o, m, line, "write two hooks; "+omit, "%s %s is a hook of %s for both before and after (%s)", o.Kind, o.Name, tool, text)
		return place, false
	}
	r.warnOfHook(m, line, o, fields, unsaid)
	return place, true
}

// weight of a hook or the wave of an object.
func (r *reader) weight(m Manifest, line int, o *kubernetespb.Object, fields map[string]any) (weight int, ok bool) {
	for _, name := range []string{argoWave, helmWeight} {
		text := Annotation(fields, name)
		if text == "" || name == helmWeight && Annotation(fields, helmHook) == "" {
			continue
		}
		weight, err := strconv.Atoi(text)
		if err != nil {
			r.lose(o, m, line, `write a whole number in quotes, as "-5"`, "%s of %s %s is no number", name, o.Kind, o.Name)
			return 0, false
		}
		return weight, true
	}
	return 0, true
}

// warnOfHook says in what an object differs from the hook that it was.
func (r *reader) warnOfHook(m Manifest, line int, o *kubernetespb.Object, fields map[string]any, unsaid []string) {
	var differs []string
	if len(unsaid) > 0 {
		differs = append(differs, "it is none for "+strings.Join(unsaid, ", "))
	}
	if kind := kindOf(o); kind == "Job.batch" || kind == "Pod" {
		again := ", which is a replacement"
		if kind == "Job.batch" && r.settings.Hooks == HooksByContent {
			again = ", as another Job"
		}
		differs = append(differs, "it runs once, and again when it changes"+again)
	}
	for _, name := range []string{helmPolicy, argoPolicy} {
		if policy := Annotation(fields, name); policy != "" {
			differs = append(differs, "its policy to delete it ("+policy+") is not kept, for Lehr keeps what is in intent")
		}
	}
	if len(differs) > 0 {
		r.find(m, line, true, "docs/use/kubernetes.md tells what becomes of hooks; a task of lehr-task runs once for a version: docs/use/task.md", "%s %s was a hook and is an object: %s", o.Kind, o.Name, strings.Join(differs, "; "))
	}
}

// ordered are the edges of an object: those of what it names, and those of phases, waves and
// weights, to all objects of the place before its own.
func (r *reader) ordered(o *Object) []string {
	edges := r.edges(o)
	if r.places == nil {
		r.rankAll()
	}
	for place := r.places[o.ID] - 1; place >= 0; place-- {
		if earlier := r.atPlace[place]; len(earlier) > 0 {
			edges = append(edges, earlier...)
			break
		}
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

// rankAll numbers the places of all objects. Nothing comes before what it names: such an object has
// the later place, so that no order goes in a circle.
func (r *reader) rankAll() {
	r.places = map[string]int{}
	byID, ranks := map[string]*Object{}, map[rank]bool{}
	for i := range r.objects {
		if o := &r.objects[i]; o.ID != "" {
			byID[o.ID] = o
			ranks[o.rank] = true
		}
	}
	sorted := slices.SortedFunc(maps.Keys(ranks), compareRanks)
	visiting := map[string]bool{}
	var placeOf func(o *Object) int
	placeOf = func(o *Object) int {
		if place, ok := r.places[o.ID]; ok {
			return place
		}
		own, _ := slices.BinarySearchFunc(sorted, o.rank, compareRanks)
		if visiting[o.ID] { // They name each other.
			return own
		}
		visiting[o.ID] = true
		place, needed := own, ""
		for _, id := range r.edges(o) {
			if target := byID[id]; target != nil {
				if later := placeOf(target); later > place {
					place, needed = later, id
				}
			}
		}
		r.places[o.ID] = place
		if needed != "" {
			r.findings = append(r.findings, Finding{
				File: o.File, Line: o.Line, Warning: true,
				Message: fmt.Sprintf("%s %s is to come before %s, which it needs: it comes with it", o.Payload.Kind, o.Payload.Name, needed),
				Hint:    "give what it needs the same hook and weight, or an earlier wave",
			})
		}
		return place
	}
	r.atPlace = make([][]string, len(sorted))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		place := placeOf(byID[id])
		r.atPlace[place] = append(r.atPlace[place], id)
	}
}

// Of a Job's name, so that the names of its Pods can follow.
const maxJobName = 63

// nameByContent gives a Job that is a hook a name by its content. False: it is left out.
func (r *reader) nameByContent(m Manifest, line int, o *kubernetespb.Object, fields map[string]any) bool {
	isHook := Annotation(fields, argoHook) != "" || Annotation(fields, helmHook) != ""
	if r.settings.Hooks != HooksByContent || kindOf(o) != "Job.batch" || !isHook {
		return true
	}
	var content bytes.Buffer
	canonical(&content, fields)
	const digits = 10 // As Kustomize's: a rule of generations knows them for a hash.
	name := fmt.Sprintf("%s-%x", o.Name, sha256.Sum256(content.Bytes()))[:len(o.Name)+1+digits]
	if len(name) > maxJobName {
		r.lose(o, m, line, fmt.Sprintf("give it a name of at most %d bytes", maxJobName-1-digits), "%s %s has no room for a hash of its content in its name", o.Kind, o.Name)
		return false
	}
	o.Name, fields["metadata"].(map[string]any)["name"] = name, name
	return true
}
