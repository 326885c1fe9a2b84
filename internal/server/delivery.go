package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/store"
)

// deliveredApplication is one at a moment, with what is decided of it.
type deliveredApplication struct {
	*delivery.Moment
	decision *promotion.Decision
	// visible tells which partitions the caller may see; nil: that of the application alone.
	visible func(intent.PartitionID) bool
}

// applications of a partition's head.
func (s *Server) applications(ctx context.Context, partition store.Partition) ([]*intentpb.Delivery, error) {
	policy, err := s.delivered.Policy(ctx, partition.Head)
	return policy.GetDeliveries(), err
}

// application of a partition by its name; empty: the only one.
func (s *Server) application(ctx context.Context, partition store.Partition, name string) (*deliveredApplication, error) {
	specs, err := s.applications(ctx, partition)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, spec := range specs {
		names = append(names, spec.GetName())
		if spec.GetName() == name || name == "" && len(specs) == 1 {
			return s.decided(ctx, partition, spec)
		}
	}
	known := "it has " + strings.Join(names, ", ")
	switch {
	case len(specs) == 0:
		return nil, fault.New(fault.NotFound, "partition %s delivers no application", partition.ID).WithHint("write one under delivery: in its lehr.yaml")
	case name == "":
		return nil, fault.New(fault.Invalid, "partition %s delivers several applications, and none was named", partition.ID).WithHint("name one; %s", known)
	}
	if suggestion := spell.Nearest(name, names); suggestion != "" {
		known = "did you mean " + suggestion + "? " + known
	}
	return nil, fault.New(fault.NotFound, "partition %s delivers no application %q", partition.ID, name).WithHint("%s", known)
}

func (s *Server) decided(ctx context.Context, partition store.Partition, spec *intentpb.Delivery) (*deliveredApplication, error) {
	m, err := s.delivered.Read(ctx, partition, spec)
	if err != nil {
		return nil, err
	}
	m.SetNow(s.runtime.Now())
	a := &deliveredApplication{Moment: m, decision: m.Application.Decide(m.Catalogue, m.Facts)}
	if slices.ContainsFunc(m.Places, func(p delivery.Place) bool { return p.Partition.ID != m.Home.ID }) {
		a.visible, err = s.visible(ctx)
	}
	return a, err
}

// findLacking lists assets of an environment that has a version and is not good with it, also in words.
func (a *deliveredApplication) findLacking(environment string, explained *promotion.Explanation) (list []*apipb.LackingAsset, words string) {
	if explained.State != promotion.Deploying {
		return nil, ""
	}
	at := slices.Index(a.Application.Names(), environment)
	place := &a.Places[at]
	if place.Partition.ID != a.Home.ID && (a.visible == nil || !a.visible(place.Partition.ID)) {
		return nil, ""
	}
	if place.AwaitsHead() {
		return nil, "partition " + string(place.Partition.ID) + " does not serve it yet, see lehr get candidates"
	}
	var texts []string
	for _, l := range place.Assets.Lacking {
		one := &apipb.LackingAsset{Asset: string(l.Asset), State: string(l.State), Kind: string(l.Waiting.Kind), Check: l.Waiting.Check, Text: l.Words()}
		list, texts = append(list, one), append(texts, one.Text)
	}
	words = strings.Join(texts, "; ")
	if more := len(place.Assets.Members) - place.Assets.Good - len(list); more > 0 && len(list) > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return list, words
}

func toVersionName(r intent.VersionName) *apipb.VersionName {
	if r == (intent.VersionName{}) {
		return nil
	}
	return &apipb.VersionName{Name: r.Name, Digest: r.Digest}
}

