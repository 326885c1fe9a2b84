package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"lehr.dev/document"
	"lehr.dev/document/written"
	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/loop"
	"lehr.dev/prodspec/source"
)

// Writing is a document that lies in a repository: a file whose edits are
// commits, which change the fields that are named and no other byte. A commit is
// pushed only upon the one that it was made on; where somebody else was faster,
// it is made anew, unless they changed the same fields.
type Writing struct {
	partition intent.PartitionID
	name      string
	git       source.Git
	mirror    *mirror
	runtime   loop.Runtime
	record    Record

	// lock is held while the mirror is used.
	lock sync.Mutex
}

// Record keeps, before a commit is pushed, that somebody makes it; an error: they
// may not.
type Record func(ctx context.Context, name, detail, reason string, by intent.Actor) error

// Write opens a document by the name of its source. It does no I/O. The folder
// of the options is for what is written alone.
func Write(o Options, name string, git source.Git, record Record) (*Writing, error) {
	if err := (source.Remote{Git: &git}).Check(); err != nil {
		return nil, err
	}
	w := &Writing{partition: o.Partition, name: name, git: git, record: record, runtime: o.Runtime}
	w.mirror = newMirror(o.Folder, git, guard{partition: o.Partition, policy: o.policy})
	w.mirror.whole = true
	return w, nil
}

// Place is where it lies, for people.
func (w *Writing) Place() string {
	return fmt.Sprintf("%s of %s, branch %s", w.git.Document, w.git.URL, w.git.Branch)
}

func (w *Writing) said(attempt string) string {
	return fmt.Sprintf("%s document %s of partition %s (%s)", attempt, w.name, w.partition, w.Place())
}

// Close ends what it runs.
func (w *Writing) Close() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.mirror.close()
}

// begin has the mirror for one call, and for so long only.
func (w *Writing) begin(ctx context.Context) (within context.Context, done func()) {
	w.lock.Lock()
	within, cancel := loop.WithTimeout(ctx, w.runtime, gitPatience)
	return within, func() { cancel(); w.lock.Unlock() }
}

// fileState is the file at a commit.
type fileState struct {
	commit string
	mode   string
	// text and content are nil when it is not there.
	text    []byte
	value   any
	content []byte
}

// at reads the file at a commit.
func (w *Writing) at(ctx context.Context, commit string) (fileState, error) {
	s := fileState{commit: commit, mode: "100644"}
	out, err := w.mirror.git(ctx, invocation{arguments: []string{"ls-tree", "-z", "--full-tree", commit, "--", w.git.Document}})
	if err != nil {
		return s, w.mirror.explained(err, nil)
	}
	about, _, found := strings.Cut(strings.TrimSuffix(string(out), "\x00"), "\t")
	if !found {
		return s, nil
	}
	fields := strings.Fields(about)
	if len(fields) != 3 || fields[0] != "100644" && fields[0] != "100755" {
		return s, fault.New(fault.Invalid, "%s of %s is not a regular file", w.git.Document, w.mirror).WithHint("name the file itself")
	}
	s.mode = fields[0]
	if s.text, err = w.mirror.read(ctx, fields[2], source.DefaultLimits().FileBytes); err != nil {
		return s, err
	}
	if s.value, err = written.Parse(w.git.Document, s.text); err != nil {
		return s, err
	}
	s.content = document.Canonical(s.value)
	return s, nil
}

var abbreviated = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// resolve finds a commit of the branch.
func (w *Writing) resolve(ctx context.Context, head, revision string) (string, error) {
	if !abbreviated.MatchString(revision) {
		return "", fault.New(fault.Invalid, "%.100q is no commit", revision).WithHint("lehr document history %s lists them", w.name)
	}
	out, err := w.mirror.git(ctx, invocation{arguments: []string{"rev-parse", "--quiet", "--verify", revision + "^{commit}"}})
	commit := strings.TrimSpace(string(out))
	if err == nil {
		if descends, known := w.mirror.descends(ctx, head, commit); descends && known {
			return commit, nil
		}
	}
	return "", fault.New(fault.NotFound, "the branch %s of %s has no commit %s", w.git.Branch, w.mirror, revision).WithHint("lehr document history %s lists those that changed it", w.name)
}

