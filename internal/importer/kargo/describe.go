package kargo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// knobs is the document of versions that no repository holds.
const knobs = "knobs"

// stageType is the type of the assets that Stages become.
const stageType = `edition = "2023";

package kargo.v1;

// Stage is a Stage of Kargo, with the versions that its environment has.
message Stage {
  string project = 1;
  string name = 2;
  repeated Version versions = 3;
  // Argo CD's Applications that a promotion had synced.
  repeated string applications = 4;
  // The steps that delivery does not do, as JSON.
  string steps = 5;
}

// Version is that of one application of delivery.
message Version {
  string application = 1;
  // The name of the version; empty: it has none.
  string version = 2;
}
`

// program makes an asset of each Stage.
const program = `# An asset of each Stage, with the versions that its environment has.
def generate(ctx):
    said = json("stages.json")
    return [item(said["project"], s) for s in said["stages"]]

def item(project, s):
    versions = [kargo.v1.Version(application = v["application"], version = field(v["file"], v["path"])) for v in s["versions"]]
    return asset("stage/" + s["id"], kargo.v1.Stage(project = project, name = s["name"], versions = versions,
        applications = s["applications"], steps = s["steps"]))

# field is what a document has at a path; without it the version is not known.
def field(file, parts):
    value = json(file) if file.endswith(".json") else yaml(file)
    for part in parts:
        if type(value) == "list" and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif type(value) == "dict" and part in value:
            value = value[part]
        else:
            return ""
    return str(value) if value != None else ""
`

// row is a Stage in stages.json.
type row struct {
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Versions     []heldVersion `json:"versions"`
	Applications []string      `json:"applications"`
	Steps        string        `json:"steps"`
}

// heldVersion says where a version stands.
type heldVersion struct {
	Application string   `json:"application"`
	File        string   `json:"file"`
	Path        []string `json:"path"`
}

// describe writes the partition.
func (r *reading) describe() error {
	r.documents.name()
	rows, err := r.rows()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{"project": r.project, "stages": rows}, "", "  ")
	if err != nil {
		return err
	}
	r.Files = map[string][]byte{"types/kargo/v1/stage.proto": []byte(stageType), "stages.star": []byte(program), "stages.json": append(text, '\n')}
	applications := r.applications()
	sources, inputs := r.sources(applications)
	definition := map[string]any{
		"types": map[string]any{"dir": "types"}, "sources": sources,
		"generate": map[string]any{"assets": map[string]any{"starlark": "stages.star", "from": inputs}},
	}
	if len(applications) > 0 {
		definition["delivery"] = applications
	}
	var made bytes.Buffer
	encoder := yaml.NewEncoder(&made)
	encoder.SetIndent(2)
	if err := encoder.Encode(definition); err != nil {
		return err
	}
	r.Definition = made.String()
	if len(r.programs) > 0 {
		maps.Copy(r.Files, r.programs.Files())
		r.ForOperator = func(partition string) map[string][]byte {
			return map[string][]byte{"operator/external-checks.yaml": r.programs.ExternalChecks(partition)}
		}
		r.Hints = append(r.Hints, r.programs.Hint())
	}
	r.Read = append(r.Read, fmt.Sprintf("%d Warehouses with %d artifacts, %d Stages, %d tasks", len(r.warehouses), len(r.artifacts()), len(r.stages), len(r.tasks)))
	r.Read = append(r.Read, r.shares()...)
	return r.describeKnobs()
}

func (r *reading) artifacts() (list []*artifact) {
	for _, w := range r.warehouses {
		list = append(list, w.artifacts...)
	}
	return list
}

// eachEnvironment calls read for the Stages that have versions of an artifact.
func (r *reading) eachEnvironment(a *artifact, read func(*stage, *request)) {
	for _, s := range r.stages {
		if q := s.request(a.warehouse.object.name); q != nil && !s.isControlFlow() {
			read(s, q)
		}
	}
}

