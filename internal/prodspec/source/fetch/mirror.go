package fetch

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
)

// repository is git as a source needs it.
type repository interface {
	// update returns the commit that is to be read, having fetched it.
	update(ctx context.Context) (string, error)
	// descends reports whether a commit has another in its past; known: that can
	// be told.
	descends(ctx context.Context, commit, from string) (descends, ok bool)
	commit(ctx context.Context, commit string) (intent.Commit, error)
	list(ctx context.Context, commit, directory string, most int) ([]entry, error)
	read(ctx context.Context, object string, most int64) ([]byte, error)
	hasCommit(ctx context.Context, commit string) bool
	close()
	String() string
}

// entry of a tree.
type entry struct {
	path, mode, object string
	// size in bytes; -1: it has none.
	size int64
}

// mirror is a bare repository of this machine, with what was fetched of one
// other. Nothing is ever checked out of it. It belongs to one source, whose
// secrets are no other's.
type mirror struct {
	remote source.Git
	folder string
	guard  guard
	// most bytes that it may have.
	most int64
	// whole: all that came before is fetched too.
	whole bool
	// hold is taken by whatever uses the mirror, and dropped when it is closed.
	hold hold
	// lock is held while git changes the mirror.
	lock  sync.Mutex
	blobs catFile
}

const (
	// mostMirror is how many bytes a mirror may have, if nothing else is said, and
	// mostPacks how many fetches it gathers before they are put together.
	mostMirror = 2 << 30
	mostPacks  = 50
	// fetched is what was fetched last.
	fetched = "refs/lehr/source"
)

func newMirror(root string, remote source.Git, g guard) *mirror {
	name := intent.Sum("lehr.mirror.v1", []byte(fmt.Sprintf("%q", remote))).String()
	m := &mirror{remote: remote, guard: g, most: mostMirror, folder: filepath.Join(root, string(g.partition), name[:mirrorName])}
	m.blobs.mirror, m.hold.path = m, m.folder+lockSuffix
	return m
}

func (m *mirror) String() string { return m.remote.URL }

// reference that is fetched.
func (m *mirror) reference() string {
	switch {
	case m.remote.Commit != "":
		return m.remote.Commit
	case m.remote.Branch != "":
		return "refs/heads/" + m.remote.Branch
	case m.remote.Tag != "":
		return "refs/tags/" + m.remote.Tag
	}
	return "HEAD"
}

func (m *mirror) update(ctx context.Context) (string, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if err := m.make(ctx); err != nil {
		return "", err
	}
	if m.remote.Commit != "" && m.hasCommit(ctx, m.remote.Commit) {
		return m.remote.Commit, nil
	}
	way, err := m.way(ctx)
	if err != nil {
		return "", err
	}
	arguments := []string{"fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules", "--upload-pack=git-upload-pack"}
	depth := []string{""}
	if _, err := m.git(ctx, invocation{arguments: []string{"rev-parse", "--quiet", "--verify", fetched}}); err != nil && !m.whole {
		// Not all that came before is needed. What comes after is, to tell whether
		// history was rewritten.
		depth = []string{fmt.Sprintf("--depth=%d", pastCommits), "--depth=1"}
	}
	defer way.close()
	way.growing = true
	for i, option := range depth {
		way.arguments = arguments
		if option != "" {
			way.arguments = append(slices.Clip(arguments), option)
		}
		way.arguments = append(way.arguments, "--", way.address, "+"+m.reference()+":"+fetched)
		if _, err = m.git(ctx, way); err == nil {
			break
		}
		m.tidy()
		if last := i == len(depth)-1; last || !errors.Is(err, errTooLarge) {
			return "", m.explained(err, way.secrets)
		}
	}
	output, err := m.git(ctx, invocation{arguments: []string{"rev-parse", "--verify", fetched + "^{commit}"}})
	if err != nil {
		return "", m.explained(err, nil)
	}
	m.gather(ctx)
	return strings.TrimSpace(string(output)), nil
}

// make makes the mirror, anew if it is broken.
func (m *mirror) make(ctx context.Context) error {
	if _, err := m.git(ctx, invocation{arguments: []string{"rev-parse", "--git-dir"}}); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.blobs.stop()
	err := os.RemoveAll(m.folder)
	if err == nil {
		err = os.MkdirAll(m.folder, 0o700)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "making the mirror of %s: %w", m, err).WithHint("make room beside the store, and see that the server may write there")
	}
	if _, err := m.git(ctx, invocation{arguments: []string{"init", "--quiet", "--bare", "--template=", m.folder}, bare: true}); err != nil {
		return m.explained(err, nil)
	}
	return nil
}