// log lists commits that changed the file, the newest first, without what they
// changed.
func (w *Writing) log(ctx context.Context, commits string, limit int) (list []logged, err error) {
	const format = "%H%n%P%n%an%n%ae%n%at%n%s%n%(trailers:key=Lehr-Undo,valueonly,separator=%x2C)%n%(trailers:key=Lehr-Edit,valueonly,separator=%x2C)"
	out, err := w.mirror.git(ctx, invocation{
		arguments:   []string{"log", "-z", "--no-show-signature", "--encoding=UTF-8", "--max-count=" + strconv.Itoa(limit), "--format=" + format, commits, "--", w.git.Document},
		environment: []string{"GIT_LITERAL_PATHSPECS=1"}, most: 8 << 20,
	})
	if err != nil {
		return nil, w.mirror.explained(err, nil)
	}
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		parts := strings.Split(record, "\n")
		if len(parts) != 8 {
			continue
		}
		const most = 300
		seconds, _ := strconv.ParseInt(parts[4], 10, 64)
		author := brief(parts[2], most)
		if parts[3] != "" {
			author += " <" + brief(parts[3], most) + ">"
		}
		l := logged{parent: strings.SplitN(parts[1], " ", 2)[0], edit: parts[7]}
		l.Revision = document.Revision{
			ID: parts[0], Kind: document.Edited, By: intent.Actor{Name: author, Origin: "git"}, At: time.Unix(seconds, 0).UTC(), Reason: brief(parts[5], most),
		}
		if l.Of = parts[6]; l.Of != "" {
			l.Kind = document.Undone
		}
		list = append(list, l)
	}
	return list, nil
}

type logged struct {
	document.Revision
	// parent is the first; empty: there is none. edit is what was asked for.
	parent, edit string
}

// change adds to a revision what it changed.
func (w *Writing) change(ctx context.Context, l logged) (document.Revision, error) {
	after, err := w.at(ctx, l.ID)
	if err != nil {
		return l.Revision, err
	}
	var before fileState
	if l.parent != "" {
		if before, err = w.at(ctx, l.parent); err != nil {
			return l.Revision, err
		}
	}
	switch {
	case before.content == nil:
		l.Kind = document.Created
	case after.content == nil:
		l.Kind = document.Deleted
	}
	l.Changes, err = document.Compare(before.content, after.content)
	return l.Revision, err
}

// described is the document as of a commit: by what changed it last.
func (w *Writing) described(ctx context.Context, s fileState) (document.Document, error) {
	d := document.Document{Partition: w.partition, Name: w.name, Content: s.content, Size: len(s.content), Place: w.Place()}
	last, err := w.log(ctx, s.commit, 1)
	if err == nil && len(last) == 0 {
		err = fault.New(fault.NotFound, "%s: no commit has it", w.said("reading"))
	}
	if err != nil {
		return d, err
	}
	d.Revision, err = w.change(ctx, last[0])
	return d, err
}

func (w *Writing) absent(attempt string) error {
	return fault.New(fault.NotFound, "%s: the file is not there", w.said(attempt)).WithHint("make it: lehr document create %s -p %s --file FILE", w.name, w.partition)
}

// Read reads the document as of a commit; of the newest, if it is empty.
func (w *Writing) Read(ctx context.Context, revision string) (found document.Document, err error) {
	ctx, done := w.begin(ctx)
	defer done()
	commit, err := w.mirror.update(ctx)
	if err != nil {
		return found, err
	}
	if revision != "" {
		if commit, err = w.resolve(ctx, commit, revision); err != nil {
			return found, err
		}
	}
	s, err := w.at(ctx, commit)
	if err != nil {
		return found, err
	}
	if s.content == nil {
		return found, w.absent("reading")
	}
	return w.described(ctx, s)
}

