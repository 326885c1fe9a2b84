package keel

import "go.yaml.in/yaml/v3"

// preview makes the resources of an environment once more for each branch of a kind.
type preview struct {
	node             *yaml.Node
	name, startsWith string
	environment      string
}

func (r *reading) readPreview(node *yaml.Node) {
	p := preview{node: node}
	const judged = "a preview has no environment of delivery: nothing is promoted, so nothing is verified and told"
	r.eachKey(node, "the preview", map[string]func(*yaml.Node){
		"baseEnvironment": r.text(&p.environment),
		"branch": func(value *yaml.Node) {
			r.eachKey(value, "branch", map[string]func(*yaml.Node){
				"name": r.text(&p.name), "startsWith": r.text(&p.startsWith),
				"regex": r.leaveAll("previewEnvironments: branch: regex", "the program that makes previews knows no regular expressions: have builds tell of the right branches alone"),
			})
		},
		"verifyWith": r.leaveAll("previewEnvironments: verifyWith", judged), "notifications": r.leaveAll("previewEnvironments: notifications", judged),
	})
	r.previews = append(r.previews, p)
}

// checkPreviews refuses previews of environments that there are not.
func (r *reading) checkPreviews() {
	for _, p := range r.previews {
		if r.find(p.environment) == nil {
			r.refuse(p.node, "a preview is of the environment %q, which the config does not have", p.environment)
		}
	}
}
