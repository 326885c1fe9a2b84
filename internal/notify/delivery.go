package notify

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/store"
)

// Links lead to pages. Whoever opens one sees what it is about, and has no more authority by it.
type Links interface {
	// Partition's page.
	Partition(partition intent.PartitionID) string
	// Candidate opens the confirmation of letting a held one through.
	Candidate(partition intent.PartitionID, candidate string) string
	// Stage opens the confirmation of letting exactly this stage of this run of a rollout begin.
	Stage(partition intent.PartitionID, rollout string, run uint64, stage string) string
	// Asset's page.
	Asset(partition intent.PartitionID, asset intent.AssetID) string
	// Approval opens the confirmation of approving exactly this plan of an asset.
	Approval(partition intent.PartitionID, asset intent.AssetID, plan intent.Digest) string
	// Delivery is the page of what happened to a version; of one that waits for people it opens
	// the confirmation of approving exactly this version.
	Delivery(partition intent.PartitionID, event deliveryhistory.Event) string
	// WorkflowRun is the page of a run of a workflow.
	WorkflowRun(partition intent.PartitionID, run uint64) string
	// Question opens the confirmation of approving exactly this question of a run.
	Question(partition intent.PartitionID, run uint64, machine, key string) string
}

// linkOf an asset that is told of, or of the partition; empty: there are no links.
func (e *engine) linkOf(asset intent.AssetID) string {
	switch {
	case e.links == nil:
		return ""
	case asset == "":
		return e.links.Partition(e.partition)
	}
	r := e.reportOf(asset)
	isApproval := func(w intent.WaitingOn) bool { return w.Kind == intent.WaitApproval }
	if r != nil && !r.PlanDigest.IsZero() && slices.ContainsFunc(r.Waiting, isApproval) {
		return e.links.Approval(e.partition, asset, r.PlanDigest)
	}
	return e.links.Asset(e.partition, asset)
}

// mostLinks are in a message about the partition.
const mostLinks = 10

// waitingLinks lead to what waits for people in the partition: a held candidate, stages of
// rollouts, and the pull requests of these at their hosts.
func (e *engine) waitingLinks() (links []string) {
	if e.links != nil && e.view.GetCandidate().GetState() == string(intent.CandidateHeld) {
		links = append(links, e.links.Candidate(e.partition, e.view.Candidate.Id))
	}
	for _, r := range e.view.GetRollouts() {
		if e.links != nil && r.Stage != "" {
			links = append(links, e.links.Stage(e.partition, r.Name, uint64(r.Run), r.Stage))
		}
		for _, link := range r.Requests {
			if isPlainLink(link) {
				links = append(links, link)
			}
		}
	}
	return links[:min(len(links), mostLinks)]
}

// isPlainLink reports whether a link, which a git host gave, is a URL of the web that no format of a
// message could take for anything else.
func isPlainLink(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && !strings.ContainsFunc(link, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("<>|\"\\`", r)
	})
}

// happen tells of something that happened to a version. A message has the same id whenever the
// same row is shown.
func (e *engine) happen(event deliveryhistory.Event, now time.Time) {
	for _, c := range e.rules {
		if !c.OfDelivery {
			continue
		}
		text, holds := e.sayOnce(c, rule.Noted{Delivery: notedDelivery(event), Now: now}, event.Words())
		if !holds {
			continue
		}
		id := intent.Sum("lehr.notice.delivery.v1", []byte(e.partition), []byte(c.Name), []byte(strconv.FormatUint(event.Number, 10)))
		m := Message{
			ID: id.Short(), Partition: e.partition, Name: c.Name, Status: "happened", Cause: string(event.Kind), Since: event.At, At: now,
			Title: fmt.Sprintf("[%s] %s: %s", e.partition, c.Name, text),
			Delivery: &Happened{
				Event: event.Kind, Application: event.Application, Environment: event.Environment, Version: event.Version.Name, Digest: event.Version.Digest,
				Constraint: event.Constraint, By: event.By.Name, Reason: oneLine(event.Reason, mostSaid), At: event.At,
			},
		}
		if e.links != nil {
			m.Link = e.links.Delivery(e.partition, event)
		}
		e.post(c, m, now)
	}
}