// Revisions lists commits that changed it, the newest first.
func (w *Writing) Revisions(ctx context.Context, before string, limit int) (list []document.Revision, err error) {
	ctx, done := w.begin(ctx)
	defer done()
	from, err := w.mirror.update(ctx)
	if err != nil {
		return nil, err
	}
	if before != "" {
		if from, err = w.resolve(ctx, from, before); err != nil {
			return nil, err
		}
		limit++
	}
	found, err := w.log(ctx, from, limit)
	if err != nil {
		return nil, err
	}
	if before != "" && len(found) > 0 {
		found = found[1:]
	}
	for _, l := range found {
		r, err := w.change(ctx, l)
		if fault.Is(err, fault.Invalid) {
			err = nil // It could not be read then: it is shown by who did what.
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// wish is a change that somebody asks for.
type wish struct {
	attempt, kind, of, reason string
	by                        intent.Actor
	// digest of what is asked for, by which a repetition is known. since is the
	// commit before which it was not made.
	digest, since string
	// next is the value that it makes of what there is.
	next func(now fileState) (any, error)
}

// Create adds the file.
func (w *Writing) Create(ctx context.Context, content []byte, reason string, by intent.Actor) (document.Document, error) {
	value, err := document.Parse(content)
	if err != nil {
		return document.Document{}, err
	}
	wished := wish{attempt: "creating", kind: document.Created, reason: reason, by: by, digest: wishDigest(document.Created, by, reason, string(content))}
	wished.next = func(now fileState) (any, error) {
		if now.content != nil {
			return nil, fault.New(fault.Conflict, "%s: it is there already", w.said("creating")).WithHint("edit it: lehr document set %s /PATH=VALUE", w.name)
		}
		return value, nil
	}
	return w.make(ctx, wished)
}

// Delete is nothing that is done from here.
func (w *Writing) Delete(context.Context, string, string, intent.Actor) (document.Document, error) {
	return document.Document{}, fault.New(fault.Invalid, "%s: it belongs to its repository", w.said("deleting")).WithHint("remove the file there, with git rm")
}

// Edit changes fields. What others changed since its base is no hindrance,
// unless it is the same fields.
func (w *Writing) Edit(ctx context.Context, edit document.Edit, by intent.Actor) (document.Document, error) {
	asked, err := json.Marshal(edit.Operations)
	if err != nil {
		return document.Document{}, fault.New(fault.Invalid, "the operations cannot be encoded: %w", err)
	}
	wished := wish{attempt: "editing", kind: document.Edited, reason: edit.Reason, by: by, since: edit.Base, digest: wishDigest(document.Edited, by, edit.Reason, edit.Base, string(asked))}
	var paths []string
	for _, o := range edit.Operations {
		paths = append(paths, o.Path)
	}
	wished.next = func(now fileState) (any, error) {
		if now.content == nil {
			return nil, w.absent("editing")
		}
		base, err := w.resolve(ctx, now.commit, edit.Base)
		if err != nil {
			return nil, err
		}
		then, err := w.at(ctx, base)
		if err != nil {
			return nil, err
		}
		since, err := document.Compare(then.content, now.content)
		if err == nil {
			since, err = document.Touches(since, paths)
		}
		if err != nil {
			return nil, err
		}
		if len(since) > 0 {
			return nil, w.conflict(ctx, "editing", base, now.commit, since)
		}
		return applied(now, edit.Operations)
	}
	return w.make(ctx, wished)
}

func applied(now fileState, operations []document.Operation) (any, error) {
	content, err := document.Apply(now.content, operations)
	if err != nil {
		return nil, err
	}
	return document.Parse(content)
}

// Undo makes a commit with the values of before another.
func (w *Writing) Undo(ctx context.Context, revision, reason string, by intent.Actor) (document.Document, error) {
	wished := wish{attempt: "undoing " + brief(revision, 12) + " of", kind: document.Undone, reason: reason, by: by, since: revision, digest: wishDigest(document.Undone, by, reason, revision)}
	wished.next = func(now fileState) (any, error) {
		of, err := w.resolve(ctx, now.commit, revision)
		if err != nil {
			return nil, err
		}
		found, err := w.log(ctx, of, 1)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 || found[0].ID != of {
			return nil, fault.New(fault.Invalid, "%s: that commit did not change it", w.said("undoing "+of[:12]+" of")).WithHint("lehr document history %s lists those that did", w.name)
		}
		after, err := w.at(ctx, of)
		if err != nil {
			return nil, err
		}
		var before fileState
		if found[0].parent != "" {
			if before, err = w.at(ctx, found[0].parent); err != nil {
				return nil, err
			}
		}
		if before.content == nil || after.content == nil || now.content == nil {
			return nil, fault.New(fault.Invalid, "%s: a file that came or went is for git to bring back", w.said("undoing "+of[:12]+" of")).WithHint("use git revert in its repository")
		}
		reverted, touched, err := document.Revert(now.content, before.content, after.content)
		if err != nil {
			return nil, err
		}
		if len(touched) > 0 {
			var since []document.Change
			for _, path := range touched {
				since = append(since, document.Change{Path: path})
			}
			return nil, w.conflict(ctx, "undoing "+of[:12]+" of", of, now.commit, since)
		}
		return document.Parse(reverted)
	}
	return w.make(ctx, wished)
}

// conflict says who changed the fields since.
func (w *Writing) conflict(ctx context.Context, attempt, base, head string, fields []document.Change) error {
	found, err := w.log(ctx, base+".."+head, 20)
	if err != nil {
		return err
	}
	var paths, told []string
	for _, c := range fields {
		paths = append(paths, c.Path)
	}
	for _, l := range found {
		r, err := w.change(ctx, l)
		if err != nil {
			return err
		}
		touched, err := document.Touches(r.Changes, paths)
		if err != nil {
			return err
		}
		if r.Changes = touched; len(touched) > 0 {
			told = append(told, r.Told())
		}
	}
	return fault.New(fault.Conflict, "%s: %s changed since %.12s: %s", w.said(attempt), document.List(paths), base, document.List(told)).
		WithHint("look at what changed (lehr document diff %s %.12s) and edit again, on the newest revision", w.name, base)
}

func wishDigest(kind string, by intent.Actor, parts ...string) string {
	all := [][]byte{[]byte(kind), []byte(by.Name)}
	for _, part := range parts {
		all = append(all, []byte(part))
	}
	return intent.Sum("lehr.document.asked.v1", all...).String()
}

// mostTries to be faster than others.
const mostTries = 8

// make makes the commit, upon the newest there is.
func (w *Writing) make(ctx context.Context, wished wish) (made document.Document, err error) {
	if err := document.CheckReason(wished.reason); err != nil {
		return made, err
	}
	if err := w.unhooked(); err != nil {
		return made, err
	}
	ctx, done := w.begin(ctx)
	defer done()
	for range mostTries {
		head, err := w.mirror.update(ctx)
		if err != nil {
			return made, err
		}
		if commit, err := w.repeated(ctx, wished, head); err != nil || commit != "" {
			if err != nil {
				return made, err
			}
			return w.describedAt(ctx, commit)
		}
		commit, err := w.commit(ctx, wished, head)
		if err != nil {
			return made, err
		}
		pushed, err := w.push(ctx, head, commit)
		if err != nil {
			return made, err
		}
		if pushed {
			return w.describedAt(ctx, commit)
		}
	}
	return made, fault.New(fault.Unavailable, "%s: others push to the branch all the time", w.said(wished.attempt)).WithHint("try again; nothing was changed")
}

func (w *Writing) describedAt(ctx context.Context, commit string) (document.Document, error) {
	s, err := w.at(ctx, commit)
	if err != nil {
		return document.Document{}, err
	}
	return w.described(ctx, s)
}

// repeated finds the commit that the very same call has made.
func (w *Writing) repeated(ctx context.Context, wished wish, head string) (string, error) {
	commits := head
	if wished.since != "" {
		since, err := w.resolve(ctx, head, wished.since)
		if err != nil {
			return "", err
		}
		commits = since + ".." + head
	}
	const most = 200
	found, err := w.log(ctx, commits, most)
	for i, l := range found {
		// An undo or a creation names no revision behind which it is: it is the
		// same one only while it is the newest.
		if l.edit == wished.digest && (i == 0 || wished.kind == document.Edited) {
			return l.ID, nil
		}
	}
	return "", err
}

// commit makes the commit in the mirror, and has it recorded.
func (w *Writing) commit(ctx context.Context, wished wish, head string) (string, error) {
	now, err := w.at(ctx, head)
	if err != nil {
		return "", err
	}
	wanted, err := wished.next(now)
	if err != nil {
		return "", err
	}
	text := written.Print(w.git.Document, wanted)
	if now.content != nil {
		if text, err = written.Edit(w.git.Document, now.text, wanted); err != nil {
			return "", err
		}
		if string(text) == string(now.text) {
			return "", fault.New(fault.Invalid, "%s: it changes nothing", w.said(wished.attempt)).WithHint("lehr document get %s shows what it is", w.name)
		}
	}
	changes, err := document.Compare(now.content, document.Canonical(wanted))
	if err != nil {
		return "", err
	}
	commit, err := w.store(ctx, wished, now, text)
	if err != nil {
		return "", w.mirror.explained(err, nil)
	}
	what := document.Revision{Kind: wished.kind, Of: wished.since, Changes: changes}.What()
	detail := fmt.Sprintf("commit %s upon %.12s of %s: %s", commit, head, w.Place(), what)
	return commit, w.record(ctx, w.name, detail, wished.reason, wished.by)
}

// store writes blob, trees and commit.
func (w *Writing) store(ctx context.Context, wished wish, now fileState, text []byte) (string, error) {
	m := w.mirror
	index := filepath.Join(m.folder, "lehr-index")
	defer os.Remove(index)
	environment := []string{"GIT_INDEX_FILE=" + index}
	run := func(i invocation) (string, error) {
		i.environment = append(i.environment, environment...)
		out, err := m.git(ctx, i)
		return strings.TrimSpace(string(out)), err
	}
	blob, err := run(invocation{arguments: []string{"hash-object", "-w", "--stdin", "--no-filters"}, input: text})
	if err == nil {
		_, err = run(invocation{arguments: []string{"read-tree", now.commit}})
	}
	if err == nil {
		_, err = run(invocation{arguments: []string{"update-index", "--add", "--cacheinfo", now.mode + "," + blob + "," + w.git.Document}})
	}
	if err != nil {
		return "", err
	}
	tree, err := run(invocation{arguments: []string{"write-tree"}})
	if err != nil {
		return "", err
	}
	name, address, date := person(wished.by.Name), "", fmt.Sprintf("%d +0000", w.runtime.Now().Unix())
	if strings.Contains(name, "@") {
		address = name
	}
	environment = append(environment, "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+address, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME=Lehr", "GIT_COMMITTER_EMAIL=", "GIT_COMMITTER_DATE="+date)
	return run(invocation{arguments: []string{"commit-tree", tree, "-p", now.commit, "-F", "-"}, input: []byte(w.message(wished))})
}

// person is a name as git takes it.
func person(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("<>\x7f", r) {
			return ' '
		}
		return r
	}, name))
	if strings.Trim(name, " .,:;\"'") == "" {
		return "nobody"
	}
	return name
}

