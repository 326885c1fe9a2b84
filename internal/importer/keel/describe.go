package keel

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer/adapters"
)

// knobs is the document that holds the versions.
const knobs = "knobs"

// previews is the document that holds the branches that have previews, with their versions.
const previews = "previews"

//go:embed resource.proto
var resourceType []byte

// program makes an asset of each resource.
//
//go:embed resources.star
var program []byte

// described is resources.json, which the program reads.
type described struct {
	Application    string              `json:"application"`
	ServiceAccount string              `json:"service_account"`
	Resources      []row               `json:"resources"`
	Objects        []objectRow         `json:"objects"`
	Previews       []map[string]string `json:"previews"`
}

// describe writes the partition.
func (r *reading) describe() error {
	said := described{Application: r.application, ServiceAccount: r.serviceAccount, Resources: []row{}, Objects: []objectRow{}, Previews: []map[string]string{}}
	rollouts, objects := map[string]any{}, 0
	for _, e := range r.environments {
		rows, err := e.rows()
		if err != nil {
			return err
		}
		said.Resources = append(said.Resources, rows...)
		for _, o := range e.objects {
			said.Objects = append(said.Objects, objectRow{segment(e.name), o.cluster, o.fields, o.labels, append([]image{}, o.images...)})
			objects++
		}
		for _, made := range e.resources {
			if len(made.stages) > 0 {
				rollouts[rolloutName(e, made)] = e.rolloutOf(made, assetIDs(e, made))
			}
		}
	}
	for _, p := range r.previews {
		said.Previews = append(said.Previews, map[string]string{"name": p.name, "starts_with": p.startsWith, "environment": segment(p.environment)})
	}
	resources, err := json.MarshalIndent(said, "", "  ")
	if err != nil {
		return err
	}
	r.Files = r.programs.Files()
	maps.Copy(r.Files, map[string][]byte{"types/keel/v1/resource.proto": resourceType, "resources.star": program, "resources.json": append(resources, '\n')})
	applications := r.applications()
	from := []string{"resources", knobs}
	if len(r.previews) > 0 {
		from = append(from, previews)
	}
	definition := map[string]any{
		"types":    map[string]any{"dir": "types"},
		"sources":  r.sources(),
		"generate": map[string]any{"assets": map[string]any{"starlark": "resources.star", "from": from}},
	}
	for section, content := range map[string]map[string]any{"delivery": applications, "rollouts": rollouts, "notifications": r.describeNotifications()} {
		if len(content) > 0 {
			definition[section] = content
		}
	}
	if objects > 0 {
		definition["plugins"] = map[string]any{"lehr.kubernetes.v1.Object": map[string]any{"run": []string{"lehr-kubernetes", "--clusters", "clusters.yaml"}}}
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(definition); err != nil {
		return err
	}
	r.Definition = text.String()
	r.describeOperator()
	r.Read = append(r.Read,
		fmt.Sprintf("%d artifacts, %d environments, %d resources", len(r.artifacts), len(r.environments), r.countResources()),
		fmt.Sprintf("%s values are carried over; without the specs of resources, %s", share(r.carried, r.values), share(r.carried-r.specs, r.values-r.specs)))
	return r.describeDocuments(applications)
}

func (r *reading) countResources() (count int) {
	for _, e := range r.environments {
		count += len(e.resources) + len(e.objects)
	}
	return count
}

// describeOperator has the operator's files written.
func (r *reading) describeOperator() {
	if len(r.programs) == 0 && len(r.targets) == 0 {
		return
	}
	r.ForOperator = func(partition string) map[string][]byte {
		files := map[string][]byte{}
		if len(r.programs) > 0 {
			files["operator/external-checks.yaml"] = r.programs.ExternalChecks(partition)
		}
		if len(r.targets) > 0 {
			files["operator/notifications.yaml"] = r.targetsFor(partition)
		}
		return files
	}
}

// share is a part of a whole, with its percentage rounded down.
func share(part, whole int) string {
	return fmt.Sprintf("%d of %d (%d %%)", part, whole, part*100/max(whole, 1))
}

// describeDocuments writes what the documents begin with, and says how they are made.
func (r *reading) describeDocuments(applications map[string]any) error {
	held := map[string]map[string]string{}
	for _, e := range r.environments {
		for name := range e.places() {
			held[name] = map[string]string{}
			for _, a := range r.artifacts {
				if e.has(a.reference) {
					held[name][segment(a.reference)] = ""
				}
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
	if len(r.previews) > 0 {
		r.Files["documents/previews.json"] = []byte("{}\n")
		r.Hints = append(r.Hints,
			"make the document of previews: lehr document create previews --file documents/previews.json --reason REASON; have builds of branches say lehr document set previews '/BRANCH={\"ARTIFACT\": \"VERSION\"}', and lehr document unset previews /BRANCH once the branch is merged (a / in the name of a branch is written ~1)")
	}
	if len(r.programs) > 0 {
		r.Hints = append(r.Hints, r.programs.Hint())
	}
	if slices.Contains(r.programs, adapters.RunPipeline) {
		r.Hints = append(r.Hints, "have run-spinnaker-pipeline reach the Gate of Spinnaker: its head says where it looks, and where it keeps what it started")
	}
	if len(r.targets) > 0 {
		r.Hints = append(r.Hints, "have the operator copy operator/notifications.yaml into the file of --notifications: until then nobody is told")
	}
	for _, a := range r.artifacts {
		name := segment(a.reference)
		if _, ok := applications[name]; !ok {
			r.Hints = append(r.Hints, fmt.Sprintf("%s:%d: no resource of an environment names the artifact %s: its versions are listed, and nothing promotes them", r.file, a.node.Line, a.reference))
		}
		if a.kind == "git" {
			continue
		}
		r.Hints = append(r.Hints, fmt.Sprintf(
			"have the build of %s tell of its versions: lehr document create builds-%s --file FILE, then lehr document set builds-%s '/VERSION={…}'", a.name, name, name))
	}
	if slices.ContainsFunc(r.environments, func(e *environment) bool { return len(e.resources) > 0 }) {
		r.Hints = append(r.Hints, "no plugin of Lehr's pushes the kinds of Keel: an environment counts as good once one does, or once resources.star makes assets of other types")
	}
	if slices.ContainsFunc(r.environments, func(e *environment) bool { return len(e.objects) > 0 }) {
		r.Hints = append(r.Hints, "list the clusters, by the names that accounts have, in the operator's file of clusters, and write its path into plugins (docs/use/clusters.md)")
	}
	return nil
}

func (r *reading) sources() map[string]any {
	sources := map[string]any{
		knobs:       map[string]any{"document": knobs},
		"resources": map[string]any{"dir": ".", "files": []string{"resources.json"}},
	}
	if len(r.previews) > 0 {
		sources[previews] = map[string]any{"document": previews}
	}
	for _, a := range r.artifacts {
		source := map[string]any{"pushed": "builds-" + segment(a.reference), "file": segment(a.reference) + ".json"}
		if a.kind == "git" {
			source = map[string]any{"git_tags": a.address(), "file": segment(a.reference) + ".json"}
		}
		if a.branch != "" {
			source["branch"] = a.branch
		}
		if a.branches != "" {
			source["branches"] = a.branches
		}
		if len(a.statuses) > 0 {
			source["status"] = a.statuses
		}
		if a.isRequested {
			source["pull_requests"] = true
		}
		source["order"] = a.order()
		sources["versions-"+segment(a.reference)] = source
	}
	return sources
}
