package web

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

const (
	// inboxAtOnce is how many partitions are read at a time for the inbox.
	inboxAtOnce = 4
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
	// Deliveries are versions that wait for a person's word.
	Deliveries []inboxItem
	// Moving are rollouts and deliveries under way, which wait for nobody.
	Moving []inboxItem
	// Stop is in force, and Ending are pins and holds that end soon.
	Stop   *apipb.Stop
	Ending []inboxItem
	// More things wait than are told.
	More bool
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
	return len(v.Approvals)+len(v.Held)+len(v.Paused)+len(v.Deliveries)+len(v.Ending) == 0 && v.Stop == nil
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
	parts := make([]*part, len(response.Partitions))
	var group errgroup.Group
	group.SetLimit(inboxAtOnce)
	for i, p := range response.Partitions {
		group.Go(func() error {
			if view, err := r.inbox(ctx, p); err != nil {
				failed := problem("inbox:"+p.Id, err)
				parts[i] = &failed
			} else if !view.Empty() {
				made := makePart("inbox:"+p.Id, "inbox", view)
				parts[i] = &made
			}
			return nil
		})
	}
	_ = group.Wait()
	pageData := page{Title: "What waits for people", Back: crumb{"all partitions", home}}
	for _, made := range parts {
		if made != nil {
			pageData.Parts = append(pageData.Parts, *made)
		}
	}
	if len(pageData.Parts) == 0 {
		pageData.Parts = []part{makePart("nothing", "inbox-empty", len(response.Partitions))}
	}
	return pageData, nil
}

// inbox reads what of a partition waits for people.
func (r *reader) inbox(ctx context.Context, p *apipb.Partition) (inboxView, error) {
	view := inboxView{Partition: p.Id}
	if p.Stop.GetPartition() != "" {
		view.Stop = p.Stop
	}
	if blocked := p.BlockedBy; blocked != nil && blocked.State == "held" {
		view.Held = []inboxItem{{
			Text: "candidate " + short(blocked.Digest), Link: link(p.Id, "candidate", blocked.Digest), Since: blocked.Created,
			Act: newActButton(p.Id, "acknowledge", blocked.Digest),
		}}
	}
	for _, read := range []func(context.Context, *apipb.Partition, *inboxView) error{r.inboxApprovals, r.inboxRollouts, r.inboxDeliveries, r.inboxBrakes} {
		if err := read(ctx, p, &view); err != nil {
			return view, err
		}
	}
	for _, list := range []*[]inboxItem{&view.Approvals, &view.Paused, &view.Deliveries, &view.Ending} {
		if len(*list) > inboxShown {
			*list, view.More = (*list)[:inboxShown], true
		}
	}
	return view, nil
}

func (r *reader) inboxApprovals(ctx context.Context, p *apipb.Partition, view *inboxView) error {
	if p.States[string(intent.StateWaiting)] == 0 {
		return nil // Who waits for an approval waits.
	}
	response, err := r.Approvals.ListApprovals(ctx, &apipb.ListApprovalsRequest{Partition: p.Id})
	if err != nil {
		return err
	}
	for _, request := range response.Requests {
		view.Approvals = append(view.Approvals, inboxItem{
			Text: request.Asset, Link: link(p.Id, "asset", request.Asset), Reason: request.Reason, Since: request.Since, Consent: request.Consent,
			Act: newActButton(p.Id, "approve", request.Asset),
		})
	}
	view.More = response.More
	if len(view.Approvals) == 0 {
		return nil
	}
	allowed, err := r.Auth.Can(ctx, &apipb.CanRequest{Partition: p.Id, Role: apipb.Role_ROLE_APPROVER})
	view.MayApprove = allowed.GetAllowed()
	return err
}

func (r *reader) inboxRollouts(ctx context.Context, p *apipb.Partition, view *inboxView) error {
	response, err := r.Rollouts.ListRollouts(ctx, &apipb.ListRolloutsRequest{Partition: p.Id})
	if err != nil {
		return err
	}
	for _, rollout := range response.Rollouts {
		switch intent.RolloutState(rollout.GetRun().GetState()) {
		case intent.RolloutRunning, intent.RolloutRollingBack:
			view.Moving = append(view.Moving, inboxItem{
				Sort: "rollout", Text: rollout.Name + " " + rollout.Run.State, Link: link(p.Id, "rollout", rollout.Name), Reason: rollout.Run.Waits, Since: rollout.Run.Began,
			})
		case intent.RolloutPaused:
			view.Paused = append(view.Paused, inboxItem{
				Text: "rollout " + rollout.Name, Link: link(p.Id, "rollout", rollout.Name), Reason: rollout.Run.Waits, Since: rollout.Run.Began,
				Act: newActButton(p.Id, "rollout-resume", rollout.Name),
			})
		}
	}
	return nil
}