// environment is one as an answer shows it.
func (a *deliveredApplication) environment(at int, outcome promotion.Outcome) *apipb.DeliveredEnvironment {
	place := &a.Places[at]
	name := place.Spec.GetName()
	facts := a.Facts.Environments[name]
	e := &apipb.DeliveredEnvironment{
		Application: a.Spec.GetName(), Name: name, Partition: string(delivery.PartitionOf(a.Home.ID, place.Spec)), Has: toVersionName(outcome.Has),
		Why: delivery.WhyWord(outcome.Why), Hold: delivery.HoldWord(outcome.Hold), Text: delivery.HoldText(outcome.Hold, place.Trouble),
		Assets: int32(len(place.Assets.Members)), GoodAssets: int32(place.Assets.Good), Verify: outcome.Verify,
	}
	if outcome.Hold == promotion.NoHold && place.Trouble != 0 {
		e.Hold, e.Text = delivery.HoldWord(promotion.HeldByTrouble), delivery.HoldText(promotion.HeldByTrouble, place.Trouble)
	}
	if outcome.Wants != outcome.Has {
		e.Wants = toVersionName(outcome.Wants)
	}
	if n := len(facts.Stays); n > 0 {
		e.Since, e.GoodSince = toTime(facts.Stays[n-1].Start), toTime(facts.Stays[n-1].GoodSince)
	}
	if v, ok := a.Verification(at, outcome.Verify); ok {
		e.Verification = &apipb.VerificationStanding{
			Name: v.Name, Began: toTime(v.Began), Until: toTime(v.Until), Trouble: v.Trouble, Again: toTime(v.Again), Text: v.Words(),
		}
	}
	e.Landing = a.landing(at)
	if a.Application.IsTask(at) {
		dependents, followed, onFailure := a.Application.Follows(at)
		e.Task = &apipb.DeliveredTask{Before: dependents, After: followed, OnFailure: onFailure, Begins: outcome.Run != nil, Text: taskText(dependents, followed, onFailure), Repeatable: place.Spec.GetTask().GetParametersPointer() != ""}
	}
	if explained, err := a.decision.Explain(name, outcome.Has); err == nil {
		if explained.Pin != nil {
			e.Pinned = toVersionName(explained.Pin.VersionName)
		}
		if explained.Pause != nil {
			e.PausedBy = explained.Pause.By
		}
	}
	return e
}

// taskText says for people when a task runs.
func taskText(dependents, followed, onFailure []string) string {
	var parts []string
	for _, part := range []struct {
		words        string
		environments []string
	}{{"before ", dependents}, {"after ", followed}, {"on failure of ", onFailure}} {
		if len(part.environments) > 0 {
			parts = append(parts, part.words+strings.Join(part.environments, ", "))
		}
	}
	return "task " + strings.Join(parts, "; ")
}

// landing is how it goes with what is to come into the repository of an environment's document.
func (a *deliveredApplication) landing(at int) *apipb.LandingStanding {
	place := &a.Places[at]
	row := place.Landing
	text := place.LandingWords()
	if text == "" {
		return nil
	}
	l := &apipb.LandingStanding{
		Version: toVersionName(row.Version), Since: toTime(place.LandingSince(a.Records)),
		PullRequest: int32(row.Request.Number), Link: row.Request.Link, Trouble: row.Trouble, Text: text,
	}
	if row.Trouble != "" {
		l.Cause = row.Cause
	}
	return l
}

// selected is what the selectors of environments selected, as of head.
func (a *deliveredApplication) selected() (list []*apipb.SelectedEnvironments) {
	for _, s := range a.Spec.GetSelectors() {
		by := "scope " + s.GetByScope()
		if s.GetByLabel() != "" {
			by = "label " + s.GetByLabel()
		}
		list = append(list, &apipb.SelectedEnvironments{
			Application: a.Spec.GetName(), Name: s.GetEnvironment(), By: by, Where: s.GetWhere(), Values: s.GetValues(), Incarnation: a.Home.Head.String(),
		})
	}
	return list
}

// ListEnvironments of a partition's applications.
func (s *Server) ListEnvironments(ctx context.Context, request *apipb.ListEnvironmentsRequest) (*apipb.ListEnvironmentsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListEnvironmentsResponse{}
	add := func(a *deliveredApplication) {
		for at := range a.Places {
			response.Environments = append(response.Environments, a.environment(at, a.decision.Outcomes[at]))
		}
		response.Selected = append(response.Selected, a.selected()...)
	}
	if request.Application != "" {
		a, err := s.application(ctx, partition, request.Application)
		if err != nil {
			return nil, err
		}
		add(a)
		return response, nil
	}
	specs, err := s.applications(ctx, partition)
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		a, err := s.decided(ctx, partition, spec)
		if err != nil {
			return nil, err
		}
		add(a)
	}
	return response, nil
}

// usualVersions are on a page of versions.
const usualVersions = 100

// ListVersions of an application.
func (s *Server) ListVersions(ctx context.Context, request *apipb.ListVersionsRequest) (*apipb.ListVersionsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	a, err := s.application(ctx, partition, request.Application)
	if err != nil {
		return nil, err
	}
	if request.Offset < 0 {
		return nil, fault.New(fault.Invalid, "a page cannot begin at %d", request.Offset)
	}
	limit := page(request.Limit, usualVersions, mostPage)
	ordered, aside := a.Catalogue.Ordered(), a.Catalogue.Aside()
	response := &apipb.ListVersionsResponse{Environments: a.Application.Environments()}
	total := len(ordered) + len(aside)
	last := a.lastStays()
	for i := int(request.Offset); i < min(int(request.Offset)+limit, total); i++ {
		if i < len(ordered) {
			response.Versions = append(response.Versions, a.version(ordered[len(ordered)-1-i].VersionName(), "", last))
			continue
		}
		one := aside[i-len(ordered)]
		response.Versions = append(response.Versions, a.version(one.VersionName(), delivery.AsideWord(one.Cause), last))
	}
	if end := int(request.Offset) + limit; end < total {
		response.Next = int32(end)
	}
	return response, nil
}

