package fetch

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/test/freeport"
	"lehr.dev/test/gitrepo"
)

func TestGitIsFollowed(t *testing.T) {
	o := newOrigin(t)
	o.Write("prod/a.yaml", "a: 1\n")
	o.Write("prod/below/b.yaml", "b: 1\n")
	o.Write("other.yaml", "no\n")
	first := o.Commit("Begin with two files")
	r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder, Branch: "main", Directory: "prod"}}, "**/*.yaml")
	snapshot := r.holds(map[string]string{"a.yaml": "a: 1\n", "below/b.yaml": "b: 1\n"})
	want := intent.Commit{Author: "Ann Author <ann@example.com>", Subject: "Begin with two files", Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	if snapshot.Name != first || snapshot.Commit != want {
		t.Errorf("revision %s by %+v, want %s by %+v", snapshot.Name, snapshot.Commit, first, want)
	}
	o.Write("prod/a.yaml", "a: 2\n")
	second := o.Commit("Change a")
	again := r.holds(map[string]string{"a.yaml": "a: 2\n", "below/b.yaml": "b: 1\n"})
	if again.Name != second || again.Warning != "" {
		t.Errorf("revision %s, warning %q", again.Name, again.Warning)
	}
	if same := r.holds(map[string]string{"a.yaml": "a: 2\n", "below/b.yaml": "b: 1\n"}); same != again {
		t.Error("what did not change is another snapshot")
	}
}

func TestGitTagAndCommit(t *testing.T) {
	o := newOrigin(t)
	o.Write("a", "1")
	first := o.Commit("One")
	o.Git("tag", "-a", "v1", "-m", "one")
	o.Write("a", "2")
	o.Commit("Two")
	for _, git := range []source.Git{{Tag: "v1"}, {Commit: first}} {
		git.URL = o.Folder
		r := newReader(t, source.Remote{Git: &git}, "a")
		if snapshot := r.holds(map[string]string{"a": "1"}); snapshot.Name != first {
			t.Errorf("%+v is %s, want %s", git, snapshot.Name, first)
		}
	}
	newReader(t, source.Remote{Git: &source.Git{URL: o.Folder}}, "a").holds(map[string]string{"a": "2"})
}

// A source that fails stays as it was, says why, and is mended by itself.
func TestGitThatFailsStaysAsItWas(t *testing.T) {
	files := map[string]string{"a.yaml": "1"}
	for name, c := range map[string]struct {
		harm, mend func(o *gitrepo.Repository)
		says       string
	}{
		"branch deleted": {func(o *gitrepo.Repository) { o.Git("branch", "-m", "main", "old") }, func(o *gitrepo.Repository) { o.Git("branch", "-m", "old", "main") }, "refs/heads/main of "},
		"server down":    {func(o *gitrepo.Repository) { o.Git("--version"); os.Rename(o.Folder, o.Folder+"-") }, func(o *gitrepo.Repository) { os.Rename(o.Folder+"-", o.Folder) }, "cannot be read: no such file"},
		"no file left":   {func(o *gitrepo.Repository) { o.Git("rm", "--quiet", "a.yaml"); o.Commit("Remove all") }, func(o *gitrepo.Repository) { o.Write("a.yaml", "1"); o.Commit("Restore") }, "no file in"},
		"folder is gone": {func(o *gitrepo.Repository) { o.Git("mv", "prod", "elsewhere"); o.Commit("Move") }, func(o *gitrepo.Repository) { o.Git("mv", "elsewhere", "prod"); o.Commit("Back") }, "there is no folder prod"},
		"damaged":        {func(o *gitrepo.Repository) { os.Rename(filepath.Join(o.Folder, ".git"), o.Folder+"-git") }, func(o *gitrepo.Repository) { os.Rename(o.Folder+"-git", filepath.Join(o.Folder, ".git")) }, "is no repository"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			directory := ""
			if strings.Contains(name, "folder") {
				directory = "prod"
			}
			o.Write(filepath.Join(directory, "a.yaml"), "1")
			o.Commit("One")
			r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder, Branch: "main", Directory: directory}}, "*.yaml")
			r.holds(files)
			c.harm(o)
			r.stays(files, c.says)
			since := r.folder.Failing().Since
			// After a restart it is the mirror's, and on another machine the copy.
			r.restart(false)
			r.options.Failing = map[string]intent.Failing{"service": {Since: since, Reason: "before"}}
			r.stays(files, c.says)
			if again := r.folder.Failing().Since; again != since {
				t.Errorf("it fails since %s, and not %s, after a restart", again, since)
			}
			r.restart(true)
			r.stays(files, c.says)
			c.mend(o)
			r.holds(files)
		})
	}
}