// inboxDeliveries are versions that wait for a person's word, and those on their way.
func (r *reader) inboxDeliveries(ctx context.Context, p *apipb.Partition, view *inboxView) error {
	if p.Head == "" {
		return nil
	}
	response, err := r.Deliveries.ListEnvironments(ctx, &apipb.ListEnvironmentsRequest{Partition: p.Id})
	if err != nil {
		return err
	}
	for _, e := range response.Environments {
		if e.Wants != nil && e.Hold == "" {
			view.Moving = append(view.Moving, inboxItem{
				Sort: "delivery", Text: e.Wants.Name + " of " + e.Application + " to " + e.Name, Link: versionLink(p.Id, e.Application, e.Wants), Reason: e.Text, Since: e.Since,
			})
		}
		explained, err := r.Deliveries.ExplainVersion(ctx, &apipb.ExplainVersionRequest{Partition: p.Id, Application: e.Application, Environment: e.Name})
		if err != nil {
			return err
		}
		for _, x := range explained.Explanations {
			// Of several that may come the newest is first, and supersedes the others.
			if items := awaitedWords(p.Id, x); len(items) > 0 {
				view.Deliveries = append(view.Deliveries, items...)
				break
			}
		}
	}
	return nil
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

// inboxBrakes are people's overrides, pins and holds that end within a day.
func (r *reader) inboxBrakes(ctx context.Context, p *apipb.Partition, view *inboxView) error {
	soon := time.Now().Add(endsSoon)
	ends := func(until *timestamppb.Timestamp, expired bool) bool {
		return until != nil && !expired && until.AsTime().Before(soon)
	}
	holds, err := r.Brakes.ListHolds(ctx, &apipb.ListHoldsRequest{Partition: p.Id})
	if err != nil {
		return err
	}
	for _, hold := range holds.Holds {
		if ends(hold.Until, hold.Expired) {
			view.Ending = append(view.Ending, inboxItem{
				Owner: hold.Owner.GetName(), Text: hold.Asset, Link: link(p.Id, "asset", hold.Asset), Reason: "held by " + hold.Owner.GetName() + ": " + hold.Reason, Until: hold.Until,
				Act: longer(newActButton(p.Id, "hold", hold.Asset)),
			})
		}
	}
	pins, err := r.Brakes.ListPins(ctx, &apipb.ListPinsRequest{Partition: p.Id})
	if err != nil {
		return err
	}
	for _, pin := range pins.Pins {
		if pin.Rank == "person" && ends(pin.Until, pin.Expired) {
			view.Ending = append(view.Ending, inboxItem{
				Owner: pin.Holder.GetName(), Text: pin.Asset, Link: link(p.Id, "asset", pin.Asset), Reason: "pinned to " + pin.Incarnation + " by " + pin.Holder.GetName() + ": " + pin.Reason, Until: pin.Until,
				Act: longer(newActButton(p.Id, "pin", pin.Asset)),
			})
		}
	}
	overrides, err := r.Approvals.ListOverrides(ctx, &apipb.ListOverridesRequest{Partition: p.Id})
	if err != nil {
		return err
	}
	for _, override := range overrides.Overrides {
		if ends(override.Until, override.Expired) {
			view.Ending = append(view.Ending, inboxItem{
				Owner: override.By.GetName(), Text: override.Asset, Link: link(p.Id, "asset", override.Asset), Until: override.Until,
				Reason: "check " + override.Check + " overridden by " + override.By.GetName() + ": " + override.Reason, Act: longer(newActButton(p.Id, "override", override.Asset)),
			})
		}
	}
	slices.SortFunc(view.Ending, func(a, b inboxItem) int { return a.Until.AsTime().Compare(b.Until.AsTime()) })
	return nil
}

// longer is an act that is done again before it ends.
func longer(button actButton) actButton {
	button.Text += " longer"
	return button
}