// lastStays are, by environment and version, when it got it last.
func (a *deliveredApplication) lastStays() []map[intent.VersionName]promotion.Stay {
	list := make([]map[intent.VersionName]promotion.Stay, len(a.Places))
	for at := range a.Places {
		list[at] = map[intent.VersionName]promotion.Stay{}
		for _, stay := range a.Facts.Environments[a.Places[at].Spec.GetName()].Stays {
			list[at][stay.VersionName] = stay
		}
	}
	return list
}

func (a *deliveredApplication) version(r intent.VersionName, aside string, last []map[intent.VersionName]promotion.Stay) *apipb.DeliveredVersion {
	known := a.Versions[r]
	v := &apipb.DeliveredVersion{
		Application: a.Spec.GetName(), Version: toVersionName(r), Commit: known.Commit, Created: toTime(known.Created), Seen: toTime(known.Seen), Gone: toTime(known.Gone), Aside: aside,
		Author: known.Author, Message: known.Message, PullRequest: known.PullRequest, BuildUrl: known.BuildURL, Repository: known.Repository,
	}
	for at := range a.Application.Environments() {
		standing := &apipb.VersionStanding{Environment: a.Places[at].Spec.GetName(), State: delivery.StateWord(a.decision.State(at, r))}
		if stay, ok := last[at][r]; ok {
			standing.Since = toTime(stay.Start)
		}
		v.Standings = append(v.Standings, standing)
	}
	return v
}

