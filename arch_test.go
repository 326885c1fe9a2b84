// Package lehr holds the tests of the house: which room may import which.
package lehr

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "lehr.dev/"

// ground is imported by everything and imports only itself and gen.
const ground = "internal/ground"

// rule says what the packages under some folders may not import, and why.
type rule struct {
	name string
	// from and never are folders; a folder covers what lies below it.
	from, never []string
	// except are folders that never does not cover.
	except []string
	reason string
}

var rules = []rule{
	{
		name: "the ground stands on nothing of ours", from: []string{ground},
		never: []string{""}, except: []string{"gen", ground},
		reason: "everything imports the ground, so an import upwards is a circle waiting to happen",
	},
	{
		name: "pure packages import only the ground", from: []string{"internal/annealing/check", "internal/annealing/explain"},
		never: []string{""}, except: []string{"gen", ground},
		reason: "they take values and now, and return values: no clock, store or network",
	},
	{
		name: "what a rollout does next is decided of values", from: []string{"internal/annealing/strategist/conduct"},
		never: []string{""}, except: []string{"gen", "internal/store", ground},
		reason: "of the store it knows the step that it asks for; so weeks of rollouts are tried in a second",
	},
	{
		name: "the strategist pushes nothing and builds nothing", from: []string{"internal/annealing/strategist"},
		never:  []string{"internal/annealing", "internal/pluginhost", "plugins", "internal/prodspec", "internal/server"},
		except: []string{"internal/annealing/strategist", "internal/annealing/landing"},
		reason: "it moves pins and edits documents; what becomes of that is for others to decide",
	},
	{
		name: "delivery pushes nothing, builds nothing and sets no pin", from: []string{"internal/annealing/delivery"},
		never:  []string{"internal/annealing", "internal/pluginhost", "plugins", "internal/prodspec", "internal/server"},
		except: []string{"internal/annealing/delivery", "internal/annealing/landing"},
		reason: "it edits documents; what becomes of that is for others to decide",
	},
	{
		name: "no other actor knows of delivery", from: []string{"internal/annealing/enforcer", "internal/annealing/strategist", "internal/annealing/check", "internal/annealing/explain"},
		never:  []string{"internal/annealing/delivery"},
		reason: "actors meet in stored pins, documents, rows and reports",
	},
	{
		name: "the enforcer knows nothing of rollouts under way", from: []string{"internal/annealing/enforcer", "internal/annealing/check", "internal/annealing/explain"},
		never:  []string{"internal/annealing/strategist"},
		reason: "actors meet in stored pins, documents and reports",
	},
	{
		name: "who reads samples neither pushes nor judges", from: []string{"internal/annealing/strategist/sampling"},
		never: []string{""}, except: []string{"gen", "internal/external", ground},
		reason: "it asks outside for the strategist, and only that",
	},
	{
		name: "pure packages do no I/O",
		from: []string{
			"internal/ground/intent", "internal/ground/calendar", "internal/ground/judge", "internal/ground/selection", "internal/ground/course", "internal/ground/validation",
			"internal/ground/ordering", "internal/ground/promotion", "internal/ground/workflow", "internal/ground/deliveryhistory", "internal/ground/versionlist",
			"internal/ground/audit", "internal/annealing/check", "internal/annealing/explain", "internal/annealing/strategist/conduct",
		},
		never:  []string{"!os", "!net", "!net/http", "!database/sql", "!math/rand", "!math/rand/v2", "!os/exec"},
		reason: "a rule that can be replayed is a rule that can be tested",
	},
	{
		name: "saying never imports doing", from: []string{"internal/prodspec"}, never: []string{"internal/annealing", "internal/pluginhost", "plugins"},
		reason: "intent is made without looking at production; they meet in the ground and store",
	},
	{
		name: "doing never imports saying", from: []string{"internal/annealing"}, never: []string{"internal/prodspec", "plugins"},
		reason: "the enforcer has no say in what intent is",
	},
	{
		name: "who tells neither pushes nor builds", from: []string{"internal/notify"}, never: []string{"internal/annealing", "internal/pluginhost", "plugins", "internal/server"},
		reason: "it reads what was reported, and nothing waits for it",
	},
	{
		name: "asking outside stands on the ground", from: []string{"internal/external"},
		never: []string{""}, except: []string{"gen", "internal/external", ground},
		reason: "saying and doing both ask, and meet nowhere else",
	},
	{
		name: "the generators' SDK stands on the contracts alone", from: []string{"sdk/generator"}, never: []string{""}, except: []string{"gen", "sdk/generator", "internal/ground/secrecy", "internal/ground/spell"},
		reason: "it is linked into every module, whose size is paid at each start",
	},
	{
		name: "renderers that are programs use the SDK and their library, nothing else", from: []string{"renderers"},
		never: []string{""}, except: []string{"gen", "sdk/generator", "renderers"},
		reason: "they are in a sandbox, and need nothing of the server",
	},
	{
		name: "checking programs use the SDK and their library, nothing else", from: []string{"checkers"},
		never: []string{""}, except: []string{"gen", "sdk/generator", "checkers"},
		reason: "they are in a sandbox, and need nothing of the server",
	},
	{
		name:   "only app, the command and tests know concrete stores and remotes",
		from:   []string{""},
		except: []string{},
		never:  []string{"internal/store/sqlite", "internal/store/postgres", "internal/store/relational", "internal/pluginhost/remote"},
		reason: "actors take roles, so that another engine, or a simulator, can stand in",
	},
	{
		name: "cli and web know the server only through client", from: []string{"internal/cli", "internal/web"},
		never:  []string{"internal/server", "internal/app", "internal/store", "internal/prodspec", "internal/annealing", "internal/pluginhost"},
		reason: "what commands and pages show, any client can get",
	},
	{
		name: "plugins use the SDK and their provider, nothing else", from: []string{"plugins", "examples"},
		never: []string{""}, except: []string{"sdk", "gen", "plugins", "examples", "internal/ground/address", "internal/ground/files", "internal/ground/recent", "internal/ground/statement", "internal/ground/workflow"},
		reason: "a plugin is a small program with a life cycle of its own; what these five hold (where an address leads, how named files are opened, a bounded map, how SQL is read, what a workflow does next) is not to be there twice",
	},
	{
		name: "the tools of the SDK stand on the ground", from: []string{"sdk/subprocess", "sdk/inventory", "sdk/plugintest/testbed"},
		never: []string{""}, except: []string{"gen", ground},
		reason: "renderers, importers and tests use them as well, and want no plugin with them",
	},
	{
		name: "the tools of plugins stand on the SDK", from: []string{"sdk/pace", "sdk/allowlist"},
		never: []string{""}, except: []string{"gen", "sdk/serve", ground},
		reason: "each is for every plugin, so none knows another",
	},
	{
		name: "nothing imports app but the command and the benchmarks", from: []string{""}, never: []string{"internal/app"},
		reason: "app is the wiring, at the top",
	},
	{
		name: "nothing imports sim but the command and tests", from: []string{""}, never: []string{"internal/sim"},
		reason: "a simulator that Lehr leans on would test itself",
	},
}

