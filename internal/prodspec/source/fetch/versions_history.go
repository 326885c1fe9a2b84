package fetch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/commitgraph"
	"lehr.dev/internal/ground/versionlist"
)

// Sizes of what is kept of a commit, in bytes.
const (
	mostSubject = 120
	mostAuthor  = 100
)

// history reads the commits that the versions of a list are made of, and those before them. Where
// the list before had the same commits, its history is taken.
func (l *look) history(ctx context.Context, list versionlist.List) ([]commitgraph.Commit, error) {
	commits := commitsOf(list)
	if len(l.before.History) > 0 && slices.Equal(commits, commitsOf(l.before)) {
		return l.before.History, nil
	}
	const fields = 7
	// Of a body the beginning is read, for there GitLab names the request that was merged.
	arguments := []string{"log", "--topo-order", fmt.Sprintf("--max-count=%d", commitgraph.Most), "--no-show-signature", "--encoding=UTF-8", "-z",
		"--format=%H%x00%P%x00%an%x00<%ae>%x00%ct%x00%s%x00%<(400,trunc)%b", "--stdin"}
	output, err := l.repository.git(ctx, invocation{arguments: arguments, input: []byte(strings.Join(commits, "\n") + "\n"), most: l.limits.FileBytes})
	if err != nil {
		return nil, l.repository.explained(err, nil)
	}
	var history []commitgraph.Commit
	for parts := range slices.Chunk(strings.Split(strings.TrimSuffix(string(output), "\x00"), "\x00"), fields) {
		if len(parts) != fields {
			return nil, unreadable(l.repository.String(), fmt.Errorf("git says %.100q of a commit", parts))
		}
		history = append(history, commitgraph.Commit{
			ID: parts[0], Parents: strings.Fields(parts[1]), Author: brief(author(parts[2], parts[3]), mostAuthor), At: timeOf(parts[4]),
			Message: brief(parts[5], mostSubject), PullRequest: commitgraph.RequestOf(parts[5], parts[6]),
		})
	}
	return history, nil
}

// commitsOf the versions of a list.
func commitsOf(list versionlist.List) (commits []string) {
	for _, v := range list.Versions {
		if wholeCommit.MatchString(v.Commit) {
			commits = append(commits, v.Commit)
		}
	}
	return commits
}
