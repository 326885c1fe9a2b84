package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// maker is what applies an object again and again, from a source of its own.
type maker struct {
	// tool and source: "Helm" and "the release shop/web".
	tool, source string
	// next is what imports it from there.
	next string
}

// makers by the labels, annotations and field managers that each leaves. The tool that stands
// above another comes first: Flux and Argo CD apply what Helm renders.
func makerOf(item map[string]any) (m maker, ok bool) {
	metadata, _ := item["metadata"].(map[string]any)
	labels, annotations := texts(metadata["labels"]), texts(metadata["annotations"])
	managers := managersOf(metadata)
	switch {
	case labels["kustomize.toolkit.fluxcd.io/name"] != "":
		return maker{"Flux", "the Kustomization " + labels["kustomize.toolkit.fluxcd.io/namespace"] + "/" + labels["kustomize.toolkit.fluxcd.io/name"], "lehr import flux FOLDER"}, true
	case labels["helm.toolkit.fluxcd.io/name"] != "":
		return maker{"Flux", "the HelmRelease " + labels["helm.toolkit.fluxcd.io/namespace"] + "/" + labels["helm.toolkit.fluxcd.io/name"], "lehr import flux FOLDER"}, true
	case annotations["argocd.argoproj.io/tracking-id"] != "":
		name, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
		return maker{"Argo CD", "the Application " + name, "its source: the Application's spec.source says which"}, true
	case labels["argocd.argoproj.io/instance"] != "":
		return maker{"Argo CD", "the Application " + labels["argocd.argoproj.io/instance"], "its source: the Application's spec.source says which"}, true
	case managers["argocd-controller"]:
		return maker{"Argo CD", "an Application that its labels do not name", "its source: the Application's spec.source says which"}, true
	case managers["kustomize-controller"], managers["helm-controller"]:
		return maker{"Flux", "an object that its labels do not name", "lehr import flux FOLDER"}, true
	case annotations["meta.helm.sh/release-name"] != "":
		return maker{"Helm", "the release " + annotations["meta.helm.sh/release-namespace"] + "/" + annotations["meta.helm.sh/release-name"], "its chart, as a source of render: helm"}, true
	case labels["app.kubernetes.io/managed-by"] == "Helm" && labels["helm.sh/chart"] != "":
		return maker{"Helm", "a release of the chart " + labels["helm.sh/chart"], "its chart, as a source of render: helm"}, true
	}
	return maker{}, false
}

// reason is what is told of the objects that a tool applies, together.
func (m maker) reason() string {
	return fmt.Sprintf("%s applies them, from %s: take them from there, by %s; or --managed takes them as they are", m.tool, m.source, m.next)
}

// texts are the texts of a mapping.
func texts(value any) map[string]string {
	found := map[string]string{}
	fields, _ := value.(map[string]any)
	for key, each := range fields {
		if text, ok := each.(string); ok {
			found[key] = text
		}
	}
	return found
}

// managersOf are the field managers of an object.
func managersOf(metadata map[string]any) map[string]bool {
	found := map[string]bool{}
	list, _ := metadata["managedFields"].([]any)
	for _, each := range list {
		if name, ok := texts(each)["manager"]; ok {
			found[name] = true
		}
	}
	return found
}

// appliers are tools by the field manager under which each applies.
var appliers = map[string]string{
	"kustomize-controller": "Flux", "helm-controller": "Flux", "argocd-controller": "Argo CD", "helm": "Helm", "Helm": "Helm", "HashiCorp": "Terraform", "Terraform": "Terraform",
}

// appliersOf are the tools that apply an object, by its field managers: where there are two, each
// may undo what the other does.
func appliersOf(item map[string]any) (tools []string) {
	metadata, _ := item["metadata"].(map[string]any)
	for manager := range managersOf(metadata) {
		if tool, ok := appliers[manager]; ok && !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	slices.Sort(tools)
	return tools
}
