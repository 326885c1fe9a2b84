package definition

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/prodspec/source"
)

// kinds of sources that lie elsewhere, by the key that says where, and the keys
// that each may have beside it.
var kinds = []struct {
	name string
	keys []string
}{
	{"git", []string{"every", "branch", "tag", "commit", "dir", "files", "document", "user", "token", "key", "known_hosts"}},
	{"http", []string{"every", "file", "user", "token"}},
	{"sql", []string{"every", "query", "file", "rows", "empty"}},
	{"registry", versionKeys("user", "token", "fields", "status", "branch", "branches", "pull_requests", "verify", "attested", "predicate")},
	{"debian", versionKeys("package", "user", "token", "fields", "status", "branch", "branches", "pull_requests", "verify")},
	{"git_tags", versionKeys("user", "token", "key", "known_hosts", "branch")},
	{"git_commits", versionKeys("user", "token", "key", "known_hosts", "branch")},
	{"charts", versionKeys("name", "user", "token", "fields", "status", "branch", "branches", "pull_requests", "verify", "attested", "predicate")},
	{"listing", versionKeys("user", "token", "fields", "status", "branch", "branches", "pull_requests", "items", "sums")},
	{"command", versionKeys("fields", "status", "branch", "branches", "pull_requests", "items")},
	{"pushed", versionKeys("fields", "status", "branch", "branches", "pull_requests")},
	{"chart", []string{"every", "name", "version", "digest", "files", "verify", "user", "token"}},
	{"artifact", []string{"every", "files", "verify", "user", "token"}},
	{"document", nil}, // Behind git, which may have the key too.
	{"outputs", nil},
}

// versionKeys are those of a list of versions, with some of its kind.
func versionKeys(own ...string) []string {
	return append([]string{"every", "file", "match", "regexp", "order", "limit", "keep"}, own...)
}

// kindOf is where a source lies elsewhere; empty: it does not.
func kindOf(node *yaml.Node) string {
	for _, kind := range kinds {
		if child(node, kind.name) != nil {
			return kind.name
		}
	}
	return ""
}

// remote is a source that lies elsewhere.
func (p *parser) remote(key, value *yaml.Node, at, name, kind string) Source {
	var allowed []string
	for _, candidate := range kinds {
		if candidate.name == kind {
			allowed = append([]string{kind}, candidate.keys...)
		}
	}
	r := &remoteParser{parser: p, key: key, at: at, fields: p.fields(value, at, allowed)}
	s := Source{Directory: name, Line: key.Line, Remote: &source.Remote{}}
	if node := r.fields["every"]; node != nil {
		s.Remote.Every = p.duration(node, at+".every")
	}
	login := source.Login{User: r.text("user"), Token: r.secret("token")}
	switch kind {
	case "git":
		s.Remote.Git = r.git(kind, login)
		s.Remote.Git.Branch, s.Remote.Git.Tag, s.Remote.Git.Commit = r.text("branch"), r.text("tag"), r.text("commit")
		if len(slices.DeleteFunc([]string{s.Remote.Git.Branch, s.Remote.Git.Tag, s.Remote.Git.Commit}, func(s string) bool { return s == "" })) > 1 {
			p.at(key, at, "%s follows more than one of branch, tag and commit", at).hint("keep one")
		}
		if r.fields["document"] != nil {
			s.Files = r.gitDocument(s.Remote.Git)
			break
		}
		if s.Remote.Git.Directory = r.text("dir"); s.Remote.Git.Directory != "" {
			s.Remote.Git.Directory = strings.TrimSuffix(path.Clean(s.Remote.Git.Directory), "/")
		}
		s.Files = r.patterns()
	case "document":
		s.Remote.Document = r.text(kind)
		r.check(r.fields[kind], at+".document", document.CheckName(s.Remote.Document))
		s.Files = []string{document.File(s.Remote.Document)}
	case "outputs":
		other, err := intent.ParsePartitionID(r.text(kind))
		r.check(r.fields[kind], at+".outputs", err)
		s.Remote.Outputs = other
		s.Files = []string{document.File(outputs.Document), outputs.GrantFile}
	case "http":
		s.Remote.HTTP = &source.HTTP{URL: r.text("http"), Login: login, File: r.file()}
		s.Files = []string{s.Remote.HTTP.File}
	case "sql":
		s.Remote.SQL, s.Files = r.sql()
	case "chart", "artifact":
		s.Remote.Packed, s.Files = r.packed(kind, login)
	default:
		v := r.versions(kind, login)
		s.Remote.Versions, s.Files = v, []string{v.File}
	}
	return s
}

// remoteParser reads the keys of one source.
type remoteParser struct {
	*parser
	key    *yaml.Node
	at     string
	fields map[string]*yaml.Node
}

// text of a key; empty: it is not there.
func (r *remoteParser) text(name string) string {
	if node := r.fields[name]; node != nil {
		return r.parser.text(node, r.at+"."+name)
	}
	return ""
}

func (r *remoteParser) missing(name, example string) {
	r.parser.at(r.key, r.at+"."+name, "%s.%s is missing", r.at, name).hint("%s", example)
}

