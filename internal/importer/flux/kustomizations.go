package flux

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/sdk/generator/kubernetes"
)

// kustomization is one of Flux that becomes a generator.
type kustomization struct {
	object
	spec   kustomizationSpec
	isRoot bool
	// name of the generator; empty: nothing of it is left for one.
	name string
	from []string
	with map[string]any
	ids  []string
	// isDone: it was built, or cannot be.
	isDone bool
}

// buildAll builds each Kustomization once what it takes variables from is there.
func (f *fleet) buildAll() error {
	for hasProgress, isLast := true, false; hasProgress || !isLast; {
		isLast = !hasProgress
		hasProgress = false
		for i := 0; i < len(f.kustomizations); i++ {
			k := f.kustomizations[i]
			if k.isDone || !isLast && !f.hasVariables(k) {
				continue
			}
			k.isDone, hasProgress = true, true
			if err := f.build(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasVariables reports whether every ConfigMap that variables are taken from is there.
func (f *fleet) hasVariables(k *kustomization) bool {
	if k.spec.PostBuild == nil {
		return true
	}
	for _, from := range k.spec.PostBuild.SubstituteFrom {
		if _, ok := f.index[named{from.Kind, k.Metadata.Namespace, from.Name}]; !ok && from.Kind == "ConfigMap" {
			return false
		}
	}
	return true
}

// build builds a Kustomization, and takes what is in it.
func (f *fleet) build(k *kustomization) error {
	c, folder, reason := f.filesOf(k.spec.SourceRef, k.Metadata.Namespace, k.spec.Path)
	if reason != "" {
		f.leave(k.place(), reason, true)
		return nil
	}
	wanted := segment(k.Metadata.Name)
	if k.isRoot {
		wanted = "root"
	}
	name := f.unique(wanted, segment(k.Metadata.Namespace+"-"+k.Metadata.Name))
	k.from, k.with = []string{c.name}, map[string]any{"cluster": f.clusterOf(k.spec.KubeConfig != nil, k), "plain_folders": "include"}
	k.with["folder"] = path.Join(c.mount, folder)
	if overlay := overlayOf(k.spec, path.Join(c.mount, folder)); overlay != nil {
		text, err := yaml.Marshal(overlay)
		if err != nil {
			return err
		}
		k.with["folder"] = "overlays/" + name
		k.from = append(k.from, "overlays")
		f.overlays["overlays/"+name+"/kustomization.yaml"] = text
	}
	if k.spec.TargetNamespace != "" {
		k.with["namespace"] = k.spec.TargetNamespace
	}
	variables, secrets := f.variablesOf(k)
	answer, err := f.list(k.with["folder"].(string), variables)
	if err == nil && len(answer.Unset) > 0 && len(secrets) == 0 {
		// Flux writes nothing in their place, and so it is meant.
		for _, unset := range answer.Unset {
			variables = append(variables, unset+"=")
		}
		answer, err = f.list(k.with["folder"].(string), variables)
	}
	if err != nil {
		return err
	}
	for _, finding := range answer.Findings {
		why := finding.Message
		if len(secrets) > 0 && len(answer.Unset) > 0 && finding.LeftOut {
			why += "; it is in a Secret (" + strings.Join(secrets, ", ") + "), and no secret is copied: let what needs it name the Secret"
		}
		f.leave(cmpOr(f.shown(finding.File), k.place()), why, !finding.Warning)
	}
	if len(variables) > 0 {
		k.with["substitute"] = variables
	}
	if len(answer.Objects) > 0 {
		f.useAll(c)
	}
	f.take(k, name, answer)
	f.tell(k)
	return nil
}

func (f *fleet) clusterOf(isElsewhere bool, o fmt.Stringer) string {
	if !isElsewhere {
		return f.settings.cluster
	}
	return segment(o.String())
}

// String is the name of the cluster that it applies to by its kubeConfig.
func (k *kustomization) String() string {
	return cmpOr(k.spec.KubeConfig.SecretRef.Name, k.Metadata.Name)
}

// useAll has a source read the manifests of a checkout, and what kustomizations mention.
func (f *fleet) useAll(c *checkout) {
	if c.used["**/*.yaml"] || c.used["**/*.yml"] {
		return
	}
	var kustomizations []string
	for name, text := range c.files {
		if isYAML(name) || path.Base(name) == "Kustomization" {
			if strings.Contains(path.Base(name), "ustomization") {
				kustomizations = append(kustomizations, string(text))
			}
		}
		switch {
		case isYAML(name):
			c.used["**/*"+path.Ext(name)] = true
		case path.Base(name) == "Kustomization":
			c.used["**/Kustomization"] = true
		}
	}
	for name := range c.files {
		isMentioned := func(text string) bool { return strings.Contains(text, path.Base(name)) }
		if !isYAML(name) && slices.ContainsFunc(kustomizations, isMentioned) {
			c.used[name] = true
		}
	}
}

// overlayOf is what the object itself adds to the kustomization of its folder; nil: nothing.
func overlayOf(spec kustomizationSpec, folder string) map[string]any {
	overlay := map[string]any{}
	for key, value := range map[string]string{"namespace": spec.TargetNamespace, "namePrefix": spec.NamePrefix, "nameSuffix": spec.NameSuffix} {
		if value != "" {
			overlay[key] = value
		}
	}
	base := "../../" + folder
	for _, component := range spec.Components {
		list, _ := overlay["components"].([]string)
		overlay["components"] = append(list, "../../"+path.Join(folder, component))
	}
	var patches []any
	for _, patch := range spec.Patches {
		patches = append(patches, valueOf(patch))
	}
	for _, patch := range spec.PatchesStrategicMerge {
		text, _ := yaml.Marshal(valueOf(patch)) // It came from JSON.
		patches = append(patches, map[string]any{"patch": string(text)})
	}
	for _, patch := range spec.PatchesJson6902 {
		var one struct{ Target, Patch json.RawMessage }
		_ = json.Unmarshal(patch, &one)             // It is JSON.
		text, _ := yaml.Marshal(valueOf(one.Patch)) // It came from JSON.
		patches = append(patches, map[string]any{"target": valueOf(one.Target), "patch": string(text)})
	}
	if common := spec.CommonMetadata; len(common.Labels)+len(common.Annotations) > 0 {
		metadata := map[string]any{"name": "any"}
		if len(common.Labels) > 0 {
			metadata["labels"] = common.Labels
		}
		if len(common.Annotations) > 0 {
			metadata["annotations"] = common.Annotations
		}
		text, _ := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Any", "metadata": metadata}) // It is of texts.
		patches = append(patches, map[string]any{"target": map[string]any{"kind": ".*"}, "patch": string(text)})
	}
	if len(patches) > 0 {
		overlay["patches"] = patches
	}
	var images []any
	for _, image := range spec.Images {
		images = append(images, valueOf(image))
	}
	if len(images) > 0 {
		overlay["images"] = images
	}
	if len(overlay) == 0 {
		return nil
	}
	overlay["apiVersion"], overlay["kind"] = "kustomize.config.k8s.io/v1beta1", "Kustomization"
	overlay["resources"] = []string{base}
	return overlay
}

// valueOf is JSON as a value. It came from JSON, so it is some.
func valueOf(text json.RawMessage) (value any) {
	_ = yaml.Unmarshal(text, &value)
	return value
}

// variablesOf are those of postBuild, as the renderer takes them; secrets are the Secrets
// that some come from.
func (f *fleet) variablesOf(k *kustomization) (list, secrets []string) {
	if k.spec.PostBuild == nil {
		return nil, nil
	}
	values := map[string]string{}
	for _, from := range k.spec.PostBuild.SubstituteFrom {
		o, ok := f.index[named{from.Kind, k.Metadata.Namespace, from.Name}]
		switch {
		case from.Kind == "Secret":
			secrets = append(secrets, from.Name)
			f.tellSecretVariables(k, from, o)
		case !ok && !from.Optional:
			f.leave(k.place(), fmt.Sprintf("variables come from the ConfigMap %s, which is not here: add it to --objects, or write them under substitute", from.Name), true)
		}
		for name, value := range o.Data {
			values[name] = value
		}
	}
	for _, text := range f.settings.substitute {
		if name, value, ok := strings.Cut(text, "="); ok && len(secrets) > 0 {
			values[name] = value
		}
	}
	for name, value := range k.spec.PostBuild.Substitute {
		values[name] = fmt.Sprint(value)
	}
	for _, name := range sortedKeys(values) {
		if kind, ok := secrecy.Field(name, values[name]); ok {
			f.leave(k.place(), fmt.Sprintf("the variable %s looks like %s, and is not copied: write it where secrets are kept", name, kind), true)
			secrets = append(secrets, name)
			continue
		}
		list = append(list, name+"="+values[name])
	}
	return list, secrets
}

// tellSecretVariables says which variables of a Secret are not known here.
func (f *fleet) tellSecretVariables(k *kustomization, from valuesReference, secret object) {
	const instead = "no secret is copied: what takes them is left out. --substitute NAME=VALUE gives those that are no secrets"
	isGiven := func(name string) bool {
		return slices.ContainsFunc(f.settings.substitute, func(text string) bool { return strings.HasPrefix(text, name+"=") })
	}
	missing := slices.DeleteFunc(slices.Sorted(slices.Values(secret.keys)), isGiven)
	switch {
	case len(missing) > 0:
		f.leave(k.place(), fmt.Sprintf("the variables %s come from the Secret %s, and %s", strings.Join(missing, ", "), from.Name, instead), true)
	case len(secret.keys) == 0 && !from.Optional && len(f.settings.substitute) == 0:
		f.leave(k.place(), fmt.Sprintf("variables come from the Secret %s, and %s", from.Name, instead), true)
	}
}

// generatedName is one with the hash of Kustomize's generators behind it.
var generatedName = regexp.MustCompile(`^(.+)-[2456789bcdfghkmt]{10}$`)

// take takes what a Kustomization has: objects of Flux become generators of their own, the
// rest stays with this one.
func (f *fleet) take(k *kustomization, name string, answer built) {
	omit, scoped := []string{"*" + fluxSuffix + "/*"}, []string{}
	var manifests []kubernetes.Manifest
	for _, each := range answer.Objects {
		list, err := readObjects([]byte(each.Text), f.shown(each.File))
		if err != nil || len(list) != 1 {
			continue // The renderer says what is wrong with it.
		}
		o := list[0]
		f.add(o, k)
		full := o.Kind
		if o.group() != "" {
			full += "." + o.group()
		}
		switch {
		case o.group() == operatorGroup:
			omit = append(omit, "*."+operatorGroup+"/*")
			continue
		case o.isOfFlux():
			continue
		case o.Kind == "Secret" && o.group() == "":
			f.tellSecret(o)
			omit = append(omit, "Secret/"+baseName(o.Metadata.Name))
			continue
		case o.Metadata.Annotations[kustomizeGroup+"/reconcile"] == "disabled", o.Metadata.Annotations[kustomizeGroup+"/ssa"] == "Ignore":
			f.leave(o.place(), "Flux does not apply it, by its annotation", false)
			omit = append(omit, full+"/"+baseName(o.Metadata.Name))
			continue
		case o.Metadata.Namespace == "" && strings.Contains(o.group(), ".") && !strings.HasSuffix(o.group(), ".k8s.io") && !slices.Contains(scoped, full):
			scoped = append(scoped, full)
		}
		manifests = append(manifests, kubernetes.Manifest{File: each.File, Text: []byte(each.Text), Rendered: true, Line: each.Line})
	}
	if len(manifests) == 0 {
		return
	}
	if k.isRoot {
		f.listFiles(k, name, manifests)
	}
	slices.Sort(omit)
	k.name, k.with["omit"] = name, slices.Compact(omit)
	if len(scoped) > 0 {
		k.with["cluster_scoped"] = scoped
	}
	objects, findings := kubernetes.Read(manifests, kubernetes.Settings{Cluster: k.with["cluster"].(string), Namespace: cmpOr(k.spec.TargetNamespace, "default"), ClusterScoped: scoped})
	for _, o := range objects {
		k.ids = append(k.ids, o.ID)
	}
	for _, finding := range findings {
		if !finding.Warning {
			f.leave(cmpOr(f.shown(finding.File), k.place()), finding.Message, true)
		}
	}
}

// listFiles has the generator of the cluster's folder read the files that have objects of their
// own, and not Flux's components beside them.
func (f *fleet) listFiles(k *kustomization, name string, manifests []kubernetes.Manifest) {
	var resources []string
	for _, m := range manifests {
		if at := "../../" + m.File; !slices.Contains(resources, at) {
			resources = append(resources, at)
		}
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources})
	if err != nil {
		f.leave(k.place(), "its files cannot be listed: "+err.Error(), true)
		return
	}
	k.with["folder"], k.from = "overlays/"+name, append(k.from, "overlays")
	f.overlays["overlays/"+name+"/kustomization.yaml"] = text
	for name := range f.main.files {
		if inside, ok := strings.CutPrefix(name, f.path+"/"); ok && strings.Contains(path.Base(inside), "ustomization.y") && !strings.Contains(inside, "/") {
			f.leave(name, "of the folder of the cluster its objects are read, and not what its kustomization changes in them", false)
		}
	}
}

// shown is a file by its path in its repository.
func (f *fleet) shown(file string) string {
	for _, c := range f.checkouts() {
		if inside, ok := strings.CutPrefix(file, c.mount+"/"); ok {
			return inside
		}
	}
	return file
}

func baseName(name string) string {
	if found := generatedName.FindStringSubmatch(name); found != nil {
		return found[1]
	}
	return name
}

func (f *fleet) tellSecret(o object) {
	why := "what it holds is secret and is not copied: it stays in the cluster as it is, made by hand or by what holds secrets (External Secrets, Sealed Secrets)"
	if len(o.Sops) > 0 {
		why = "SOPS encrypted it, and Flux decrypts it: it stays in the cluster as it is; apply it by sops --decrypt FILE | kubectl apply -f -, or let External Secrets make it"
	}
	f.leave(o.place(), why, false)
}

// tell says what of a Kustomization has another meaning here.
func (f *fleet) tell(k *kustomization) {
	who := k.Metadata.Name
	for reason, is := range map[string]bool{
		"prune: Lehr removes nothing because it is absent; what goes is listed by lehr get orphans":            k.spec.Prune && k.name != "",
		"wait, healthChecks: what comes after waits until each asset is in sync and healthy; nothing to set":   k.spec.Wait || len(k.spec.HealthChecks)+len(k.spec.HealthCheckExprs) > 0,
		"force: what cannot be changed in place is replaced after an approval":                                 k.spec.Force,
		"suspend: it is suspended in Flux; here it is compared as all others, and pushed once mode is enforce": k.spec.Suspend,
		"serviceAccountName: impersonate in the operator's list of clusters is what it is here":                k.spec.ServiceAccountName != "",
		"kubeConfig: another cluster; list it by that name in the operator's list of clusters":                 k.spec.KubeConfig != nil,
	} {
		if is {
			f.countFor(reason, who)
		}
	}
}
