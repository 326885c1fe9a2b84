package fetch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/document/written"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

func wishDigest(kind string, actor intent.Actor, parts ...string) string {
	all := [][]byte{[]byte(kind), []byte(actor.Name)}
	for _, part := range parts {
		all = append(all, []byte(part))
	}
	return intent.Sum("lehr.document.asked.v1", all...).String()
}

// mostTries to be faster than others.
const mostTries = 8

// make makes the commit, upon the newest there is.
func (w *Writing) make(ctx context.Context, wished wish) (result document.Document, err error) {
	if err := document.CheckReason(wished.reason); err != nil {
		return result, err
	}
	if err := w.unhooked(); err != nil {
		return result, err
	}
	ctx, release := w.begin(ctx)
	defer release()
	for range mostTries {
		head, err := w.mirror.update(ctx)
		if err != nil {
			return result, err
		}
		if commit, err := w.repeated(ctx, wished, head); err != nil || commit != "" {
			if err != nil {
				return result, err
			}
			return w.describedAt(ctx, commit)
		}
		commit, err := w.commit(ctx, wished, head)
		if err != nil {
			return result, err
		}
		pushed, err := w.push(ctx, head, commit)
		if err != nil {
			return result, err
		}
		if pushed {
			return w.describedAt(ctx, commit)
		}
	}
	return result, fault.New(fault.Unavailable, "%s: others push to the branch all the time", w.describeAttempt(wished.attempt)).WithHint("try again; nothing was changed")
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
	if wished.base != "" {
		base, err := w.resolve(ctx, head, wished.base)
		if err != nil {
			return "", err
		}
		commits = base + ".." + head
	}
	const most = 200
	entries, err := w.log(ctx, commits, most)
	for i, l := range entries {
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
	wanted, err := wished.next(ctx, now)
	if err != nil {
		return "", err
	}
	text := written.Print(w.git.Document, wanted)
	if now.content != nil {
		if text, err = written.Edit(w.git.Document, now.text, wanted); err != nil {
			return "", err
		}
		if string(text) == string(now.text) {
			return "", fault.New(fault.Invalid, "%s: it changes nothing", w.describeAttempt(wished.attempt)).WithHint("lehr document get %s shows what it is", w.name)
		}
	}
	changes, err := document.Compare(now.content, document.Canonical(wanted))
	if err != nil {
		return "", err
	}
	summary := document.Revision{Kind: wished.kind, Of: wished.base, Changes: changes}.What()
	commit, err := w.store(ctx, wished, summary, now, text)
	if err != nil {
		return "", w.mirror.explained(err, nil)
	}
	detail := fmt.Sprintf("commit %s upon %.12s of %s: %s", commit, head, w.Place(), summary)
	return commit, w.record(ctx, w.name, detail, wished.reason, wished.actor)
}

// store writes blob, trees and commit.
func (w *Writing) store(ctx context.Context, wished wish, summary string, now fileState, text []byte) (string, error) {
	m := w.mirror
	index := filepath.Join(m.folder, "lehr-index")
	defer os.Remove(index)
	environment := []string{"GIT_INDEX_FILE=" + index}
	run := func(i invocation) (string, error) {
		i.environment = append(i.environment, environment...)
		output, err := m.git(ctx, i)
		return strings.TrimSpace(string(output)), err
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
	name, address, date := person(wished.actor.Name), "", fmt.Sprintf("%d +0000", w.runtime.Now().Unix())
	if strings.Contains(name, "@") {
		address = name
	}
	environment = append(environment, "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+address, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME=Lehr", "GIT_COMMITTER_EMAIL=", "GIT_COMMITTER_DATE="+date)
	return run(invocation{arguments: []string{"commit-tree", tree, "-p", now.commit, "-F", "-"}, input: []byte(w.message(wished, summary))})
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

// message is the reason, else what the commit does.
func (w *Writing) message(wished wish, summary string) string {
	text := strings.TrimSpace(strings.ReplaceAll(wished.reason, "\x00", ""))
	if text == "" {
		text = "Change " + w.git.Document + ": " + summary
	}
	text += fmt.Sprintf("\n\nLehr-Document: %s/%s\nLehr-Edit: %s\n", w.partition, w.name, wished.digest)
	if wished.kind == document.Undone {
		text += "Lehr-Undo: " + wished.base + "\n"
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
	defer way.close()
	way.arguments = []string{"push", "--quiet", "--no-signed", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--receive-pack=git-receive-pack",
		"--force-with-lease=" + branch + ":" + head, "--", way.address, commit + ":" + branch}
	_, failed := m.git(ctx, way)
	if failed == nil {
		return true, nil
	}
	output := failed.Error()
	if strings.Contains(output, "remote rejected") && !strings.Contains(output, "lock") || strings.Contains(output, "error: 403") {
		return false, fault.New(fault.Denied, "%s: the repository refuses the push: %s", w.describeAttempt("editing"), brief(scrub(output, way.secrets...), 300)).
			WithHint("let the token or the key that the source names push to the branch, or edit the file there")
	}
	// It may have arrived though the answer was lost.
	now, err := m.update(context.WithoutCancel(ctx))
	if err != nil {
		return false, fault.New(fault.Unavailable, "%s: it is not known whether commit %.12s was pushed: %w", w.describeAttempt("editing"), commit, m.explained(failed, way.secrets)).
			WithHint("try again, on the same revision: it is made once")
	}
	if descends, ok := m.descends(ctx, now, commit); ok && descends {
		return true, nil
	}
	if now == head && !strings.Contains(output, "lock") {
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
				return fault.New(fault.Denied, "%s: %s would have a say in it, and no hooks are run from here", w.describeAttempt("editing"), path).
					WithHint("name the repository by a URL of its server, or edit the file there")
			}
		}
	}
	return nil
}