// gitDocument is the one file of a repository that is edited as a document.
func (r *remoteParser) gitDocument(git *source.Git) []string {
	name := path.Clean(r.text("document"))
	ext := path.Ext(name)
	at := r.at + ".document"
	switch {
	case ext != ".yaml" && ext != ".yml" && ext != ".json" || strings.ContainsAny(name, `*?[\`) || strings.HasPrefix(path.Base(name), "."):
		r.parser.at(r.fields["document"], at, "%s: %.300q is no file of YAML or JSON", at, name).hint("write its path in the repository, such as prod/%s.yaml", r.key.Value)
	case path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../"):
		r.parser.at(r.fields["document"], at, "%s: %.300q leads out of the repository", at, name).hint("write its path in the repository, such as prod/%s.yaml", r.key.Value)
	case r.fields["dir"] != nil || r.fields["files"] != nil:
		r.parser.at(r.fields["document"], at, "%s names one file, and there are dir or files beside it", at).hint("keep document alone, or read the file without editing it: dir and files")
	case git.Branch == "":
		r.missing("branch", "say which branch edits are pushed to: branch: main")
	}
	if git.Document = name; path.Dir(name) != "." {
		git.Directory = path.Dir(name)
	}
	return []string{path.Base(name)}
}

// file is the name of the one file that there is.
func (r *remoteParser) file() string {
	name := r.text("file")
	if name == "" {
		r.missing("file", "say how generators find it: file: "+r.key.Value+".json")
		return "missing"
	}
	if strings.ContainsAny(name, `/\*?[`) || strings.HasPrefix(name, ".") {
		r.parser.at(r.fields["file"], r.at+".file", "%s.file: %.300q is no name of a file", r.at, name).hint("write a name such as %s.json", r.key.Value)
		return "missing"
	}
	return name
}

// packed is a chart or an artifact, of which all files are read if none are named.
func (r *remoteParser) packed(kind string, login source.Login) (*source.Packed, []string) {
	var packed source.Packed
	var err error
	if kind == "artifact" {
		packed, err = source.ParseArtifact(r.text(kind))
	} else {
		packed, err = source.ParseChart(r.text(kind), r.text("name"))
		if packed.Version, packed.Digest = r.text("version"), r.text("digest"); packed.Version == "" {
			r.missing("version", `say which: version: 1.2.3, or a constraint such as version: "~1.2"`)
			return &packed, nil
		}
	}
	packed.Verify, packed.Login = r.text("verify"), login
	if err == nil {
		err = source.Remote{Packed: &packed}.Check()
	}
	r.check(r.fields[kind], r.at+"."+kind, err)
	if r.fields["files"] == nil {
		return &packed, nil
	}
	return &packed, r.patterns()
}

func (r *remoteParser) patterns() []string {
	node := r.fields["files"]
	if node == nil {
		r.missing("files", `write files: ["*.yaml"]`)
		return nil
	}
	list := r.texts(node, r.at+".files")
	for i, pattern := range list {
		r.check(item(node, i), r.at+".files", source.CheckPattern(pattern))
	}
	return list
}

// secret is a reference to one: {env: VARIABLE} or {file: PATH}.
func (r *remoteParser) secret(name string) (s source.Secret) {
	node := r.fields[name]
	if node == nil {
		return s
	}
	at := r.at + "." + name
	if node.Kind != yaml.MappingNode {
		// What is written there may be a secret, and is not repeated.
		r.parser.at(node, at, "%s must say where the secret is found, and not hold it", at).hint("write %s: {env: VARIABLE} or %s: {file: /absolute/path}", name, name)
		return s
	}
	fields := r.parser.fields(node, at, []string{"env", "file"})
	if env := fields["env"]; env != nil {
		s.Env = r.parser.text(env, at+".env")
	}
	if file := fields["file"]; file != nil {
		if s.File = r.parser.text(file, at+".file"); s.File != "" && !path.IsAbs(s.File) {
			r.parser.at(file, at+".file", "%s.file is not an absolute path", at).hint("write the path on the server's machine")
		}
	}
	if (s.Env == "") == (s.File == "") && len(r.findings) == 0 {
		r.parser.at(node, at, "%s names a variable or a file, one of them", at).hint("write %s: {env: VARIABLE} or %s: {file: /absolute/path}", name, name)
	}
	return s
}

func (r *remoteParser) git(name string, login source.Login) *source.Git {
	return &source.Git{URL: r.text(name), Login: login, Key: r.secret("key"), KnownHosts: r.secret("known_hosts")}
}

func (r *remoteParser) sql() (*source.SQL, []string) {
	s := &source.SQL{Query: r.text("query")}
	if s.Query == "" {
		r.missing("query", "write one SELECT: query: SELECT name, size FROM shop ORDER BY name")
	}
	if node := r.fields["sql"]; node.Kind == yaml.MappingNode {
		s.DSN = r.secret("sql")
	} else if file, ok := strings.CutPrefix(node.Value, "sqlite:"); ok && file != "" {
		s.SQLite = file
	} else {
		r.parser.at(node, r.at+".sql", "%s.sql is neither the file of an SQLite database nor a reference to the address of another", r.at).
			hint("write sql: sqlite:shop.db, or sql: {env: VARIABLE} where the server has the URL of a PostgreSQL database")
	}
	if node := r.fields["empty"]; node != nil {
		if s.Empty = node.Value == "true"; node.Tag != "!!bool" {
			r.parser.at(node, r.at+".empty", "%s.empty must be true or false", r.at).hint("write empty: true if no rows are an answer too")
		}
	}
	if s.Rows = r.text("rows"); s.Rows == "" {
		s.File = r.file()
		return s, []string{s.File}
	}
	if r.fields["file"] != nil {
		r.parser.at(r.fields["file"], r.at+".file", "%s has both file and rows", r.at).hint("keep one: file for all rows in one, rows for a file of each")
	}
	return s, []string{"*.json"}
}
