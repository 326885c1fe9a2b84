package web

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflowtext"
)

const (
	// inboxShown is how many things of one partition are told.
	inboxShown = 50
	// endsSoon is how long before its end a brake is told.
	endsSoon = 24 * time.Hour
)

// inboxView is what of one partition waits for a person.
type inboxView struct {
	Partition string
	// Approvals wait for people, of whom the viewer is one where MayApprove.
	Approvals  []inboxItem
	MayApprove bool
	// Held is the candidate that guards keep from being served.
	Held []inboxItem
	// Paused are rollouts that go on when somebody says so.
	Paused []inboxItem
	// Stages of rollouts, which begin when people have approved them.
	Stages []inboxItem
	// Deliveries are versions that wait for a person's word.
	Deliveries []inboxItem
	// Questions of runs of workflows, which wait for a person's answer.
	Questions []inboxItem
	// Moving are rollouts, deliveries and runs of workflows under way, which wait for nobody.
	Moving []inboxItem
	// Stop is in force, and Ending are pins and holds that end soon.
	Stop   *apipb.Stop
	Ending []inboxItem
	// More things wait than are told.
	More bool
	// Problem is why not all of it could be read; empty: it could.
	Problem string
}

// Together leads to the form that approves several plans; nil: there are none, or they are for others.
func (v inboxView) Together() *actButton {
	if !v.MayApprove || len(v.Approvals) < 2 {
		return nil
	}
	button := newActButton(v.Partition, approveTogether, "")
	button.Text = "Approve several together"
	return &button
}

// inboxItem is one thing that waits.
type inboxItem struct {
	// Sort of thing, and Owner of a brake.
	Sort, Owner string
	Text, Link  string
	Reason      string
	Since       *timestamppb.Timestamp
	Until       *timestamppb.Timestamp
	Consent     *apipb.Consent
	Act         actButton
}

// Empty: nothing of the partition waits for anybody.
func (v inboxView) Empty() bool {
	return len(v.Approvals)+len(v.Held)+len(v.Paused)+len(v.Stages)+len(v.Deliveries)+len(v.Questions)+len(v.Ending) == 0 && v.Stop == nil
}

// showInbox is what waits for people, in all partitions that the viewer may see.
func showInbox(ctx context.Context, r *reader) (page, error) {
	if _, err := r.readServer(ctx); err != nil {
		return page{}, err
	}
	response, err := r.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return page{}, err
	}
	overviews, _, err := r.readOverviews(ctx, 0, homeChoice{})
	if err != nil {
		return page{}, err
	}
	pageData := page{Title: "What waits for people", Back: crumb{"all partitions", home}}
	for _, view := range listInboxes(response.Partitions, overviews) {
		if view.Problem != "" {
			pageData.Parts = append(pageData.Parts, problem("unread:"+view.Partition, errors.New(view.Partition+": "+view.Problem)))
		}
		if !view.Empty() {
			pageData.Parts = append(pageData.Parts, makePart("inbox:"+view.Partition, "inbox", view))
		}
	}
	if len(pageData.Parts) == 0 {
		pageData.Parts = []part{makePart("nothing", "inbox-empty", len(response.Partitions))}
	}
	return pageData, nil
}

// readOverviews reads what waits, moves and happened within a time (0: nothing of it) in all partitions, by partition,
// or of the environment and the service of a choice; and which environments there are.
func (r *reader) readOverviews(ctx context.Context, happened time.Duration, choice homeChoice) (map[string]*apipb.PartitionOverview, []string, error) {
	response, err := r.Partitions.GetOverview(ctx, &apipb.GetOverviewRequest{
		EndsWithin: durationpb.New(endsSoon), HappenedWithin: durationpb.New(happened), Limit: inboxShown,
		Environment: choice.Environment, Service: choice.Service,
	})
	if err != nil {
		return nil, nil, err
	}
	overviews := map[string]*apipb.PartitionOverview{}
	for _, overview := range response.Partitions {
		overviews[overview.Partition] = overview
	}
	return overviews, response.Environments, nil
}

