package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/store"
)

// ActOnRelease keeps what a person asks about a release, or shows what it would change.
func (s *Server) ActOnRelease(ctx context.Context, request *apipb.ActOnReleaseRequest) (*apipb.ActOnReleaseResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(intent.ReleaseActs(), request.Kind) {
		return nil, fault.New(fault.Invalid, "%q is nothing that can be asked about a release", request.Kind).WithHint("known are %s", strings.Join(intent.ReleaseActs(), ", "))
	}
	l, err := s.line(ctx, partition, request.Line)
	if err != nil {
		return nil, err
	}
	at, err := l.release(request.Number)
	if err != nil {
		return nil, err
	}
	if err := l.mayAct(request, &l.Releases[at]); err != nil {
		return nil, err
	}
	row := intent.DeliveryRecord{
		Partition: partition.ID, Application: l.Spec.GetName(), Kind: intent.DeliveryAct, Act: request.Kind, Release: int(request.Number), Environment: request.Environment,
		Versions: l.Releases[at].Versions, By: actorOf(ctx),
	}
	if row.Reason, err = loosened("asking about release "+fmt.Sprint(request.Number), request.Reason); err != nil {
		return nil, err
	}
	releases, shown := slices.Clone(l.Releases), row
	shown.At = s.runtime.Now()
	delivery.ApplyReleaseAct(&releases[at], shown)
	_, effects := l.with(releases)
	response := &apipb.ActOnReleaseResponse{Effects: effects}
	if request.Kind == intent.ActAbortRelease {
		response.Touches = l.touches(&l.Releases[at])
	}
	if request.DryRun {
		return response, nil
	}
	said := l.Said()
	_, err = s.store.RecordDelivery(ctx, row, store.DeliveryAuthority{Partition: partition.ID, AnyOf: []intent.Role{intent.Operator}, Said: &said})
	return response, err
}

// mayAct refuses what makes no sense now.
func (l *releaseLine) mayAct(request *apipb.ActOnReleaseRequest, release *promotion.Release) error {
	switch {
	case request.Environment != "" && request.Kind != intent.ActSkipRelease && request.Kind != intent.ActResumeRelease:
		return fault.New(fault.Invalid, "%s is about all environments", request.Kind).WithHint("take --in out, or skip the release in that environment")
	case request.Environment != "" && !slices.Contains(l.environments, request.Environment):
		hint := "they have " + strings.Join(l.environments, ", ")
		if suggestion := spell.Nearest(request.Environment, l.environments); suggestion != "" {
			hint = "did you mean " + suggestion + "? " + hint
		}
		return fault.New(fault.NotFound, "no application of the line has an environment %q", request.Environment).WithHint("%s", hint)
	case release.Aborted != nil:
		return fault.New(fault.Conflict, "release %d was aborted by %s: %s", release.Number, release.Aborted.By, release.Aborted.Reason).WithHint("make another release of the same versions")
	case request.Kind == intent.ActResumeRelease && release.Held == nil && release.Skipped[request.Environment] == nil:
		return fault.New(fault.Conflict, "release %d is neither held nor skipped", release.Number).WithHint("lehr release status %d shows what it waits for", release.Number)
	}
	return nil
}

// touches are other releases that bring applications of one that is aborted, and keep their versions.
func (l *releaseLine) touches(aborted *promotion.Release) (list []string) {
	for i := range l.Releases {
		other := &l.Releases[i]
		if other.Number == aborted.Number || other.Aborted != nil {
			continue
		}
		var words []string
		for _, name := range slices.Sorted(maps.Keys(aborted.Versions)) {
			version, ok := other.Versions[name]
			switch {
			case ok && version == aborted.Versions[name]:
				words = append(words, fmt.Sprintf("it brings %s %s as well, which stays where it is", name, version.Name))
			case ok && other.Number > aborted.Number:
				words = append(words, fmt.Sprintf("it brings %s %s, made after %s, which stays where it is", name, version.Name, aborted.Versions[name].Name))
			}
		}
		if len(words) > 0 {
			list = append(list, fmt.Sprintf("release %d: %s", other.Number, strings.Join(words, "; ")))
		}
	}
	return list
}