// describeKnobs writes what the document of versions begins with, and says what is to be done.
func (r *reading) describeKnobs() error {
	held := map[string]map[string]any{}
	for _, a := range r.artifacts() {
		isUsed := false
		r.eachEnvironment(a, func(s *stage, _ *request) {
			isUsed = true
			if w := s.writes[a]; w == nil {
				name := segment(s.name)
				if held[name] == nil {
					held[name] = map[string]any{}
				}
				held[name][a.name] = map[string]string{"digest": "", "version": ""}
			} else if a.isMutable && w.digest == "" {
				r.wrong(w.step, "step of the Stage "+s.name, "one tag is another image each time, and the file gets its name alone: have the step set the digest as well")
			}
		})
		if !isUsed {
			r.leave(a.node, "the artifact "+a.repository, "no Stage with steps requests freight of its Warehouse", a.node)
		}
	}
	if len(held) > 0 {
		text, err := json.MarshalIndent(held, "", "  ")
		if err != nil {
			return err
		}
		r.Files["documents/knobs.json"] = append(text, '\n')
		r.Hints = append(r.Hints, "write the versions that these Stages have into documents/knobs.json, then: lehr document create knobs --file documents/knobs.json --reason REASON")
	}
	r.hintRepositories()
	r.Hints = append(r.Hints,
		"no plugin pushes the type kargo.v1.Stage: an environment counts as good once one does, or once you name assets of its production: add what Argo CD syncs, as lehr import argocd or docs/use/kubernetes.md has it, and write it into assets",
		"delivery promotes as soon as the partition is served, also in mode observe: take the promotion policies out of Kargo first, or say lehr delivery pause")
	return nil
}

// hintRepositories says what the operator has to list.
func (r *reading) hintRepositories() {
	hosts := map[string]string{}
	for _, s := range r.stages {
		for _, w := range s.writes {
			if s.pullRequest != "" && w.document != nil {
				hosts[s.pullRequest] = w.document.repository
			}
		}
	}
	var repositories []string
	for _, d := range r.documents.list {
		repositories = append(repositories, d.repository)
	}
	slices.Sort(repositories)
	for _, repository := range slices.Compact(repositories) {
		r.Hints = append(r.Hints, "give the server a token that may push to "+repository+", as the variable "+tokenVariable+", and list it for this partition (docs/operate/secrets.md)")
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		r.Hints = append(r.Hints, fmt.Sprintf("list the git host %s of %s under githosts, for its pull requests (docs/operate/versions.md)", name, hosts[name]))
	}
}

func (r *reading) sources(applications map[string]any) (sources map[string]any, from []string) {
	sources = map[string]any{"stages": map[string]any{"dir": ".", "files": []string{"stages.json"}}}
	from = []string{"stages"}
	for _, a := range r.artifacts() {
		if _, ok := applications[a.name]; ok {
			a.source["file"] = a.name + ".json"
			sources["versions-"+a.name] = a.source
		}
		r.eachEnvironment(a, func(s *stage, _ *request) {
			if s.writes[a] == nil {
				sources[knobs] = map[string]any{"document": knobs}
			}
		})
	}
	if sources[knobs] != nil {
		from = append(from, knobs)
	}
	for _, d := range r.documents.list {
		source := map[string]any{"git": d.repository, "branch": d.branch, "document": d.file}
		if strings.HasPrefix(d.repository, "https://") {
			source["token"] = map[string]any{"env": tokenVariable}
		}
		sources[d.name], from = source, append(from, d.name)
	}
	return sources, from
}

// tokenVariable is the server's, with the token for repositories.
const tokenVariable = "GIT_TOKEN"

func (r *reading) rows() ([]row, error) {
	rows := []row{}
	for _, s := range r.stages {
		if s.isControlFlow() {
			continue
		}
		made := row{ID: segment(s.name), Name: s.name, Versions: []heldVersion{}, Applications: append([]string{}, s.apps...)}
		for _, a := range r.artifacts() {
			if s.request(a.warehouse.object.name) == nil {
				continue
			}
			document, pointer, _ := s.fieldOf(a)
			file := knobs + "/" + knobs + ".json"
			if w := s.writes[a]; w != nil {
				file = document + "/" + path.Base(w.document.file)
			}
			made.Versions = append(made.Versions, heldVersion{a.name, file, pathOf(pointer)})
		}
		var steps []map[string]any
		for _, k := range s.kept {
			if !k.isDone {
				steps = append(steps, k.content)
			}
		}
		if len(steps) > 0 {
			text, err := json.Marshal(steps)
			if err != nil {
				return nil, err
			}
			made.Steps = string(text)
		}
		rows = append(rows, made)
	}
	return rows, nil
}