// tidy removes what a fetch left that was cut off: half of a pack, and locks.
func (m *mirror) tidy() {
	for _, pattern := range []string{"objects/pack/tmp_*", "objects/??/tmp_*", "shallow.lock", fetched + ".lock"} {
		leftovers, _ := filepath.Glob(filepath.Join(m.folder, pattern))
		for _, file := range leftovers {
			_ = os.Remove(file)
		}
	}
}

// gather puts many small packs together. What fails is done the next time.
func (m *mirror) gather(ctx context.Context) {
	packs, err := filepath.Glob(filepath.Join(m.folder, "objects", "pack", "*.pack"))
	if err == nil && len(packs) > mostPacks {
		_, _ = m.git(ctx, invocation{arguments: []string{"gc", "--quiet", "--prune=now"}})
		m.blobs.stop()
	}
}

// localWay is the way to a repository of this machine: git is given what is open, so that
// nothing takes its place.
func (m *mirror) localWay() (invocation, error) {
	opened, name, err := files.Look(m.remote.URL, m.guard.folders())
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return invocation{}, err
	}
	if err != nil {
		return invocation{}, unreadable("the repository "+m.remote.URL, reason(err))
	}
	return invocation{protocol: "file", address: name, opened: opened, called: m.remote.URL}, nil
}

// way is how git reaches the repository, with what it needs for that.
func (m *mirror) way(ctx context.Context) (invocation, error) {
	if filepath.IsAbs(m.remote.URL) {
		return m.localWay()
	}
	parsed, err := url.Parse(m.remote.URL)
	if err != nil {
		return invocation{}, fault.New(fault.Invalid, "%s is no URL", m)
	}
	address, err := m.guard.resolve(ctx, parsed.Hostname())
	if err != nil {
		return invocation{}, err
	}
	way := invocation{protocol: parsed.Scheme, address: m.remote.URL}
	if parsed.Scheme == "ssh" {
		return way, m.ssh(&way, parsed, address.String())
	}
	port := parsed.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[parsed.Scheme]
	}
	if address.Is6() {
		way.configure("http.curloptResolve", parsed.Hostname()+":"+port+":["+address.String()+"]")
	} else {
		way.configure("http.curloptResolve", parsed.Hostname()+":"+port+":"+address.String())
	}
	if m.remote.Token.IsZero() {
		return way, nil
	}
	token, err := m.guard.secret(m.remote.Token, parsed.Host)
	if err != nil {
		return way, err
	}
	user := m.remote.User
	if user == "" {
		user = "lehr"
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
	way.secrets = []string{token, encoded}
	way.configure("http.extraHeader", "Authorization: Basic "+encoded)
	return way, nil
}

// ssh is run for git, with nothing but what is named here.
func (m *mirror) ssh(way *invocation, parsed *url.URL, address string) error {
	alias := parsed.Hostname()
	if port := parsed.Port(); port != "" && port != "22" {
		alias = "[" + alias + "]:" + port
	}
	options := []string{"ssh", "-F", "/dev/null", "-T", "-x", "-a", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=20",
		"-o", "ServerAliveInterval=15", "-o", "UpdateHostKeys=no", "-o", "GlobalKnownHostsFile=/dev/null", "-o", "ControlMaster=no", "-o", "PermitLocalCommand=no",
		"-o", "IdentityAgent=none", "-o", "Hostname=" + address, "-o", "HostKeyAlias=" + alias}
	for _, needed := range []struct {
		of   source.Secret
		what string
		says []string
	}{
		{m.remote.KnownHosts, "known_hosts", []string{"-o", "UserKnownHostsFile="}},
		{m.remote.Key, "key", []string{"-o", "IdentitiesOnly=yes", "-o", "IdentityFile="}},
	} {
		if needed.of.File == "" {
			return fault.New(fault.Invalid, "%s is reached by SSH, which needs %s: a file", m, needed.what).
				WithHint("write %s: {file: /absolute/path}; whoever runs the server allows it in the file of --sources", needed.what)
		}
		if err := m.guard.allow(needed.of, parsed.Host); err != nil {
			return err
		}
		if strings.ContainsAny(needed.of.File, "\n\"%") {
			return fault.New(fault.Invalid, "%s: ssh takes no such path", needed.what)
		}
		last := len(needed.says) - 1
		options = append(options, append(needed.says[:last:last], needed.says[last]+`"`+needed.of.File+`"`)...)
	}
	for i, option := range options {
		options[i] = "'" + strings.ReplaceAll(option, "'", `'\''`) + "'" // Git has a shell run it.
	}
	way.environment = append(way.environment, "GIT_SSH_COMMAND="+strings.Join(options, " "), "GIT_SSH_VARIANT=ssh")
	return nil
}

