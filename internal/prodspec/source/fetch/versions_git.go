package fetch

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lehr.dev/internal/ground/versionlist"
)

// Where a mirror keeps the tags and the branch of a list of versions.
const (
	tagsFetched   = "refs/lehr/tags/"
	branchFetched = "refs/lehr/branch"
)

// fetchReferences fetches what refspecs name, with all that came before.
func (m *mirror) fetchReferences(ctx context.Context, refspecs ...string) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if err := m.make(ctx); err != nil {
		return err
	}
	way, err := m.way(ctx)
	if err != nil {
		return err
	}
	defer way.close()
	way.growing = true
	way.arguments = append([]string{"fetch", "--quiet", "--force", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--upload-pack=git-upload-pack", "--", way.address}, refspecs...)
	if _, err := m.git(ctx, way); err != nil {
		m.tidy()
		return m.explained(err, way.secrets)
	}
	m.gather(ctx)
	return nil
}

// separated joins what git is to print with bytes that no field has.
func separated(fields ...string) string { return strings.Join(fields, "%00") }

func (l *look) listTags(ctx context.Context) error {
	m := l.repository
	refspecs := []string{"+refs/tags/*:" + tagsFetched + "*"}
	if l.remote.Branch != "" {
		refspecs = append(refspecs, "+refs/heads/"+l.remote.Branch+":"+branchFetched)
	}
	if err := m.fetchReferences(ctx, refspecs...); err != nil {
		return err
	}
	onBranch, err := l.tagsOnBranch(ctx)
	if err != nil {
		return err
	}
	// Of an annotated tag the fields with * are of what it names.
	output, err := m.git(ctx, invocation{most: l.limits.FileBytes, arguments: []string{"for-each-ref", "--format=" + separated("%(refname)",
		"%(objecttype)", "%(objectname)", "%(*objecttype)", "%(*objectname)", "%(creatordate:unix)", "%(authorname)", "%(*authorname)",
		"%(authoremail)", "%(*authoremail)", "%(contents:subject)", "%(*contents:subject)"), tagsFetched}})
	if err != nil {
		return m.explained(err, nil)
	}
	for line := range strings.Lines(string(output)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(parts) != 12 {
			return unreadable(m.String(), fmt.Errorf("git says %.100q of a tag", line))
		}
		l.addGitTag(parts, onBranch)
	}
	return nil
}

// tagsOnBranch are the tags whose commits are on the branch that is asked for; nil: none is.
func (l *look) tagsOnBranch(ctx context.Context) (map[string]bool, error) {
	if l.remote.Branch == "" {
		return nil, nil
	}
	output, err := l.repository.git(ctx, invocation{most: l.limits.FileBytes, arguments: []string{"for-each-ref", "--format=%(refname)", "--merged=" + branchFetched, tagsFetched}})
	if err != nil {
		return nil, l.repository.explained(err, nil)
	}
	tags := map[string]bool{}
	for name := range strings.FieldsSeq(string(output)) {
		tags[name] = true
	}
	return tags, nil
}

func (l *look) addGitTag(parts []string, onBranch map[string]bool) {
	name := strings.TrimPrefix(parts[0], tagsFetched)
	version, ok := l.matches(name)
	if !ok {
		return
	}
	kind, commit, at := parts[1], parts[2], 0
	if parts[4] != "" {
		kind, commit, at = parts[3], parts[4], 1
	}
	v := versionlist.Version{Version: version, Name: name, Digest: commit, Created: timeOf(parts[5])}
	v.Commit, v.Message, v.Author = commit, parts[10+at], author(parts[6+at], parts[8+at])
	switch {
	case kind != "commit":
		l.refuse(v, versionlist.Unreadable, "the tag names a "+kind+", not a commit")
	case onBranch != nil && !onBranch[parts[0]]:
		l.refuse(v, versionlist.OtherBranch, "its commit is not on the branch "+l.remote.Branch)
	default:
		v.Branch = l.remote.Branch
		l.add(v)
	}
}

// author is a name and an address as git prints them.
func author(name, address string) string {
	if address == "" || address == "<>" {
		return name
	}
	return name + " " + address
}

var wholeCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// listCommits lists the commits of a branch: the newest, and those that are kept. The number of
// each is its place on the branch, counted along first parents from the first commit, so that it
// stays what it is while the branch grows.
func (l *look) listCommits(ctx context.Context) error {
	m, branch := l.repository, l.remote.Commits.Branch
	if err := m.fetchReferences(ctx, "+refs/heads/"+branch+":"+branchFetched); err != nil {
		return err
	}
	output, err := m.git(ctx, invocation{arguments: []string{"rev-list", "--first-parent", branchFetched}, most: l.limits.FileBytes})
	if err != nil {
		return m.explained(err, nil)
	}
	newestFirst := strings.Fields(string(output))
	for i, commit := range newestFirst {
		if _, ok := l.matches(commit); !ok {
			continue
		}
		v := versionlist.Version{Version: commit, Name: commit, Digest: commit, Build: uint64(len(newestFirst) - i)}
		v.Commit, v.Branch = commit, branch
		l.found.Versions = append(l.found.Versions, v)
	}
	return l.describeCommits(ctx)
}

// describeCommits reads who made those commits that will be listed, and when.
func (l *look) describeCommits(ctx context.Context) error {
	arranged, _ := versionlist.Arrange(l.found, l.rules, versionlist.List{}, l.options.now())
	arguments := []string{"log", "--no-walk=unsorted", "--no-show-signature", "--encoding=UTF-8", "-z", "--format=%H%x00%an%x00<%ae>%x00%ct%x00%s", "--stdin"}
	var input strings.Builder
	for _, v := range arranged.Versions {
		if wholeCommit.MatchString(v.Name) {
			input.WriteString(v.Name + "\n")
		}
	}
	output, err := l.repository.git(ctx, invocation{arguments: arguments, input: []byte(input.String()), most: l.limits.FileBytes})
	if err != nil {
		return l.repository.explained(err, nil)
	}
	parts := strings.Split(strings.TrimSuffix(string(output), "\x00"), "\x00")
	described := map[string][]string{}
	for group := range slices.Chunk(parts, 5) {
		if len(group) == 5 {
			described[group[0]] = group
		}
	}
	all := l.found.Versions
	l.found.Versions = nil
	for _, v := range all {
		if d := described[v.Name]; d != nil {
			v.Author, v.Message, v.Created = author(d[1], d[2]), d[4], timeOf(d[3])
		}
		l.add(v)
	}
	return nil
}
