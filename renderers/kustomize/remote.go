package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/sdk/generator/kubernetes"
)

// readOrigins reads which sources are which repositories, as Lehr tells it.
func readOrigins(texts []string) ([]kubernetes.Origin, error) {
	var list []kubernetes.Origin
	for _, text := range texts {
		var origin kubernetes.Origin
		if err := json.Unmarshal([]byte(text), &origin); err != nil {
			return nil, fmt.Errorf("an origin of a source cannot be read: %w", err)
		}
		list = append(list, origin)
	}
	return list, nil
}

// reference is what a kustomization says of another repository.
type reference struct {
	// place is host and path, without scheme, user and .git.
	place string
	// revision that is wanted; empty: what HEAD says.
	revision string
}

// readReference reads the forms that Kustomize takes: URLs, git@host:path, host/path
// and a git:: before them, with ?ref= behind them.
func readReference(text string) reference {
	text, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		values = url.Values{}
	}
	revision := values.Get("ref")
	if revision == "" {
		revision = values.Get("version")
	}
	return reference{placeOf(text), revision}
}

// placeOf is an address of git without what does not say which repository it is.
func placeOf(text string) string {
	text = strings.TrimPrefix(text, "git::")
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		rest = text
		// git@host:path, as SSH has it in short.
		if host, inside, short := strings.Cut(rest, ":"); short && !strings.Contains(host, "/") {
			rest = host + "/" + strings.TrimPrefix(inside, "/")
		}
	}
	host, inside, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		host = host[at+1:]
	}
	if scheme == "file" {
		return "/" + strings.TrimLeft(inside, "/")
	}
	return strings.ToLower(strings.TrimPrefix(host, "www.")) + "/" + inside
}

// below is the path in a repository that a reference names; ok: it is of that one.
func (r reference) below(repository string) (inside string, ok bool) {
	repository = strings.TrimSuffix(strings.TrimSuffix(placeOf(repository), "/"), ".git")
	rest, ok := strings.CutPrefix(r.place, repository)
	if !ok {
		return "", false
	}
	rest = strings.TrimPrefix(rest, ".git")
	if rest != "" && !strings.HasPrefix(rest, "/") {
		return "", false // Of another repository, whose name begins so.
	}
	return path.Clean("/" + rest)[1:], true
}

// same reports whether a revision is the one that a source is at: the same name, or
// the beginning of the same commit.
func same(wanted, revision string) bool {
	const abbreviated = 7
	isCommit := len(revision) >= 40 && strings.Trim(revision, "0123456789abcdef") == ""
	return wanted == revision || isCommit && len(wanted) >= abbreviated && strings.HasPrefix(revision, wanted)
}

// fetched finds what a kustomization names in another repository among the sources,
// and has it name that folder in place of the address. It reports whether a source is
// of that repository: what is wrong was said then.
func (t *tree) fetched(file string, node *yaml.Node) (done bool) {
	wanted := readReference(node.Value)
	other := -1
	for i, origin := range t.origins {
		inside, ok := wanted.below(origin.URL)
		switch {
		case !ok:
		case same(wanted.revision, origin.Revision):
			t.from(file, node, origin, inside)
			return true
		default:
			other = i
		}
	}
	if other < 0 {
		return false
	}
	origin := t.origins[other]
	t.wrong(file, node, "write the same in both: ?ref=… here, and commit, tag or branch of the source; a commit stays what it is",
		"%s wants %s, and the source %s is at %s", node.Value, revisionName(wanted.revision), origin.Source, revisionName(origin.Revision))
	return true
}

// from has a kustomization name a folder or file of a source.
func (t *tree) from(file string, node *yaml.Node, origin kubernetes.Origin, inside string) {
	rest := inside
	if directory := path.Clean("/" + origin.Directory)[1:]; directory != "" {
		below, ok := strings.CutPrefix(inside+"/", directory+"/")
		if !ok {
			t.wrong(file, node, "leave dir out of the source, or name one above it", "%s is not below the folder %s, which is all that the source %s has", node.Value, directory, origin.Source)
			return
		}
		rest = below
	}
	t.replace(file, node, path.Join(origin.Source, rest))
}

func revisionName(revision string) string {
	if revision == "" {
		return "what HEAD says"
	}
	return revision
}

// replace has a kustomization name a declared folder or file, where it named another
// repository. Lines stay where they are.
func (t *tree) replace(file string, node *yaml.Node, target string) {
	switch {
	case t.files[target] != nil:
	case len(kustomizationIn(t.files, target)) > 0:
	default:
		t.wrong(file, node, "add it to the files of the source; its kustomization must be among them", "%s is %s, which is not among the declared files", node.Value, target)
		return
	}
	relative := relativePath(path.Dir(file), target)
	lines := strings.SplitAfter(string(t.textOf(file)), "\n")
	at := node.Line - 1
	if at < 0 || at >= len(lines) || strings.Count(lines[at], node.Value) != 1 {
		t.wrong(file, node, "write each address once, on a line of its own", "%s cannot be found in its line", node.Value)
		return
	}
	lines[at] = strings.Replace(lines[at], node.Value, relative, 1)
	if t.edited == nil {
		t.edited = map[string][]byte{}
	}
	t.edited[file] = []byte(strings.Join(lines, ""))
	if len(kustomizationIn(t.files, target)) > 0 {
		t.look(target)
	} else {
		t.read(target)
	}
}

// textOf is a file as Kustomize reads it.
func (t *tree) textOf(file string) []byte {
	if text := t.edited[file]; text != nil {
		return text
	}
	return t.files[file]
}

// relativePath leads from one folder to another path, both from the folder of lehr.yaml.
func relativePath(from, to string) string {
	up := ""
	for from != "." && from != "" && from != to && !strings.HasPrefix(to, from+"/") {
		up, from = up+"../", path.Dir(from)
	}
	if from == "." || from == "" {
		return up + to
	}
	return up + strings.TrimPrefix(strings.TrimPrefix(to, from), "/")
}
