package flux

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"path"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/generator/kubernetes"
)

// built is what lehr-kustomize says of a folder.
type built struct {
	Objects []struct {
		Text string `json:"text"`
		File string `json:"file"`
		Line int    `json:"line"`
	} `json:"objects"`
	Findings []kubernetes.Finding `json:"findings"`
	// Unset are variables without a value and a default; what takes them is not among Objects.
	Unset []string `json:"unset"`
}

// list has the program build a folder, by files as the renderer finds them.
func (f *fleet) list(folder string, variables []string) (built, error) {
	files := maps.Clone(f.overlays)
	for _, c := range f.checkouts() {
		for name, text := range c.files {
			files[path.Join(c.mount, name)] = text
		}
	}
	f.hideSystem(files)
	var answer built
	question, err := json.Marshal(map[string]any{"files": files, "folder": folder, "substitute": variables})
	if err != nil {
		return answer, fault.New(fault.Internal, "asking lehr-kustomize: %w", err)
	}
	command := exec.CommandContext(f.ctx, f.program, "list-objects")
	command.Env, command.Stdin = []string{}, bytes.NewReader(question)
	var said, complaint bytes.Buffer
	command.Stdout, command.Stderr = &said, &complaint
	err = command.Run()
	if err == nil {
		err = json.Unmarshal(said.Bytes(), &answer)
	}
	if err != nil {
		return answer, fault.New(fault.Unavailable, "building %s: lehr-kustomize: %w: %.300s", folder, err, complaint.String()).
			WithHint("lehr-kustomize beside lehr must be of the same version: build or install both anew")
	}
	return answer, nil
}

// hideSystem takes Flux itself out of the folder of the cluster: its components are often not
// in the repository yet, and do not become intent.
func (f *fleet) hideSystem(files map[string][]byte) {
	root := path.Join(f.main.mount, f.path)
	for name := range files {
		if strings.HasPrefix(name, path.Join(root, systemFolder)+"/") {
			delete(files, name)
		}
	}
	name := path.Join(root, "kustomization.yaml")
	if text, ok := files[name]; ok {
		files[name] = withoutSystem(text)
	}
}

// withoutSystem is a kustomization without the line that names flux-system.
func withoutSystem(text []byte) []byte {
	var kept []string
	for line := range strings.Lines(string(text)) {
		word := strings.Trim(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "-")), `"'`)
		if strings.HasPrefix(strings.TrimSpace(line), "-") && path.Clean(word) == systemFolder {
			continue
		}
		kept = append(kept, line)
	}
	return []byte(strings.Join(kept, ""))
}

func (f *fleet) checkouts() []*checkout {
	all := []*checkout{f.main}
	for _, name := range sortedKeys(f.others) {
		all = append(all, f.others[name])
	}
	return all
}
