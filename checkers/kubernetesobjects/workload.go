package main

import (
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// templates of pods by GROUP/KIND of what has one, as paths.
var templates = map[string][]string{
	"/Pod": {}, "/PodTemplate": {"template"}, "/ReplicationController": {"spec", "template"},
	"apps/Deployment": {"spec", "template"}, "apps/ReplicaSet": {"spec", "template"}, "apps/StatefulSet": {"spec", "template"},
	"apps/DaemonSet": {"spec", "template"}, "batch/Job": {"spec", "template"}, "batch/CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// template of pods that an object has: its path.
func (o *object) template() (path []string, ok bool) {
	path, ok = templates[groupKind(o.key)]
	return path, ok
}

// workload judges the pods that an object makes.
func (c *checker) workload(o *object) {
	path, ok := o.template()
	if !ok {
		return
	}
	if len(path) > 0 {
		c.labels(dig(o.value, with(path, "metadata", "labels")...), with(path, "metadata", "labels"))
	}
	if groupOfKey(o.key) == "apps" {
		c.ownSelector(o, path)
	}
	spec, at := dig(o.value, with(path, "spec")...), with(path, "spec")
	volumes := map[string]bool{}
	for _, claim := range list(o.value, "spec", "volumeClaimTemplates") {
		volumes[text(claim, "metadata", "name")] = true
	}
	for i, volume := range list(spec, "volumes") {
		name := text(volume, "name")
		if volumes[name] && name != "" && dig(o.value, "spec", "volumeClaimTemplates") == nil {
			c.wrong(with(at, "volumes", strconv.Itoa(i), "name"), "give it another name", "two volumes have the name %q", name)
		}
		volumes[name] = true
	}
	containers := map[string]bool{}
	for _, field := range []string{"initContainers", "containers"} {
		for i, container := range list(spec, field) {
			fields, ok := container.(map[string]any)
			if !ok {
				continue
			}
			here := with(at, field, strconv.Itoa(i))
			if name := text(fields, "name"); containers[name] && name != "" {
				c.wrong(with(here, "name"), "give it another name", "two containers have the name %q", name)
			}
			containers[text(fields, "name")] = true
			c.container(fields, here)
			if _, ok := dig(spec, "volumes").(map[string]any); !ok { // Else that is what is wrong.
				c.mounts(fields, volumes, here)
			}
			c.resources(fields, here)
		}
	}
	holder := path
	if spec != nil {
		holder = at
	}
	if groupKind(o.key) != "/PodTemplate" && len(list(spec, "containers")) == 0 {
		c.wrong(holder, "write at least one container", "has no containers")
	}
}

// ownSelector judges the selector of a workload by its template.
func (c *checker) ownSelector(o *object, path []string) {
	at := []string{"spec", "selector"}
	selector, ok := dig(o.value, at...).(map[string]any)
	if !ok {
		if dig(o.value, "spec") != nil {
			c.wrong([]string{"spec"}, "write selector: {matchLabels: …} with labels of the template", "has no selector, and Kubernetes refuses it without one")
		}
		return
	}
	matches, ok := c.selectorOf(selector, at)
	if !ok {
		return
	}
	if matches.Empty() {
		c.wrong(at, "write matchLabels with labels of the template", "the selector is empty, and Kubernetes refuses it")
		return
	}
	if matches.Matches(labels.Set(texts(o.value, with(path, "metadata", "labels")...))) {
		return
	}
	at = append(at, differing(selector, texts(o.value, with(path, "metadata", "labels")...))...)
	c.wrong(at, "give the template and the selector the same labels", "the selector does not match the labels of the template, and Kubernetes refuses it")
}

// differing is the path, within a selector, of the label that a template does not have.
func differing(selector map[string]any, have map[string]string) []string {
	wanted := texts(selector, "matchLabels")
	for _, key := range sortedKeys(wanted) {
		if have[key] != wanted[key] {
			return []string{"matchLabels", key}
		}
	}
	return nil
}

// selectorOf reads a selector with matchLabels and matchExpressions.
func (c *checker) selectorOf(value map[string]any, path []string) (labels.Selector, bool) {
	written, err := json.Marshal(value)
	if err != nil {
		return nil, false
	}
	selector := &metav1.LabelSelector{}
	if json.Unmarshal(written, selector) != nil {
		return nil, false // Its fields are of other types, which is told already.
	}
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		c.wrong(path, "correct keys, operators and values", "is no selector that Kubernetes takes")
		return nil, false
	}
	return matches, true
}

// mounts judges whether the volumes are there that a container mounts.
func (c *checker) mounts(container map[string]any, volumes map[string]bool, path []string) {
	mounted := map[string]bool{}
	for i, mount := range list(container, "volumeMounts") {
		at := with(path, "volumeMounts", strconv.Itoa(i))
		if name := text(mount, "name"); name != "" && !volumes[name] {
			hint := "add it to volumes, or remove the mount"
			if near := nearest(name, sortedKeys(volumes)); near != "" {
				hint = "did you mean " + near + "?"
			}
			c.wrong(with(at, "name"), hint, "there is no volume %q", name)
		}
		if place := text(mount, "mountPath"); place != "" {
			if mounted[place] {
				c.wrong(with(at, "mountPath"), "mount it elsewhere", "two volumes are mounted at %.63q", place)
			}
			mounted[place] = true
		}
	}
}

// resources judges requests by limits.
func (c *checker) resources(container map[string]any, path []string) {
	requests, _ := dig(container, "resources", "requests").(map[string]any)
	limits, _ := dig(container, "resources", "limits").(map[string]any)
	for _, name := range sortedKeys(requests) {
		request, ok := quantityOf(requests[name])
		limit, limited := quantityOf(limits[name])
		if ok && limited && request.Cmp(limit) > 0 {
			c.wrong(with(path, "resources", "requests", name), "lower the request, or raise the limit", "%s of %s are requested, and the limit is %s", request.String(), name, limit.String())
		}
	}
}

func quantityOf(value any) (resource.Quantity, bool) {
	written, ok := value.(string)
	if number, isNumber := value.(json.Number); isNumber {
		written, ok = number.String(), true
	}
	if !ok {
		return resource.Quantity{}, false
	}
	quantity, err := resource.ParseQuantity(written)
	return quantity, err == nil
}

func wholeNumber(value any) (int64, bool) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	whole, err := number.Int64()
	return whole, err == nil
}
