package argocd

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer"
)

// Labels by which checks and people find what an Application became.
const (
	applicationLabel = "argocd-application"
	projectLabel     = "argocd-project"
)

// finish splits what was translated into partitions, and writes them.
func (l *importing) finish() {
	for _, a := range l.apps {
		l.ignoreDifferences(a, l.objectsOf(a))
	}
	groups := map[string]*partition{}
	for _, a := range l.apps {
		if len(a.made) == 0 {
			continue
		}
		name := l.groupOf(a)
		if groups[name] == nil {
			groups[name] = newPartition(name)
		}
		groups[name].apps = append(groups[name].apps, a)
	}
	names := sortedKeys(groups)
	for i, name := range names {
		groups[name] = l.complete(groups[name])
		p := groups[name]
		if len(names) == 1 {
			l.Definition = p.definition(l.local)
			l.addFiles(l.Files, p)
			continue
		}
		part := importer.Part{Name: p.name, Definition: p.definition(l.local), Files: map[string][]byte{}}
		l.addFiles(part.Files, p)
		if i > 0 && slices.ContainsFunc(l.Parts, func(other importer.Part) bool { return other.Name == part.Name }) {
			part.Name += "-" + strconv.Itoa(i)
		}
		l.Parts = append(l.Parts, part)
	}
	l.Files["clusters.yaml"] = l.listClusters()
	l.summarize(len(names))
}

// addFiles adds the files beside lehr.yaml; those of repositories too, where they are read from here.
func (l *importing) addFiles(to map[string][]byte, p *partition) {
	for name, text := range p.files {
		to[name] = text
	}
	if l.local {
		for name, text := range p.copies() {
			to[name] = text
		}
	}
}

func (l *importing) objectsOf(a *app) (list []map[string]any) {
	for _, made := range a.made {
		for _, o := range l.objects[made.name] {
			list = append(list, o.Fields)
		}
	}
	return list
}

// groupOf names the partition of an Application.
func (l *importing) groupOf(a *app) string {
	switch l.split {
	case "none":
		return ""
	case "project":
		return segment(a.projectName())
	case "folder":
		for _, s := range a.sourcesOf() {
			if folder := path.Dir(path.Clean(strings.Trim(s.Path, "/"))); s.Path != "" && folder != "." {
				return segment(strings.ReplaceAll(folder, "/", "-"))
			}
		}
		return "other"
	}
	key := strings.TrimPrefix(l.split, "label=")
	for at := a; at != nil; at = at.parent {
		if value := at.Metadata.Labels[key]; value != "" {
			return segment(value)
		}
	}
	return "other"
}

// complete makes a partition of its Applications: generators, namespaces, order, calendars, roles.
func (l *importing) complete(of *partition) *partition {
	var renders []*renderSpec
	for _, a := range of.apps {
		renders = append(renders, a.made...)
	}
	l.omitDoubles(of.apps)
	p := l.all.only(renders)
	p.name, p.apps = of.name, of.apps
	for _, r := range renders {
		p.used[r.name] = true
	}
	for _, s := range p.sources {
		p.used[s.name] = true
	}
	l.addNamespaces(p)
	l.orderByWaves(p)
	for _, pr := range l.projects {
		isHere := slices.ContainsFunc(p.apps, func(a *app) bool { return a.projectName() == pr.Metadata.Name })
		if isHere {
			l.addWindows(p, pr.project, pr.place)
			l.addRoles(p, pr.project, pr.place)
		}
	}
	l.addPolicies(p)
	return p
}

// omitDoubles leaves to the first Application what several give.
func (l *importing) omitDoubles(apps []*app) {
	firsts := map[string]*app{}
	for _, a := range apps {
		for _, made := range a.made {
			omit, _ := made.with["omit"].([]string)
			for _, o := range l.objects[made.name] {
				first := firsts[o.ID]
				if first == nil {
					firsts[o.ID] = a
					continue
				}
				head, _ := o.Fields["metadata"].(map[string]any)
				omit = append(omit, fmt.Sprintf("%s/%s", fullKind(o.Fields), head["name"]))
				l.leave(o.ID, fmt.Sprintf("%s and %s both give it: it stays with the first", first, a), false)
			}
			if len(omit) > 0 {
				slices.Sort(omit)
				made.with["omit"] = slices.Compact(omit)
			}
		}
	}
}