// listInboxes are what waits and moves in each partition.
func listInboxes(partitions []*apipb.Partition, overviews map[string]*apipb.PartitionOverview) (views []inboxView) {
	for _, p := range partitions {
		views = append(views, newInbox(p, overviews[p.Id]))
	}
	return views
}

// newInbox says what of a partition waits for people; of no overview, what the partition itself says.
func newInbox(p *apipb.Partition, o *apipb.PartitionOverview) inboxView {
	view := inboxView{Partition: p.Id, MayApprove: o.GetMayApprove(), More: o.GetMore(), Problem: o.GetProblem()}
	if p.Stop.GetPartition() != "" {
		view.Stop = p.Stop
	}
	if blocked := p.BlockedBy; blocked != nil && blocked.State == "held" {
		view.Held = []inboxItem{{
			Text: "candidate " + short(blocked.Digest), Link: link(p.Id, "candidate", blocked.Digest), Reason: whyHeld(blocked), Since: blocked.Created,
			Act: newActButton(p.Id, "acknowledge", blocked.Digest),
		}}
	}
	for _, request := range o.GetRequests() {
		view.Approvals = append(view.Approvals, inboxItem{
			Text: request.Asset, Link: link(p.Id, "asset", request.Asset), Reason: request.Reason, Since: request.Since, Consent: request.Consent,
			Act: newActButton(p.Id, "approve", request.Asset),
		})
	}
	view.addRollouts(o.GetRollouts())
	for _, e := range o.GetEnvironments() {
		view.Moving = append(view.Moving, inboxItem{
			Sort: "delivery", Text: e.Wants.Name + " of " + e.Application + " to " + e.Name, Link: versionLink(p.Id, e.Application, e.Wants), Reason: e.Text, Since: e.Since,
		})
	}
	for _, x := range o.GetAwaited() {
		view.Deliveries = append(view.Deliveries, awaitedWords(p.Id, x)...)
	}
	view.addRuns(o.GetRuns())
	view.addEnding(o)
	return view
}

// whyHeld is what the first guard says that holds a candidate. Warnings hold nothing.
func whyHeld(candidate *apipb.Candidate) string {
	for _, finding := range candidate.Findings {
		if finding.Severity != "warning" {
			return finding.Message
		}
	}
	return ""
}

// addRollouts adds those that wait, or are under way.
func (v *inboxView) addRollouts(rollouts []*apipb.Rollout) {
	for _, rollout := range rollouts {
		asked := askedStage(rollout)
		if asked != nil {
			v.Stages = append(v.Stages, v.newStageItem(rollout, asked))
		}
		switch intent.RolloutState(rollout.GetRun().GetState()) {
		case intent.RolloutRunning, intent.RolloutRollingBack:
			if asked != nil {
				continue // It waits for people, and does not move.
			}
			v.Moving = append(v.Moving, inboxItem{
				Sort: "rollout", Text: rollout.Name + " " + rollout.Run.State, Link: link(v.Partition, "rollout", rollout.Name), Reason: rollout.Run.Waits, Since: rollout.Run.Began,
			})
		case intent.RolloutPaused:
			v.Paused = append(v.Paused, inboxItem{
				Text: "rollout " + rollout.Name, Link: link(v.Partition, "rollout", rollout.Name), Reason: rollout.Run.Waits, Since: rollout.Run.Began,
				Act: newActButton(v.Partition, "rollout-resume", rollout.Name),
			})
		}
	}
}

// newStageItem is a stage that asks people, with a link to approve it. Where it asks approvers alone and the viewer
// is none, it has no such link.
func (v *inboxView) newStageItem(rollout *apipb.Rollout, stage *apipb.RolloutStage) inboxItem {
	item := inboxItem{
		Sort: "rollout", Text: "stage " + stage.Name + " of rollout " + rollout.Name, Link: link(v.Partition, "rollout", rollout.Name), Reason: stage.Waits, Since: rollout.Run.Began,
	}
	if v.MayApprove || !slices.Equal(stage.Approval.Roles, []string{string(intent.Approver)}) {
		item.Act = stageButton(v.Partition, rollout.Name, rollout.Run, stage.Name, true)
	}
	return item
}

