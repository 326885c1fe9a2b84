package server

import (
	"context"
	"maps"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/store"
)

// mostReleased versions of a release.
const mostReleased = 500

// CreateRelease makes a release, or shows what it would come to.
func (s *Server) CreateRelease(ctx context.Context, request *apipb.CreateReleaseRequest) (*apipb.CreateReleaseResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	l, err := s.line(ctx, partition, request.Line)
	if err != nil {
		return nil, err
	}
	row := intent.DeliveryRecord{Partition: partition.ID, Application: l.Spec.GetName(), Kind: intent.DeliveryRelease, By: actorOf(ctx)}
	row.Immediate = l.Spec.GetMode() == intentpb.ReleaseLine_MODE_IMMEDIATE
	if request.Mode != apipb.CreateReleaseRequest_MODE_UNSPECIFIED {
		row.Immediate = request.Mode == apipb.CreateReleaseRequest_MODE_IMMEDIATE
	}
	if row.Reason, err = loosened("making a release", request.Reason); err != nil {
		return nil, err
	}
	if row.Versions, err = l.versions(request.Versions); err != nil {
		return nil, err
	}
	release := promotion.Release{Number: 1, Versions: row.Versions, Immediate: row.Immediate, By: row.By.Name, Reason: row.Reason, At: s.runtime.Now()}
	if n := len(l.Releases); n > 0 {
		release.Number = l.Releases[n-1].Number + 1
	}
	if err := l.fits(&release); err != nil {
		return nil, err
	}
	changed, effects := l.with(append(slices.Clip(l.Releases), release))
	response := &apipb.CreateReleaseResponse{Effects: effects, Environments: l.environments, Warnings: changed.warnings(&release)}
	problems, notes := s.tryRelease(ctx, l, &release)
	if len(problems) > 0 && !request.DryRun && !request.DespiteTrial {
		return nil, fault.New(fault.Conflict, "the release would break something: %s", strings.Join(problems, "; ")).
			WithHint("release what is needed with it, or before it; lehr release create --despite-trial makes it all the same")
	}
	response.Warnings = slices.Concat(response.Warnings, problems, notes)
	if !request.DryRun {
		said := l.Said()
		stored, err := s.store.RecordDelivery(ctx, row, store.DeliveryAuthority{Partition: partition.ID, AnyOf: []intent.Role{intent.Operator}, Said: &said})
		if err != nil {
			return nil, err
		}
		release.Number = stored.Release
	}
	response.Release, err = changed.show(&release)
	return response, err
}

// versions that a request names, by what the line calls the applications.
func (l *releaseLine) versions(named map[string]string) (map[string]intent.VersionName, error) {
	if len(named) == 0 {
		return nil, fault.New(fault.Invalid, "the release names no version").WithHint("name one of each application that goes out, as payments=1.8.0")
	}
	if len(named) > mostReleased {
		return nil, fault.New(fault.Invalid, "the release names %d versions, and at most %d go together", len(named), mostReleased).WithHint("make several releases")
	}
	versions := map[string]intent.VersionName{}
	for _, text := range slices.Sorted(maps.Keys(named)) {
		name, err := l.applicationNamed(text)
		if err != nil {
			return nil, err
		}
		if trouble := l.troubles[name]; trouble != "" {
			return nil, fault.New(fault.Conflict, "%s cannot be released: %s", name, trouble).WithHint("mend that, or make the release without it")
		}
		if _, ok := versions[name]; ok {
			return nil, fault.New(fault.Invalid, "%s is named twice", name).WithHint("name one version of each application")
		}
		version, err := l.applications[name].versionNamed(named[text], "")
		if err != nil {
			return nil, err
		}
		versions[name] = version
	}
	return versions, nil
}

// applicationNamed in the line, by its whole name or by what follows the partition, where that is of one alone.
func (l *releaseLine) applicationNamed(text string) (string, error) {
	var found []string
	for _, name := range l.Spec.GetApplications() {
		_, application, _ := strings.Cut(name, "/")
		if name == text || name == delivery.MemberName(l.Partition.ID, text) {
			return name, nil
		}
		if application == text {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fault.New(fault.Invalid, "several applications of the line are called %s", text).WithHint("name one: %s", strings.Join(found, ", "))
	}
	hint := "it lists " + strings.Join(l.Spec.GetApplications(), ", ")
	names := map[string]string{}
	for _, name := range l.Spec.GetApplications() {
		_, application, _ := strings.Cut(name, "/")
		names[name], names[application] = name, name
	}
	if suggestion := spell.Nearest(text, slices.Sorted(maps.Keys(names))); suggestion != "" {
		hint = "did you mean " + names[suggestion] + "? " + hint
	}
	return "", fault.New(fault.NotFound, "the line of releases %s lists no application %q", l.Spec.GetName(), text).WithHint("%s", hint)
}

// fits refuses a release that could go nowhere, or would take an application back.
func (l *releaseLine) fits(release *promotion.Release) error {
	for i := len(l.Releases) - 1; i >= 0; i-- {
		if earlier := &l.Releases[i]; earlier.Aborted == nil && maps.Equal(earlier.Versions, release.Versions) {
			return fault.New(fault.Conflict, "release %d brings the same versions", earlier.Number).WithHint("lehr release status %d shows how far it has come", earlier.Number)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(release.Versions)) {
		a, version := l.applications[name], release.Versions[name]
		if known := a.Versions[version]; !known.Gone.IsZero() {
			return fault.New(fault.Conflict, "the source of %s has version %s no longer", name, version.Name).WithHint("name one that it lists: lehr get versions")
		}
		place := a.Catalogue.Place(version)
		if place < 0 {
			return fault.New(fault.Invalid, "version %s of %s has no place in the order of versions", version.Name, name).WithHint("mend the order in its lehr.yaml, or name another version")
		}
		for i := len(l.Releases) - 1; i >= 0; i-- {
			earlier := &l.Releases[i]
			if before, ok := earlier.Versions[name]; ok && earlier.Aborted == nil && a.Catalogue.Place(before) > place {
				return fault.New(fault.Conflict, "version %s of %s is older than %s, which release %d brings", version.Name, name, before.Name, earlier.Number).
					WithHint("releases go forward: to go back, abort release %d", earlier.Number)
			}
		}
	}
	return nil
}

// warnings are what is known now that will keep a release from environments.
func (l *releaseLine) warnings(release *promotion.Release) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(release.Versions)) {
		a, version := l.applications[name], release.Versions[name]
		for at, environment := range a.Application.Environments() {
			switch a.decision.State(at, version) {
			case promotion.Vetoed, promotion.Failed, promotion.Skipped, promotion.Previous:
				explained, err := a.decision.Explain(environment, version)
				if err == nil {
					list = append(list, name+": "+explained.Words(version.Name, environment))
				}
			}
		}
	}
	return list
}