// What was never read is not there, and never empty.
func TestGitThatWasNeverRead(t *testing.T) {
	o := newOrigin(t)
	o.Write("a.yaml", "1")
	o.Commit("One")
	for says, git := range map[string]source.Git{
		"refs/heads/gone of ":           {URL: o.Folder, Branch: "gone"},
		"refs/tags/gone of ":            {URL: o.Folder, Tag: "gone"},
		"no such file":                  {URL: o.Folder + "/none"},
		"does not answer":               {URL: "http://" + freeport.Address(t) + "/a.git"},
		strings.Repeat("1", 40) + " of": {URL: o.Folder, Commit: strings.Repeat("1", 40)},
	} {
		newReader(t, source.Remote{Git: &git}, "*.yaml").refuses(fault.Unavailable, says)
	}
}

func TestGitHistoryRewritten(t *testing.T) {
	o := newOrigin(t)
	o.Write("a", "1")
	o.Commit("One")
	o.Write("a", "2")
	old := o.Commit("Two")
	r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder, Branch: "main"}}, "a")
	r.holds(map[string]string{"a": "2"})
	o.Git("reset", "--quiet", "--hard", "HEAD~1")
	o.Write("a", "3")
	o.Commit("Another two")
	snapshot := r.holds(map[string]string{"a": "3"})
	if !strings.Contains(snapshot.Warning, "was rewritten") || !strings.Contains(snapshot.Warning, old[:12]) {
		t.Errorf("warning %q", snapshot.Warning)
	}
	o.Write("a", "4")
	o.Commit("Three")
	if snapshot := r.holds(map[string]string{"a": "4"}); snapshot.Warning != "" {
		t.Errorf("warning %q of a history that only grew", snapshot.Warning)
	}
}

func TestGitOverHTTP(t *testing.T) {
	o := newOrigin(t)
	o.Write("a.yaml", "1")
	o.Commit("One")
	const token = "s3cret-token"
	var open atomic.Bool
	open.Store(true)
	server := gitServer(t, filepath.Dir(o.Folder), func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		return open.Load() || user == "bot" && password == token
	})
	git := &source.Git{URL: server.URL + "/origin", Branch: "main"}
	r := newReader(t, source.Remote{Git: git}, "*.yaml")
	r.holds(map[string]string{"a.yaml": "1"})
	open.Store(false)
	r.stays(map[string]string{"a.yaml": "1"}, "does not let us in without a token")
	// A token of another host is not shown to this one.
	git.Login = source.Login{User: "bot", Token: r.allow("GIT_TOKEN", token, "git.example.com")}
	r.restart(true)
	r.stays(map[string]string{"a.yaml": "1"}, "may not use the environment variable GIT_TOKEN for "+host(t, server.URL))
	r.allow("GIT_TOKEN", token, host(t, server.URL))
	r.holds(map[string]string{"a.yaml": "1"})
	o.Write("a.yaml", "2")
	o.Commit("Two")
	r.holds(map[string]string{"a.yaml": "2"})
	t.Setenv("GIT_TOKEN", "wrong")
	r.stays(map[string]string{"a.yaml": "2"}, "does not let us in")
	server.Close()
	r.stays(map[string]string{"a.yaml": "2"}, "does not answer")
	if strings.Contains(r.folder.Failing().Reason, token) {
		t.Error("the token shows")
	}
}

// No name leads to this machine's own network, or a cloud's metadata.
func TestGitReachesNoOwnNetwork(t *testing.T) {
	o := newOrigin(t)
	o.Write("a", "1")
	o.Commit("One")
	reached := false
	server := gitServer(t, filepath.Dir(o.Folder), func(*http.Request) bool { reached = true; return true })
	for _, url := range []string{
		server.URL + "/origin", strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/origin", "http://169.254.169.254/latest/meta-data", "http://[fd00:ec2::254]/x",
		"http://0.0.0.0/x", "http://[::ffff:127.0.0.1]/x", "ssh://git@127.0.0.1/x", "https://[64:ff9b::7f00:1]/x",
	} {
		r := newReader(t, source.Remote{Git: &source.Git{URL: url}}, "a")
		r.options.Policy = nil
		r.refuses(fault.Denied, "sources may not reach")
	}
	if reached {
		t.Error("the server was reached")
	}
}