// descends tells nothing of a commit that this mirror never had.
func (m *mirror) descends(ctx context.Context, commit, ancestor string) (descends, ok bool) {
	if !m.hasCommit(ctx, ancestor) {
		return false, false
	}
	_, err := m.git(ctx, invocation{arguments: []string{"merge-base", "--is-ancestor", ancestor, commit}})
	return err == nil, err == nil || exitCode(err) == 1
}

func (m *mirror) hasCommit(ctx context.Context, commit string) bool {
	_, err := m.git(ctx, invocation{arguments: []string{"cat-file", "-e", commit + "^{tree}"}})
	return err == nil
}

func (m *mirror) commit(ctx context.Context, commit string) (intent.Commit, error) {
	const most = 300
	output, err := m.git(ctx, invocation{arguments: []string{"log", "-1", "--no-show-signature", "--encoding=UTF-8", "--format=%an <%ae>%x00%ct%x00%s", commit, "--"}})
	if err != nil {
		return intent.Commit{}, m.explained(err, nil)
	}
	parts := strings.SplitN(strings.TrimSuffix(string(output), "\n"), "\x00", 3)
	if len(parts) != 3 {
		return intent.Commit{}, unreadable("the commit "+commit, fmt.Errorf("git says %.100q of it", output))
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || seconds < 0 || seconds > 253402300799 {
		seconds = 0 // A commit may claim any time; JSON holds years of four digits.
	}
	return intent.Commit{Author: brief(strings.TrimSuffix(parts[0], " <>"), most), Subject: brief(parts[2], most), Time: time.Unix(seconds, 0).UTC()}, nil
}

// brief is a text of others, for people.
func brief(text string, most int) string {
	text = intent.Shown(text)
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func (m *mirror) list(ctx context.Context, commit, directory string, most int) ([]entry, error) {
	const mostPath = 1000
	treeish := commit + "^{tree}"
	if directory != "" && directory != "." {
		treeish = commit + ":" + directory
	}
	output, err := m.git(ctx, invocation{arguments: []string{"ls-tree", "-r", "-z", "-l", "--full-tree", treeish}, most: int64(most) * mostPath / 4})
	if exitCode(err) == 128 && directory != "" && m.hasCommit(ctx, commit) {
		if submodule := m.submoduleAbove(ctx, commit, directory); submodule != "" {
			return nil, isSubmodule(submodule + " of " + m.String())
		}
		return nil, fault.New(fault.Unavailable, "there is no folder %s in %s at %.12s", directory, m, commit).WithHint("restore it, or mend dir; nothing is taken for empty")
	}
	if err != nil {
		return nil, m.explained(err, nil)
	}
	var list []entry
	for line := range bytes.SplitSeq(bytes.TrimSuffix(output, []byte{0}), []byte{0}) {
		if len(line) == 0 {
			continue
		}
		attributes, name, ok := strings.Cut(string(line), "\t")
		fields := strings.Fields(attributes)
		if !ok || len(fields) != 4 {
			return nil, unreadable(m.String(), fmt.Errorf("git lists %.100q", line))
		}
		size, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			size = -1
		}
		if list = append(list, entry{path: name, mode: fields[0], object: fields[2], size: size}); len(list) > most {
			return nil, fault.New(fault.Invalid, "%s has more than %d files", m, most).WithHint("name a smaller folder of it with dir")
		}
	}
	return list, nil
}

// submoduleAbove is the submodule in which a folder would lie, or that it is; empty: in
// none.
func (m *mirror) submoduleAbove(ctx context.Context, commit, directory string) string {
	arguments := []string{"ls-tree", "-z", "--full-tree", commit, "--"}
	var folders []string
	for at := directory; at != "." && at != "/"; at = path.Dir(at) {
		folders = append(folders, at)
	}
	arguments = append(arguments, folders...)
	output, err := m.git(ctx, invocation{arguments: arguments, environment: []string{"GIT_LITERAL_PATHSPECS=1"}})
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(output), "\x00") {
		if attributes, name, ok := strings.Cut(line, "\t"); ok && strings.HasPrefix(attributes, submoduleMode+" ") && slices.Contains(folders, name) {
			return name
		}
	}
	return ""
}

func (m *mirror) read(ctx context.Context, object string, most int64) ([]byte, error) {
	return m.blobs.read(ctx, object, most)
}

func (m *mirror) close() {
	m.blobs.stop()
	m.hold.drop()
}
