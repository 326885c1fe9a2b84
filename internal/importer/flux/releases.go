package flux

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
)

// release is a HelmRelease that becomes a generator.
type release struct {
	object
	spec  releaseSpec
	chart chart
	// name of the generator; empty: it cannot be carried over.
	name string
	from []string
	with map[string]any
	// unmanaged are derivations, by name.
	unmanaged map[string]any
	ids       []string
}

// namespace that its objects are in.
func (r *release) namespace() string {
	return cmpOr(r.spec.TargetNamespace, cmpOr(r.Metadata.Namespace, "default"))
}

// releaseName is the one that Flux gives it: at most 53 characters.
func (r *release) releaseName() string {
	name := r.spec.ReleaseName
	if name == "" {
		name = r.Metadata.Name
		if r.spec.TargetNamespace != "" {
			name = r.spec.TargetNamespace + "-" + name
		}
	}
	const most, kept, digits = 53, 40, 12
	if len(name) <= most {
		return name
	}
	return fmt.Sprintf("%s-%x", name[:kept], sha256.Sum256([]byte(name)))[:kept+1+digits]
}

// String is the name of the cluster that it applies to by its kubeConfig.
func (r *release) String() string { return cmpOr(r.spec.KubeConfig.SecretRef.Name, r.Metadata.Name) }

// convertReleases makes a generator of each HelmRelease.
func (f *fleet) convertReleases() {
	for _, r := range f.releases {
		if r.chart = f.chartOf(r); r.chart.reason != "" {
			f.leave(r.place(), r.chart.reason, true)
			continue
		}
		f.convert(r)
	}
}

func (f *fleet) convert(r *release) {
	name := f.unique(segment(r.Metadata.Name), segment(r.Metadata.Namespace+"-"+r.Metadata.Name))
	r.name, r.from = name, []string{r.chart.name}
	r.with = map[string]any{
		"cluster": f.clusterOf(r.spec.KubeConfig != nil, r), "namespace": r.namespace(), "release": r.releaseName(),
		"chart": r.chart.folder, "kube_version": f.settings.kubeVersion,
		// What a chart writes into Secrets is secret, and often made by chance.
		"omit": []string{"Secret/*"},
	}
	if versions := f.definedVersions(); len(versions) > 0 {
		r.with["api_versions"] = versions
	}
	values := f.chartValues(r)
	given, set := f.givenValues(r)
	if values = append(values, given...); len(values) > 0 {
		r.with["values"] = values
	}
	if len(given) > 0 {
		r.from = append(r.from, "releases")
	}
	if len(set) > 0 {
		r.with["set"] = set
	}
	f.postRender(r)
	f.addNamespace(r)
	f.ignoreDrift(r)
	f.tellRelease(r)
}