// A server that leads elsewhere is not followed.
func TestGitRedirect(t *testing.T) {
	o := newOrigin(t)
	o.Write("a", "1")
	o.Commit("One")
	real := gitServer(t, filepath.Dir(o.Folder), func(*http.Request) bool { return true })
	false_ := gitServer(t, filepath.Dir(o.Folder), func(*http.Request) bool { return true })
	false_.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, real.URL+r.URL.String(), http.StatusFound)
	})
	newReader(t, source.Remote{Git: &source.Git{URL: false_.URL + "/origin"}}, "a").refuses(fault.Unavailable, "origin")
}

// What would run a program, ask a person or lead out of a folder is refused
// before git is called.
func TestHostileRepositoryAddresses(t *testing.T) {
	for _, git := range []source.Git{
		{URL: "ext::sh -c 'touch /tmp/owned'"}, {URL: "fd::17"}, {URL: "--upload-pack=touch /tmp/owned"}, {URL: "-oProxyCommand=x"},
		{URL: "ssh://-oProxyCommand=touch%20x/a"}, {URL: "ssh://-oX@host/a"}, {URL: "git://host/a"}, {URL: "ftp://host/a"}, {URL: "https://user:password@host/a"},
		{URL: "https://token@host/a"}, {URL: "https:///a"}, {URL: "relative"}, {URL: "http://host/a", Login: source.Login{Token: source.Secret{Env: "X"}}},
		{URL: "/a", Branch: "--upload-pack=x"}, {URL: "/a", Branch: "a..b"}, {URL: "/a", Branch: "a:b"}, {URL: "/a", Branch: "+a" + "*"}, {URL: "/a", Tag: "a b"}, {URL: "/a", Tag: "x.lock"},
		{URL: "/a", Commit: "main"}, {URL: "/a", Commit: "-"}, {URL: "/a", Directory: "../b"}, {URL: "/a", Directory: "/b"}, {URL: "/a", Directory: ":/"},
	} {
		if err := (source.Remote{Git: &git}).Check(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", git, err)
		} else if strings.Contains(err.Error(), "password@") || strings.Contains(err.Error(), "token@") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
	for text, want := range map[string]string{
		"git@github.com:team/shop.git": "ssh://git@github.com/team/shop.git", "../shop": "/home/shop", "file:///srv/x": "/srv/x", "https://h/x": "https://h/x",
		"ext::sh -c x": "ext::sh -c x", "./a:b": "/home/ann/a:b",
	} {
		if got := source.GitURL(text, "/home/ann"); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// What a repository holds does nothing, and what cannot be read as a file is
// named.
func TestHostileRepositories(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "owned")
	hook := "#!/bin/sh\ntouch " + canary + "\n"
	for name, c := range map[string]struct {
		make func(o *gitrepo.Repository)
		says string
	}{
		"submodule": {func(o *gitrepo.Repository) {
			other := newOrigin(t)
			other.Write("x.yaml", "1")
			other.Commit("X")
			o.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.Folder, "sub")
		}, "is a submodule"},
		"link": {func(o *gitrepo.Repository) { os.Symlink("/etc/passwd", filepath.Join(o.Folder, "l.yaml")) }, "is a link"},
		"pointer of lfs": {func(o *gitrepo.Repository) {
			o.Write("big.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n")
		}, "git-lfs"},
		"too large": {func(o *gitrepo.Repository) { o.Write("big.yaml", strings.Repeat("x", 2_000_000)) }, "2000000 bytes"},
		"too many": {func(o *gitrepo.Repository) {
			for i := range 101 {
				o.Write("many/"+strings.Repeat("x", i+1)+".yaml", "")
			}
		}, "more than 100 files"},
		"backslash": {func(o *gitrepo.Repository) { o.Write(`x\..\y.yaml`, "") }, "leads elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			o.Write("a.yaml", "1")
			o.Write(".gitattributes", "*.yaml filter=run\n")
			o.Git("config", "filter.run.smudge", "touch "+canary)
			o.Git("config", "uploadpack.packObjectsHook", "touch "+canary+"; exec")
			for _, hookName := range []string{"post-checkout", "reference-transaction", "post-merge", "pre-auto-gc"} {
				if err := os.WriteFile(filepath.Join(o.Folder, ".git/hooks", hookName), []byte(hook), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			c.make(o)
			o.Commit("One")
			_ = os.Remove(canary) // The person's own git ran hooks.
			r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder}}, "**/*.yaml")
			r.limits.FileBytes, r.limits.Entries = 1_000_000, 100
			r.refuses(fault.Invalid, c.says)
			// What does not match hinders nobody.
			if name != "too many" {
				r.restart(false)
				r.files = []string{"a.yaml"}
				r.holds(map[string]string{"a.yaml": "1"})
			}
			if _, err := os.Stat(canary); err == nil {
				t.Error("something of the repository was run")
			}
		})
	}
}

