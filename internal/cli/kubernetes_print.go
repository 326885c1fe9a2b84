package cli

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/kubeaccess"
)

// shownAccess is what lehr kubernetes rbac prints.
type shownAccess struct {
	partition, cluster string
	observe            bool
	// namespaces with a Role of their own.
	namespaces []string
	roles      []kubeaccess.Manifest
	// impersonation is what the plugin's own credentials need, to ask as another.
	impersonation []kubeaccess.Manifest
	// subjects are bound; none: whoever applies the roles binds them.
	subjects []kubeaccess.Subject
}

// unnamed stands for who is bound where nobody is named.
var unnamed = []kubeaccess.Subject{{Kind: "ServiceAccount", Name: "NAME", Namespace: "NAMESPACE"}}

func (s *session) printRoles(access shownAccess) error {
	manifests := slices.Concat(access.roles, access.impersonation)
	if len(access.subjects) > 0 {
		manifests = slices.Concat(manifests, kubeaccess.Bindings(access.roles, access.subjects))
	}
	if s.json() {
		return printJSON(s.Out, map[string]any{"apiVersion": "v1", "kind": "List", "items": manifests})
	}
	purpose := "to keep"
	if access.observe {
		purpose = "to compare, and never write,"
	}
	fmt.Fprintf(s.Out, "# What lehr-kubernetes needs %s the objects of partition %s in the cluster %s.\n", purpose, plain(access.partition), plain(access.cluster))
	fmt.Fprintln(s.Out, "# Every identity that has logged in may ask which kinds there are (system:discovery); it needs that, too.")
	if len(access.namespaces) > 0 {
		fmt.Fprintf(s.Out, "# These namespaces have to be there first: %s\n", strings.Join(access.namespaces, ", "))
	}
	for i, manifest := range manifests {
		if i > 0 {
			fmt.Fprintln(s.Out, "---")
		}
		fmt.Fprint(s.Out, manifest.YAML())
	}
	s.printUnbound(access)
	return nil
}

// printUnbound prints the bindings for which somebody has to be named, as comments.
func (s *session) printUnbound(access shownAccess) {
	printBindings := func(reason string, roles []kubeaccess.Manifest) {
		if len(roles) == 0 {
			return
		}
		fmt.Fprintf(s.Out, "# %s\n", reason)
		for _, binding := range kubeaccess.Bindings(roles, unnamed) {
			fmt.Fprint(s.Out, kubeaccess.Commented("---\n"+binding.YAML()))
		}
	}
	if len(access.subjects) == 0 {
		printBindings("Bind them to the identity of lehr-kubernetes: name it with --user or --group, or complete these.", access.roles)
	}
	printBindings("Bind this to the credentials that lehr-kubernetes has itself, which ask as another.", access.impersonation)
}
