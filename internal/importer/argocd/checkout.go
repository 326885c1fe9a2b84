package argocd

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

const (
	mostFiles     = 50_000
	mostFileBytes = 10 << 20
	fetchWithin   = 5 * time.Minute
)

// checkout is a repository whose files lie in a folder of this machine.
type checkout struct {
	url, folder string
	// isGit: the folder is the top of a working copy of git.
	isGit bool
	// names of all files, sorted, with slashes.
	names []string
	known map[string]bool
}

// checkouts finds the folder of a repository.
type checkouts struct {
	byURL map[string]*checkout
	// fetch: repositories without a checkout are cloned into folder.
	fetch  bool
	folder string
	failed map[string]string
}

// normalURL is a URL without what says nothing about the repository: the scheme, a user, .git.
func normalURL(text string) string {
	text = strings.TrimSpace(text)
	if user, rest, ok := strings.Cut(text, "@"); ok && !strings.Contains(text, "://") && !strings.Contains(user, "/") {
		text = "ssh://" + strings.Replace(rest, ":", "/", 1)
	}
	if parsed, err := url.Parse(text); err == nil && parsed.Host != "" {
		text = strings.ToLower(parsed.Hostname()) + parsed.Path
	}
	return strings.TrimSuffix(strings.TrimSuffix(text, "/"), ".git")
}

// add takes URL=FOLDER.
func (c *checkouts) add(argument string) error {
	// A URL may hold a sign of equality, and a folder hardly does.
	at := strings.LastIndex(argument, "=")
	if at < 1 || at == len(argument)-1 {
		return fault.New(fault.Invalid, "--checkout %q names no repository and folder", argument).WithHint("write --checkout https://git.example.com/shop.git=../shop")
	}
	return c.addFolder(argument[:at], argument[at+1:])
}

func (c *checkouts) addFolder(repository, folder string) error {
	absolute, err := filepath.Abs(folder)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return fault.New(fault.NotFound, "the checkout %q: %w", folder, err).WithHint("name a folder with the files of the repository")
	}
	made := &checkout{url: repository, folder: absolute, known: map[string]bool{}}
	if err := made.list(); err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(absolute, ".git"))
	made.isGit = err == nil
	c.byURL[normalURL(repository)] = made
	return nil
}

// list reads the names of the files.
func (c *checkout) list() error {
	err := filepath.WalkDir(c.folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		case len(c.names) == mostFiles:
			return fmt.Errorf("it has more than %d files", mostFiles)
		}
		relative, err := filepath.Rel(c.folder, name)
		if err == nil {
			c.names = append(c.names, filepath.ToSlash(relative))
			c.known[filepath.ToSlash(relative)] = true
		}
		return err
	})
	if err != nil {
		return fault.New(fault.Invalid, "reading the checkout %s: %w", c.folder, err).WithHint("name a folder with the files of one repository")
	}
	return nil
}

// read reads a file; nil where there is none, or none that can be read.
func (c *checkout) read(name string) []byte {
	if !c.known[name] {
		return nil
	}
	text, err := files.ReadForeign(filepath.Join(c.folder, filepath.FromSlash(name)), mostFileBytes)
	if err != nil {
		return nil
	}
	return text
}

// below lists the files below a folder of the repository.
func (c *checkout) below(folder string) []string {
	if folder = path.Clean(folder); folder == "." {
		return c.names
	}
	var list []string
	at, _ := slices.BinarySearch(c.names, folder+"/")
	for ; at < len(c.names) && strings.HasPrefix(c.names[at], folder+"/"); at++ {
		list = append(list, c.names[at])
	}
	return list
}