// definedVersions are the APIs of the custom resources that the fleet defines, which charts ask
// for.
func (f *fleet) definedVersions() (list []string) {
	for _, o := range f.index {
		if o.Kind != "CustomResourceDefinition" {
			continue
		}
		var definition struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
		if json.Unmarshal(o.Spec, &definition) != nil {
			continue // The renderer says what is wrong with it.
		}
		for _, version := range definition.Versions {
			if version.Served {
				list = append(list, definition.Group+"/"+version.Name, definition.Group+"/"+version.Name+"/"+definition.Names.Kind)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// chartValues are the files of the chart's source that valuesFiles names.
func (f *fleet) chartValues(r *release) (list []string) {
	if r.spec.Chart == nil {
		return nil
	}
	names := r.spec.Chart.Spec.ValuesFiles
	if len(names) == 0 && r.spec.Chart.Spec.ValuesFile != "" {
		names = []string{r.spec.Chart.Spec.ValuesFile}
	}
	for i, name := range names {
		if i == 0 && path.Base(name) == "values.yaml" {
			continue // The chart's own come first anyway.
		}
		list = append(list, path.Join(r.chart.top, name))
		if r.chart.source == nil {
			for _, c := range f.checkouts() {
				if c.name == r.chart.name {
					c.used[path.Clean(name)] = true
				}
			}
		}
	}
	if len(names) > 0 && len(names) == len(list) {
		f.leave(r.place(), "its valuesFiles leave the chart's values.yaml out, which is read here, before them: see that they set what it sets", false)
	}
	return list
}

// givenValues writes the values of valuesFrom and values into files, in their order; set are
// those of single fields.
func (f *fleet) givenValues(r *release) (files, set []string) {
	for i, from := range r.spec.ValuesFrom {
		key := cmpOr(from.ValuesKey, "values.yaml")
		o, ok := f.index[named{from.Kind, r.Metadata.Namespace, from.Name}]
		if !ok {
			o, ok = f.generated(from.Kind, r.Metadata.Namespace, from.Name)
		}
		text, hasKey := o.Data[key]
		switch {
		case from.Kind == "Secret":
			what := "values"
			if from.TargetPath != "" {
				what = "the value " + from.TargetPath
			}
			f.leave(r.place(), fmt.Sprintf("%s come from the key %s of the Secret %s, and no secret is copied: have the chart name that Secret (existingSecret or the like)", what, key, from.Name), true)
		case (!ok || !hasKey) && from.Optional:
		case !ok || !hasKey:
			f.leave(r.place(), fmt.Sprintf("values come from the key %s of the ConfigMap %s, which is not here: add it to --objects, or write them into its file of values", key, from.Name), true)
		case from.TargetPath != "":
			if kind, isSecret := secrecy.Field(from.TargetPath, text); isSecret {
				f.leave(r.place(), fmt.Sprintf("the value %s looks like %s, and is not copied", from.TargetPath, kind), true)
				continue
			}
			set = append(set, from.TargetPath+"="+text)
		default:
			files = f.addValues(r, fmt.Sprintf("releases/%s-from-%d-%s.yaml", r.name, i+1, segment(from.Name)), []byte(text), files)
		}
	}
	if len(r.spec.Values) > 0 && string(r.spec.Values) != "{}" && string(r.spec.Values) != "null" {
		files = f.addValues(r, "releases/"+r.name+".yaml", r.spec.Values, files)
	}
	return files, set
}

// generated finds a ConfigMap by its name without the hash of Kustomize's generators.
func (f *fleet) generated(kind, namespace, name string) (object, bool) {
	for key, o := range f.index {
		if key.kind == kind && key.namespace == namespace && baseName(key.name) == name {
			return o, true
		}
	}
	return object{}, false
}

// addValues writes values without what looks like a secret.
func (f *fleet) addValues(r *release, name string, text []byte, files []string) []string {
	var values any
	if err := yaml.Unmarshal(text, &values); err != nil {
		f.leave(r.place(), "its values are no YAML: "+err.Error(), true)
		return files
	}
	for _, hit := range secrecy.Find(values) {
		if remove(values, hit.Path) {
			f.leave(r.place(), fmt.Sprintf("its value %s looks like %s, and is not copied: have the chart name a Secret (existingSecret or the like)", hit.Path, hit.Is), true)
		}
	}
	written, err := yaml.Marshal(values)
	if err != nil {
		f.leave(r.place(), "its values cannot be written: "+err.Error(), true)
		return files
	}
	f.Files[name] = written
	return append(files, name)
}

var step = regexp.MustCompile(`([^.\[\]]+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]`)

// remove takes a field out of values, by its path as package secrecy writes it.
func remove(value any, at string) bool {
	steps := step.FindAllStringSubmatch(at, -1)
	for i, s := range steps {
		isLast := i == len(steps)-1
		switch current := value.(type) {
		case map[string]any:
			key := cmpOr(s[1], s[3])
			if _, ok := current[key]; !ok {
				return false
			}
			if isLast {
				delete(current, key)
				return true
			}
			value = current[key]
		case []any:
			index, err := strconv.Atoi(s[2])
			if err != nil || index >= len(current) {
				return false
			}
			if isLast {
				current[index] = nil
				return true
			}
			value = current[index]
		default:
			return false
		}
	}
	return false
}

// postRender writes the kustomization that changes what the chart rendered.
func (f *fleet) postRender(r *release) {
	kustomization := map[string]any{}
	for _, each := range r.spec.PostRenderers {
		fields, _ := valueOf(each.Kustomize).(map[string]any)
		for _, key := range []string{"patches", "images"} {
			list, _ := fields[key].([]any)
			existing, _ := kustomization[key].([]any)
			if all := append(existing, list...); len(all) > 0 {
				kustomization[key] = all
			}
		}
		for _, key := range []string{"patchesStrategicMerge", "patchesJson6902"} {
			list, _ := fields[key].([]any)
			for _, patch := range list {
				one := map[string]any{}
				if inner, ok := patch.(map[string]any); ok && key == "patchesJson6902" {
					one["target"], patch = inner["target"], inner["patch"]
				}
				text, _ := yaml.Marshal(patch) // It came from JSON.
				one["patch"] = string(text)
				existing, _ := kustomization["patches"].([]any)
				kustomization["patches"] = append(existing, one)
			}
		}
	}
	if common := r.spec.CommonMetadata; common != nil && len(common.Labels)+len(common.Annotations) > 0 {
		patch := overlayOf(kustomizationSpec{CommonMetadata: *common}, "")["patches"].([]any)
		existing, _ := kustomization["patches"].([]any)
		kustomization["patches"] = append(existing, patch...)
	}
	if len(kustomization) == 0 {
		return
	}
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		f.leave(r.place(), "its postRenderers cannot be written: "+err.Error(), true)
		return
	}
	name := "releases/" + r.name + "-kustomization.yaml"
	f.Files[name], r.with["post_render"] = text, name
	if !slices.Contains(r.from, "releases") {
		r.from = append(r.from, "releases")
	}
}

// addNamespace makes the Namespace that Flux makes for the release.
func (f *fleet) addNamespace(r *release) {
	_, ok := f.index[named{"Namespace", "", r.namespace()}]
	if !r.spec.Install.CreateNamespace || ok {
		return
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", plain(r.namespace()))
	f.Files["namespaces/"+segment(r.namespace())+".yaml"] = []byte(text)
}

// ignoreDrift makes what driftDetection ignores unmanaged.
func (f *fleet) ignoreDrift(r *release) {
	drift := r.spec.DriftDetection
	if drift == nil {
		return
	}
	for i, rule := range drift.Ignore {
		where := fmt.Sprintf(`type == "Object" && payload.namespace == %s`, plain(r.namespace()))
		if target := rule.Target; target != nil {
			for field, pattern := range map[string]string{"kind": target.Kind, "name": target.Name} {
				if pattern != "" {
					where += fmt.Sprintf(" && payload.%s.matches(%s)", field, plain("^("+pattern+")$"))
				}
			}
			if target.LabelSelector != "" || target.AnnotationSelector != "" {
				f.leave(r.place(), "a selector of driftDetection.ignore is not carried over: the fields are unmanaged of all of that kind and name", false)
			}
		}
		fields := map[string]any{}
		for _, pointer := range rule.Paths {
			if field := fieldOf(pointer); field != "" {
				fields["json."+field] = plain("Flux left it to others, by driftDetection.ignore")
			}
		}
		if len(fields) == 0 {
			f.leave(r.place(), "driftDetection.ignore of whole objects: give them the addon Mode (observe)", true)
			continue
		}
		if r.unmanaged == nil {
			r.unmanaged = map[string]any{}
		}
		r.unmanaged[fmt.Sprintf("%s-unmanaged-%d", r.name, i+1)] = map[string]any{"derive": "Unmanaged", "where": where, "fields": fields}
	}
}

var plainField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fieldOf is a JSON pointer as a path of fields; empty: the whole.
func fieldOf(pointer string) string {
	var text strings.Builder
	for part := range strings.SplitSeq(strings.Trim(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		_, err := strconv.Atoi(part)
		switch {
		case part == "":
		case err == nil:
			text.WriteString("[" + part + "]")
		case plainField.MatchString(part):
			text.WriteString("." + part)
		default:
			text.WriteString("[" + plain(part) + "]")
		}
	}
	return strings.TrimPrefix(text.String(), ".")
}

// tellRelease says what of a HelmRelease has another meaning here.
func (f *fleet) tellRelease(r *release) {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(r.Spec, &all) // Its spec was read before.
	isSet := func(key string) bool { return len(all[key]) > 0 }
	for reason, is := range map[string]bool{
		"install, upgrade, test, rollback, uninstall: a push is retried for ever, a rollout goes back, and hooks of charts are left out unless with: {hooks: include}": isSet("install") || isSet("upgrade") || isSet("test") || isSet("rollback") || isSet("uninstall"),
		"Secrets that a chart makes are left out (omit: Secret/*): those in the cluster stay as Helm made them":                                                        true,
		"suspend: it is suspended in Flux; here it is compared as all others, and pushed once mode is enforce":                                                         r.spec.Suspend,
		"serviceAccountName: impersonate in the operator's list of clusters is what it is here":                                                                        r.spec.ServiceAccountName != "",
		"kubeConfig: another cluster; list it by that name in the operator's list of clusters":                                                                         r.spec.KubeConfig != nil,
	} {
		if is {
			f.countFor(reason, r.Metadata.Name)
		}
	}
}