// addNamespaces makes the namespaces that Argo CD makes for Applications (CreateNamespace=true).
func (l *importing) addNamespaces(p *partition) {
	given := map[string]bool{}
	for _, a := range p.apps {
		for _, made := range a.made {
			for _, o := range l.objects[made.name] {
				given[o.ID] = true
			}
		}
	}
	texts, places := map[string]*bytes.Buffer{}, []string{}
	for _, a := range p.apps {
		namespace := a.Spec.Destination.Namespace
		id := "kubernetes/" + a.cluster + "/namespace/" + namespace
		policy := a.Spec.SyncPolicy
		if policy == nil || !slices.Contains(policy.SyncOptions, "CreateNamespace=true") || namespace == "" || namespace == "default" || given[id] {
			continue
		}
		given[id] = true
		head := map[string]any{"name": namespace}
		if more := policy.ManagedNamespaceMetadata; more != nil {
			if len(more.Labels) > 0 {
				head["labels"] = more.Labels
			}
			if len(more.Annotations) > 0 {
				head["annotations"] = more.Annotations
			}
		}
		if texts[a.cluster] == nil {
			texts[a.cluster] = bytes.NewBufferString("# The namespaces of Applications with CreateNamespace=true.\n")
		}
		text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": head})
		if err != nil {
			continue // Texts can be encoded.
		}
		texts[a.cluster].WriteString("---\n" + string(text))
		places = append(places, a.cluster+"/"+namespace)
	}
	for _, cluster := range sortedKeys(texts) {
		name := p.nameFor("namespaces-" + cluster)
		source := p.addFile(name+"-files", "namespaces/"+cluster+".yaml", texts[cluster].Bytes())
		p.renders = append(p.renders, &renderSpec{name: name, render: "kubernetes", from: []string{source.name}, with: map[string]any{"cluster": cluster}})
	}
	if len(places) > 0 {
		p.derived[p.nameFor("namespaces-first")] = map[string]any{
			"derive": "Dependencies", "where": fmt.Sprintf(`type == "Object" && payload.cluster + "/" + payload.namespace in %s`, inJSON(places)),
			"edges": []any{map[string]any{"rule": "order", "on": `"kubernetes/" + payload.cluster + "/namespace/" + payload.namespace`}},
		}
	}
}

const (
	waveAnnotation = "argocd.argoproj.io/sync-wave"
	// mostEdges that one Application gets for those before it.
	mostEdges = 50
)

// waits are kinds that tell when an Application is well.
var waitedFor = []string{"Deployment.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch"}

// orderByWaves has Applications of one parent come after those of the wave before.
func (l *importing) orderByWaves(p *partition) {
	byParent := map[*app]map[int][]*app{}
	for _, a := range l.apps {
		text, ok := a.Metadata.Annotations[waveAnnotation]
		wave, err := strconv.Atoi(strings.TrimSpace(text))
		if ok && err != nil {
			l.leave(a.String(), fmt.Sprintf("%s: its wave %q is no number", a.place, text), true)
		}
		if byParent[a.parent] == nil {
			byParent[a.parent] = map[int][]*app{}
		}
		byParent[a.parent][wave] = append(byParent[a.parent][wave], a)
	}
	for parent, waves := range byParent {
		if parent == nil {
			continue // Waves order what one Application gives.
		}
		numbers := sortedKeys(waves)
		for i := 1; i < len(numbers); i++ {
			required := l.idsOf(p, waves[numbers[i-1]])
			if len(required) == 0 {
				continue
			}
			var edges []any
			for _, id := range required[:min(len(required), mostEdges)] {
				edges = append(edges, map[string]any{"on": id, "rule": "RULE_ORDER"})
			}
			for _, a := range waves[numbers[i]] {
				if !slices.Contains(p.apps, a) {
					continue
				}
				for _, made := range a.made {
					made.addons = append(made.addons, map[string]any{"Dependencies": map[string]any{"dependencies": edges}})
				}
			}
		}
	}
}

// idsOf are the workloads of Applications; where they have none, all that they have.
func (l *importing) idsOf(p *partition, apps []*app) (list []string) {
	var all []string
	for _, a := range apps {
		if !slices.Contains(p.apps, a) {
			continue
		}
		for _, made := range a.made {
			for _, o := range l.objects[made.name] {
				all = append(all, o.ID)
				if slices.Contains(waitedFor, fullKind(o.Fields)) {
					list = append(list, o.ID)
				}
			}
		}
	}
	if len(list) == 0 {
		list = all
	}
	slices.Sort(list)
	return list
}

