package server

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commitgraph"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// commitPrefix is how a commit is named, or begins.
var commitPrefix = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

// Whether an environment has a commit.
const (
	commitThere   = "yes"
	commitMissing = "no"
	commitUnknown = "unknown"
)

// LocateCommit says where a commit is, of one application or of all.
func (s *Server) LocateCommit(ctx context.Context, request *apipb.LocateCommitRequest) (*apipb.LocateCommitResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	prefix := strings.ToLower(strings.TrimSpace(request.Commit))
	if !commitPrefix.MatchString(prefix) {
		return nil, fault.New(fault.Invalid, "%.80q is no commit", request.Commit).WithHint("give at least the first four digits of it, as git log prints them")
	}
	specs, err := s.applications(ctx, partition)
	if err != nil {
		return nil, err
	}
	if request.Application != "" || len(specs) == 0 {
		a, err := s.application(ctx, partition, request.Application)
		if err != nil {
			return nil, err
		}
		specs = []*intentpb.Delivery{a.Spec}
	}
	response := &apipb.LocateCommitResponse{}
	var reasons []string
	for _, spec := range specs {
		a, err := s.decided(ctx, partition, spec)
		if err != nil {
			return nil, err
		}
		graph, err := s.commits(ctx, a)
		if err != nil {
			return nil, err
		}
		location, err := a.locate(graph, prefix)
		if fault.Is(err, fault.NotFound) {
			reasons = append(reasons, err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		response.Locations = append(response.Locations, location)
	}
	if len(response.Locations) == 0 {
		return nil, fault.New(fault.NotFound, "%s", strings.Join(reasons, "; ")).WithHint("lehr get versions -o json shows the commit of each version")
	}
	return response, nil
}

// commits that the versions of an application are made of; none, where its source knows no history.
func (s *Server) commits(ctx context.Context, a *deliveredApplication) (*commitgraph.Graph, error) {
	text, err := s.store.GetBlob(ctx, a.Home.ID, store.CommitBlobs, a.Spec.GetVersions())
	if fault.Is(err, fault.NotFound) {
		return commitgraph.New(nil), nil
	}
	if err != nil {
		return nil, err
	}
	var commits []commitgraph.Commit
	if err := json.Unmarshal(text, &commits); err != nil {
		return nil, fault.New(fault.Internal, "the history of the source %s cannot be read: %w", a.Spec.GetVersions(), err)
	}
	return commitgraph.New(commits), nil
}

// locatedCommit is one whose versions are found.
type locatedCommit struct {
	*deliveredApplication
	graph       *commitgraph.Graph
	id          string
	descendants map[string]bool
}

// locate a commit. NotFound: no version is known to have one that begins so.
func (a *deliveredApplication) locate(graph *commitgraph.Graph, prefix string) (*apipb.CommitLocation, error) {
	id, err := a.commitOf(graph, prefix)
	if err != nil {
		return nil, err
	}
	l := &locatedCommit{a, graph, id, graph.Descendants(id)}
	location := &apipb.CommitLocation{Application: a.Spec.GetName(), Commit: l.commit()}
	all := a.Catalogue.Ordered()
	for _, aside := range a.Catalogue.Aside() {
		all = append(slices.Clip(all), aside.Version)
	}
	var versions []intent.VersionName
	for _, v := range all {
		switch l.has(v.VersionName()) {
		case commitThere:
			versions = append(versions, v.VersionName())
			location.Versions = append(location.Versions, toVersionName(v.VersionName()))
		case commitUnknown:
			location.Unknown++
		}
	}
	for at := range a.Application.Environments() {
		place, err := l.place(at, versions)
		if err != nil {
			return nil, err
		}
		location.Environments = append(location.Environments, place)
	}
	return location, nil
}

// commitOf is the whole name of the only commit that begins so.
func (a *deliveredApplication) commitOf(graph *commitgraph.Graph, prefix string) (string, error) {
	found := graph.Prefixed(prefix)
	for _, v := range a.Versions {
		// The label of an image may hold the beginning of a commit only.
		isNamed := strings.HasPrefix(v.Commit, prefix) || len(v.Commit) >= 7 && strings.HasPrefix(prefix, v.Commit)
		if isNamed && !slices.Contains(found, v.Commit) {
			found = append(found, v.Commit)
		}
	}
	slices.Sort(found)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		const most = 5
		return "", fault.New(fault.Invalid, "%d commits of %s begin with %s", len(found), a.Spec.GetName(), prefix).
			WithHint("give more of it: %s", strings.Join(found[:min(most, len(found))], ", "))
	case graph.Len() == 0:
		return "", fault.New(fault.NotFound, "no version of %s says that it is made of %s, and its source %s knows no history, so that a version may have it all the same",
			a.Spec.GetName(), prefix, a.Spec.GetVersions())
	case graph.Len() >= commitgraph.Most:
		return "", fault.New(fault.NotFound, "no version of %s has %s among the newest %d commits before it", a.Spec.GetName(), prefix, commitgraph.Most)
	}
	return "", fault.New(fault.NotFound, "no version of %s has %s", a.Spec.GetName(), prefix)
}

// commit as an answer shows it: what the repository says of it, or else a version.
func (l *locatedCommit) commit() *apipb.DeliveredCommit {
	if c, ok := l.graph.Commit(l.id); ok {
		return toCommit(c)
	}
	for _, v := range l.Versions {
		if v.Commit == l.id {
			return &apipb.DeliveredCommit{Id: v.Commit, Author: v.Author, Message: v.Message, PullRequest: v.PullRequest, At: toTime(v.Created)}
		}
	}
	return &apipb.DeliveredCommit{Id: l.id}
}

func toCommit(c commitgraph.Commit) *apipb.DeliveredCommit {
	return &apipb.DeliveredCommit{Id: c.ID, Author: c.Author, At: toTime(c.At), Message: c.Message, PullRequest: c.PullRequest}
}

// has says whether a version has the commit.
func (l *locatedCommit) has(r intent.VersionName) string {
	made := l.Versions[r].Commit
	if l.descendants[made] {
		return commitThere
	}
	_, isRead := l.graph.Commit(l.id)
	if _, ok := l.graph.Commit(made); ok && isRead {
		return commitMissing
	}
	return commitUnknown
}

// place is whether an environment has the commit, and what is in its way.
func (l *locatedCommit) place(at int, versions []intent.VersionName) (*apipb.CommitPlace, error) {
	name, outcome := l.Places[at].Spec.GetName(), l.decision.Outcomes[at]
	place := &apipb.CommitPlace{Environment: name, Version: toVersionName(outcome.Has), Has: commitMissing}
	if outcome.Has != (intent.VersionName{}) {
		place.Has = l.has(outcome.Has)
	}
	if place.Has == commitThere {
		for _, stay := range slices.Backward(l.Facts.Environments[name].Stays) {
			if l.has(stay.VersionName) != commitThere {
				break
			}
			place.Since = toTime(stay.Start)
		}
		return place, nil
	}
	if len(versions) == 0 {
		return place, nil
	}
	var err error
	place.Next, err = l.explainOne(name, l.bringing(at, versions))
	return place, err
}

// bringing is the version that brings the commit first: what the environment should have, else the
// newest that may come, else the newest.
func (l *locatedCommit) bringing(at int, versions []intent.VersionName) intent.VersionName {
	if wants := l.decision.Outcomes[at].Wants; slices.Contains(versions, wants) {
		return wants
	}
	for _, r := range slices.Backward(versions) {
		if state := l.decision.State(at, r); state == promotion.Pending || state == promotion.Approved {
			return r
		}
	}
	return versions[len(versions)-1]
}

// CompareVersions says what changes from one version to another.
func (s *Server) CompareVersions(ctx context.Context, request *apipb.CompareVersionsRequest) (*apipb.CompareVersionsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	a, err := s.application(ctx, partition, request.Application)
	if err != nil {
		return nil, err
	}
	from, err := a.environmentOrVersion(request.From)
	if err != nil {
		return nil, err
	}
	to, err := a.environmentOrVersion(request.To)
	if err != nil {
		return nil, err
	}
	response := &apipb.CompareVersionsResponse{Application: a.Spec.GetName(), From: toVersionName(from), To: toVersionName(to)}
	graph, err := s.commits(ctx, a)
	if err != nil {
		return nil, err
	}
	fromCommit, toCommitID := a.Versions[from].Commit, a.Versions[to].Commit
	_, fromRead := graph.Commit(fromCommit)
	_, toRead := graph.Commit(toCommitID)
	if fromRead && toRead {
		added, addedWhole := graph.Between(fromCommit, toCommitID)
		removed, removedWhole := graph.Between(toCommitID, fromCommit)
		response.Whole = addedWhole && removedWhole
		for _, c := range added {
			response.Commits = append(response.Commits, toCommit(c))
		}
		for _, c := range removed {
			response.Removed = append(response.Removed, toCommit(c))
		}
	}
	a.addVersionsBetween(response, from, to)
	return response, nil
}

// environmentOrVersion is what an environment has, or the version of that name.
func (a *deliveredApplication) environmentOrVersion(name string) (intent.VersionName, error) {
	if at := slices.Index(a.Application.Names(), name); at >= 0 {
		if has := a.decision.Outcomes[at].Has; has != (intent.VersionName{}) {
			return has, nil
		}
		return intent.VersionName{}, fault.New(fault.Invalid, "the environment %s of %s has no version yet", name, a.Spec.GetName()).WithHint("name a version instead")
	}
	r, err := a.versionNamed(name, "")
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "%s has no environment and no version %.200q", a.Spec.GetName(), name).
			WithHint("%s", fmt.Sprintf("its environments are %s; lehr get versions lists its versions", strings.Join(a.Application.Environments(), ", ")))
	}
	return r, err
}

// addVersionsBetween two of the order. Where one has no place in it, nothing lies between.
func (a *deliveredApplication) addVersionsBetween(response *apipb.CompareVersionsResponse, from, to intent.VersionName) {
	ordered := a.Catalogue.Ordered()
	placeOf := func(r intent.VersionName) int {
		return slices.IndexFunc(ordered, func(v promotion.Version) bool { return v.VersionName() == r })
	}
	first, last := placeOf(from), placeOf(to)
	if first < 0 || last < 0 {
		return
	}
	if response.Back = last < first; response.Back {
		first, last = last, first
	}
	stays := a.lastStays()
	for i := last; i > first; i-- {
		response.Versions = append(response.Versions, a.version(ordered[i].VersionName(), "", stays))
	}
}
