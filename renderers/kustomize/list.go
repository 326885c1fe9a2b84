package main

import (
	"encoding/json"
	"io"
	"path"

	"lehr.dev/sdk/generator/kubernetes"
)

// listing is the argument with which lehr import has the program say what a folder builds.
const listing = "list-objects"

// question is what lehr import asks, as JSON on standard input.
type question struct {
	// Files by path, from one top.
	Files map[string][]byte `json:"files"`
	// Folder of the kustomization, or of manifests without one.
	Folder string `json:"folder"`
	// Substitute are variables, as NAME=VALUE.
	Substitute []string `json:"substitute"`
}

// answer is what is said, as JSON on standard output.
type answer struct {
	Objects  []builtObject        `json:"objects"`
	Findings []kubernetes.Finding `json:"findings"`
	// Unset are variables without a value and a default; what takes them is not among Objects.
	Unset []string `json:"unset"`
}

type builtObject struct {
	Text string `json:"text"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// list answers one question. It says with findings what is wrong; the exit code is 1 only
// where the question itself is none.
func list(from io.Reader, to io.Writer) int {
	var q question
	if err := json.NewDecoder(from).Decode(&q); err != nil {
		return 1
	}
	var a answer
	variables, err := readSubstitution(q.Substitute)
	if err != nil {
		a.Findings = []kubernetes.Finding{{Message: err.Error()}}
	} else {
		folder := path.Clean(q.Folder)
		plainFolders(q.Files, folder)
		t := &tree{files: q.Files, variables: variables}
		manifests, findings := t.render(folder)
		a.Findings, a.Unset = append(findings, t.leftOut...), t.unset
		for _, m := range manifests {
			a.Objects = append(a.Objects, builtObject{string(m.Text), m.File, m.Line})
		}
	}
	if json.NewEncoder(to).Encode(a) != nil {
		return 1
	}
	return 0
}
