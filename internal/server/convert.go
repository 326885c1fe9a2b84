package server

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/store"
)

// convertEach converts a list.
func convertEach[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i, item := range list {
		converted[i] = convert(item)
	}
	return converted
}

func toTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// toDigest leaves an unset digest empty.
func toDigest(d intent.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

func toIncarnationID(id intent.IncarnationID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func toActor(a intent.Actor) *apipb.Actor { return &apipb.Actor{Name: a.Name, Origin: a.Origin} }

func toSource(r intent.SourceRevision) *apipb.SourceRevision {
	revision := &apipb.SourceRevision{Source: r.Source, Revision: r.Revision}
	if r.Commit != (intent.Commit{}) {
		revision.Commit = &apipb.Commit{Author: r.Commit.Author, Subject: r.Commit.Subject, Time: toTime(r.Commit.Time)}
	}
	if r.Failing != (intent.Failing{}) {
		revision.Failing = &apipb.SourceFailure{Since: toTime(r.Failing.Since), Reason: r.Failing.Reason}
	}
	return revision
}

func toFinding(f intent.Finding) *apipb.Finding {
	return &apipb.Finding{
		Rule: f.Rule, Severity: string(f.Severity), Message: f.Message, Hint: f.Hint, File: f.File,
		Line: int32(f.Line), Column: int32(f.Column), Field: f.Field, Asset: string(f.Asset),
		Alike: int32(f.Alike), Examples: f.Examples.List(),
	}
}

func toFieldChange(c intent.FieldChange) *apipb.FieldChange {
	// The plan's digest covers the values themselves, here as at the plugin.
	return &apipb.FieldChange{Path: c.Path, Current: secrecy.Shown(c.Path, c.Current), Target: secrecy.Shown(c.Path, c.Target), Reason: c.Reason, Destructive: c.Destructive, Writer: c.Writer}
}

func toPlan(p intent.Plan) *apipb.Plan {
	if p.Action == "" && len(p.Changes) == 0 {
		return nil
	}
	return &apipb.Plan{Action: string(p.Action), Changes: convertEach(p.Changes, toFieldChange), Destructive: p.Destructive()}
}

// listedChanges of the plan of a push are told where there are many pushes.
const listedChanges = 3

// toPlanRecord is nil where nothing was kept.
func toPlanRecord(r *intent.PlanRecord) *apipb.PlanRecord {
	if r == nil {
		return nil
	}
	return &apipb.PlanRecord{
		Action: string(r.Action), More: int32(r.More), MoreDestructive: int32(r.MoreDestructive), Destructive: r.Destructive(),
		Changes: convertEach(r.Changes, func(c intent.RecordedChange) *apipb.FieldChange {
			change := toFieldChange(c.FieldChange)
			change.Cut = c.Cut
			return change
		}),
	}
}

// listedPlan is the record with its first changes.
func listedPlan(r *intent.PlanRecord) *intent.PlanRecord {
	if r == nil {
		return nil
	}
	head := r.Head(listedChanges)
	return &head
}

func toWaiting(w intent.WaitingOn) *apipb.WaitingOn {
	return &apipb.WaitingOn{
		Kind: string(w.Kind), Reason: w.Reason, Check: w.Check, Quotes: w.Quotes, Approve: w.Approve, Owner: w.Owner, Until: toTime(w.Until),
		Blockers: convertEach(w.Blockers, func(id intent.AssetID) string { return string(id) }),
	}
}

func toHealth(h intent.Health) *apipb.Health {
	if h.State == "" {
		return nil
	}
	return &apipb.Health{State: string(h.State), Reason: h.Reason, ObservedVersion: h.ObservedVersion, Source: string(h.Source), Check: h.Check, Plugin: string(h.Plugin)}
}

// Report converts a report; plan uses it too.
func toReport(r intent.Report) *apipb.Report {
	return &apipb.Report{
		Partition: string(r.Partition), Asset: string(r.Asset), Type: string(r.Type), At: toTime(r.At),
		State: string(r.State), Target: toIncarnationID(r.Target), Effective: toDigest(r.Effective),
		Pinned: r.Pinned, Plan: toPlan(r.Plan), PlanDigest: toDigest(r.Reading()),
		ResourceKey: string(r.ResourceKey), Health: toHealth(r.Health), Guarantee: r.Guarantee,
		Push: string(r.Push), PushNote: r.PushNote, Waiting: convertEach(r.Waiting, toWaiting),
		Unmanaged: convertEach(r.Unmanaged, toFieldChange), Absent: r.Absent, Passed: r.Passed, PassedOver: r.PassedOver, Observed: convertEach(r.Observed, toWaiting), Next: toTime(r.Next),
		OutputProblems: convertEach(r.OutputProblems, func(p intent.OutputProblem) *apipb.OutputProblem {
			return &apipb.OutputProblem{Name: p.Name, Kind: string(p.Kind), Reason: p.Reason, Until: toTime(p.Until)}
		}),
		Consent: toConsent(r.Consent), Overrides: convertEach(r.Overrides, func(o intent.Override) *apipb.Override { return toOverride(o, r.At) }),
	}
}

func toStop(s intent.Stop) *apipb.Stop {
	return &apipb.Stop{Partition: string(s.Partition), Owner: toActor(s.Owner), Reason: s.Reason, Since: toTime(s.Since), Ending: s.Ending(), Reach: string(s.Reach)}
}

func toIncarnation(i intent.Incarnation) *apipb.Incarnation {
	var acknowledger *apipb.Actor
	if i.Acknowledger.Name != "" {
		acknowledger = toActor(i.Acknowledger)
	}
	return &apipb.Incarnation{
		Id: i.ID.String(), Parent: toIncarnationID(i.Parent), Digest: toDigest(i.Digest), Schema: toDigest(i.Schema),
		Policy: toDigest(i.Policy), Sources: convertEach(i.Sources, toSource), Count: int64(i.Count), Added: int64(i.Added),
		Changed: int64(i.Changed), Removed: int64(i.Removed), Created: toTime(i.Created), Author: toActor(i.Author),
		Labels: i.Labels, Acknowledger: acknowledger, Warnings: convertEach(i.Warnings, toFinding),
	}
}

func toCandidate(c intent.Candidate) *apipb.Candidate {
	return &apipb.Candidate{
		Id: c.ID.String(), Digest: toDigest(c.ID.Digest), Base: toIncarnationID(c.Base), State: string(c.State),
		Sources: convertEach(c.Sources, toSource), Findings: convertEach(c.Findings, toFinding), Count: int64(c.Count),
		Added: int64(c.Added), Changed: int64(c.Changed), Removed: int64(c.Removed), Created: toTime(c.Created),
	}
}

var ranks = map[intent.Rank]string{
	intent.RankPerson: "person", intent.RankRollback: "rollback", intent.RankRollout: "rollout",
}

func toPin(p intent.Pin, now time.Time) *apipb.Pin {
	return &apipb.Pin{
		Partition: string(p.Incarnation.Partition), Asset: string(p.Asset), Incarnation: p.Incarnation.String(),
		Revision: p.Revision, Rank: ranks[p.Rank], Holder: toActor(p.Holder), Reason: p.Reason,
		Created: toTime(p.Created), Until: toTime(p.Until), Expired: intent.Expired(p.Until, now), Back: p.Back,
	}
}

func toHold(partition intent.PartitionID, h intent.Hold, now time.Time) *apipb.Hold {
	return &apipb.Hold{
		Partition: string(partition), Asset: string(h.Asset), Owner: toActor(h.Owner), Reason: h.Reason,
		Created: toTime(h.Created), Until: toTime(h.Until), Expired: intent.Expired(h.Until, now),
	}
}

func toConsent(c *intent.Consent) *apipb.Consent {
	if c == nil {
		return nil
	}
	return &apipb.Consent{Need: uint32(c.Need), Approved: c.Approved, Authors: c.Authors}
}

func toRejection(r intent.Rejection, now time.Time) *apipb.Rejection {
	return &apipb.Rejection{
		Partition: string(r.Partition), Asset: string(r.Asset), Effective: toDigest(r.Effective), Plan: toDigest(intent.Reading(r.Effective, r.Plan)),
		By: toActor(r.By), Reason: r.Reason, Created: toTime(r.Created), Until: toTime(r.Until),
		Expired: intent.Expired(r.Until, now),
	}
}

func toOverride(o intent.Override, now time.Time) *apipb.Override {
	return &apipb.Override{
		Partition: string(o.Partition), Asset: string(o.Asset), Effective: toDigest(o.Effective), Check: o.Check,
		By: toActor(o.By), Reason: o.Reason, Created: toTime(o.Created), Until: toTime(o.Until), Expired: !o.InForce(now),
	}
}

func toApproval(a intent.Approval, now time.Time) *apipb.Approval {
	return &apipb.Approval{
		Alone: a.Alone,

		Partition: string(a.Partition), Asset: string(a.Asset), Effective: toDigest(a.Effective), Plan: toDigest(intent.Reading(a.Effective, a.Plan)),
		By: toActor(a.By), Reason: a.Reason, Created: toTime(a.Created), Until: toTime(a.Until),
		Expired: intent.Expired(a.Until, now),
	}
}

func toPush(p store.PushRecord) *apipb.Push {
	return &apipb.Push{
		Push: string(p.Push), Asset: string(p.Asset), Target: toIncarnationID(p.Target), Effective: toDigest(p.Effective),
		Plan: toDigest(intent.Reading(p.Effective, p.Plan)), ResourceKey: string(p.ResourceKey), Epoch: p.Epoch, Admitted: toTime(p.Admitted),
		Doubt: p.Doubt, Ending: p.Ending, Reason: p.Reason, Ended: toTime(p.Ended),
		Grounds: convertEach(p.Grounds, func(g intent.Ground) *apipb.Ground {
			return &apipb.Ground{Check: g.Check, Fact: g.Fact, Until: toTime(g.Until)}
		}),
		PlanRecord: toPlanRecord(p.PlanRecord), AdmittedBy: p.AdmittedBy, Budgets: p.Budgets, Rates: p.Rates,
	}
}

func toAuditRecord(r intent.AuditRecord) *apipb.AuditRecord {
	return &apipb.AuditRecord{
		Partition: string(r.Partition), Number: r.Number, At: toTime(r.At), By: toActor(r.By),
		From: r.From, Token: r.Token, Verb: r.Verb, Subject: r.Subject, Reason: r.Reason, Detail: r.Detail,
		Version: int32(r.Version), Link: r.Link,
	}
}
