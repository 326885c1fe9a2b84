package keel

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// stage is one of a rollout over regions.
type stage struct {
	// region; empty: all that no stage before has.
	region string
	// isOrdered: the regions of the stage come one after another, by name.
	isOrdered bool
	// open are the windows in which the stage may begin; none: always.
	open []string
	// pause is how long the next stage waits after this one.
	pause time.Duration
}

// readRollout makes stages of what says in which order a resource comes to its regions. What says how
// servers are replaced stays in the spec, as the number of servers does: a plugin obeys both.
func (r *reading) readRollout(e *environment, made *resource) {
	deploy := child(made.spec, "deployWith")
	if back := child(deploy, "rollbackOnFailure"); back != nil && back.Value == "true" {
		made.goesBack = true
	}
	regions := regionsOf(child(made.spec, "locations"))
	if len(regions) == 0 {
		regions = regionsOf(e.locations)
	}
	if len(regions) < 2 {
		return
	}
	if node := child(deploy, "stagger"); node != nil && node.Kind == yaml.SequenceNode && len(node.Content) > 0 {
		r.eachItem(node, "stagger", func(item *yaml.Node) { made.stages = append(made.stages, r.readStagger(item, regions)) })
		made.stages = append(made.stages, stage{})
		removeKey(deploy, "stagger")
	}
	if node := child(made.spec, "managedRollout"); node != nil && node.Kind == yaml.MappingNode && attribute(node, "enabled") == "true" {
		r.eachKey(node, "managedRollout", map[string]func(*yaml.Node){"enabled": r.keep, "selectionStrategy": func(value *yaml.Node) {
			if value.Value == "ALPHABETICAL" {
				r.keep(value)
				return
			}
			r.leave(value, "managedRollout: selectionStrategy", "Lehr does not know when a region has few users: its regions come by name, or in the order of a plugin (docs/use/rollouts.md#a-plugin-selects)")
		}})
		if len(made.stages) == 0 {
			made.stages = []stage{{isOrdered: true}}
		}
		removeKey(made.spec, "managedRollout")
	}
	if len(made.stages) > 0 {
		made.regions = regions
	}
}

func (r *reading) readStagger(node *yaml.Node, regions []string) (s stage) {
	var hours, pause string
	r.eachKey(node, "stagger", map[string]func(*yaml.Node){"region": r.text(&s.region), "hours": r.text(&hours), "pauseTime": r.text(&pause)})
	if !slices.Contains(regions, s.region) {
		r.refuse(node, "stagger names the region %q, which the resource does not have", s.region)
	}
	if hours != "" {
		spans, err := readHours(hours)
		if err != nil {
			r.refuse(node, "%v", err)
		}
		for _, span := range spans {
			s.open = append(s.open, "Mon-Sun "+span)
		}
	}
	if pause != "" {
		var err error
		if s.pause, err = readDuration(pause); err != nil {
			r.refuse(node, "%v", err)
		}
	}
	return s
}

// regionsOf are the names of regions, in the order of the alphabet.
func regionsOf(locations *yaml.Node) (names []string) {
	list := child(locations, "regions")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		name := item.Value
		if item.Kind == yaml.MappingNode {
			name = attribute(item, "name")
		}
		if segment(name) == "" {
			return nil
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func removeKey(node *yaml.Node, key string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			node.Content = slices.Delete(node.Content, i, i+2)
			return
		}
	}
}

// inRegion is the spec for one region alone.
func inRegion(spec map[string]any, region string) {
	locations, _ := spec["locations"].(map[string]any)
	list, _ := locations["regions"].([]any)
	for _, item := range list {
		entry, _ := item.(map[string]any)
		if item == region || entry["name"] == region {
			locations["regions"] = []any{item}
		}
	}
}

// rolloutOf brings the assets of a resource to one region after another.
func (e *environment) rolloutOf(made resource, ids []string) map[string]any {
	var stages []map[string]any
	var delay time.Duration
	for _, s := range made.stages {
		fields := map[string]any{"rest": true}
		if s.region != "" {
			fields = map[string]any{"name": segment(s.region), "scopes": []string{s.region}}
		}
		if s.isOrdered {
			fields["by"] = "scope region"
		}
		if len(s.open) > 0 {
			fields["window"] = map[string]any{"zone": zone, "open": s.open}
		}
		if delay > 0 {
			fields["delay"] = delay.String()
		}
		delay = s.pause
		stages = append(stages, fields)
	}
	onBad := "stop"
	if made.goesBack {
		onBad = "rollback"
	}
	return map[string]any{"select": selectAssets(ids), "stages": stages, "on_bad": onBad}
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`)

// readDuration reads a duration of ISO 8601, as PT1H30M.
func readDuration(text string) (time.Duration, error) {
	parts := isoDuration.FindStringSubmatch(text)
	if parts == nil || strings.Trim(text, "PT") == "" {
		return 0, fmt.Errorf("%q is no duration as PT30M", text)
	}
	var total time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		count, err := strconv.Atoi("0" + parts[i+1])
		if err != nil || count > 10000 {
			return 0, fmt.Errorf("%q is longer than a pause can be", text)
		}
		total += time.Duration(count) * unit
	}
	const most = 30 * 24 * time.Hour
	if total > most {
		return 0, fmt.Errorf("%q is longer than 30 days", text)
	}
	return total, nil
}
