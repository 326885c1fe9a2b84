package keel

import (
	"cmp"
	"encoding/json"
	"slices"
)

// row is a resource.
type row struct {
	ID          string `json:"id"`
	Environment string `json:"environment"`
	Artifact    string `json:"artifact"`
	Kind        string `json:"kind"`
	Spec        string `json:"spec"`
	// Region that it is in, where regions follow each other.
	Region string `json:"region"`
	// After are the assets that come before it.
	After []string `json:"after"`
}

// objectRow is an object of Kubernetes.
type objectRow struct {
	Environment string            `json:"environment"`
	Cluster     string            `json:"cluster"`
	Object      map[string]any    `json:"object"`
	Labels      map[string]string `json:"labels"`
	Images      []image           `json:"images"`
}

// assetID is the id of a resource's asset.
func assetID(e *environment, made resource) string { return segment(e.name) + "/" + segment(made.id) }

// assetIDs are those of a resource's assets: one, or one for each region.
func assetIDs(e *environment, made resource) (ids []string) {
	if len(made.regions) == 0 {
		return []string{assetID(e, made)}
	}
	for _, region := range made.regions {
		ids = append(ids, assetID(e, made)+"/"+segment(region))
	}
	return ids
}

// selectAssets is an expression that selects assets by their ids.
func selectAssets(ids []string) string {
	quoted, _ := json.Marshal(ids) // Texts always encode.
	return "id in " + string(quoted)
}

// rolloutName is that of the rollout of a resource.
func rolloutName(e *environment, made resource) string {
	return segment(segment(e.name) + "-" + segment(made.id))
}

// rows are the resources of the environment, and those of what comes after it.
func (e *environment) rows() (rows []row, err error) {
	images := map[string][]string{}
	for _, made := range e.resources {
		if made.kind == imageKind {
			images[made.reference()] = append(images[made.reference()], assetIDs(e, made)...)
		}
	}
	add := func(made resource, id, environment, reference, region string, before []string) {
		var spec map[string]any
		if err = cmp.Or(err, made.spec.Decode(&spec)); err != nil {
			return
		}
		if _, ok := spec["locations"]; !ok && e.locations != nil {
			var locations any
			err = e.locations.Decode(&locations)
			spec["locations"] = locations
		}
		if region != "" {
			inRegion(spec, region)
		}
		text, encodeErr := json.Marshal(spec)
		err = cmp.Or(err, encodeErr)
		rows = append(rows, row{id, environment, segment(reference), made.kind, string(text), region, append([]string{}, before...)})
	}
	for _, made := range e.resources {
		var before []string
		if made.kind != imageKind && made.reference() != "" {
			before = images[made.reference()]
		}
		for i, id := range assetIDs(e, made) {
			region := ""
			if len(made.regions) > 0 {
				region = made.regions[i]
			}
			add(made, id, segment(e.name), made.reference(), region, before)
		}
	}
	for _, made := range e.after {
		for _, reference := range e.references() {
			add(made, e.afterID(made, reference), segment(e.name)+after, reference, "", nil)
		}
	}
	return rows, err
}

// references are the artifacts that the environment has.
func (e *environment) references() (list []string) {
	for _, made := range e.resources {
		list = append(list, made.references...)
	}
	for _, o := range e.objects {
		list = append(list, o.references...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// afterID is the id of what comes after the environment, for one of its artifacts.
func (e *environment) afterID(made resource, reference string) string {
	return segment(e.name) + after + "/" + segment(made.id) + "-" + segment(reference)
}

// places are the names of the environments of delivery that it becomes.
func (e *environment) places() map[string]bool {
	if len(e.after) == 0 {
		return map[string]bool{segment(e.name): true}
	}
	return map[string]bool{segment(e.name): true, segment(e.name) + after: true}
}