// versionNamed is the version that a caller names: of several of one name what the source lists now, unless a
// digest, or the beginning of one, is given.
func (a *deliveredApplication) versionNamed(name, digest string) (intent.VersionName, error) {
	var found []intent.VersionName
	for r, v := range a.Versions {
		if r.Name != name || !strings.HasPrefix(r.Digest, digest) {
			continue
		}
		if v.Gone.IsZero() && digest == "" {
			return r, nil
		}
		found = append(found, r)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var names []string
	for r := range a.Versions {
		names = append(names, r.Name)
	}
	hint := "lehr get versions lists them"
	if len(found) > 1 {
		return intent.VersionName{}, fault.New(fault.Invalid, "there were several versions %s of %s, and its source lists none of them now", name, a.Spec.GetName()).WithHint("name one by its digest; %s", hint)
	}
	if suggestion := spell.Nearest(name, names); suggestion != "" {
		hint = "did you mean " + suggestion + "? " + hint
	}
	return intent.VersionName{}, fault.New(fault.NotFound, "no version %s of %s is known", name, a.Spec.GetName()).WithHint("%s", hint)
}

func toVersionVerdict(v promotion.Verdict) *apipb.VersionVerdict {
	verdict := &apipb.VersionVerdict{
		Constraint: v.Constraint, Status: delivery.StatusWord(v.Status), Cause: delivery.CauseWord(v.Cause), Text: v.Words(), Environment: v.Environment,
		Have: int32(v.Have), Needs: int32(v.Needs), Until: toTime(v.Until), By: v.By, Reason: v.Reason,
	}
	if v.NeedsTime > 0 {
		verdict.HaveTime, verdict.NeedsTime = durationpb.New(v.HaveTime), durationpb.New(v.NeedsTime)
	}
	return verdict
}

// ExplainVersion says all of a version in an environment, or in all, or of an environment what
// it has and what comes next.
func (s *Server) ExplainVersion(ctx context.Context, request *apipb.ExplainVersionRequest) (*apipb.ExplainVersionResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	if request.Environment == "" && request.Version == "" {
		return nil, fault.New(fault.Invalid, "neither an environment nor a version is named").WithHint("name one of them, or both")
	}
	specs, err := s.applications(ctx, partition)
	if err != nil {
		return nil, err
	}
	if request.Application != "" || len(specs) <= 1 {
		a, err := s.application(ctx, partition, request.Application)
		if err != nil {
			return nil, err
		}
		explanations, err := a.explain(request)
		return &apipb.ExplainVersionResponse{Explanations: explanations}, err
	}
	response := &apipb.ExplainVersionResponse{}
	var missing error
	for _, spec := range specs {
		a, err := s.decided(ctx, partition, spec)
		if err != nil {
			return nil, err
		}
		explanations, err := a.explain(request)
		if fault.Is(err, fault.NotFound) {
			missing = err
			continue
		}
		if err != nil {
			return nil, err
		}
		response.Explanations = append(response.Explanations, explanations...)
	}
	if len(response.Explanations) == 0 {
		return nil, missing
	}
	return response, nil
}

// mostNext versions are told of that may come to an environment.
const mostNext = 3

// explain what is asked of one application.
func (a *deliveredApplication) explain(request *apipb.ExplainVersionRequest) (list []*apipb.VersionExplanation, err error) {
	environments := a.Application.Names()
	if request.Environment != "" {
		if !slices.Contains(environments, request.Environment) {
			hint := "it has " + strings.Join(environments[:min(len(environments), 20)], ", ")
			if suggestion := spell.Nearest(request.Environment, environments); suggestion != "" {
				hint = "did you mean " + suggestion + "? " + hint
			}
			return nil, fault.New(fault.NotFound, "%s has no environment %q", a.Spec.GetName(), request.Environment).WithHint("%s", hint)
		}
		environments = []string{request.Environment}
	}
	var versions []intent.VersionName
	if request.Version != "" {
		version, err := a.versionNamed(request.Version, "")
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
	} else {
		versions = a.next(slices.Index(a.Application.Names(), request.Environment))
	}
	for _, environment := range environments {
		for _, version := range versions {
			one, err := a.explainOne(environment, version)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// next are what an environment has, what it should have, and the newest that may come.
func (a *deliveredApplication) next(at int) (versions []intent.VersionName) {
	outcome := a.decision.Outcomes[at]
	add := func(r intent.VersionName) {
		if r != (intent.VersionName{}) && !slices.Contains(versions, r) && a.decision.State(at, r) != 0 {
			versions = append(versions, r)
		}
	}
	add(outcome.Has)
	add(outcome.Wants)
	for _, version := range a.decision.Next(at, mostNext, promotion.Pending, promotion.Approved) {
		add(version)
	}
	return versions
}

func (a *deliveredApplication) explainOne(environment string, r intent.VersionName) (*apipb.VersionExplanation, error) {
	explained, err := a.decision.Explain(environment, r)
	if err != nil {
		return nil, err
	}
	x := &apipb.VersionExplanation{
		Application: a.Spec.GetName(), Environment: environment, Version: toVersionName(r), State: delivery.StateWord(explained.State),
		Text: explained.Words(r.Name, environment), Earliest: toTime(explained.Estimate.At),
	}
	var words string
	if x.Lacking, words = a.findLacking(environment, explained); words != "" {
		x.Text += ": " + words
	}
	for _, v := range explained.Verdicts {
		x.Verdicts = append(x.Verdicts, toVersionVerdict(v))
	}
	for _, awaited := range explained.Estimate.Awaits {
		x.Awaits = append(x.Awaits, &apipb.AwaitedVerdict{Environment: awaited.Environment, Name: awaited.Name})
	}
	if words := a.verificationWords(environment, r, explained); words != "" {
		x.Text += "; " + words
	}
	for at, name := range a.Application.Names() {
		if l := a.landing(at); name == environment && l.GetVersion().GetName() == r.Name {
			x.Text += "; " + l.GetText()
		}
	}
	for i := len(a.Records) - 1; i >= 0; i-- {
		row := &a.Records[i]
		if row.Environment == environment && row.Version == r && len(row.Verdicts) > 0 {
			x.Admitted = toTime(row.At)
			for _, v := range row.Verdicts {
				x.AdmittedBy = append(x.AdmittedBy, &apipb.VersionVerdict{Constraint: v.Constraint, Status: v.Status, Text: v.Text})
			}
			break
		}
	}
	return x, nil
}

// verificationWords say how the verifications stand that Lehr runs and that a version waits for: that of the
// environment which has it, and those of environments on its way; empty: there is nothing to say.
func (a *deliveredApplication) verificationWords(environment string, r intent.VersionName, explained *promotion.Explanation) string {
	var words []string
	for at, name := range a.Application.Names() {
		outcome := &a.decision.Outcomes[at]
		isAwaited := name == environment && outcome.Has == r || slices.ContainsFunc(explained.Estimate.Awaits, func(awaited promotion.Awaited) bool {
			return awaited.Environment == name && slices.Contains(outcome.Verify, awaited.Name)
		})
		v, ok := a.Verification(at, outcome.Verify)
		switch {
		case !ok || !isAwaited:
		case name == environment:
			words = append(words, v.Words())
		default:
			words = append(words, "in "+name+" "+v.Words())
		}
	}
	return strings.Join(words, "; ")
}
