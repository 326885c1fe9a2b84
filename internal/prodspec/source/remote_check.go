package source

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Check says what is wrong with where a source is said to lie. Nothing that
// passes is an option of a program, leads out of a folder, or holds a secret.
func (r Remote) Check() error {
	if r.Every != 0 && r.Every < EveryAtLeast {
		return fault.New(fault.Invalid, "every: %s is less than %s", r.Every, EveryAtLeast)
	}
	switch {
	case r.Document != "":
		return document.CheckName(r.Document)
	case r.Outputs != "":
		_, err := intent.ParsePartitionID(string(r.Outputs))
		return err
	case r.Git != nil:
		return r.Git.check()
	case r.HTTP != nil:
		return checkURL(r.HTTP.URL, r.HTTP.Login, "https", "http")
	case r.SQL != nil:
		if strings.TrimSpace(r.SQL.Query) == "" {
			return fault.New(fault.Invalid, "the query is empty")
		}
		if r.SQL.SQLite != "" && !filepath.IsAbs(r.SQL.SQLite) {
			return fault.New(fault.Invalid, "%.300q is not an absolute path", r.SQL.SQLite)
		}
		return nil
	case r.Packed != nil:
		return r.Packed.check()
	case r.Versions == nil:
		return fault.New(fault.Internal, "a source lies nowhere")
	}
	return r.Versions.check()
}

// checkURL refuses what has a password in it, and one that would be read by
// others on its way.
func checkURL(text string, login Login, schemes ...string) error {
	parsed, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, parsed.Scheme) || !host.MatchString(parsed.Hostname()) {
		return fault.New(fault.Invalid, "a URL of %s is needed, and this is none", strings.Join(schemes, " or ")).WithHint("write %s://host.example.com/path", schemes[0])
	}
	if _, hasPassword := parsed.User.Password(); hasPassword || parsed.User != nil && parsed.Scheme != "ssh" {
		return fault.New(fault.Invalid, "the URL at %s holds a user or a password", parsed.Host).WithHint("write user: NAME and token: {env: VARIABLE} or {file: PATH}: a secret is never in a definition")
	}
	if parsed.User != nil && !user.MatchString(parsed.User.Username()) {
		return fault.New(fault.Invalid, "%.300q is no user of %s", parsed.User.Username(), parsed.Host)
	}
	if !login.Token.IsZero() && parsed.Scheme == "http" {
		if name := parsed.Hostname(); name != "localhost" && name != "127.0.0.1" && name != "::1" {
			return fault.New(fault.Invalid, "a token would be sent to %s in the clear", parsed.Host).WithHint("use https")
		}
	}
	return nil
}

// user and host begin like no option.
var user = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// host is a name or an address.
var host = regexp.MustCompile(`^[A-Za-z0-9\[:_][A-Za-z0-9._:%\]-]*$`)

var (
	commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	// scp is how git writes an address of SSH in short.
	scp = regexp.MustCompile(`^(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^/].*|/.*)$`)
)

func (g *Git) check() error {
	if g.Directory != "" && (!filepath.IsLocal(g.Directory) || strings.HasPrefix(g.Directory, ":") || strings.ContainsAny(g.Directory, "\x00\\")) {
		return fault.New(fault.Invalid, "dir: %.300q leads out of the repository", g.Directory).WithHint("write a folder of it, as prod/eu")
	}
	if g.Document != "" && !filepath.IsLocal(g.Document) {
		return fault.New(fault.Invalid, "document: %.300q leads out of the repository", g.Document).WithHint("write a file of it, as prod/knobs.yaml")
	}
	for _, name := range []string{g.Branch, g.Tag} {
		if name != "" && !reference(name) {
			return fault.New(fault.Invalid, "%.300q is no name of a branch or a tag", name)
		}
	}
	if g.Commit != "" && !commit.MatchString(g.Commit) {
		return fault.New(fault.Invalid, "%.300q is no whole commit", g.Commit).WithHint("write all 40 digits, in small letters")
	}
	if filepath.IsAbs(g.URL) {
		if strings.ContainsAny(g.URL, "\x00\n") {
			return fault.New(fault.Invalid, "%.300q is no path of a repository", g.URL)
		}
		return nil
	}
	return checkURL(g.URL, g.Login, "https", "http", "ssh")
}

// GitURL puts what people write as a repository's address into the form that
// Git has. Relative paths are of the folder.
func GitURL(text, folder string) string {
	if rest, ok := strings.CutPrefix(text, "file://"); ok {
		return filepath.Clean("/" + strings.TrimLeft(rest, "/"))
	}
	if strings.Contains(text, "://") {
		return text
	}
	if m := scp.FindStringSubmatch(text); m != nil && !strings.Contains(text, "::") && !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "/") {
		user := ""
		if m[1] != "" {
			user = m[1] + "@"
		}
		return "ssh://" + user + m[2] + "/" + strings.TrimPrefix(m[3], "/")
	}
	if strings.Contains(text, "::") {
		return text // It names a program, and is refused.
	}
	if filepath.IsAbs(text) {
		return filepath.Clean(text)
	}
	return filepath.Join(folder, text)
}

// reference is what git takes for the name of a branch or a tag
// (git-check-ref-format).
func reference(name string) bool {
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || name == "@" || len(name) > 250 ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") {
		return false
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || strings.ContainsRune(" ~^:?*[\\", r) {
			return false
		}
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
