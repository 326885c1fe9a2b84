package main

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// metadata judges names, labels and annotations.
func (c *checker) metadata(o *object) {
	c.name(o)
	if o.namespace != "" {
		c.rule([]string{"metadata", "namespace"}, o.namespace, "the namespace", validation.IsDNS1123Label)
	}
	c.labels(dig(o.value, "metadata", "labels"), []string{"metadata", "labels"})
	annotations := []string{"metadata", "annotations"}
	for key := range texts(o.value, annotations...) {
		if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			c.wrong(with(annotations, key), "write [PREFIX/]NAME: a DNS name, and at most 63 letters, digits, - _ and .", "is no key of an annotation")
		}
	}
}

// name of an object, by what its kind allows.
func (c *checker) name(o *object) {
	at := []string{"metadata", "name"}
	group, _, _ := strings.Cut(o.key, "/")
	switch {
	case group == "rbac.authorization.k8s.io": // Names of roles are segments of paths.
	case o.key == "/v1/Namespace":
		c.rule(at, o.name, "the name", validation.IsDNS1123Label)
	case o.key == "/v1/Service" && c.settings.version.Minor < 36:
		c.rule(at, o.name, "the name of a Service", validation.IsDNS1035Label)
	case o.key == "/v1/Service":
		c.rule(at, o.name, "the name of a Service", validation.IsDNS1123Label)
	default:
		c.rule(at, o.name, "the name", validation.IsDNS1123Subdomain)
	}
	// The Jobs of a CronJob have 11 bytes more.
	if o.kind == "CronJob" && group == "batch" && len(o.name) > 52 {
		c.wrong(at, "shorten it", "the name of a CronJob has at most 52 bytes, and this has %d", len(o.name))
	}
}

// subjects judges whom a ClusterRoleBinding gives a role; a RoleBinding may leave its own namespace out.
func (c *checker) subjects(o *object) {
	if groupKind(o.key) != "rbac.authorization.k8s.io/ClusterRoleBinding" {
		return
	}
	for i, subject := range list(o.value, "subjects") {
		if text(subject, "kind") == "ServiceAccount" && text(subject, "namespace") == "" {
			c.wrong([]string{"subjects", strconv.Itoa(i)}, "write the namespace of the ServiceAccount", "a ServiceAccount has no namespace")
		}
	}
}

// labels judges keys and values of labels.
func (c *checker) labels(value any, path []string) {
	for key, label := range texts(value) {
		if len(validation.IsQualifiedName(key)) > 0 {
			c.wrong(with(path, key), "write [PREFIX/]NAME: a DNS name, and at most 63 letters, digits, - _ and .", "is no key of a label")
		}
		c.rule(with(path, key), label, "the label", validation.IsValidLabelValue)
	}
}

// rule judges a text by one of the rules of Kubernetes itself.
func (c *checker) rule(path []string, value, what string, rule func(string) []string) {
	if problems := rule(value); len(problems) > 0 {
		reason, hint, _ := strings.Cut(problems[0], " (")
		c.wrong(path, strings.TrimSuffix(hint, ")"), "%s %.63q: %s", what, value, reason)
	}
}

// container judges the names and ports of a container.
func (c *checker) container(container map[string]any, path []string) {
	if name := text(container, "name"); name != "" {
		c.rule(with(path, "name"), name, "the name of a container", validation.IsDNS1123Label)
	}
	if image, ok := container["image"].(string); ok && strings.TrimSpace(image) != image {
		c.wrong(with(path, "image"), "remove the spaces", "the image begins or ends with a space")
	}
	ports := map[string]bool{}
	for i, port := range list(container, "ports") {
		at := with(path, "ports", strconv.Itoa(i))
		c.port(dig(port, "containerPort"), with(at, "containerPort"))
		if name := text(port, "name"); name != "" {
			c.rule(with(at, "name"), name, "the name of a port", validation.IsValidPortName)
			if ports[name] {
				c.wrong(with(at, "name"), "give it another name", "two ports of the container have the name %q", name)
			}
			ports[name] = true
		}
	}
	for i, env := range list(container, "env") {
		at := with(path, "env", strconv.Itoa(i))
		if name := text(env, "name"); name != "" {
			c.rule(with(at, "name"), name, "the name of a variable", validation.IsRelaxedEnvVarName)
		}
		if text(env, "value") != "" && dig(env, "valueFrom") != nil {
			c.wrong(at, "keep one of them", "has value and valueFrom")
		}
	}
}

// port judges the number of a port.
func (c *checker) port(value any, path []string) {
	number, ok := wholeNumber(value)
	if ok && len(validation.IsValidPortNum(int(number))) > 0 {
		c.wrong(path, "write a number from 1 to 65535", "%d is no port", number)
	}
}
