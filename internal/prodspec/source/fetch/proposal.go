package fetch

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Proposals are edits of a document in git on which people decide at its host, by pull or merge
// requests: merged is landed, closed is rejected. Each has a branch of its own, by a key, so that
// whoever asks again finds the one that there is.
type Proposals struct {
	Writing *Writing
	Host    githost.Host
}

// proposalKey matches keys that can name a branch. It is compiled on first use, because its
// repetitions take two milliseconds.
var proposalKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,100}(/[A-Za-z0-9][A-Za-z0-9._+~-]{0,100}){0,3}$`)
})

// proposed is where a mirror keeps the branch of a proposal.
const proposed = "refs/lehr/proposed"

// Branch of a proposal.
func (p *Proposals) Branch(key string) string {
	return "lehr/" + string(p.Writing.partition) + "/" + p.Writing.name + "/" + strings.NewReplacer("~", "-", "+", "-").Replace(key)
}

// Propose has a request be there that makes the edit, and says what became of it. The key is the
// same for the same proposal, as APPLICATION/ENVIRONMENT/VERSION: one that was merged or closed is
// not opened anew. What people pushed to its branch stays. Conflict: somebody changed the same
// fields since the edit's base.
func (p *Proposals) Propose(ctx context.Context, key string, edit document.Edit, actor intent.Actor) (githost.Request, error) {
	if !proposalKey().MatchString(key) || strings.Contains(key, "..") {
		return githost.Request{}, fault.New(fault.Invalid, "%.200q can name no branch", key).WithHint("use letters, digits, - and ., as web/production/1.4.2")
	}
	branch, base := p.Branch(key), p.Writing.git.Branch
	request, ok, err := p.Host.FindRequest(ctx, branch, base)
	if err != nil || ok && request.Progress != githost.Open {
		return request, err
	}
	if err := p.Writing.propose(ctx, branch, edit, actor); err != nil {
		return githost.Request{}, err
	}
	title, body, _ := strings.Cut(strings.TrimSpace(edit.Reason), "\n")
	if title == "" {
		title = "Change " + p.Writing.git.Document
	}
	body = strings.TrimSpace(body) + fmt.Sprintf("\n\nProposed by %s through Lehr, for document %s of partition %s. Merge it to have it land; close it to reject it.",
		person(actor.Name), p.Writing.name, p.Writing.partition)
	return p.Host.OpenRequest(ctx, githost.Wanted{Branch: branch, Base: base, Title: brief(title, 200), Body: strings.TrimSpace(body)})
}

// Follow says what became of a proposal.
func (p *Proposals) Follow(ctx context.Context, number int) (githost.Request, error) {
	return p.Host.FollowRequest(ctx, number)
}

// Withdraw has no request of a key be open. What was merged stays so.
func (p *Proposals) Withdraw(ctx context.Context, key string) error {
	request, ok, err := p.Host.FindRequest(ctx, p.Branch(key), p.Writing.git.Branch)
	if err != nil || !ok || request.Progress != githost.Open {
		return err
	}
	_, err = p.Host.CloseRequest(ctx, request.Number)
	return err
}

// propose has a branch hold the commit of an edit, made upon the branch that it is to be merged
// into.
func (w *Writing) propose(ctx context.Context, branch string, edit document.Edit, actor intent.Actor) error {
	wished, err := w.wishOf(edit, actor)
	if err != nil {
		return err
	}
	if err := document.CheckReason(wished.reason); err != nil {
		return err
	}
	if err := w.unhooked(); err != nil {
		return err
	}
	ctx, release := w.begin(ctx)
	defer release()
	head, err := w.mirror.update(ctx)
	if err != nil {
		return err
	}
	old, err := w.branchHead(ctx, branch)
	if err != nil {
		return err
	}
	if old != "" {
		if commit, err := w.repeated(ctx, wished, old); err != nil || commit != "" {
			return err
		}
	}
	commit, err := w.commit(ctx, wished, head)
	if err != nil {
		return err
	}
	way, err := w.mirror.way(ctx)
	if err != nil {
		return err
	}
	defer way.close()
	reference := "refs/heads/" + branch
	way.arguments = []string{"push", "--quiet", "--no-signed", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--receive-pack=git-receive-pack",
		"--force-with-lease=" + reference + ":" + old, "--", way.address, commit + ":" + reference}
	if _, err := w.mirror.git(ctx, way); err != nil {
		return fault.New(fault.Unavailable, "%s: the branch %s cannot be pushed: %w", w.describeAttempt("proposing a change of"), branch, w.mirror.explained(err, way.secrets)).
			WithHint("let the token or the key that the source names push branches that begin with lehr/; it is made once, however often it is tried")
	}
	return nil
}

// branchHead fetches a branch, and returns its commit; empty: there is no such branch.
func (w *Writing) branchHead(ctx context.Context, branch string) (string, error) {
	m := w.mirror
	way, err := m.way(ctx)
	if err != nil {
		return "", err
	}
	defer way.close()
	way.arguments = []string{"ls-remote", "--quiet", "--heads", "--upload-pack=git-upload-pack", "--", way.address, "refs/heads/" + branch}
	output, err := m.git(ctx, way)
	if err != nil {
		return "", m.explained(err, way.secrets)
	}
	commit, _, ok := strings.Cut(string(output), "\t")
	if !ok {
		return "", nil
	}
	return commit, m.fetchReferences(ctx, "+refs/heads/"+branch+":"+proposed)
}
