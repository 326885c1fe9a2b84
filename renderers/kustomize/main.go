// Command lehr-kustomize is the renderer kustomize: it builds a kustomization
// from declared files, in memory, and gives each object as an asset. It does
// what kustomize build does, but for what is not in those files: remote bases
// and files, plugins that are programs or containers, and Helm charts.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"lehr.dev/sdk/generator"
	"lehr.dev/sdk/generator/kubernetes"
)

func main() {
	isolate()
	if slices.Equal(os.Args[1:], []string{listing}) {
		os.Exit(list(os.Stdin, os.Stdout))
	}
	generator.Main(render)
}

// isolate leaves Kustomize no way out, where there is no sandbox either: it
// would fetch by git, or by http.
func isolate() {
	os.Setenv("PATH", "")
	http.DefaultTransport = refusing{}
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("only declared files are read")
}

func render(in *generator.Input, out *generator.Output) error {
	options, err := in.Options(append(slices.Clone(kubernetes.Keys), "folder", "origins", "plain_folders", "substitute")...)
	if err != nil {
		return err
	}
	settings, err := kubernetes.SettingsOf(options)
	if err != nil {
		return err
	}
	folder, err := options.One("folder", ".")
	if err != nil {
		return err
	}
	origins, err := readOrigins(options["origins"])
	if err != nil {
		return err
	}
	variables, err := readSubstitution(options["substitute"])
	if err != nil {
		return err
	}
	plain, err := options.One("plain_folders", "")
	if err == nil && plain != "" && plain != plainIncluded {
		err = fmt.Errorf("with.plain_folders %q is not known: write %s, or nothing", plain, plainIncluded)
	}
	if err != nil {
		return err
	}
	if in.File() != "" {
		return errors.New("a kustomization is rendered whole: leave for_each out, and write a generator for each overlay")
	}
	names, err := in.Files()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = in.Read(name); err != nil {
			return err
		}
	}
	if plain == plainIncluded {
		plainFolders(files, folder)
	}
	t := &tree{files: files, origins: origins, variables: variables}
	objects, findings := t.build(path.Clean(folder), settings)
	kubernetes.Tell(out, objects, kubernetes.Whole(objects, findings))
	return nil
}

// plainIncluded has folders without a kustomization be built of all manifests in them.
const plainIncluded = "include"

// build renders the kustomization of a folder of files.
func build(files map[string][]byte, folder string, settings kubernetes.Settings, origins ...kubernetes.Origin) ([]kubernetes.Object, []kubernetes.Finding) {
	return (&tree{files: files, origins: origins}).build(folder, settings)
}

func (t *tree) build(folder string, settings kubernetes.Settings) ([]kubernetes.Object, []kubernetes.Finding) {
	manifests, findings := t.render(folder)
	if len(findings) > 0 {
		return nil, findings
	}
	settings.ClusterScoped = slices.Concat(settings.ClusterScoped, kubernetes.ClusterKinds(t.files))
	objects, findings := kubernetes.Read(manifests, settings)
	return objects, append(findings, t.leftOut...)
}

// render gives the objects of a folder's kustomization as text, or what is wrong.
func (t *tree) render(folder string) ([]kubernetes.Manifest, []kubernetes.Finding) {
	main := t.look(folder)
	if len(t.findings) > 0 {
		return nil, t.findings
	}
	system := filesys.MakeFsInMemory()
	for name := range t.files {
		text := t.textOf(name)
		if name == main {
			text = traced(text)
		}
		if err := system.WriteFile("/"+name, text); err != nil {
			return nil, []kubernetes.Finding{{File: name, Message: "cannot be read: " + err.Error(), Hint: "give the file another name"}}
		}
	}
	// Nothing but declared files is there, so that a restriction to those below
	// the folder would keep nothing out.
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	made, err := krusty.MakeKustomizer(options).Run(system, path.Join("/", folder))
	if err != nil {
		return nil, []kubernetes.Finding{t.failure(main, err)}
	}
	manifests, err := t.manifests(made, folder, main)
	if err != nil {
		return nil, []kubernetes.Finding{t.failure(main, err)}
	}
	return manifests, t.findings
}

