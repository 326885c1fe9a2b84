package fetch

import (
	"context"
	"errors"
	"strings"

	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
)

// mostBranchBytes are read of a list of branches: some 50 000 of them.
const mostBranchBytes = 5 << 20

const headReferences = "refs/heads/"

// Branches lists all branches of a repository, each with its commit. It fetches nothing of them. A
// repository without any branch is Unavailable: it is more likely that it is another one, or may not
// be read, than that all is gone (S5, S11).
func (o Options) Branches(ctx context.Context, git source.Git) (list []branchpreview.Branch, _ error) {
	if err := (source.Remote{Git: &git}).Check(); err != nil {
		return nil, err
	}
	// A mirror of its own: nothing is fetched into it.
	git.Branch, git.Tag, git.Commit, git.Directory, git.Document = "", "", "", "", ""
	m := newMirror(o.Folder, git, o.guard())
	defer m.close()
	m.lock.Lock()
	defer m.lock.Unlock()
	if err := m.make(ctx); err != nil {
		return nil, err
	}
	way, err := m.way(ctx)
	if err != nil {
		return nil, err
	}
	defer way.close()
	way.most = mostBranchBytes
	way.arguments = []string{"ls-remote", "--quiet", "--heads", "--upload-pack=git-upload-pack", "--", way.address}
	output, err := m.git(ctx, way)
	if err != nil {
		return nil, m.explained(err, way.secrets)
	}
	for line := range strings.Lines(string(output)) {
		commit, reference, ok := strings.Cut(strings.TrimSpace(line), "\t")
		name, isBranch := strings.CutPrefix(reference, headReferences)
		if !ok || !isBranch || !wholeCommit.MatchString(commit) {
			return nil, unreadable(m.String(), errors.New("git lists branches in a way that is not known"))
		}
		list = append(list, branchpreview.Branch{Name: name, Commit: commit})
	}
	if len(list) == 0 {
		return nil, fault.New(fault.Unavailable, "%s has no branches", m).WithHint("see that the repository is the one that is meant; nothing ends by an empty list")
	}
	return list, nil
}
