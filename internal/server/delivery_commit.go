package server

import (
	"context"
	"regexp"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/promotion"
)

// commitText is a commit, or its beginning.
var commitText = regexp.MustCompile(`^[0-9a-f]{4,64}$`)

// LocateCommit finds the versions that were made of a commit, and says where each of them is.
func (s *Server) LocateCommit(ctx context.Context, request *apipb.LocateCommitRequest) (*apipb.LocateCommitResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	commit := strings.ToLower(request.Commit)
	if !commitText.MatchString(commit) {
		return nil, fault.New(fault.Invalid, "%.70q is no commit", request.Commit).WithHint("write its beginning, of 4 hexadecimal digits or more, or all of it")
	}
	specs, err := s.applications(ctx, partition)
	if err != nil {
		return nil, err
	}
	response := &apipb.LocateCommitResponse{}
	for _, spec := range specs {
		a, err := s.decided(ctx, partition, spec)
		if err != nil {
			return nil, err
		}
		if err := a.locate(commit, response); err != nil {
			return nil, err
		}
	}
	if commits := commitsOf(response); len(commits) > 1 {
		return nil, fault.New(fault.Invalid, "several commits begin with %s", commit).WithHint("write more of one: %s", strings.Join(commits[:min(len(commits), 5)], ", "))
	}
	return response, nil
}

// locate adds the versions of an application that were made of a commit, the newest first; those
// that have no place in the order come last.
func (a *deliveredApplication) locate(commit string, response *apipb.LocateCommitResponse) error {
	var last []map[promotion.Release]promotion.Stay
	add := func(r promotion.Release, aside string) error {
		known := a.Versions[r].Commit
		if response.Searched++; known == "" {
			response.WithoutCommit++
		}
		if !strings.HasPrefix(strings.ToLower(known), commit) {
			return nil
		}
		if last == nil {
			last = a.lastStays()
		}
		located := &apipb.LocatedVersion{Version: a.version(r, aside, last)}
		for _, environment := range a.Application.Environments() {
			explained, err := a.explainOne(environment, r)
			if err != nil {
				return err
			}
			located.Explanations = append(located.Explanations, explained)
		}
		response.Versions = append(response.Versions, located)
		return nil
	}
	for _, one := range slices.Backward(a.Catalogue.Ordered()) {
		if err := add(one.Release(), ""); err != nil {
			return err
		}
	}
	for _, one := range a.Catalogue.Aside() {
		if err := add(one.Release(), delivery.AsideWord(one.Cause)); err != nil {
			return err
		}
	}
	return nil
}

// commitsOf are the different commits of what was found, in its order.
func commitsOf(response *apipb.LocateCommitResponse) (commits []string) {
	for _, located := range response.Versions {
		if commit := strings.ToLower(located.Version.Commit); !slices.Contains(commits, commit) {
			commits = append(commits, commit)
		}
	}
	return commits
}