// manifests are the objects as text, each with the file that it came from.
func (t *tree) manifests(made resmap.ResMap, folder, main string) ([]kubernetes.Manifest, error) {
	origins := make([]string, made.Size())
	for i, resource := range made.Resources() {
		origins[i] = main
		if origin, err := resource.GetOrigin(); err == nil && origin != nil {
			for _, from := range []string{origin.Path, origin.ConfiguredIn} {
				if name := path.Join(folder, from); from != "" && t.files[name] != nil {
					origins[i] = name
					break
				}
			}
		}
	}
	if t.traces {
		if err := made.RemoveOriginAnnotations(); err != nil {
			return nil, err
		}
	}
	var manifests []kubernetes.Manifest
	for i, resource := range made.Resources() {
		subject, line := resource.GetKind()+" "+resource.GetName(), t.line(origins[i], resource.GetKind(), resource.GetName())
		t.differing(kubernetes.Finding{File: origins[i], Line: line}, subject, resource.RNode.YNode(), "")
		text, missing, err := t.variables.textOfResource(resource)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			t.leaveUnset(origins[i], line, subject, missing)
			continue
		}
		manifest := kubernetes.Manifest{File: origins[i], Text: []byte(text), Rendered: true, Line: line}
		if named := generated.FindStringSubmatch(resource.GetName()); named != nil {
			manifest.Name = named[1]
		}
		manifests = append(manifests, manifest)
	}
	return manifests, nil
}

// generated is a name with the hash of a generator's content behind it: ten digits of
// Kustomize's own (sigs.k8s.io/kustomize/api/hasher, encode).
var generated = regexp.MustCompile(`^(.+)-[2456789bcdfghkmt]{10}$`)

// line is where a file has an object of a kind, whose name may have got a prefix
// and a suffix since: that with the longest name. 0: it is not known.
func (t *tree) line(file, kind, name string) int {
	if t.lines[file] == nil {
		if t.lines == nil {
			t.lines = map[string]map[string]int{}
		}
		t.lines[file] = kubernetes.Lines(t.files[file])
	}
	best, line := 0, 0
	for key, at := range t.lines[file] {
		if was, is := strings.CutPrefix(key, kind+"/"); !is || !strings.Contains(name, was) || len(was) < best {
			continue
		} else if len(was) == best {
			line = 0
		} else {
			best, line = len(was), at
		}
	}
	return line
}

var (
	fileOf = regexp.MustCompile(`(?:File|file|in|path)[: ]+'?/?([A-Za-z0-9_./-]+\.(?:ya?ml|json|env|properties))`)
	lineOf = regexp.MustCompile(`line (\d+)`)
)

// failure is what a person is told of Kustomize's errors, whose text is long and
// whose last words matter.
func (t *tree) failure(main string, err error) kubernetes.Finding {
	message := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", " ")
	f := kubernetes.Finding{File: main, Hint: "kustomize build says the same"}
	if found := fileOf.FindAllStringSubmatch(message, -1); found != nil {
		last := found[len(found)-1][1]
		for name := range t.files {
			if name == last || strings.HasSuffix(name, "/"+last) && strings.HasPrefix(main, path.Dir(name)) {
				f.File = name
			}
		}
		if found := lineOf.FindAllStringSubmatch(message, -1); found != nil && f.File != main {
			f.Line, _ = strconv.Atoi(found[len(found)-1][1])
		}
	}
	if len(message) > 600 {
		message = "… " + message[len(message)-600:]
	}
	f.Message = "Kustomize cannot build it: " + message
	return f
}

var names = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

func kustomizationIn(files map[string][]byte, folder string) []string {
	var found []string
	for _, name := range names {
		if name = path.Join(folder, name); files[name] != nil {
			found = append(found, name)
		}
	}
	return slices.Clip(found)
}