// A folder that is in a submodule, or is one, is told of as that.
func TestFolderInASubmodule(t *testing.T) {
	other, o := newOrigin(t), newOrigin(t)
	other.Write("deploy/x.yaml", "1")
	other.Commit("X")
	o.Write("parts/a.yaml", "1")
	o.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.Folder, "parts/sub")
	o.Commit("One")
	for folder, says := range map[string]string{
		"parts/sub":        "parts/sub of " + o.Folder + " is a submodule",
		"parts/sub/deploy": "parts/sub of " + o.Folder + " is a submodule",
		"parts/other":      "there is no folder parts/other",
	} {
		r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder, Directory: folder}}, "**")
		if _, _, err := r.read(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// A mirror that was damaged is made anew.
func TestGitMirrorIsMadeAnew(t *testing.T) {
	o := newOrigin(t)
	o.Write("a", "1")
	o.Commit("One")
	r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder}}, "a")
	r.holds(map[string]string{"a": "1"})
	r.restart(false)
	heads, err := filepath.Glob(filepath.Join(r.options.Folder, "shop", "*", "HEAD"))
	if err != nil || len(heads) != 1 {
		t.Fatalf("mirrors %v: %v", heads, err)
	}
	if err := os.Remove(heads[0]); err != nil {
		t.Fatal(err)
	}
	o.Write("a", "2")
	o.Commit("Two")
	r.holds(map[string]string{"a": "2"})
}

// SSH: a real server, whose key is known or not.
func TestGitOverSSH(t *testing.T) {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		if sshd = "/usr/sbin/sshd"; !exists(sshd) {
			t.Skip("sshd is not installed")
		}
	}
	o := newOrigin(t)
	o.Write("a.yaml", "1")
	o.Commit("One")
	server := newSSH(t, sshd)
	git := &source.Git{URL: server.url(o.Folder), Branch: "main", Key: source.Secret{File: server.key}, KnownHosts: source.Secret{File: server.known}}
	r := newReader(t, source.Remote{Git: git}, "*.yaml")
	r.refuses(fault.Denied, "may not use")
	policy := r.options.Policy()
	for _, file := range []string{server.key, server.known, server.unknown, server.otherKey} {
		policy.Secrets = append(policy.Secrets, ListedSecret{File: file, Hosts: []string{"127.0.0.1"}, Partitions: []string{"*"}})
	}
	r.holds(map[string]string{"a.yaml": "1"})
	o.Write("a.yaml", "2")
	o.Commit("Two")
	r.holds(map[string]string{"a.yaml": "2"})
	git.Key.File = server.otherKey
	r.restart(true)
	r.stays(map[string]string{"a.yaml": "2"}, "does not let us in")
	git.Key.File, git.KnownHosts.File = server.key, server.unknown
	r.restart(true)
	r.stays(map[string]string{"a.yaml": "2"}, "another host than known_hosts says")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A repository that is too large, or does not stop, is cut off, and leaves
