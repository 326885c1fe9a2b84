package argocd

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// grantedBy is what a partition with the Applications shop/web and shop/cache grants under a policy.
func grantedBy(policy, more string) (access map[string][]string, told string) {
	l := &importing{controlNamespace: "argocd", policies: policies{accounts: map[string]bool{}}}
	data := map[string]any{"policy.csv": policy}
	for line := range strings.Lines(more) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		data[key] = value
	}
	l.addSettings(object{fields: map[string]any{"data": map[string]any{"accounts.robot": "apiKey"}}})
	l.readPolicies(object{place: "rbac.yaml:1", fields: map[string]any{"data": data}})
	p := newPartition("")
	for _, name := range []string{"web", "cache"} {
		a := &app{}
		a.Metadata.Name, a.Metadata.Namespace, a.Spec.Project = name, "argocd", "shop"
		p.apps = append(p.apps, a)
	}
	l.addPolicies(p)
	for _, left := range l.LeftOut {
		told += left.Why + "\n"
	}
	return p.access, told + strings.Join(l.Hints, "\n")
}

// TestPolicies: who could do something with all Applications of a partition has the role for it there, and nobody has one who
// could not.
func TestPolicies(t *testing.T) {
	for name, c := range map[string]struct{ policy, more, want, told string }{
		"a group":               {"p, org:team, applications, sync, shop/*, allow", "", `{"operator":["group:org:team"]}`, ""},
		"only reads":            {"p, org:team, applications, get, shop/*, allow", "", `{"viewer":["group:org:team"]}`, ""},
		"by a role":             {"p, role:dev, applications, action/apps/Deployment/restart, */*, allow\ng, team, role:dev", "", `{"operator":["group:team"]}`, ""},
		"by a role of a role":   {"p, role:dev, applications, sync, *, allow\ng, role:lead, role:dev\ng, role:dev, role:lead\ng, team, role:lead", "", `{"operator":["group:team"]}`, ""},
		"built-in roles":        {"g, admins, role:admin\ng, all, role:readonly", "", `{"operator":["group:admins"],"viewer":["group:all"]}`, ""},
		"everyone":              {"", "policy.default: role:readonly", `{"viewer":["everyone"]}`, ""},
		"a person":              {"g, ann@example.com, role:admin", "scopes: [groups, email]", `{"operator":["user:ann@example.com"]}`, ""},
		"an account":            {"p, robot, applications, sync, *, allow", "", `{}`, "lehr auth token create --owner robot --role operator"},
		"another project":       {"p, team, applications, sync, other/*, allow", "", `{}`, ""},
		"a pattern of projects": {"p, team, applications, *, sh*/*, allow", "", `{"operator":["group:team"]}`, ""},
		"some Applications":     {"p, team, applications, sync, shop/web, allow", "", `{}`, "is about some Applications of the partition"},
		"all, one by one":       {"p, team, applications, sync, 'shop/{web,cache}', allow", "", `{}`, ""},
		"alternatives":          {`p, team, applications, sync, "shop/{web,cache}", allow`, "", `{"operator":["group:team"]}`, ""},
		"a denial":              {"p, team, applications, *, shop/*, allow\np, team, applications, delete, shop/web, deny", "", `{"viewer":["group:team"]}`, "denies something"},
		"a denial of all":       {"p, team, applications, *, shop/*, allow\np, team, applications, *, shop/web, deny", "", `{}`, "denies something"},
		"two denials":           {"p, team, applications, *, *, allow\np, team, applications, get, *, deny\np, team, applications, sync, *, deny", "", `{}`, "denies something"},
		"a denial elsewhere":    {"p, team, applications, *, shop/*, allow\np, team, applications, *, other/*, deny", "", `{"operator":["group:team"]}`, ""},
		"only creates":          {"p, team, applications, create, shop/*, allow", "", `{}`, ""},
		"clusters":              {"p, team, clusters, get, *, allow", "", `{}`, "policies about clusters are not carried over"},
		"regular expressions":   {"p, team, applications, sync, ^shop/.+$, allow", "policy.matchMode: regex", `{"operator":["group:team"]}`, ""},
		"no regular expression": {"p, team, applications, sync, (, allow", "policy.matchMode: regex", `{}`, "cannot be read"},
		"sets of characters":    {"p, team, applications, sync, shop/[cw]*, allow", "", `{}`, "sets of characters"},
		"no policy":             {"p, team, applications, sync", "", `{}`, "rbac.yaml:1, line 1 of policy.csv"},
		"no such role":          {"# who\ng, team, role:gone", "", `{}`, "role:gone, of which no policy is"},
		"another file":          {"", "policy.team.csv: p, team, applications, sync, shop/*, allow", `{"operator":["group:team"]}`, ""},
	} {
		access, told := grantedBy(c.policy, c.more)
		if got := inJSON(access); got != c.want || !strings.Contains(told, c.told) {
			t.Errorf("%s: %s, want %s, and it tells %q", name, got, c.want, told)
		}
	}
}

