package kargo

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// MaxBytes of all that is read.
const MaxBytes = 16 << 20

// object is one of Kubernetes.
type object struct {
	kind, name string
	node       *yaml.Node
	// head are the values that say which object it is.
	head []*yaml.Node
}

// readAll reads files, folders and, as -, standard input.
func readAll(names []string) (list []File, err error) {
	remaining := int64(MaxBytes)
	add := func(name string, text []byte, err error) error {
		if remaining -= int64(len(text)); err == nil && remaining < 0 {
			err = fault.New(fault.Invalid, "what is to be read has more than %d MiB", MaxBytes>>20).WithHint("name the folder with the resources of one project of Kargo")
		}
		list = append(list, File{filepath.ToSlash(name), text})
		return err
	}
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			text, err := io.ReadAll(io.LimitReader(os.Stdin, MaxBytes+1))
			if err := add("stdin", text, err); err != nil {
				return nil, err
			}
			continue
		case err == nil && info.IsDir():
			err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return fault.New(fault.Invalid, "reading %s: %w", name, err).WithHint("name a folder that can be read")
				case entry.IsDir() && path != name && strings.HasPrefix(entry.Name(), "."):
					return fs.SkipDir
				case !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
					return nil
				}
				text, err := readFile(path)
				return add(path, text, err)
			})
			if err != nil {
				return nil, err
			}
			continue
		}
		text, err := readFile(name)
		if err := add(name, text, err); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func readFile(name string) ([]byte, error) {
	text, err := files.ReadForeign(name, MaxBytes)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%v", err).WithHint("name files or folders with the resources of a project of Kargo, or - for standard input, as lehr import kargo kargo/ --to shop")
	}
	return text, nil
}

// parse takes the objects of a file.
func (r *reading) parse(file File) error {
	decoder := yaml.NewDecoder(bytes.NewReader(file.Text))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.New(fault.Invalid, "%s is not YAML: %v", file.Name, err).WithHint("mend the file, or name only those of Kargo")
		}
		if len(document.Content) != 1 {
			continue
		}
		node := document.Content[0]
		if alias := findAlias(node); alias != nil {
			return fault.New(fault.Invalid, "%s:%d: an alias of YAML is not read", file.Name, alias.Line).WithHint("write out what it stands for, and import the file again")
		}
		r.place(node, file.Name)
		if odd := findNUL(node); odd != nil {
			return fault.New(fault.Invalid, "%s:%d: a text has the character NUL", file.Name, odd.Line).WithHint("take it out, and import the file again")
		}
		r.add(node)
	}
}

// findAlias finds the first alias, whose values would be counted twice or never end.
func findAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node
	}
	for _, child := range node.Content {
		if found := findAlias(child); found != nil {
			return found
		}
	}
	return nil
}

// findNUL finds a text with the character that marks stand between.
func findNUL(node *yaml.Node) *yaml.Node {
	if strings.Contains(node.Value, "\x00") {
		return node
	}
	for _, child := range node.Content {
		if found := findNUL(child); found != nil {
			return found
		}
	}
	return nil
}

// add takes an object, or the items of a list.
func (r *reading) add(node *yaml.Node) {
	kind := attribute(node, "kind")
	group, _, _ := strings.Cut(attribute(node, "apiVersion"), "/")
	if items := child(node, "items"); items != nil && strings.HasSuffix(kind, "List") && items.Kind == yaml.SequenceNode {
		for _, item := range items.Content {
			r.add(item)
		}
		return
	}
	name := attribute(node, "metadata", "name")
	switch {
	case node.Kind != yaml.MappingNode || kind == "":
		return
	case group == "v1" && kind == "ConfigMap":
		r.configMaps[name] = textsOf(child(node, "data"))
	case group == "v1" && kind == "Secret":
		if address := attribute(node, "stringData", "repoURL"); address != "" {
			r.secrets[name] = map[string]any{"repoURL": address}
		}
		r.leave(node, "Secret "+name, "no secret is copied: give the server a token, and list it for the sources of this partition (docs/operate/secrets.md)")
	case group == "kargo.akuity.io" && slices.Contains([]string{"Project", "ProjectConfig", "Warehouse", "Stage", "PromotionTask", "ClusterPromotionTask"}, kind),
		group == "argoproj.io" && slices.Contains([]string{"AnalysisTemplate", "ClusterAnalysisTemplate"}, kind):
		r.addObject(&object{kind: kind, name: name, node: node})
	case group == "kargo.akuity.io" && slices.Contains([]string{"Freight", "Promotion"}, kind):
		r.leave(node, kind+" "+name, "Kargo made it; versions are found anew, and what a Stage has is read from the repository")
	default:
		r.leave(node, kind+" "+name, "it is none of the kinds that say what is promoted: import it with lehr import manifests or argocd, if production needs it")
	}
}

// textsOf are the texts of a mapping.
func textsOf(node *yaml.Node) map[string]any {
	made := map[string]any{}
	for i := 0; node != nil && node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		made[node.Content[i].Value] = node.Content[i+1].Value
	}
	return made
}

// addObject takes an object of the one project.
func (r *reading) addObject(o *object) {
	project := attribute(o.node, "metadata", "namespace")
	if o.kind == "Project" {
		project = o.name
	}
	isShared := strings.HasPrefix(o.kind, "Cluster")
	switch {
	case o.name == "":
		r.refuse(o.node, "the %s has no name", o.kind)
		return
	case project != "" && r.project != "" && project != r.project && !isShared:
		r.refuse(o.node, "the %s %s is of the project %s, and others are of %s: a partition is made of one project", o.kind, o.name, project, r.project)
		return
	case r.project == "" && !isShared:
		r.project = project
	}
	for _, other := range r.objects {
		if other.kind == o.kind && other.name == o.name {
			r.refuse(o.node, "there are two of the kind %s with the name %s", o.kind, o.name)
			return
		}
	}
	r.countObject(o)
	r.objects = append(r.objects, o)
}

// countObject has the values count that people write; what a cluster adds does not.
func (r *reading) countObject(o *object) {
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		key, value := o.node.Content[i].Value, o.node.Content[i+1]
		switch key {
		case "status":
		case "metadata":
			r.countMetadata(o, value)
		default:
			r.count(value, o.kind, key)
		}
		if key == "apiVersion" || key == "kind" {
			o.head = append(o.head, value)
		}
	}
}

// madeByCluster are keys of metadata that people do not write.
var madeByCluster = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "finalizers", "ownerReferences", "selfLink"}

func (r *reading) countMetadata(o *object, node *yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case slices.Contains(madeByCluster, key.Value):
			continue
		case key.Value == "name" || key.Value == "namespace":
			o.head = append(o.head, value)
		case key.Value == "labels":
			// Policies select by them.
			o.head = append(o.head, value)
		default:
			r.leave(key, o.kind+" "+o.name+": "+key.Value, "colours, waves and notes for other programs have no place in a definition", value)
		}
		r.count(value, o.kind, key.Value)
	}
}

// named is how applications and environments of Lehr may be called.
var named = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// segment is a name as delivery has it.
func segment(text string) string {
	clean := strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '-'
	}, strings.ToLower(text)), "-_")
	if len(clean) > 63 {
		clean = strings.Trim(clean[:63], "-_")
	}
	return clean
}

// repositoryKey is the same for two ways to write the address of a repository.
func repositoryKey(address string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(address), "/"), ".git")
}
