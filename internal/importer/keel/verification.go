package keel

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer/adapters"
)

// verification is one by its name; without a command its result is handed in.
type verification struct {
	name    string
	command []string
}

// longest is how long a verification may take at most; Keel sets no limit.
const longest = "1h"

func (r *reading) readVerification(e *environment, node *yaml.Node) {
	kind := attribute(node, "type")
	if !named.MatchString(segment(kind)) {
		r.refuse(node, "the verification has no type")
		return
	}
	v := verification{name: segment(kind)}
	for count := 2; slices.ContainsFunc(e.verify, func(other verification) bool { return other.name == v.name }); count++ {
		v.name = fmt.Sprintf("%.60s-%d", segment(kind), count)
	}
	if kind == "test-container" && (attribute(node, "image") != "" || attribute(node, "repository") != "") {
		v.command = r.readTestContainer(node)
	} else {
		r.leaveBut(node, "type", "verification "+v.name,
			"Lehr runs no such verification: have what runs it call lehr delivery verdict "+segment(e.name)+" "+v.name+" good|bad --reason REASON, or name a command or an http")
	}
	e.verify = append(e.verify, v)
}

// readTestContainer has a program run the container.
func (r *reading) readTestContainer(node *yaml.Node) []string {
	var taken, image, repository, tag, account, region, application, entrypoint string
	r.eachKey(node, "test-container", map[string]func(*yaml.Node){
		"type": r.text(&taken), "image": r.text(&image), "repository": r.text(&repository), "tag": r.text(&tag),
		"application": r.text(&application), "entrypoint": r.text(&entrypoint),
		"location": func(value *yaml.Node) {
			r.eachKey(value, "location", map[string]func(*yaml.Node){"account": r.text(&account), "region": r.text(&region)})
		},
	})
	if image == "" {
		if tag == "" {
			tag = "latest"
		}
		image = repository + ":" + tag
	}
	if application == "" {
		application = r.application
	}
	arguments := []string{"--image", image}
	for _, option := range [][2]string{{"--entrypoint", entrypoint}, {"--account", account}, {"--region", region}, {"--application", application}} {
		if option[1] != "" {
			arguments = append(arguments, option[0], option[1])
		}
	}
	r.programs.Add(adapters.RunContainer)
	return adapters.RunContainer.Command(arguments...)
}

// describeVerify is verify of an environment: names alone, or with what Lehr runs.
func (e *environment) describeVerify() any {
	made := &yaml.Node{Kind: yaml.MappingNode}
	for _, v := range e.verify {
		value := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
		if len(v.command) > 0 {
			_ = value.Encode(map[string]any{"command": v.command, "timeout": longest}) // Texts always encode.
		}
		made.Content = append(made.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: v.name}, &value)
	}
	return made
}

// after is the environment of what comes once another has been verified.
const after = "-post-deploy"

// readAfter makes a resource of what Keel does once the environment is verified.
func (r *reading) readAfter(e *environment, node *yaml.Node) {
	kind := attribute(node, "type")
	if segment(kind) == "" {
		r.refuse(node, "what is done after a deployment has no type")
		return
	}
	if !r.isJSON(node) {
		return
	}
	r.dropSecrets(node, "")
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "type" {
			r.keep(node.Content[i+1])
		} else {
			r.hold(node.Content[i+1])
		}
	}
	made := resource{kind: "post-deploy/" + kind, id: "post-deploy-" + segment(kind), spec: node}
	if slices.ContainsFunc(e.after, func(other resource) bool { return other.id == made.id }) {
		r.refuse(node, "the environment does %s twice after a deployment", kind)
		return
	}
	e.after = append(e.after, made)
}
