package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// Trials build what a partition would be with other documents, and publish nothing of it.
type Trials interface {
	// Try builds a partition as if its documents were edited. An error says that it could not be tried.
	Try(ctx context.Context, partition store.Partition, edits map[string][]document.Operation) (Tried, error)
}

// Tried is what a trial came to.
type Tried struct {
	// Refused are findings for which it would not be served.
	Refused []intent.Finding
	// Unmet are the versions that assets need of others, which would not be declared.
	Unmet []UnmetVersion
}

// UnmetVersion is a version that an asset needs of another one, at least, and what that declares.
type UnmetVersion struct {
	Asset, On         intent.AssetID
	AtLeast, Declares string
}

func (u UnmetVersion) words() string {
	return fmt.Sprintf("%s needs at least %s of %s, which would declare %s", u.Asset, u.AtLeast, u.On, u.Declares)
}

// mostTried partitions of a release are built.
const mostTried = 10

// tryRelease builds the partitions of a release as they would be once all environments had it. Problems are what it
// would break there and what is not broken without it; notes say what could not be tried.
func (s *Server) tryRelease(ctx context.Context, l *releaseLine, release *promotion.Release) (problems, notes []string) {
	if s.trials == nil {
		return nil, nil
	}
	partitions, edits := l.editsOf(release)
	for i, id := range slices.Sorted(maps.Keys(edits)) {
		if i == mostTried {
			return problems, append(notes, fmt.Sprintf("what it makes of %d more partitions was not tried", len(edits)-mostTried))
		}
		found, err := s.tryPartition(ctx, partitions[id], edits[id])
		if err != nil {
			notes = append(notes, fmt.Sprintf("what it makes of %s could not be tried: %v", id, err))
		}
		for _, text := range found {
			problems = append(problems, fmt.Sprintf("in %s %s", id, text))
		}
	}
	return problems, notes
}

// editsOf a release, by partition and document. An environment that has something newer keeps it.
func (l *releaseLine) editsOf(release *promotion.Release) (partitions map[intent.PartitionID]store.Partition, edits map[intent.PartitionID]map[string][]document.Operation) {
	partitions, edits = map[intent.PartitionID]store.Partition{}, map[intent.PartitionID]map[string][]document.Operation{}
	for _, name := range slices.Sorted(maps.Keys(release.Versions)) {
		a, version := l.applications[name], release.Versions[name]
		for at := range a.Application.Environments() {
			place := &a.Places[at]
			isNewer := a.Catalogue.Place(a.decision.Outcomes[at].Has) > a.Catalogue.Place(version)
			if isNewer || place.Partition.ID == "" {
				continue
			}
			id := delivery.PartitionOf(a.Home.ID, place.Spec)
			if partitions[id] = place.Partition; edits[id] == nil {
				edits[id] = map[string][]document.Operation{}
			}
			for _, field := range [][2]string{{place.Spec.GetPointer(), version.Name}, {place.Spec.GetDigestPointer(), version.Digest}} {
				value, err := json.Marshal(field[1])
				if err == nil && field[0] != "" && field[1] != "" {
					edits[id][place.Spec.GetDocument()] = append(edits[id][place.Spec.GetDocument()], document.Operation{Path: field[0], Value: value})
				}
			}
		}
	}
	return partitions, edits
}

// tryPartition says what is broken with edits and not without them.
func (s *Server) tryPartition(ctx context.Context, partition store.Partition, edits map[string][]document.Operation) (problems []string, err error) {
	tried, err := s.trials.Try(ctx, partition, edits)
	if err != nil || len(tried.Refused)+len(tried.Unmet) == 0 {
		return nil, err
	}
	before, err := s.trials.Try(ctx, partition, nil)
	if err != nil {
		return nil, err
	}
	if len(before.Refused) > 0 {
		return nil, fault.New(fault.Conflict, "its sources are refused as they are: %s", before.Refused[0].Message)
	}
	for _, f := range tried.Refused {
		problems = append(problems, "the candidate would be refused: "+strings.TrimSpace(string(f.Asset)+" "+f.Message))
	}
	for _, unmet := range tried.Unmet {
		if !slices.Contains(before.Unmet, unmet) {
			problems = append(problems, unmet.words())
		}
	}
	return problems, nil
}