// pathOf are the parts of a path of fields.
func pathOf(pointer string) (parts []string) {
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		parts = append(parts, strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~"))
	}
	return parts
}

// fieldOf is where a Stage has the version of an artifact.
func (s *stage) fieldOf(a *artifact) (document, pointer, digest string) {
	if w := s.writes[a]; w != nil {
		return w.document.name, w.pointer, w.digest
	}
	place := "/" + segment(s.name) + "/" + a.name
	return knobs, place + "/version", place + "/digest"
}

// applications are those of delivery: one for each artifact, with the environments that have it.
func (r *reading) applications() map[string]any {
	made := map[string]any{}
	for _, a := range r.artifacts() {
		environments := &yaml.Node{Kind: yaml.MappingNode}
		r.eachEnvironment(a, func(s *stage, q *request) {
			var value yaml.Node
			_ = value.Encode(r.environment(s, q, a)) // Maps of texts, numbers and nodes always encode.
			environments.Content = append(environments.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: segment(s.name)}, &value)
		})
		if len(environments.Content) > 0 {
			made[a.name] = map[string]any{"versions": "versions-" + a.name, "order": a.order, "environments": environments}
		}
	}
	return made
}

// environment is a Stage as that of an application.
func (r *reading) environment(s *stage, q *request, a *artifact) map[string]any {
	document, pointer, digest := s.fieldOf(a)
	set := map[string]any{"document": document, "field": pointer}
	if digest != "" {
		set["digest"] = digest
	}
	if s.pullRequest != "" && s.writes[a] != nil {
		set["pull_request"] = s.pullRequest
	}
	// Kargo leaves a Stage as it is when a verification fails.
	value := map[string]any{"set": set, "assets": "id == " + strconv.Quote("stage/"+segment(s.name)), "on_bad": "stay"}
	if verify := verifications(s); len(verify.Content) > 0 {
		value["verify"] = verify
	}
	if constraints := constraintsOf(s, q, a); len(constraints.Content) > 0 {
		value["constraints"] = constraints
	}
	return value
}

// add appends a pair to a mapping, whose order is that of the file.
func add(mapping *yaml.Node, name string, content any) {
	var node yaml.Node
	_ = node.Encode(content) // Maps of texts, numbers and lists always encode.
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &node)
}

func verifications(s *stage) *yaml.Node {
	made := &yaml.Node{Kind: yaml.MappingNode}
	for _, v := range s.verify {
		content := map[string]any{"http": v.http}
		switch {
		case len(v.command) > 0:
			content = map[string]any{"command": v.command}
		case v.http == "":
			add(made, v.name, nil)
			continue
		}
		if v.timeout != "" {
			content["timeout"] = v.timeout
		}
		add(made, v.name, content)
	}
	return made
}

// constraintsOf are what must let a version in; people are asked when all else does.
func constraintsOf(s *stage, q *request, a *artifact) *yaml.Node {
	made := &yaml.Node{Kind: yaml.MappingNode}
	for i, g := range q.groups {
		name := "depends-on"
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		content := map[string]any{"depends_on": g.names}
		if g.any {
			content["any"] = true
		}
		if g.soak != "" {
			content["stable"] = g.soak
		}
		add(made, name, content)
	}
	if len(a.ignored) > 0 {
		var entries []map[string]any
		for _, tag := range a.ignored {
			entries = append(entries, map[string]any{"version": tag, "reason": "the Warehouse ignored this tag"})
		}
		add(made, "ignored", map[string]any{"deny": entries})
	}
	verdicts := slices.Clone(s.verdicts)
	if q.isDirect {
		verdicts = slices.Concat(a.warehouse.verdicts, a.verdicts, verdicts)
	}
	for _, v := range verdicts {
		content := map[string]any{"verdict": "outside"}
		if len(v.command) > 0 {
			content = map[string]any{"command": v.command, "timeout": "1m"}
		}
		add(made, segment(v.name), content)
	}
	isProposed := s.proposes && (s.pullRequest == "" || s.writes[a] == nil)
	if !s.isAutomatic || isProposed || q.isDirect && q.warehouse.isManual {
		add(made, "promotion", map[string]any{"judgement": 1})
	}
	return made
}