// sayOnce says of something that happened whether a notification is of it, and with which words:
// those of its own text, or else the usual ones.
func (e *engine) sayOnce(c *compiled, input rule.Noted, usual string) (text string, holds bool) {
	holds, err := c.condition.Holds(input)
	if err != nil {
		e.problem(c.Name, err)
	}
	if !holds || c.text == nil {
		return oneLine(usual, mostSaid), holds
	}
	if text, err = c.text.Text(input); err != nil {
		e.problem(c.Name, err)
		text = "its text has no value"
	}
	return text, true
}

// notedDelivery is an event as expressions find it.
func notedDelivery(e deliveryhistory.Event) *intentpb.NotedDelivery {
	return &intentpb.NotedDelivery{
		Event: string(e.Kind), Application: e.Application, Environment: e.Environment, Version: e.Version.Name, Digest: e.Version.Digest,
		Constraint: e.Constraint, By: e.By.Name, Reason: e.Reason, At: moment(e.At),
	}
}

// ofDelivery: one of the notifications is of deliveries.
func ofDelivery(rules []*compiled) bool {
	return slices.ContainsFunc(rules, func(c *compiled) bool { return c.OfDelivery })
}

// readDeliveries shows rows of deliveries, on from where it was; from the newest on, once a
// notification is of them. What it shows is stored with how far it came, before anything is sent.
func (n *Notifier) readDeliveries(ctx context.Context) error {
	s := n.engine.State
	if !ofDelivery(n.engine.rules) {
		n.dirty = n.dirty || s.Delivered != nil
		s.Delivered = nil
		return nil
	}
	if s.Delivered == nil {
		newest, err := n.Store.DeliveryRecords(ctx, n.Partition, store.DeliveryFilter{Newest: true, Limit: 1})
		if err != nil {
			return err
		}
		s.Delivered = new(uint64)
		if len(newest) > 0 {
			*s.Delivered = newest[0].Number
		}
		n.owing = true // Stored at once, so that a restart misses nothing that comes after.
	}
	for {
		rows, err := n.Store.DeliveryRecords(ctx, n.Partition, store.DeliveryFilter{After: *s.Delivered, Limit: page})
		if err != nil {
			return err
		}
		for i := range rows {
			if event, ok := deliveryhistory.EventOf(&rows[i]); ok {
				n.engine.happen(event, n.Runtime.Now())
				n.owing = true
			}
			*s.Delivered, n.dirty = rows[i].Number, true
		}
		if len(rows) < page {
			return nil
		}
	}
}

// rehearseDeliveries shows the rows since a time, and drains what is told after each until that
// is enough. Whole: nothing is left out.
func rehearseDeliveries(ctx context.Context, s Reader, e *engine, start time.Time, drain func() (enough bool)) (whole bool, err error) {
	if !ofDelivery(e.rules) {
		return true, nil
	}
	next := func(cursor uint64) (number uint64, at time.Time, ok bool, err error) {
		rows, err := s.DeliveryRecords(ctx, e.partition, store.DeliveryFilter{After: cursor, Limit: 1})
		if err != nil || len(rows) == 0 {
			return 0, at, false, err
		}
		return rows[0].Number, rows[0].At, true, nil
	}
	newest, err := s.DeliveryRecords(ctx, e.partition, store.DeliveryFilter{Newest: true, Limit: 1})
	if err != nil || len(newest) == 0 {
		return true, err
	}
	cursor, err := lastBefore(newest[0].Number, start, next)
	for shown := 0; err == nil && shown < mostRehearsed; {
		var rows []intent.DeliveryRecord
		if rows, err = s.DeliveryRecords(ctx, e.partition, store.DeliveryFilter{After: cursor, Limit: page}); err != nil {
			return false, err
		}
		for i := range rows {
			if event, ok := deliveryhistory.EventOf(&rows[i]); ok {
				e.happen(event, event.At)
			}
			if cursor = rows[i].Number; drain() {
				return false, nil
			}
		}
		if shown += len(rows); len(rows) < page {
			return true, nil
		}
	}
	return false, err
}
