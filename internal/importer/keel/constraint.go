package keel

import (
	"encoding/json"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer/adapters"
)

// constraint is one by its name, as lehr.yaml has it.
type constraint struct {
	name  string
	value map[string]any
	// isStateless: Keel asks it before those that ask somebody.
	isStateless bool
}

func (r *reading) readConstraint(e *environment, node *yaml.Node) {
	kind := attribute(node, "type")
	add := func(value map[string]any) {
		name := segment(kind)
		for _, other := range e.constraints {
			if other.name == name {
				r.refuse(node, "the environment has two constraints of the type %s, of which Keel keeps one state", kind)
			}
		}
		e.constraints = append(e.constraints, constraint{name, value, kind == "allowed-times"})
	}
	var taken string
	switch kind {
	case "depends-on":
		on := dependency{node: node}
		r.eachKey(node, "depends-on", map[string]func(*yaml.Node){"type": r.text(&taken), "environment": r.text(&on.name)})
		e.dependsOn = append(e.dependsOn, on)
	case "manual-judgement":
		r.eachKey(node, "manual-judgement", map[string]func(*yaml.Node){
			"type":    r.text(&taken),
			"timeout": r.leaveAll("manual-judgement: timeout", "a judgement waits until somebody decides; an older version is passed by when a newer one comes"),
		})
		add(map[string]any{"judgement": 1})
	case "allowed-times":
		add(r.readTimes(node))
	case "pipeline":
		add(r.readPipeline(node))
	case "canary":
		r.leaveBut(node, "type", "the constraint canary", "what it measures is a configuration of Kayenta, which is not in this file: an environment before "+segment(e.name)+
			" with verify: {NAME: {analysis: VALIDATION}} is a canary of Lehr's (docs/use/delivery.md#analysis-by-the-judge). Until then it waits for lehr delivery verdict "+segment(e.name)+" canary good --reason REASON")
		add(map[string]any{"verdict": "outside"})
	default:
		if !named.MatchString(segment(kind)) {
			r.refuse(node, "the constraint has no type")
			return
		}
		r.wrong(node, "the constraint "+kind, "Keel itself has no such type; it waits for lehr delivery verdict "+segment(e.name)+" "+segment(kind)+" good --reason REASON")
		add(map[string]any{"verdict": "outside"})
	}
}

// readPipeline has a program run the pipeline, once for each version.
func (r *reading) readPipeline(node *yaml.Node) map[string]any {
	var taken, pipeline, retries, timeout string
	var parameters *yaml.Node
	r.eachKey(node, "pipeline", map[string]func(*yaml.Node){
		"type": r.text(&taken), "pipelineId": r.text(&pipeline), "timeout": r.text(&timeout), "retries": r.text(&retries),
		"parameters": func(value *yaml.Node) { parameters = value },
	})
	if pipeline == "" {
		r.refuse(node, "the pipeline has no pipelineId")
	}
	if r.application == "" {
		r.refuse(node, "the config has no application, so nothing says whose pipeline it is")
	}
	arguments := []string{"--application", r.application, "--pipeline", pipeline}
	for _, option := range [][2]string{{"--user", r.serviceAccount}, {"--retries", retries}, {"--timeout", timeout}} {
		if option[1] != "" {
			arguments = append(arguments, option[0], option[1])
		}
	}
	if timeout != "" {
		if _, err := readDuration(timeout); err != nil {
			r.refuse(node, "%v", err)
		}
	}
	if parameters != nil && r.isJSON(parameters) {
		r.dropSecrets(parameters, "")
		if parameters.Kind == yaml.MappingNode && len(parameters.Content) > 0 {
			var values map[string]any
			_ = parameters.Decode(&values) // isJSON has tried it.
			text, _ := json.Marshal(values)
			arguments = append(arguments, "--parameters", string(text))
			r.keep(parameters)
		}
	}
	r.programs.Add(adapters.RunPipeline)
	return map[string]any{"command": adapters.RunPipeline.Command(arguments...), "timeout": "1m", "every": "30s"}
}