func (w *Writing) message(wished wish) string {
	text := strings.TrimSpace(strings.ReplaceAll(wished.reason, "\x00", ""))
	if text == "" {
		text = "Change " + w.git.Document
	}
	text += fmt.Sprintf("\n\nLehr-Document: %s/%s\nLehr-Edit: %s\n", w.partition, w.name, wished.digest)
	if wished.kind == document.Undone {
		text += "Lehr-Undo: " + wished.since + "\n"
	}
	return text
}

// push makes the branch another commit, if it is the one still that it was made
// on. False: it is not.
func (w *Writing) push(ctx context.Context, head, commit string) (pushed bool, err error) {
	m := w.mirror
	way, err := m.way(ctx)
	if err != nil {
		return false, err
	}
	branch := "refs/heads/" + w.git.Branch
	way.arguments = []string{"push", "--quiet", "--no-signed", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--receive-pack=git-receive-pack",
		"--force-with-lease=" + branch + ":" + head, "--", m.of.URL, commit + ":" + branch}
	_, failed := m.git(ctx, way)
	if failed == nil {
		return true, nil
	}
	said := failed.Error()
	if strings.Contains(said, "remote rejected") && !strings.Contains(said, "lock") || strings.Contains(said, "error: 403") {
		return false, fault.New(fault.Denied, "%s: the repository refuses the push: %s", w.said("editing"), brief(scrub(said, way.secrets...), 300)).
			WithHint("let the token or the key that the source names push to the branch, or edit the file there")
	}
	// It may have arrived though the answer was lost.
	now, err := m.update(context.WithoutCancel(ctx))
	if err != nil {
		return false, fault.New(fault.Unavailable, "%s: it is not known whether commit %.12s was pushed: %w", w.said("editing"), commit, m.explained(failed, way.secrets)).
			WithHint("try again, on the same revision: it is made once")
	}
	if descends, known := m.descends(ctx, now, commit); known && descends {
		return true, nil
	}
	if now == head && !strings.Contains(said, "lock") {
		return false, m.explained(failed, way.secrets)
	}
	return false, ctx.Err()
}

// unhooked: nothing of a repository on this machine is run, so one that has a
// say in what is pushed to it is not pushed to.
func (w *Writing) unhooked() error {
	if !filepath.IsAbs(w.git.URL) {
		return nil
	}
	for _, folder := range []string{"hooks", ".git/hooks"} {
		for _, hook := range []string{"pre-receive", "update", "reference-transaction", "proc-receive"} {
			path := filepath.Join(w.git.URL, folder, hook)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return fault.New(fault.Denied, "%s: %s would have a say in it, and no hooks are run from here", w.said("editing"), path).
					WithHint("name the repository by a URL of its server, or edit the file there")
			}
		}
	}
	return nil
}
