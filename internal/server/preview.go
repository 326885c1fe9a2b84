package server

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/annealing/previewer"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// previewEntries are those of a rule, with the revision of their document.
func (s *Server) previewEntries(ctx context.Context, partition store.Partition, rule string) (entries branchpreview.Entries, revision string, _ error) {
	doc, err := s.store.Document(ctx, partition.ID, branchpreview.Document(rule), "")
	if fault.Is(err, fault.NotFound) {
		doc, err = document.Document{Content: []byte("{}")}, nil
	}
	if err != nil {
		return nil, "", err
	}
	entries, err = branchpreview.Parse(doc.Content)
	return entries, doc.Revision.ID, err
}

// States of previews, for programs.
const (
	previewMaking  = "making"
	previewReady   = "ready"
	previewEnding  = "ending"
	previewWaiting = "waiting"
)

// ListPreviews of a partition, and what has none and why.
func (s *Server) ListPreviews(ctx context.Context, request *apipb.ListPreviewsRequest) (*apipb.ListPreviewsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListPreviewsResponse{}
	for _, rule := range branchpreview.Rules(policy) {
		memory, err := previewer.ReadMemory(ctx, s.store, partition.ID, rule.GetName())
		if err != nil {
			return nil, err
		}
		status := &apipb.PreviewRuleStatus{Rule: rule.GetName(), AtMost: int32(rule.GetAtMost()), Problem: memory.Problem, MoreWaiting: int32(memory.More)}
		if !memory.Since.IsZero() {
			status.Since = timestamppb.New(memory.Since)
		}
		response.Rules = append(response.Rules, status)
		entries, revision, err := s.previewEntries(ctx, partition, rule.GetName())
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			standing, err := previewer.ReadStanding(ctx, s.store, partition, policy, rule, name, revision)
			if err != nil {
				return nil, err
			}
			response.Previews = append(response.Previews, toPreview(rule.GetName(), name, entries[name], standing))
		}
		for _, w := range memory.Waiting {
			response.Previews = append(response.Previews, &apipb.Preview{
				Rule: rule.GetName(), Branch: w.Branch.Name, Commit: w.Branch.Commit, PullRequest: int32(w.Branch.PullRequest), Link: w.Branch.Link,
				State: previewWaiting, Cause: string(w.Cause), Reason: w.Reason,
			})
		}
	}
	return response, nil
}

func toPreview(rule, name string, entry branchpreview.Entry, standing previewer.Standing) *apipb.Preview {
	p := &apipb.Preview{
		Rule: rule, Name: name, Branch: entry.Branch, Commit: entry.Commit, PullRequest: int32(entry.PullRequest), Link: entry.Link, Url: entry.URL,
		Created: timestamppb.New(entry.Created), Expires: timestamppb.New(entry.Expires), State: previewMaking,
		Reason: standing.Reason(entry.Ending != nil), Assets: int32(len(standing.Assets)),
	}
	for _, a := range standing.Assets {
		if a.Good {
			p.Good++
		}
		if a.Gone {
			p.Gone++
		}
	}
	switch {
	case entry.Ending != nil:
		p.State, p.Cause, p.EndingSince = previewEnding, string(entry.Ending.Cause), timestamppb.New(entry.Ending.Since)
		if p.Reason == "" {
			p.Reason = entry.Ending.Cause.Text()
		} else {
			p.Reason = entry.Ending.Cause.Text() + "; " + p.Reason
		}
	case standing.IsReady():
		p.State = previewReady
	}
	return p
}

// readPreview finds out which preview the asset asked for is of.
func (s *Server) readPreview(ctx context.Context, partition store.Partition, facts *explain.Facts) error {
	policy, err := s.policy(ctx, facts.Head)
	if err != nil {
		return err
	}
	rule, name, ok := branchpreview.FindNaming(policy, facts.Asset)
	if !ok || facts.Past {
		return nil
	}
	entries, _, err := s.previewEntries(ctx, partition, rule.GetName())
	if err != nil {
		return err
	}
	entry, ok := entries[name]
	if !ok {
		return nil
	}
	facts.Preview = &explain.Preview{Rule: rule.GetName(), Name: name, Subject: entry.Subject(), Link: entry.Link, Expires: entry.Expires}
	if entry.Ending != nil {
		facts.Preview.Ending, facts.Preview.Since = entry.Ending.Cause.Text(), entry.Ending.Since
	}
	return nil
}