// exempt lists the importers that a rule leaves alone.
var exempt = map[string][]string{
	"plugins use the SDK and their provider, nothing else": {"plugins/kubernetes/plane"}, // Only tests import it.
	"only app, the command and tests know concrete stores and remotes": {
		"internal/app", "cmd", "test/bench", "internal/store/sqlite", "internal/store/postgres", "internal/store/relational", "internal/pluginhost/remote", "sdk/plugintest", "internal/demo", "internal/sim",
	},
	"nothing imports app but the command and the benchmarks": {"internal/app", "cmd", "test/bench", "internal/demo", "internal/sim"},
	"nothing imports sim but the command and tests":          {"cmd", "internal/sim"},
}

func TestImports(t *testing.T) {
	imports := readImports(t)
	for _, r := range rules {
		for _, from := range slices.Sorted(maps.Keys(imports)) {
			if !covers(r.from, from) || covers(exempt[r.name], from) {
				continue
			}
			for _, to := range imports[from] {
				if forbidden(r, from, to) {
					t.Errorf("%s imports %s: %s, because %s", from, to, r.name, r.reason)
				}
			}
		}
	}
}

func TestPackageNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, dir := range slices.Sorted(maps.Keys(readImports(t))) {
		name := path.Base(dir)
		if strings.HasPrefix(dir, "gen/") || strings.HasPrefix(dir, "cmd/") || dir == "." || isMain(t, dir) {
			continue
		}
		if other, ok := seen[name]; ok {
			t.Errorf("packages %s and %s have one name: importers would need an alias", other, dir)
		}
		seen[name] = dir
	}
}

func forbidden(r rule, from, to string) bool {
	own, ok := strings.CutPrefix(to, module)
	for _, never := range r.never {
		if outside, ok := strings.CutPrefix(never, "!"); ok {
			if to == outside {
				return true
			}
			continue
		}
		if ok && covers([]string{never}, own) && !covers(r.except, own) && own != from {
			return true
		}
	}
	return false
}

// covers reports whether a folder is one of, or below one of, the folders.
func covers(folders []string, dir string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return folder == "" || dir == folder || strings.HasPrefix(dir, folder+"/")
	})
}

// readImports returns the imports of every package, tests left out.
func readImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == ".git" || entry.Name() == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		imports[dir] = append(imports[dir], []string{}...)
		for _, spec := range file.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[dir] = append(imports[dir], to)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

func isMain(t *testing.T, dir string) bool {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), dir, nil, parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	_, ok := packages["main"]
	return ok
}

// TestLinkedModules keeps the server small: a module that is newly linked
// into lehr is a decision, to be recorded in docs/design/decisions and listed here.
func TestLinkedModules(t *testing.T) {
	listed, err := os.ReadFile("allowed-modules.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed := strings.Fields(string(listed))
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/lehr").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out)))))
	for _, name := range linked {
		if !slices.Contains(allowed, name) {
			t.Errorf("lehr links the module %s, which allowed-modules.txt does not list", name)
		}
	}
	for _, name := range allowed {
		if !slices.Contains(linked, name) {
			t.Errorf("allowed-modules.txt lists %s, which lehr does not link", name)
		}
	}
	const most = 100
	if len(linked) > most {
		t.Errorf("lehr links %d modules, more than %d", len(linked), most)
	}
}