// addRuns adds runs of workflows: what they ask people, and that they are under way.
func (v *inboxView) addRuns(runs []*apipb.WorkflowRun) {
	for _, run := range runs {
		at := workflowRunAddress(v.Partition, run.Number).String()
		asks := false
		for _, m := range run.Machines {
			if m.Action.GetKind() != "person" {
				continue
			}
			asks = true
			item := inboxItem{Sort: "workflow", Text: workflowtext.RunName(run) + ", " + m.Name, Link: at, Reason: m.Action.Text, Until: m.Action.Due}
			if item.Until == nil {
				item.Since = run.Started
			}
			if approvals := workflowtext.Approvals(m.Action); approvals != "" {
				item.Reason += "; " + approvals
			}
			if m.Action.MayAnswer {
				item.Act = newRunButton(run, "workflow-approve", "machine", m.Name)
			}
			v.Questions = append(v.Questions, item)
		}
		if !asks {
			v.Moving = append(v.Moving, inboxItem{Sort: "workflow", Text: workflowtext.RunName(run), Link: at, Reason: workflowtext.WaitsFor(run), Since: run.Started})
		}
	}
}

// awaitedWords are the judgements of a version in an environment that people give.
func awaitedWords(partition string, x *apipb.VersionExplanation) (items []inboxItem) {
	for _, awaited := range x.Awaits {
		if awaited.Environment != x.Environment {
			continue
		}
		items = append(items, inboxItem{
			Sort: "delivery", Text: x.Version.GetName() + " of " + x.Application + " in " + x.Environment, Link: versionLink(partition, x.Application, x.Version), Reason: x.Text,
			Act: deliveryButton(partition, voteApprove, x.Application, "environment", x.Environment, "version", x.Version.GetName(), "digest", x.Version.GetDigest(), "constraint", awaited.Name),
		})
	}
	return items
}

// addEnding adds people's overrides, pins and holds that end within a day.
func (v *inboxView) addEnding(o *apipb.PartitionOverview) {
	for _, hold := range o.GetHolds() {
		v.Ending = append(v.Ending, inboxItem{
			Owner: hold.Owner.GetName(), Text: hold.Asset, Link: link(v.Partition, "asset", hold.Asset), Reason: "held by " + hold.Owner.GetName() + ": " + hold.Reason, Until: hold.Until,
			Act: longer(newActButton(v.Partition, "hold", hold.Asset)),
		})
	}
	for _, pin := range o.GetPins() {
		v.Ending = append(v.Ending, inboxItem{
			Owner: pin.Holder.GetName(), Text: pin.Asset, Link: link(v.Partition, "asset", pin.Asset), Reason: "pinned to " + pin.Incarnation + " by " + pin.Holder.GetName() + ": " + pin.Reason, Until: pin.Until,
			Act: longer(newActButton(v.Partition, "pin", pin.Asset)),
		})
	}
	for _, override := range o.GetOverrides() {
		v.Ending = append(v.Ending, inboxItem{
			Owner: override.By.GetName(), Text: override.Asset, Link: link(v.Partition, "asset", override.Asset), Until: override.Until,
			Reason: "check " + override.Check + " overridden by " + override.By.GetName() + ": " + override.Reason, Act: longer(newActButton(v.Partition, "override", override.Asset)),
		})
	}
	slices.SortFunc(v.Ending, func(a, b inboxItem) int { return a.Until.AsTime().Compare(b.Until.AsTime()) })
	if len(v.Ending) > inboxShown {
		v.Ending, v.More = v.Ending[:inboxShown], true
	}
}

// longer is an act that is done again before it ends.
func longer(button actButton) actButton {
	button.Text += " longer"
	return button
}
