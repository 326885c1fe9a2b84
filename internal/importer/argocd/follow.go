package argocd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// follow translates Applications, and those that they give, round by round.
func (l *importing) follow(apps []*app) {
	for round := 0; len(apps) > 0; round++ {
		if round == mostRounds {
			l.leave("Applications", fmt.Sprintf("they give others more than %d deep: the others are left out", mostRounds), true)
			return
		}
		var renders []*renderSpec
		for _, a := range apps {
			a.cluster = l.nameCluster(a.Spec.Destination)
			l.translate(l.all, a)
			renders = append(renders, a.made...)
		}
		l.probe(renders)
		count := len(l.apps)
		for _, a := range apps {
			l.takeChildren(a)
		}
		l.expandSets()
		apps = l.apps[count:]
	}
}

// takeChildren takes the resources of Argo CD out of what an Application gives.
func (l *importing) takeChildren(a *app) {
	var kept []*renderSpec
	for _, made := range a.made {
		objects, ok := l.objects[made.name]
		var own []object
		rest := objects[:0:0]
		for _, o := range objects {
			kind := fullKind(o.Fields)
			if strings.HasSuffix(kind, ".argoproj.io") && slices.Contains([]string{"Application", "ApplicationSet", "AppProject"}, strings.TrimSuffix(kind, ".argoproj.io")) {
				head, _ := o.Fields["metadata"].(map[string]any)
				name, _ := head["name"].(string)
				own = append(own, object{kind: kind, name: name, place: a.place + ": given by " + a.String(), fields: o.Fields})
				continue
			}
			rest = append(rest, o)
		}
		for _, o := range own {
			if o.kind == "Application.argoproj.io" {
				l.addApp(o.fields, o.place, a)
			}
		}
		l.sort(slices.DeleteFunc(slices.Clone(own), func(o object) bool { return o.kind == "Application.argoproj.io" }))
		if len(own) > 0 {
			l.objects[made.name] = rest
			omit, _ := made.with["omit"].([]string)
			made.with["omit"] = append(omit, "Application.argoproj.io/*", "ApplicationSet.argoproj.io/*", "AppProject.argoproj.io/*")
		}
		if ok && len(own) > 0 && len(rest) == 0 {
			l.drop(made)
			a.isEmpty = true
			continue
		}
		kept = append(kept, made)
	}
	a.made = kept
}

// drop takes a generator away.
func (l *importing) drop(made *renderSpec) {
	l.all.renders = slices.DeleteFunc(l.all.renders, func(r *renderSpec) bool { return r == made })
	delete(l.objects, made.name)
}

// canProbe says whether all files of a generator are here.
func (l *importing) canProbe(made *renderSpec) bool {
	return l.render != nil && !slices.ContainsFunc(made.from, func(name string) bool {
		return !slices.ContainsFunc(l.all.sources, func(s *sourceSpec) bool {
			return s.name == name && (s.checkout != nil || s.body["dir"] != nil)
		})
	})
}

// probe renders generators of which all files are here. What cannot be rendered is left out,
// and told.
func (l *importing) probe(renders []*renderSpec) {
	renders = slices.DeleteFunc(slices.Clone(renders), func(r *renderSpec) bool { return !l.canProbe(r) })
	l.probeSome(renders)
}

// probeSome renders some together, and by halves where that fails, until it is known which fails.
func (l *importing) probeSome(renders []*renderSpec) {
	if len(renders) == 0 {
		return
	}
	result := l.renderTogether(renders)
	switch {
	case len(result.Problems) == 0:
		for name, objects := range result.Objects {
			l.objects[name] = objects
		}
	case len(renders) == 1:
		l.fail(renders[0], result.Problems)
	default:
		middle := len(renders) / 2
		l.probeSome(renders[:middle])
		l.probeSome(renders[middle:])
	}
}

// renderTogether builds a partition of some generators, from copies.
func (l *importing) renderTogether(renders []*renderSpec) Rendered {
	failed := func(err error) Rendered { return Rendered{Problems: []string{err.Error()}} }
	folder, err := os.MkdirTemp(l.checkouts.folder, "render-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(folder)
	p := l.all.only(renders)
	for _, files := range []map[string][]byte{p.files, p.copies(), {"lehr.yaml": []byte("lehr: v1\npartition: import\n" + p.definition(true))}} {
		for name, text := range files {
			at := filepath.Join(folder, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				return failed(err)
			}
			if err := os.WriteFile(at, text, 0o600); err != nil {
				return failed(err)
			}
		}
	}
	result, err := l.render(l.ctx, filepath.Join(folder, "lehr.yaml"))
	if err != nil {
		return failed(err)
	}
	return result
}

// fail leaves a generator out that cannot be rendered.
func (l *importing) fail(made *renderSpec, problems []string) {
	for _, a := range l.apps {
		if slices.Contains(a.made, made) {
			l.leave(a.String(), a.place+": it cannot be rendered: "+problems[0], true)
			a.made = slices.DeleteFunc(a.made, func(r *renderSpec) bool { return r == made })
		}
	}
	l.drop(made)
}

// only is a partition with some of the generators, their sources and files.
func (p *partition) only(renders []*renderSpec) *partition {
	made := newPartition(p.name)
	made.renders = renders
	for _, s := range p.sources {
		if !slices.ContainsFunc(renders, func(r *renderSpec) bool { return slices.Contains(r.from, s.name) }) {
			continue
		}
		made.sources = append(made.sources, s)
		if s.checkout != nil || s.body["dir"] != "." {
			continue
		}
		names, _ := s.body["files"].([]string)
		for _, name := range names {
			made.files[name] = p.files[name]
		}
	}
	return made
}
