package server

import (
	"context"
	"fmt"
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

// usualReleases are on a page of releases.
const usualReleases = 20

// States of a release.
const (
	releaseMoving  = "moving"
	releaseWaiting = "waiting"
	releaseDone    = "done"
	releaseHeld    = "held"
	releaseAborted = "aborted"
)

// statePartly is the state of a release in an environment that has some of its versions.
const statePartly = "partly"

// releaseLine is a line with its applications, as they stand at one time.
type releaseLine struct {
	*delivery.ReleaseLine
	// applications by PARTITION/APPLICATION, as far as they can be read.
	applications map[string]*deliveredApplication
	// troubles say why the others cannot.
	troubles     map[string]string
	environments []string
}

// lineNames are the lines of a partition.
func (s *Server) lineNames(ctx context.Context, partition store.Partition) (names []string, err error) {
	policy, err := s.delivered.Policy(ctx, partition.Head)
	for _, line := range policy.GetReleaseLines() {
		names = append(names, line.GetName())
	}
	return names, err
}

// line that is named in a partition; empty: its only one.
func (s *Server) line(ctx context.Context, partition store.Partition, name string) (*releaseLine, error) {
	names, err := s.lineNames(ctx, partition)
	if err != nil {
		return nil, err
	}
	switch {
	case len(names) == 0:
		return nil, fault.New(fault.NotFound, "partition %s has no line of releases", partition.ID).WithHint("write one under releases: in its lehr.yaml")
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "":
		return nil, fault.New(fault.Invalid, "partition %s has several lines of releases, and none was named", partition.ID).WithHint("name one: %s", strings.Join(names, ", "))
	case !slices.Contains(names, name):
		hint := "it has " + strings.Join(names, ", ")
		if suggestion := spell.Nearest(name, names); suggestion != "" {
			hint = "did you mean " + suggestion + "? " + hint
		}
		return nil, fault.New(fault.NotFound, "partition %s has no line of releases %q", partition.ID, name).WithHint("%s", hint)
	}
	read, err := s.delivered.Line(ctx, partition.ID, name)
	if err != nil {
		return nil, err
	}
	l := &releaseLine{ReleaseLine: read, applications: map[string]*deliveredApplication{}, troubles: map[string]string{}}
	for _, name := range read.Spec.GetApplications() {
		if err := s.readReleased(ctx, l, name); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// readReleased reads an application of a line, or why it cannot be.
func (s *Server) readReleased(ctx context.Context, l *releaseLine, name string) error {
	partition, application, _ := strings.Cut(name, "/")
	home, err := s.store.Partition(ctx, intent.PartitionID(partition))
	if fault.Is(err, fault.NotFound) {
		l.troubles[name] = fmt.Sprintf("partition %s is not registered", partition)
		return nil
	}
	if err != nil {
		return err
	}
	specs, err := s.applications(ctx, home)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(specs, func(spec *intentpb.Delivery) bool { return spec.GetName() == application })
	line := delivery.MemberName(l.Partition.ID, l.Spec.GetName())
	switch {
	case at < 0:
		l.troubles[name] = fmt.Sprintf("partition %s delivers no application %s", partition, application)
		return nil
	case specs[at].GetReleases() != line:
		l.troubles[name] = fmt.Sprintf("its lehr.yaml does not say releases: %s", line)
		return nil
	}
	a, err := s.decided(ctx, home, specs[at])
	if fault.Is(err, fault.Invalid) {
		l.troubles[name] = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	l.applications[name] = a
	for _, environment := range a.Application.Environments() {
		if !slices.Contains(l.environments, environment) {
			l.environments = append(l.environments, environment)
		}
	}
	return nil
}

// release of a number.
func (l *releaseLine) release(number int32) (int, error) {
	at := slices.IndexFunc(l.Releases, func(release promotion.Release) bool { return release.Number == int(number) })
	if at < 0 {
		hint := "lehr release create makes one"
		if n := len(l.Releases); n > 0 {
			hint = fmt.Sprintf("the newest is %d; lehr release status --all lists them", l.Releases[n-1].Number)
		}
		return 0, fault.New(fault.NotFound, "there is no release %d of %s", number, l.Spec.GetName()).WithHint("%s", hint)
	}
	return at, nil
}

// ListReleases of a line.
func (s *Server) ListReleases(ctx context.Context, request *apipb.ListReleasesRequest) (*apipb.ListReleasesResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	lines, err := s.lineNames(ctx, partition)
	if err != nil {
		return nil, err
	}
	if request.Line == "" && len(lines) > 1 && request.Number == 0 {
		return &apipb.ListReleasesResponse{Lines: lines}, nil
	}
	l, err := s.line(ctx, partition, request.Line)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListReleasesResponse{Line: l.Spec.GetName(), Environments: l.environments, Lines: lines, Applications: l.Spec.GetApplications()}
	if request.Number != 0 {
		at, err := l.release(request.Number)
		if err != nil {
			return nil, err
		}
		one, err := l.show(&l.Releases[at])
		response.Releases = append(response.Releases, one)
		return response, err
	}
	limit := page(request.Limit, usualReleases, mostPage)
	for i := len(l.Releases) - 1; i >= 0; i-- {
		release := &l.Releases[i]
		if request.Before > 0 && release.Number >= int(request.Before) {
			continue
		}
		if !request.All && release.Aborted != nil {
			continue
		}
		one, err := l.show(release)
		if err != nil {
			return nil, err
		}
		if !request.All && one.State == releaseDone {
			continue
		}
		if len(response.Releases) == limit {
			response.Next = response.Releases[limit-1].Number
			break
		}
		response.Releases = append(response.Releases, one)
	}
	return response, nil
}

// show a release as it stands.
func (l *releaseLine) show(release *promotion.Release) (*apipb.Release, error) {
	r := &apipb.Release{
		Number: int32(release.Number), Line: l.Spec.GetName(), Immediate: release.Immediate, By: release.By, Reason: release.Reason, Created: toTime(release.At), Marks: marksOf(release),
	}
	names := slices.Sorted(maps.Keys(release.Versions))
	for _, name := range names {
		r.Versions = append(r.Versions, &apipb.ReleasedVersion{Application: name, Version: toVersionName(release.Versions[name]), Trouble: l.troubles[name]})
		if l.applications[name] == nil && l.troubles[name] == "" {
			r.Versions[len(r.Versions)-1].Trouble = "the line no longer lists it"
		}
	}
	for _, environment := range l.environments {
		cell, err := l.cell(release, names, environment)
		if err != nil {
			return nil, err
		}
		r.Cells = append(r.Cells, cell)
	}
	r.State = stateOfRelease(release, r.Cells)
	return r, nil
}

func marksOf(release *promotion.Release) (list []*apipb.ReleaseMark) {
	add := func(kind, environment string, act *promotion.ReleaseAct) {
		if act != nil {
			list = append(list, &apipb.ReleaseMark{Kind: kind, Environment: environment, By: act.By, Reason: act.Reason, At: toTime(act.At)})
		}
	}
	add(intent.ActAbortRelease, "", release.Aborted)
	add(intent.ActHoldRelease, "", release.Held)
	for _, environment := range slices.Sorted(maps.Keys(release.Skipped)) {
		add(intent.ActSkipRelease, environment, release.Skipped[environment])
	}
	return list
}

// cell is how a release stands in an environment.
func (l *releaseLine) cell(release *promotion.Release, names []string, environment string) (*apipb.ReleaseCell, error) {
	cell := &apipb.ReleaseCell{Environment: environment}
	isKnown := true
	for _, name := range names {
		a, version := l.applications[name], release.Versions[name]
		if a == nil || !slices.Contains(a.Application.Environments(), environment) {
			continue
		}
		explained, err := a.decision.Explain(environment, version)
		if fault.Is(err, fault.NotFound) {
			cell.Standings = append(cell.Standings, &apipb.ReleaseStanding{Application: name, Version: toVersionName(version), State: stateWithdrawn, Text: "its source has it no longer"})
			continue
		}
		if err != nil {
			return nil, err
		}
		standing := &apipb.ReleaseStanding{Application: name, Version: toVersionName(version), State: delivery.StateWord(explained.State)}
		cell.Standings = append(cell.Standings, standing)
		standing.Text = explained.Reason()
		if _, words := a.findLacking(environment, explained); words != "" {
			standing.Text = "not all is good with it yet: " + words
		}
		switch explained.State {
		case promotion.Pending, promotion.Approved, promotion.Superseded:
			standing.Earliest = toTime(explained.Estimate.At)
			isKnown = isKnown && standing.Earliest != nil
			if standing.Earliest != nil && (cell.Earliest == nil || standing.Earliest.AsTime().After(cell.Earliest.AsTime())) {
				cell.Earliest = standing.Earliest
			}
		}
	}
	if !isKnown {
		cell.Earliest = nil
	}
	cell.State = stateOfCell(cell.Standings)
	return cell, nil
}

var (
	stateCurrent    = delivery.StateWord(promotion.Current)
	stateDeploying  = delivery.StateWord(promotion.Deploying)
	statePending    = delivery.StateWord(promotion.Pending)
	stateApproved   = delivery.StateWord(promotion.Approved)
	stateWithdrawn  = delivery.StateWord(promotion.Withdrawn)
	stateSuperseded = delivery.StateWord(promotion.Superseded)
	stateSkipped    = delivery.StateWord(promotion.Skipped)
	statePrevious   = delivery.StateWord(promotion.Previous)
	stateVetoed     = delivery.StateWord(promotion.Vetoed)
	stateFailed     = delivery.StateWord(promotion.Failed)
)

// stateOfCell is that of the versions that are furthest from being there.
func stateOfCell(standings []*apipb.ReleaseStanding) string {
	has := func(states ...string) bool {
		return slices.ContainsFunc(standings, func(one *apipb.ReleaseStanding) bool { return slices.Contains(states, one.State) })
	}
	arrived := has(stateCurrent, statePrevious)
	for _, state := range []string{stateVetoed, stateFailed, stateWithdrawn, delivery.StateWord(promotion.Unordered), stateDeploying} {
		if has(state) {
			return state
		}
	}
	switch {
	case has(statePending, stateApproved) && arrived:
		return statePartly
	case has(statePending):
		return statePending
	}
	for _, state := range []string{stateApproved, stateSuperseded, stateSkipped, stateCurrent, statePrevious} {
		if has(state) {
			return state
		}
	}
	return ""
}

// stateOfRelease says how far it has come as a whole.
func stateOfRelease(release *promotion.Release, cells []*apipb.ReleaseCell) string {
	switch {
	case release.Aborted != nil:
		return releaseAborted
	case release.Held != nil:
		return releaseHeld
	}
	isOpen, moves := false, false
	for _, cell := range cells {
		for _, one := range cell.Standings {
			switch one.State {
			case stateDeploying:
				isOpen, moves = true, true
			case statePending, stateApproved:
				isOpen, moves = true, moves || one.Earliest != nil
			}
		}
	}
	switch {
	case moves:
		return releaseMoving
	case isOpen:
		return releaseWaiting
	}
	return releaseDone
}

// with is the line as it would be with other releases, and what that changes for its applications.
func (l *releaseLine) with(releases []promotion.Release) (*releaseLine, []*apipb.ReleaseEffect) {
	read := *l.ReleaseLine
	read.Releases = releases
	changed := &releaseLine{ReleaseLine: &read, applications: map[string]*deliveredApplication{}, troubles: l.troubles, environments: l.environments}
	var effects []*apipb.ReleaseEffect
	for _, name := range l.Spec.GetApplications() {
		a := l.applications[name]
		if a == nil {
			continue
		}
		moment := *a.Moment
		moment.Facts = a.Facts.WithReleases(releases)
		next := &deliveredApplication{Moment: &moment, decision: moment.Application.Decide(moment.Catalogue, moment.Facts), visible: a.visible}
		changed.applications[name] = next
		one := &apipb.ReleaseEffect{Application: name}
		for at, environment := range a.Application.Environments() {
			before, after := a.decision.Outcomes[at], next.decision.Outcomes[at]
			if before.Wants != after.Wants || before.Hold != after.Hold || before.Why != after.Why {
				one.Effects = append(one.Effects, &apipb.DeliveryEffect{Environment: environment, Before: a.environment(at, before), After: next.environment(at, after)})
			}
		}
		if len(one.Effects) > 0 {
			effects = append(effects, one)
		}
	}
	return changed, effects
}
