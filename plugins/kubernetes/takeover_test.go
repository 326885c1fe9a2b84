package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

// takeover is a cluster that kubectl, Helm and Flux made, until Lehr keeps it.
type takeover struct {
	served
	programs, clusters string
	began              time.Time
}

func newTakeover(t *testing.T) *takeover {
	p := plane.Start(t)
	o := &takeover{served: served{ferry: &ferry{T: t, plane: p, folder: t.TempDir()}, kubelet: p.StartControllers()}}
	o.programs, o.clusters = filepath.Join(o.folder, "programs"), filepath.Join(o.folder, "clusters.yaml")
	o.lehr = filepath.Join(o.programs, "lehr")
	stripped := []string{"-ldflags", "-s -w"}
	err := errors.Join(
		(building.Program{Of: "../../cmd/lehr"}).At(o.lehr),
		(building.Program{Of: ".", Flags: stripped}).At(filepath.Join(o.programs, "lehr-kubernetes")),
		(building.Program{Of: "../../renderers/kustomize", Flags: stripped, Env: []string{"CGO_ENABLED=0"}}).At(filepath.Join(o.programs, "lehr-kustomize")),
		(building.Program{Of: "../../renderers/helm", Flags: stripped, Env: []string{"CGO_ENABLED=0"}}).At(filepath.Join(o.programs, "lehr-helm")),
	)
	for _, files := range []map[string]string{fleetOfFlux, chartOfCache} {
		for name, text := range files {
			at := filepath.Join(o.folder, name)
			err = errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// time does a step, and prints how long it took: what a person waits for, beside what they read and think.
func (o *takeover) time(name string, do func()) {
	o.Helper()
	began := time.Now()
	do()
	o.Logf("takeover_%s %.2f s", name, time.Since(began).Seconds())
}

// TestAClusterIsTakenOver: what kubectl, Helm and Flux's applier made is imported and compared without a difference; what
// a plan says would change is what the API server says. Enforcing begins without a ripple: no pod ends, no content changes,
// and only who owns the fields does. Then a release goes out to one workload before the other, and is taken back where it
// is bad; what people edit is repaired; and Flux goes on with what it is given back.
func TestAClusterIsTakenOver(t *testing.T) {
	o := newTakeover(t)
	o.time("made", o.makeByOthers)
	o.began = time.Now()
	before := o.production()
	o.time("import", o.importAll)
	o.time("observe", o.observe)
	o.time("diff", o.diffTruthfully)
	o.checkUntouched(before, "importing and comparing")
	o.time("enforce", func() { o.enforce(before) })
	o.time("canary", o.releaseInStages)
	o.time("repair", o.repair)
	o.time("return", o.giveBack)
	o.Logf("takeover_all %.2f s", time.Since(o.began).Seconds())
}

// makeByOthers has the cluster be as people have it before they know of Lehr.
func (o *takeover) makeByOthers() {
	o.Helper()
	o.applyByHand()
	o.installReleases()
	o.applyAsFlux(func(text string) string { return text })
	o.plane.Wait("all pods to run", func() error {
		var list struct {
			Items []struct{ Status struct{ Phase string } }
		}
		if err := json.Unmarshal(mustGet(o.T, o.plane, "/api/v1/namespaces/shop/pods"), &list); err != nil {
			return err
		}
		running := 0
		for _, pod := range list.Items {
			if pod.Status.Phase == "Running" {
				running++
			}
		}
		if running != 8 || len(list.Items) != running { // A pod of a hook is deleted some time after its Job.
			return fmt.Errorf("%d of %d run", running, len(list.Items))
		}
		for _, path := range []string{"front", "back", "cache", "store", "api"} {
			status := o.plane.Parse(mustGet(o.T, o.plane, shopDeployments+path))["status"].(plane.Object)
			if status["readyReplicas"] != status["replicas"] || status["observedGeneration"] == nil {
				return fmt.Errorf("%s is %v", path, status)
			}
		}
		return nil
	})
}

const shopDeployments = deployments + "shop/deployments/"

// parts are the partitions, by their folders.
var parts = []string{"hand", "releases", "flux"}

// definition of a partition.
func (o *takeover) definition(part string) string { return filepath.Join(o.folder, part, "lehr.yaml") }

// importAll reads what is there: what people applied out of the cluster, and what the tools did from their sources.
func (o *takeover) importAll() {
	o.Helper()
	said, err := o.run("import", "kubernetes", "--kubeconfig", o.plane.Kubeconfig, "--namespace", "shop", "--to", "hand")
	if err != nil {
		o.Fatalf("%v: %s", err, said)
	}
	for _, want := range []string{"Deployment.apps: 2", "Helm applies them, from the release shop/cache", "Flux applies them, from the Kustomization flux-system/shop", "lehr import flux"} {
		if !strings.Contains(said, want) {
			o.Errorf("the import of the cluster does not say %q:\n%s", want, said)
		}
	}
	o.write("releases.yaml", o.releaseSecrets())
	said, err = o.run("import", "helm", "releases.yaml", "--cluster", "real", "--to", "releases")
	if ended, isExit := errors.AsType[*exec.ExitError](err); !isExit || ended.ExitCode() != 2 {
		o.Fatalf("the import of releases, one of which is half done, ended with %v: %s", err, said)
	}
	for _, want := range []string{"2 releases", "revision 3 of release shop/cache", "it is half done (failed): revision 2, which is deployed, is taken"} {
		if !strings.Contains(said, want) {
			o.Errorf("the import of releases does not say %q:\n%s", want, said)
		}
	}
	if said, err := o.run("import", "flux", "fleet", "--path", "clusters/prod", "--cluster", "real", "--to", "flux"); err != nil {
		o.Fatalf("%v: %s", err, said)
	}
	for _, part := range parts {
		text, err := os.ReadFile(o.definition(part))
		if err != nil {
			o.Fatal(err)
		}
		bound, _, _ := strings.Cut(string(text), "\nplugins:\n")
		bound, _, _ = strings.Cut(bound, "\nmodels:") // It says that nothing is bound.
		o.write(part+"/lehr.yaml", bound+fmt.Sprintf("\nplugins:\n  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}\n", filepath.Join(o.programs, "lehr-kubernetes"), o.clusters))
	}
}

// planOf is what lehr plan says of a definition: each change as PATH: CURRENT → TARGET, by its asset.
func (f *ferry) planOf(definition string) (changes map[string][]string) {
	f.Helper()
	said, err := f.run("plan", "-o", "json", definition)
	var answer struct {
		Reports []struct {
			Asset, State string
			Plan         *struct {
				Action  string
				Changes []struct{ Path, Current, Target string }
			}
		}
	}
	if problem := json.Unmarshal([]byte(said), &answer); problem != nil {
		f.Fatalf("%v, %v: %s", err, problem, said)
	}
	changes = map[string][]string{}
	for _, r := range answer.Reports {
		if r.Plan == nil && r.State != "in-sync" && r.Asset != "lehr/policy" {
			changes[r.Asset] = append(changes[r.Asset], r.State)
		}
		if r.Plan != nil {
			for _, c := range r.Plan.Changes {
				changes[r.Asset] = append(changes[r.Asset], fmt.Sprintf("%s: %s → %s", c.Path, c.Current, c.Target))
			}
		}
	}
	return changes
}

// observe compares all with the cluster: nothing differs.
func (o *takeover) observe() {
	o.Helper()
	writeAll(o.T, o.plane, o.clusters)
	for _, part := range parts {
		if said, err := o.run("plan", o.definition(part)); err != nil || !strings.Contains(said, ": 0 to change, ") || !strings.Contains(said, " 0 unknown.") {
			o.Errorf("%s: %v: %s", part, err, said)
		}
	}
}

// diffTruthfully: of a change, the plan says what the API server and, where it is installed, kubectl diff say of the same manifest, and no more.
func (o *takeover) diffTruthfully() {
	o.Helper()
	for _, edit := range []struct {
		object, asset string
		words         *strings.Replacer
	}{
		{"deployment-front", "kubernetes/real/shop/deployment.apps/front", strings.NewReplacer("shop/front:v1", "shop/front:v2", "replicas: 2", "replicas: 3", "memory: 64Mi", "memory: 128Mi")},
		{"configmap-settings", "kubernetes/real/shop/configmap/settings", strings.NewReplacer("green", "red", "\ndata:\n", "\ndata:\n    size: \"9\"\n")},
		// Another way to write the same is no difference.
		{"deployment-front", "", strings.NewReplacer("cpu: 100m", "cpu: \"0.1\"", "memory: 64Mi", "memory: 65536Ki")},
	} {
		name := "hand/manifests/shop/" + edit.object + ".yaml"
		text, err := os.ReadFile(filepath.Join(o.folder, name))
		if err != nil {
			o.Fatal(err)
		}
		o.write(name, edit.words.Replace(string(text)))
		changes := o.planOf(o.definition("hand"))
		got, want := linesOfPlan(changes[edit.asset]), o.predict(edit.words.Replace(string(text)))
		if !slices.Equal(got, want) || len(want) == 0 != (edit.asset == "") {
			o.Errorf("of %s the plan says\n%s\nand the API server\n%s", edit.object, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if shown, ok := o.kubectlDiff(name); ok && !slices.Equal(got, linesOfDiff(shown)) {
			o.Errorf("of %s the plan says\n%s\nand kubectl diff\n%s", edit.object, strings.Join(got, "\n"), shown)
		}
		if delete(changes, edit.asset); len(changes) > 0 {
			o.Errorf("of %s the plan has more: %v", edit.object, changes)
		}
		o.write(name, string(text))
	}
}

// linesOfPlan are the values that a plan takes away and brings, as a diff of YAML has them: "-key: value" and "+key: value".
func linesOfPlan(changes []string) (lines []string) {
	for _, change := range changes {
		path, values, _ := strings.Cut(change, ": ")
		current, target, _ := strings.Cut(values, " → ")
		key := path[strings.LastIndex(path, ".")+1:]
		for sign, value := range map[string]string{"-": current, "+": target} {
			if value != "" {
				lines = append(lines, sign+key+": "+strings.Trim(value, `"`))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// linesOfDiff are those of kubectl diff, but for the generation, which counts writes.
func linesOfDiff(shown string) (lines []string) {
	for line := range strings.Lines(shown) {
		if len(line) < 2 || line[0] != '-' && line[0] != '+' || line[1] == line[0] {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimLeft(line[1:], " -"), ":")
		if value = strings.Trim(strings.TrimSpace(value), `"`); ok && value != "" && key != "generation" {
			lines = append(lines, line[:1]+key+": "+value)
		}
	}
	slices.Sort(lines)
	return lines
}

// Marks that the tools leave on objects, and no source has. They are all that enforcing takes away.
var (
	marksOfKubectl = []string{`metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]: (redacted) → `}
	marksOfFlux    = []string{
		`metadata.labels["kustomize.toolkit.fluxcd.io/name"]: "shop" → `, `metadata.labels["kustomize.toolkit.fluxcd.io/namespace"]: "flux-system" → `,
	}
	// marks by partition and asset.
	marks = map[string]map[string][]string{
		"hand": {
			"kubernetes/real/namespace/shop": marksOfKubectl, "kubernetes/real/shop/configmap/settings": marksOfKubectl, "kubernetes/real/shop/service/front": marksOfKubectl,
			"kubernetes/real/shop/deployment.apps/front": marksOfKubectl, "kubernetes/real/shop/deployment.apps/back": marksOfKubectl,
		},
		"releases": {
			"kubernetes/real/shop/configmap/cache": marksOfHelm("cache"), "kubernetes/real/shop/deployment.apps/cache": marksOfHelm("cache"),
			"kubernetes/real/shop/configmap/store": marksOfHelm("store"), "kubernetes/real/shop/deployment.apps/store": marksOfHelm("store"),
		},
		"flux": {"kubernetes/real/shop/configmap/region": marksOfFlux, "kubernetes/real/shop/deployment.apps/api": marksOfFlux},
	}
)

func marksOfHelm(release string) []string {
	return []string{
		`metadata.annotations["meta.helm.sh/release-name"]: "` + release + `" → `, `metadata.annotations["meta.helm.sh/release-namespace"]: "shop" → `,
		`metadata.labels["app.kubernetes.io/managed-by"]: "Helm" → `,
	}
}

// enforce begins: who owned the fields before owns none of them any more, and all else is as it was.
func (o *takeover) enforce(before map[string]string) {
	o.Helper()
	o.write("clusters.yaml", fmt.Sprintf("kubernetes-clusters: v1\nclusters: {real: {kubeconfig: %q, partitions: ['*'], adopt: [kubectl-client-side-apply, helm, kustomize-controller]}}\n", o.plane.Kubeconfig))
	for _, part := range parts {
		if diff := cmp.Diff(marks[part], o.planOf(o.definition(part))); diff != "" {
			o.Errorf("what is listed of %s is another: %s", part, diff)
		}
	}
	root := o.folder
	o.folder = filepath.Join(root, "hand")
	startServer(o.T, o.folder, o.lehr, "1s", "-p", filepath.Join(root, "releases", "lehr.yaml"), "-p", filepath.Join(root, "flux", "lehr.yaml"))
	for _, part := range parts {
		o.plane.Wait("all to be compared", func() error {
			said, err := o.run("plan", "--head", "-p", part)
			if !strings.Contains(said, fmt.Sprintf(": %d to change, 0 the same, 0 unknown.", len(marks[part]))) {
				return fmt.Errorf("%w: %s", err, said)
			}
			return nil
		})
	}
	o.checkUntouched(before, "observing")
	ended := o.plane.Follow(collections...)
	for _, part := range parts {
		o.setMode(part, "observe", "enforce")
	}
	o.plane.Wait("Lehr to own all", func() error {
		for path, text := range o.production() {
			if strings.Contains(path, "/pods/") || strings.Contains(path, "/replicasets/") || strings.Contains(path, "/secrets/") || strings.HasSuffix(path, "/kube-root-ca.crt") {
				continue
			}
			owners := slices.DeleteFunc(managersOf(o.plane.Parse([]byte(text))), func(name string) bool { return name == "kube-controller-manager" })
			if !slices.Equal(owners, []string{"lehr"}) {
				return fmt.Errorf("%s is of %v", path, owners)
			}
		}
		return nil
	})
	o.checkNoRipple(before, ended())
}

// setMode writes another mode into the definition of a partition.
func (o *takeover) setMode(part, from, to string) {
	o.Helper()
	at := filepath.Join(filepath.Dir(o.folder), part, "lehr.yaml")
	text, err := os.ReadFile(at)
	if err != nil {
		o.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(strings.Replace(string(text), "\nmode: "+from+"\n", "\nmode: "+to+"\n", 1)), 0o600); err != nil {
		o.Fatal(err)
	}
}

// releaseInStages: a release goes out to one workload, and to the other once that one is well.
func (o *takeover) releaseInStages() {
	o.Helper()
	text, err := os.ReadFile(filepath.Join(o.folder, "lehr.yaml"))
	if err != nil {
		o.Fatal(err)
	}
	o.write("lehr.yaml", string(text)+`rollouts:
  images:
    select: payload.kind == "Deployment"
    stages: [{name: front, where: payload.name == "front"}, {name: others, rest: true}]
    patience: 15s
`)
	o.says("rollout status images -p hand", "has no run yet")
	release := func(version string) {
		o.Helper()
		for _, name := range []string{"front", "back"} { // The first stage's comes first, so that none has it alone.
			path := "manifests/shop/deployment-" + name + ".yaml"
			text, err := os.ReadFile(filepath.Join(o.folder, path))
			if err != nil {
				o.Fatal(err)
			}
			before, after, _ := strings.Cut(string(text), "image: shop/"+name+":")
			_, after, _ = strings.Cut(after, "\n")
			o.write(path, before+"image: shop/"+name+":"+version+"\n"+after)
		}
	}
	o.kubelet.SetFault("shop/front:bad", plane.Fault{ExitCode: 1})
	back := o.deployment("back")
	release("bad")
	o.says("rollout status images -p hand", "rolled-back", "CrashLoopBackOff")
	o.awaitImageOf("front", "shop/front:v1")
	if after := o.deployment("back"); contentOf(after) != contentOf(back) {
		o.Errorf("the other workload was touched: from\n%v\nto\n%v", back, after)
	}
	release("v2")
	o.awaitImageOf("front", "shop/front:v2")
	o.awaitImageOf("back", "shop/back:v2")
	o.says("rollout status images -p hand", "done")
}

func (o *takeover) deployment(name string) plane.Object {
	o.Helper()
	return o.plane.Parse(mustGet(o.T, o.plane, shopDeployments+name))
}

func (o *takeover) awaitImageOf(name, image string) {
	o.Helper()
	o.plane.Wait(name+" with "+image, func() error {
		if text := string(mustGet(o.T, o.plane, shopDeployments+name)); !strings.Contains(text, `"image":"`+image+`"`) {
			return errors.New(text)
		}
		return nil
	})
}

// repair: what people edit of the objects of each tool is as intended again, soon.
func (o *takeover) repair() {
	o.Helper()
	for path, patch := range map[string]string{
		shopDeployments + "back":                      `{"spec":{"replicas":5}}`,
		"/api/v1/namespaces/shop/configmaps/cache":    `{"data":{"replicas":"9"}}`,
		"/api/v1/namespaces/shop/configmaps/region":   `{"data":{"region":"us"}}`,
		"/api/v1/namespaces/shop/configmaps/settings": `{"data":{"colour":"blue"}}`,
	} {
		if _, err := o.plane.Ask(http.MethodPatch, path+"?fieldManager=kubectl-edit", "application/merge-patch+json", []byte(patch)); err != nil {
			o.Fatal(err)
		}
	}
	o.plane.Wait("the edits to be repaired", func() error {
		if got := o.deployment("back")["spec"].(plane.Object)["replicas"]; got != 2.0 {
			return fmt.Errorf("back has %v replicas", got)
		}
		for name, want := range map[string]string{"cache": `"replicas":"2"`, "region": `"region":"eu"`, "settings": `"colour":"green"`} {
			if text := string(mustGet(o.T, o.plane, "/api/v1/namespaces/shop/configmaps/"+name)); !strings.Contains(text, want) {
				return errors.New(text)
			}
		}
		return nil
	})
}

// giveBack: what is observed again is Flux's, which goes on as before; Lehr tells, and pushes nothing.
func (o *takeover) giveBack() {
	o.Helper()
	const api = "kubernetes/real/shop/deployment.apps/api"
	o.setMode("flux", "enforce", "observe")
	o.says("get partitions", "observe")
	pushes := o.says("get pushes -p flux")
	o.applyAsFlux(func(text string) string { return strings.ReplaceAll(text, "shop/api:v1", "shop/api:v2") })
	o.says("describe report "+api+" -p flux", "shop/api:v2")
	if now := o.says("get pushes -p flux"); strings.Count(now, "\nflux/") != strings.Count(pushes, "\nflux/") {
		o.Errorf("something was pushed:\n%s\n%s", pushes, now)
	}
	o.awaitImageOf("api", "shop/api:v2")
	if owners := managersOf(o.deployment("api")); !slices.Contains(owners, "kustomize-controller") {
		o.Errorf("it is of %v", owners)
	}
}