// nothing behind; what was read last stays.
func TestGitIsBounded(t *testing.T) {
	noise := make([]byte, 3_000_000)
	for i, state := 0, uint32(1); i < len(noise); i++ {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	o := newOrigin(t)
	o.Write("a", "1")
	o.Commit("One")
	r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder, Branch: "main"}}, "a")
	r.holds(map[string]string{"a": "1"})
	mirror := r.folder.fetcher.(*tree).repository.(*mirror)
	mirror.most = 1_000_000
	o.Write("noise", string(noise))
	o.Write("a", "2")
	o.Commit("Noise")
	found, _, err := r.read()
	if err != nil || found["a"] != "1" || r.folder.Failing().Reason == "" {
		t.Errorf("it was read: %v, %v, %q", found, err, r.folder.Failing().Reason)
	}
	if left, _ := filepath.Glob(filepath.Join(mirror.folder, "objects/pack/tmp_*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	mirror.most = mostMirror
	r.holds(map[string]string{"a": "2"})

	// A server that takes the connection and says nothing.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hung := newReader(t, source.Remote{Git: &source.Git{URL: "http://" + silent.Addr().String() + "/a.git"}}, "a")
	hung.options.Runtime = hasty{Runtime: hung.options.Runtime}
	hung.refuses(fault.Unavailable, "did not answer within 10m0s")
}

// A tree may hold names that no work tree would: they lead nowhere, for nothing
// is checked out.
func TestHostileTrees(t *testing.T) {
	o := newOrigin(t)
	o.Write("a.yaml", "1")
	o.Write("A.yaml", "2")
	o.Commit("One")
	blob, below := o.Git("rev-parse", "HEAD:a.yaml"), ""
	mktree := func(lines string) string {
		o.Write("../lines", lines)
		command := exec.Command("git", "mktree")
		command.Dir = o.Folder
		file, err := os.Open(filepath.Join(o.Folder, "../lines"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		command.Stdin = file
		out, err := command.Output()
		if err != nil {
			t.Fatalf("this git makes no such tree: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
	below = mktree("100644 blob " + blob + "\tx.yaml\n100644 blob " + blob + "\tconfig\n")
	root := mktree("100644 blob " + blob + "\tA.yaml\n100644 blob " + blob + "\ta.yaml\n040000 tree " + below + "\t..\n040000 tree " + below + "\t.git\n040000 tree " + below + "\t-x\n")
	commit := o.Git("commit-tree", root, "-m", "Hostile")
	o.Git("update-ref", "refs/heads/hostile", commit)
	r := newReader(t, source.Remote{Git: &source.Git{URL: o.Folder, Branch: "hostile"}}, "**/*.yaml", "**/config")
	r.holds(map[string]string{"A.yaml": "1", "a.yaml": "1", "-x/x.yaml": "1", "-x/config": "1"})
	inside, err := filepath.Glob(filepath.Join(r.options.Folder, "*", "*", "x.yaml"))
	if err != nil || len(inside) > 0 {
		t.Errorf("written: %v", inside)
	}
}

// A server that breaks off in the middle of a pack is told of in the same words
// each time, however much it had said.
func TestGitThatBreaksOff(t *testing.T) {
	o := newOrigin(t)
	o.Write("a", strings.Repeat("not so short ", 10_000))
	o.Commit("One")
	var left atomic.Int64
	server := gitServer(t, filepath.Dir(o.Folder), func(*http.Request) bool { return true })
	real := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		real.ServeHTTP(&short{ResponseWriter: w, left: &left}, r)
	})
	r := newReader(t, source.Remote{Git: &source.Git{URL: server.URL + "/origin"}}, "a")
	var said []string
	for _, most := range []int64{700, 710, 720} {
		left.Store(most)
		_, _, err := r.read()
		if err == nil {
			t.Fatal("half of a pack was read")
		}
		said = append(said, text(err))
	}
	if said[0] != said[1] || said[1] != said[2] {
		t.Errorf("it is told as %q", said)
	}
	left.Store(1 << 30)
	if found, _, err := r.read(); err != nil || len(found) != 1 {
		t.Errorf("mended, it is %d files: %v", len(found), err)
	}
}

// short breaks off after so many bytes of all answers together.
type short struct {
	http.ResponseWriter
	left *atomic.Int64
}

func (s *short) Write(p []byte) (int, error) {
	if s.left.Add(-int64(len(p))) < 0 {
		panic(http.ErrAbortHandler)
	}
	return s.ResponseWriter.Write(p)
}