// addRoles grants the roles of a project. A partition has one set of roles for all of it, so
// they are granted where it is the project's alone.
func (l *importing) addRoles(p *partition, pr project, place string) {
	subject := "AppProject " + pr.Metadata.Name
	isAlone := !slices.ContainsFunc(p.apps, func(a *app) bool { return a.projectName() != pr.Metadata.Name })
	for _, role := range pr.Spec.Roles {
		if len(role.Groups) == 0 {
			if len(role.Policies) > 0 {
				l.addHint(fmt.Sprintf("%s: the role %s has no groups: it is for tokens, which lehr auth token create makes", subject, role.Name))
			}
			continue
		}
		granted, isDenied := "", false
		for _, policy := range role.Policies {
			given := grantOf(policy, pr.Metadata.Name)
			switch {
			case given == "denied":
				// Lehr has no denials: without the role nobody may do more than before.
				isDenied = true
				l.leave(subject, fmt.Sprintf("%s: role %s: %q denies something, and grants of Lehr only add up: the role is not granted; grant by hand what it needs", place, role.Name, policy), true)
			case given == "narrow":
				l.leave(subject, fmt.Sprintf("%s: role %s: %q is about some Applications, and roles are of a whole partition: import with --split label=KEY", place, role.Name, policy), true)
			case given == "operator" || granted == "":
				granted = given
			}
		}
		if granted == "" || isDenied {
			continue
		}
		if !isAlone {
			l.leave(subject, place+": its roles are not granted, for the partition has Applications of other projects too: import with --split project", false)
			return
		}
		for _, group := range role.Groups {
			p.grant(granted, "group:"+group)
		}
	}
}

// grantOf is the role that a policy of a project gives: viewer, operator or nothing; narrow where it
// is about some Applications of the project, and denied where it takes something away.
func grantOf(policy, projectName string) string {
	parts := strings.Split(policy, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) != 6 || parts[0] != "p" || parts[2] != "applications" && parts[2] != "*" {
		return ""
	}
	switch {
	case parts[5] == "deny":
		return "denied"
	case parts[5] != "allow":
		return ""
	case parts[4] != projectName+"/*" && parts[4] != "*" && parts[4] != "*/*":
		return "narrow"
	}
	return roleOfAction(parts[3])
}

// roleOfAction is the role of whoever may do something with Applications; empty: none has a counterpart.
func roleOfAction(action string) string {
	switch first, _, _ := strings.Cut(action, "/"); first {
	case "get":
		return "viewer"
	case "sync", "update", "override", "action", "delete", "*":
		return "operator"
	}
	return ""
}

// listClusters is the operator's list, for them to complete.
func (l *importing) listClusters() []byte {
	var out strings.Builder
	out.WriteString("# The clusters that lehr-kubernetes may use. Whoever runs it completes this, and keeps it where only they\n# can write. Argo CD's fields are taken over: adopt.\nkubernetes-clusters: v1\nclusters:\n")
	servers := map[string]string{}
	for server, name := range l.clusterNames {
		if slices.ContainsFunc(l.apps, func(a *app) bool { return a.cluster == name }) {
			servers[name] = server
		}
	}
	for _, name := range sortedKeys(servers) {
		at := "kubeconfig: " + name + ".kubeconfig"
		if servers[name] == inCluster {
			at = "in_cluster: true"
		}
		fmt.Fprintf(&out, "  # %s\n  %s: {%s, partitions: [\"*\"], adopt: [argocd-controller, argocd-application-controller]}\n", servers[name], inJSON(name), at)
	}
	return []byte(out.String())
}

func (l *importing) summarize(partitions int) {
	rendered, objects, unseen := 0, 0, 0
	for _, a := range l.apps {
		for _, made := range a.made {
			if list, ok := l.objects[made.name]; ok {
				rendered++
				objects += len(list)
			} else {
				unseen++
			}
		}
	}
	l.Read = append(l.Read, count(len(l.apps), "Application"))
	if l.setCount > 0 {
		l.Read = append(l.Read, count(l.setCount, "ApplicationSet"))
	}
	if len(l.projects) > 0 {
		l.Read = append(l.Read, count(len(l.projects), "AppProject"))
	}
	if rendered > 0 {
		l.Read = append(l.Read, fmt.Sprintf("%s, rendered from %s", count(objects, "object"), count(rendered, "source")))
	}
	if unseen > 0 {
		l.addHint(fmt.Sprintf("%s could not be rendered here, for the files are elsewhere: lehr build shows what they give", count(unseen, "source")))
	}
	for _, secret := range l.secrets {
		l.addHint(secret)
	}
	if len(l.secrets) > 0 {
		l.addHint("what a chart makes of such a value is a Secret, which is left out: let it stay in the cluster, or have what holds secrets make it")
	}
	if len(l.manual) > 0 {
		l.addHint(fmt.Sprintf("%s not synced automatically: their assets have the mode observe, until Mode is taken out of their generators", plural(l.manual)))
	}
	if partitions == 1 && len(l.apps) > 100 {
		l.addHint("that is a large partition: --split project, folder or label=KEY makes one for each")
	}
	l.addHint("say in clusters.yaml how each cluster is reached, and name that file by its path under plugins")
	l.addHint("before you write enforce: take automated out of these Applications, so that Argo CD and Lehr do not both push")
	slices.SortStableFunc(l.LeftOut, func(a, b importer.LeftOut) int { return cmp.Compare(a.What, b.What) })
}

func plural(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 1 {
		return names[0] + " is"
	}
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d others are", strings.Join(names[:4], ", "), len(names)-4)
	}
	return strings.Join(names, ", ") + " are"
}
