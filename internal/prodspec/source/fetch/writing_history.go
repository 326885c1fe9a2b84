package fetch

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/document/written"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
)

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
	output, err := w.mirror.git(ctx, invocation{arguments: []string{"ls-tree", "-z", "--full-tree", commit, "--", w.git.Document}})
	if err != nil {
		return s, w.mirror.explained(err, nil)
	}
	attributes, _, ok := strings.Cut(strings.TrimSuffix(string(output), "\x00"), "\t")
	if !ok {
		return s, nil
	}
	fields := strings.Fields(attributes)
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
	output, err := w.mirror.git(ctx, invocation{arguments: []string{"rev-parse", "--quiet", "--verify", revision + "^{commit}"}})
	commit := strings.TrimSpace(string(output))
	if err == nil {
		if descends, ok := w.mirror.descends(ctx, head, commit); descends && ok {
			return commit, nil
		}
	}
	return "", fault.New(fault.NotFound, "the branch %s of %s has no commit %s", w.git.Branch, w.mirror, revision).WithHint("lehr document history %s lists those that changed it", w.name)
}

// log lists commits that changed the file, the newest first, without what they
// changed.
func (w *Writing) log(ctx context.Context, commits string, limit int) (list []logged, err error) {
	const format = "%H%n%P%n%an%n%ae%n%at%n%s%n%(trailers:key=Lehr-Undo,valueonly,separator=%x2C)%n%(trailers:key=Lehr-Edit,valueonly,separator=%x2C)"
	output, err := w.mirror.git(ctx, invocation{
		arguments:   []string{"log", "-z", "--no-show-signature", "--encoding=UTF-8", "--max-count=" + strconv.Itoa(limit), "--format=" + format, commits, "--", w.git.Document},
		environment: []string{"GIT_LITERAL_PATHSPECS=1"}, most: 8 << 20,
	})
	if err != nil {
		return nil, w.mirror.explained(err, nil)
	}
	for record := range strings.SplitSeq(strings.TrimSuffix(string(output), "\x00"), "\x00") {
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
	afterState, err := w.at(ctx, l.ID)
	if err != nil {
		return l.Revision, err
	}
	var beforeState fileState
	if l.parent != "" {
		if beforeState, err = w.at(ctx, l.parent); err != nil {
			return l.Revision, err
		}
	}
	switch {
	case beforeState.content == nil:
		l.Kind = document.Created
	case afterState.content == nil:
		l.Kind = document.Deleted
	}
	l.Changes, err = document.Compare(beforeState.content, afterState.content)
	return l.Revision, err
}

// described is the document as of a commit: by what changed it last.
func (w *Writing) described(ctx context.Context, s fileState) (document.Document, error) {
	d := document.Document{Partition: w.partition, Name: w.name, Content: s.content, Size: len(s.content), Place: w.Place()}
	last, err := w.log(ctx, s.commit, 1)
	if err == nil && len(last) == 0 {
		err = fault.New(fault.NotFound, "%s: no commit has it", w.describeAttempt("reading"))
	}
	if err != nil {
		return d, err
	}
	d.Revision, err = w.change(ctx, last[0])
	return d, err
}

func (w *Writing) absent(attempt string) error {
	return fault.New(fault.NotFound, "%s: the file is not there", w.describeAttempt(attempt)).WithHint("make it: lehr document create %s -p %s --file FILE", w.name, w.partition)
}

// Read reads the document as of a commit; of the newest, if it is empty.
func (w *Writing) Read(ctx context.Context, revision string) (result document.Document, err error) {
	ctx, release := w.begin(ctx)
	defer release()
	commit, err := w.mirror.update(ctx)
	if err != nil {
		return result, err
	}
	if revision != "" {
		if commit, err = w.resolve(ctx, commit, revision); err != nil {
			return result, err
		}
	}
	s, err := w.at(ctx, commit)
	if err != nil {
		return result, err
	}
	if s.content == nil {
		return result, w.absent("reading")
	}
	return w.described(ctx, s)
}

// Includes reports whether a commit is another one or has it in its history, by what was fetched
// last. A commit that is in no branch any more is in none's.
func (w *Writing) Includes(ctx context.Context, commit, ancestor string) (bool, error) {
	ctx, release := w.begin(ctx)
	defer release()
	for _, revision := range []string{commit, ancestor} {
		if !abbreviated.MatchString(revision) {
			return false, fault.New(fault.Invalid, "%.100q is no commit", revision)
		}
	}
	includes, _ := w.mirror.descends(ctx, commit, ancestor)
	return includes, ctx.Err()
}

// At reads the document as of a commit, by what was fetched last. NotFound: it was not there, or the
// branch has no such commit any more.
func (w *Writing) At(ctx context.Context, revision string) (result document.Document, err error) {
	ctx, release := w.begin(ctx)
	defer release()
	commit, err := w.resolve(ctx, fetched, revision)
	if err != nil {
		return result, err
	}
	s, err := w.at(ctx, commit)
	if err != nil {
		return result, err
	}
	if s.content == nil {
		return result, w.absent("reading")
	}
	return w.described(ctx, s)
}

// mostSince revisions are listed.
const mostSince = 1000

// Since lists the commits that changed it and are in the history of one and not of another, the
// newest first, by what was fetched last.
func (w *Writing) Since(ctx context.Context, until, after string) (list []document.Revision, err error) {
	ctx, release := w.begin(ctx)
	defer release()
	for _, revision := range []string{until, after} {
		if !abbreviated.MatchString(revision) {
			return nil, fault.New(fault.Invalid, "%.100q is no commit", revision)
		}
	}
	commits := until
	if w.mirror.hasCommit(ctx, after) { // Else history was rewritten since.
		commits = after + ".." + until
	}
	entries, err := w.log(ctx, commits, mostSince)
	if err != nil {
		return nil, err
	}
	return w.changes(ctx, entries)
}

// Revisions lists commits that changed it, the newest first.
func (w *Writing) Revisions(ctx context.Context, before string, limit int) (list []document.Revision, err error) {
	ctx, release := w.begin(ctx)
	defer release()
	head, err := w.mirror.update(ctx)
	if err != nil {
		return nil, err
	}
	if before != "" {
		if head, err = w.resolve(ctx, head, before); err != nil {
			return nil, err
		}
		limit++
	}
	entries, err := w.log(ctx, head, limit)
	if err != nil {
		return nil, err
	}
	if before != "" && len(entries) > 0 {
		entries = entries[1:]
	}
	return w.changes(ctx, entries)
}

// changes adds to commits what each changed.
func (w *Writing) changes(ctx context.Context, entries []logged) (list []document.Revision, err error) {
	for _, l := range entries {
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