// TestDenialOfAProject: a role of a project that denies something is not granted.
func TestDenialOfAProject(t *testing.T) {
	project := "---\napiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: shop, namespace: argocd}\nspec: {roles: [{name: dev, groups: [team], policies: [\"p, proj:shop:dev, applications, *, shop/*, allow\", \"p, proj:shop:dev, applications, delete, shop/*, deny\"]}]}\n"
	got, err := read(t, map[string]string{"apps/a.yaml": project + strings.Replace(writtenApp("a", "path: good"), "spec:\n", "spec:\n  project: shop\n", 1), "r/good/a.yaml": "kind: A\n"}, "--checkout", repository+"=FOLDER/r")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got.Definition, "access:") || !slices.ContainsFunc(got.LeftOut, func(l importer.LeftOut) bool { return strings.Contains(l.Why, "the role is not granted") }) {
		t.Errorf("it grants something:\n%s%+v", got.Definition, got.LeftOut)
	}
}

// liveCluster lists objects as a cluster has them.
func liveCluster(t *testing.T, mayList bool, texts ...string) Lister {
	return func(_ context.Context, _, _ string, namespaces []string, isWanted func(group, kind string) bool) (found []map[string]any, err error) {
		if isWanted("", "Secret") {
			t.Error("Secrets are wanted")
		}
		if isWanted("", "ConfigMap") && (!slices.Equal(namespaces, []string{"control"}) || !mayList) {
			return nil, fault.New(fault.Denied, "ConfigMaps of %v may not be listed", namespaces)
		}
		for _, text := range texts {
			var item map[string]any
			if err := json.Unmarshal([]byte(text), &item); err != nil {
				t.Fatal(err)
			}
			group, _, _ := strings.Cut(item["apiVersion"].(string), "/")
			if item["apiVersion"] == "v1" {
				group = ""
			}
			if isWanted(group, item["kind"].(string)) {
				found = append(found, item)
			}
		}
		return found, nil
	}
}

// TestLive: what a cluster has is read as files are. What a set made counts, and not what it would make anew; Argo CD's settings
// are those of its own namespace.
func TestLive(t *testing.T) {
	live := []string{
		`{"apiVersion":"argoproj.io/v1alpha1","kind":"AppProject","metadata":{"name":"default","namespace":"control"},"spec":{}}`,
		`{"apiVersion":"argoproj.io/v1alpha1","kind":"ApplicationSet","metadata":{"name":"webs","namespace":"control"},"spec":{"generators":[{"list":{"elements":[{"x":"one"},{"x":"two"}]}}],"template":{"metadata":{"name":"{{x}}"},"spec":{"project":"default","destination":{"name":"in-cluster"},"source":{"repoURL":"` + repository + `","path":"good"}}}}}`,
		`{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"one","namespace":"control","resourceVersion":"7","ownerReferences":[{"apiVersion":"argoproj.io/v1alpha1","kind":"ApplicationSet","name":"webs"}]},"spec":{"project":"default","destination":{"name":"in-cluster"},"revisionHistoryLimit":3,"source":{"repoURL":"` + repository + `","path":"good"}},"status":{"sync":{"status":"Synced"}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"argocd-rbac-cm","namespace":"control"},"data":{"policy.csv":"p, team, applications, sync, */*, allow"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","namespace":"control"},"data":{"policy.csv":"g, nobody, role:admin"}}`,
	}
	run := func(list Lister, arguments ...string) (importer.Import, error) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		reader := Kind(nil, list).Bind(set)
		if err := set.Parse(append([]string{"--checkout", repository + "=" + layFiles(t, map[string]string{"good/a.yaml": "kind: A\n"})}, arguments...)); err != nil {
			t.Fatal(err)
		}
		return reader(t.Context(), nil)
	}
	got, err := run(liveCluster(t, true, live...), "--live")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"one": {render: kubernetes`, `operator: ["group:team"]`} {
		if !strings.Contains(got.Definition, want) {
			t.Errorf("it has no %s:\n%s", want, got.Definition)
		}
	}
	for _, no := range []string{`"two"`, "nobody"} {
		if strings.Contains(got.Definition, no) {
			t.Errorf("it has %s:\n%s", no, got.Definition)
		}
	}
	if len(got.LeftOut) > 0 {
		t.Errorf("left out: %+v", got.LeftOut)
	}
	got, err = run(liveCluster(t, false, live...), "--live")
	if err != nil || !slices.ContainsFunc(got.LeftOut, func(l importer.LeftOut) bool {
		return l.Wrong && strings.Contains(l.Why, "give their files beside --live")
	}) {
		t.Errorf("who may not read the settings is told %+v, %v", got.LeftOut, err)
	}
	for want, arguments := range map[string][]string{"nothing says where": nil, "and none is read": {"--context", "prod"}} {
		if _, err := run(liveCluster(t, true, live...), arguments...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: it says %v", arguments, err)
		}
	}
	if _, err := run(liveCluster(t, true), "--live"); err == nil || !strings.Contains(err.Error(), "nothing to import in the cluster") {
		t.Errorf("of a cluster without Argo CD it says %v", err)
	}
}
