package tfroots

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// project is one of atlantis.yaml, as far as it says something that Lehr can keep.
type project struct {
	Name              string   `yaml:"name"`
	Dir               string   `yaml:"dir"`
	Workspace         string   `yaml:"workspace"`
	TerraformVersion  string   `yaml:"terraform_version"`
	Distribution      string   `yaml:"terraform_distribution"`
	DependsOn         []string `yaml:"depends_on"`
	Workflow          string   `yaml:"workflow"`
	OrderGroup        int      `yaml:"execution_order_group"`
	ApplyRequirements []string `yaml:"apply_requirements"`
}

func (p project) folder() string { return path.Clean(filepath.ToSlash(p.Dir)) }

// readAtlantis reads the projects of atlantis.yaml at the top; none: there is no such file.
func (l *layout) readAtlantis() ([]project, error) {
	var text []byte
	var err error
	for _, name := range []string{"atlantis.yaml", "atlantis.yml"} {
		if text, err = files.ReadForeign(filepath.Join(l.top, name), mostFile); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var file struct {
		Version   any                  `yaml:"version"`
		Projects  []project            `yaml:"projects"`
		Workflows map[string]yaml.Node `yaml:"workflows"`
	}
	if err == nil {
		err = yaml.NewDecoder(bytes.NewReader(text)).Decode(&file)
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading atlantis.yaml: %w", err).WithHint("mend the file, or move it away")
	}
	for i := range file.Projects {
		p := &file.Projects[i]
		if p.Dir == "" || !filepath.IsLocal(p.folder()) {
			return nil, fault.New(fault.Invalid, "atlantis.yaml: project %d has the dir %q", i+1, p.Dir).WithHint("write the folder of the root module, below atlantis.yaml's")
		}
		if p.Workspace == "" {
			p.Workspace = "default"
		}
		if _, ok := l.folders[p.folder()]; !ok && !l.hasTerragrunt(p.folder()) {
			l.leave("atlantis.yaml: the project in "+p.Dir, errNoModule.Error()+" lies there", !strings.ContainsAny(p.Dir, "*?"))
		}
	}
	if len(file.Projects) > 0 {
		l.Read = append(l.Read, "atlantis.yaml: "+count(len(file.Projects), "project"))
	}
	return file.Projects, nil
}

// addProjects gives the root modules what atlantis.yaml says of them.
func (l *layout) addProjects(projects []project) {
	find := func(p project) *root {
		workspace := p.Workspace
		if workspace == "default" {
			workspace = ""
		}
		at := slices.IndexFunc(l.roots, func(r *root) bool { return r.at() == p.folder() && (r.workspace == workspace || r.unit != nil) })
		if at < 0 {
			return nil
		}
		return l.roots[at]
	}
	byName := map[string]*root{}
	for _, p := range projects {
		if r := find(p); r != nil {
			byName[p.Name] = r
		}
	}
	for _, p := range projects {
		r := find(p)
		if r == nil {
			continue
		}
		for _, name := range p.DependsOn {
			if other := byName[name]; other != nil && other != r {
				r.dependOn(other.id)
			} else {
				l.leave("atlantis.yaml: "+r.id+" depends on "+name, "no project of that name is taken over", true)
			}
		}
		l.tellProject(r, p)
	}
}

// tellProject says what of a project has no place in a root module's asset.
func (l *layout) tellProject(r *root, p project) {
	place := "atlantis.yaml: " + r.id
	if p.TerraformVersion != "" {
		r.engine = l.engineOf(p.Distribution, strings.TrimPrefix(p.TerraformVersion, "v"))
	}
	if p.Workflow != "" {
		l.leave(place+": the workflow "+p.Workflow, "Lehr plans and applies by itself: its steps are not run, and files of values and settings that it names belong into with", true)
	}
	if p.OrderGroup != 0 {
		l.leave(place+": execution_order_group", "order comes from edges: the states that are read, and depends_on", false)
	}
	if len(p.ApplyRequirements) > 0 {
		l.addHint("apply_requirements of Atlantis are approvals of changes in git: protect the branch, and see approvals.md for approvals of what is destructive")
	}
}

// engineOf names the engine of a version that the layout asks for.
func (l *layout) engineOf(distribution, version string) string {
	name := segment(cmpOr(distribution, "terraform") + "-" + version)
	l.versions[name] = version
	return name
}