// folders lists all folders of the repository, sorted.
func (c *checkout) folders() []string {
	all := map[string]bool{}
	for _, name := range c.names {
		for at := path.Dir(name); at != "." && !all[at]; at = path.Dir(at) {
			all[at] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// detect adds the working copies that the arguments lie in, by the remotes of their settings.
func (c *checkouts) detect(arguments []string) error {
	for _, argument := range arguments {
		at, err := filepath.Abs(argument)
		if argument == "-" || err != nil {
			continue
		}
		for ; ; at = filepath.Dir(at) {
			text, err := files.ReadForeign(filepath.Join(at, ".git", "config"), 1<<20)
			if err == nil {
				for _, remote := range remotesOf(string(text)) {
					if _, ok := c.byURL[normalURL(remote)]; !ok {
						if err := c.addFolder(remote, at); err != nil {
							return err
						}
					}
				}
			}
			if err == nil || at == filepath.Dir(at) {
				break
			}
		}
	}
	return nil
}

var remoteURL = regexp.MustCompile(`(?m)^\s*url\s*=\s*(\S+)\s*$`)

func remotesOf(settings string) (urls []string) {
	for _, found := range remoteURL.FindAllStringSubmatch(settings, -1) {
		urls = append(urls, found[1])
	}
	return urls
}

// find returns the checkout of a repository, and fetches it where that was asked for; nil: there is
// none, and why.
func (c *checkouts) find(ctx context.Context, repository, revision string) (*checkout, string) {
	if found := c.byURL[normalURL(repository)]; found != nil {
		return found, ""
	}
	if !c.fetch {
		return nil, "its files are not here: name a checkout, --checkout " + repository + "=FOLDER, or have it fetched: --fetch"
	}
	key := normalURL(repository) + "@" + revision
	if found := c.byURL[key]; found != nil {
		return found, ""
	}
	if why, ok := c.failed[key]; ok {
		return nil, why
	}
	if err := c.clone(ctx, repository, revision, key); err != nil {
		c.failed[key] = err.Error()
		return nil, err.Error()
	}
	return c.byURL[key], ""
}

// clone fetches one revision with the git of the user. It runs no hooks and asks for no password.
func (c *checkouts) clone(ctx context.Context, repository, revision, key string) error {
	if strings.HasPrefix(repository, "-") || strings.HasPrefix(revision, "-") || strings.Contains(repository, "::") {
		return fmt.Errorf("%q at %q is no repository", repository, revision)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	folder := filepath.Join(c.folder, fmt.Sprint(len(c.byURL)+len(c.failed)))
	if revision == "" {
		revision = "HEAD"
	}
	for _, arguments := range [][]string{
		{"init", "--quiet", folder},
		{"-C", folder, "fetch", "--quiet", "--depth", "1", "--no-recurse-submodules", repository, revision},
		{"-C", folder, "-c", "core.symlinks=false", "-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "FETCH_HEAD"},
	} {
		command := exec.CommandContext(ctx, "git", arguments...)
		command.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_LFS_SKIP_SMUDGE=1", "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
		command.WaitDelay = time.Second
		if out, err := command.CombinedOutput(); err != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			return fmt.Errorf("git cannot fetch %s at %s: %s", repository, revision, line)
		}
	}
	made := &checkout{url: repository, folder: folder, isGit: true, known: map[string]bool{}}
	if err := made.list(); err != nil {
		return err
	}
	c.byURL[key] = made
	return nil
}

// gitRef says which key of a source a revision is: branch, tag or commit.
func gitRef(c *checkout, revision string) (key, value string) {
	switch {
	case revision == "" || revision == "HEAD":
		return "", ""
	case commitPattern.MatchString(revision):
		return "commit", revision
	case strings.HasPrefix(revision, "refs/tags/"):
		return "tag", strings.TrimPrefix(revision, "refs/tags/")
	case strings.HasPrefix(revision, "refs/heads/"):
		return "branch", strings.TrimPrefix(revision, "refs/heads/")
	}
	if c != nil && c.isGit {
		for key, prefix := range map[string]string{"tag": "refs/tags/", "branch": "refs/heads/"} {
			if c.hasRef(prefix + revision) {
				return key, revision
			}
		}
	}
	if versionPattern.MatchString(revision) {
		return "tag", revision
	}
	return "branch", revision
}

var (
	commitPattern  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	versionPattern = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)+([-+.][0-9A-Za-z.-]+)?$`)
)

func (c *checkout) hasRef(name string) bool {
	if _, err := os.Stat(filepath.Join(c.folder, ".git", filepath.FromSlash(name))); err == nil {
		return true
	}
	packed, err := files.ReadForeign(filepath.Join(c.folder, ".git", "packed-refs"), 16<<20)
	return err == nil && strings.Contains(string(packed), " "+name+"\n")
}
