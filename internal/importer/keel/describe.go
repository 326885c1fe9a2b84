package keel

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// knobs is the document that holds the versions.
const knobs = "knobs"

// resourceType is the type of the assets that resources become.
const resourceType = `edition = "2023";

package keel.v1;

// Resource is a resource of a delivery config.
message Resource {
  // The kind, as titus/cluster@v1.
  string kind = 1;
  // The spec, as JSON.
  string spec = 2;
  // The version of its artifact; empty: it has none.
  string version = 3;
  // The application that the config is of.
  string application = 4;
}
`

// program makes an asset of each resource.
const program = `# An asset of each resource, with the version that its environment has.
def generate(ctx):
    versions = json("knobs/knobs.json")
    list = []
    said = json("resources.json")
    for r in said["resources"]:
        version = versions[r["environment"]][r["artifact"]] if r["artifact"] else ""
        list.append(asset(r["id"], keel.v1.Resource(kind = r["kind"], spec = r["spec"], version = version, application = said["application"])))
    return list
`

// row is a resource in resources.json.
type row struct {
	ID          string `json:"id"`
	Environment string `json:"environment"`
	Artifact    string `json:"artifact"`
	Kind        string `json:"kind"`
	Spec        string `json:"spec"`
}

// describe writes the partition.
func (r *reading) describe() error {
	rows, err := r.rows()
	if err != nil {
		return err
	}
	resources, err := json.MarshalIndent(map[string]any{"application": r.application, "resources": rows}, "", "  ")
	if err != nil {
		return err
	}
	r.Files = map[string][]byte{"types/keel/v1/resource.proto": []byte(resourceType), "resources.star": []byte(program), "resources.json": append(resources, '\n')}
	applications := r.applications()
	definition := map[string]any{
		"types":    map[string]any{"dir": "types"},
		"sources":  r.sources(),
		"generate": map[string]any{"assets": map[string]any{"starlark": "resources.star", "from": []string{"resources", knobs}}},
	}
	if len(applications) > 0 {
		definition["delivery"] = applications
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(definition); err != nil {
		return err
	}
	r.Definition = text.String()
	r.Read = append(r.Read,
		fmt.Sprintf("%d artifacts, %d environments, %d resources", len(r.artifacts), len(r.environments), len(rows)),
		fmt.Sprintf("%s values are carried over; without the specs of resources, %s", share(r.carried, r.values), share(r.carried-r.specs, r.values-r.specs)))
	return r.describeDocuments(applications)
}

// share is a part of a whole, with its percentage rounded down.
func share(part, whole int) string {
	return fmt.Sprintf("%d of %d (%d %%)", part, whole, part*100/max(whole, 1))
}

// describeDocuments writes what the documents begin with, and says how they are made.
func (r *reading) describeDocuments(applications map[string]any) error {
	held := map[string]map[string]string{}
	for _, e := range r.environments {
		held[segment(e.name)] = map[string]string{}
		for _, a := range r.artifacts {
			if e.has(a.reference) {
				held[segment(e.name)][segment(a.reference)] = ""
			}
		}
	}
	text, err := json.MarshalIndent(held, "", "  ")
	if err != nil {
		return err
	}
	r.Files["documents/knobs.json"] = append(text, '\n')
	r.Hints = append(r.Hints,
		"write the versions that the environments have into documents/knobs.json, then: lehr document create knobs --file documents/knobs.json --reason REASON")
	for _, a := range r.artifacts {
		name := segment(a.reference)
		if _, ok := applications[name]; !ok {
			r.leave(a.node, "the artifact "+a.reference, "no resource of an environment names it")
			continue
		}
		r.Hints = append(r.Hints, fmt.Sprintf(
			"have the build of %s tell of its versions: lehr document create builds-%s --file FILE, then lehr document set builds-%s '/VERSION={…}'", a.name, name, name))
	}
	r.Hints = append(r.Hints, "no plugin of Lehr's pushes the kinds of Keel: an environment counts as good once one does, or once resources.star makes assets of other types")
	return nil
}

func (r *reading) sources() map[string]any {
	sources := map[string]any{
		knobs:       map[string]any{"document": knobs},
		"resources": map[string]any{"dir": ".", "files": []string{"resources.json"}},
	}
	for _, a := range r.artifacts {
		source := map[string]any{"pushed": "builds-" + segment(a.reference), "file": segment(a.reference) + ".json"}
		if a.branch != "" {
			source["branch"] = a.branch
		}
		if a.status != "" {
			source["status"] = a.status
		}
		source["order"] = a.order()
		if r.isUsed(a) {
			sources["versions-"+segment(a.reference)] = source
		}
	}
	return sources
}

func (r *reading) isUsed(a *artifact) bool {
	for _, e := range r.environments {
		if e.has(a.reference) {
			return true
		}
	}
	return false
}

// assetID is the id of a resource's asset.
func assetID(e *environment, made resource) string { return segment(e.name) + "/" + segment(made.id) }

func (r *reading) rows() ([]row, error) {
	rows := []row{}
	for _, e := range r.environments {
		for _, made := range e.resources {
			var spec map[string]any
			if err := made.spec.Decode(&spec); err != nil {
				return nil, err
			}
			if _, ok := spec["locations"]; !ok && e.locations != nil {
				var locations any
				if err := e.locations.Decode(&locations); err != nil {
					return nil, err
				}
				spec["locations"] = locations
			}
			text, err := json.Marshal(spec)
			if err != nil {
				return nil, err
			}
			made.reference = segment(made.reference)
			rows = append(rows, row{assetID(e, made), segment(e.name), made.reference, made.kind, string(text)})
		}
	}
	return rows, nil
}

// applications are those of delivery: one for each artifact, with the environments that have it.
func (r *reading) applications() map[string]any {
	made := map[string]any{}
	for _, a := range r.artifacts {
		environments := &yaml.Node{Kind: yaml.MappingNode}
		for _, e := range r.environments {
			if e.has(a.reference) {
				var value yaml.Node
				_ = value.Encode(e.delivery(a)) // Maps of texts, numbers and nodes always encode.
				environments.Content = append(environments.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: segment(e.name)}, &value)
			}
		}
		if len(environments.Content) == 0 {
			continue
		}
		made[segment(a.reference)] = map[string]any{"versions": "versions-" + segment(a.reference), "order": a.order(), "environments": environments}
	}
	return made
}

// delivery is the environment as that of an application.
func (e *environment) delivery(a *artifact) map[string]any {
	var ids []string
	for _, made := range e.resources {
		if made.reference == a.reference {
			ids = append(ids, assetID(e, made))
		}
	}
	quoted, _ := json.Marshal(ids) // Texts always encode.
	value := map[string]any{
		"set":    map[string]any{"document": knobs, "field": "/" + segment(e.name) + "/" + segment(a.reference)},
		"assets": "id in " + string(quoted),
	}
	if len(e.verify) > 0 {
		value["verify"] = e.verify
	}
	constraints := &yaml.Node{Kind: yaml.MappingNode}
	add := func(name string, content map[string]any) {
		var node yaml.Node
		_ = node.Encode(content) // As above.
		constraints.Content = append(constraints.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &node)
	}
	// Keel asks what needs no waiting first, so nobody is asked too early.
	var names []string
	for _, on := range e.dependsOn {
		names = append(names, segment(on.name))
	}
	if len(names) > 0 {
		add("depends-on", map[string]any{"depends_on": names})
	}
	for _, c := range e.constraints {
		add(c.name, c.value)
	}
	if len(constraints.Content) > 0 {
		value["constraints"] = constraints
	}
	return value
}
