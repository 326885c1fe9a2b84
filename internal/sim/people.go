package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// person lets somebody do something, through the API of a process. What comes
// of it may never be answered, as when the process dies.
func (l *Lab) person(d Disturbance, r *rand.Rand) {
	replica := l.anyone()
	if replica == nil || replica.Client == nil {
		return
	}
	l.note(d.Kind, "API")
	l.people.Go("person", func() {
		p := l.someone(replica, d, r)
		if err := acts[d.Kind](p); err != nil {
			l.mark("a person was refused: " + string(d.Kind))
			l.tell("%s: refused: %v", d, err)
			return
		}
		l.mark("a person did: " + string(d.Kind))
	})
}

// person is somebody at a terminal.
type person struct {
	*Lab
	replica *Replica
	name    string
	c       *client.Client
	r       *rand.Rand
	d       Disturbance
	ctx     context.Context
}

// somebody is who is at the terminal where it does not matter who.
const somebody = "ann"

// people who tell each other apart by their names. Those that judge neither pin
// nor let anything through a guard, so that two are always left who may approve.
var (
	everybody = []string{somebody, "bob", "carol", "dave"}
	judges    = []Kind{PersonApprove, PersonTwice, PersonEarly, PersonReject, PersonWithdraw}
)

// someone does what a disturbance says.
func (l *Lab) someone(replica *Replica, d Disturbance, r *rand.Rand) person {
	names := everybody[:2]
	if slices.Contains(judges, d.Kind) {
		names = everybody
	}
	return l.named(replica, names[r.IntN(len(names))], d, r)
}

func (l *Lab) named(replica *Replica, name string, d Disturbance, r *rand.Rand) person {
	return person{Lab: l, replica: replica, name: name, c: replica.as(name, "cli"), r: r, d: d, ctx: l.ctx}
}

// as is somebody else, who goes on with what this one began.
func (p person) as(name string) person { return p.named(p.replica, name, p.d, p.r) }

var acts = map[Kind]func(person) error{
	PersonStop: person.stop, PersonResume: person.resume, PersonHold: person.hold, PersonUnhold: person.unhold,
	PersonPin: person.pin, PersonUnpin: person.unpin, PersonApprove: person.approveAll, PersonTwice: person.approveTwice,
	PersonEarly: person.approveThenEdit, PersonAccept: person.accept, PersonDisown: person.disown,
	PersonReject: person.reject, PersonWithdraw: person.withdraw, PersonOverride: person.override,
	RolloutOrder: person.orderRollout, FieldRun: person.fieldRun, FieldEdit: person.fieldEdit, FieldUndo: person.fieldUndo,
	VersionBuilt: person.build, VersionVoted: person.vote, DeliveryAct: person.act, DeliveryEdited: person.editDelivered,
	ReleaseMade: person.release, ReleaseActed: person.actOnRelease, CartBuilt: person.buildCart, CartActed: person.actOnCart,
	RunStarted: person.startRun, RunVoted: person.voteOnSome, RunSignalled: person.signalSome, RunCancelled: person.cancelSome, CourseEdited: person.editCourse,
	FirmwareNew: person.setFirmware, DeviceMended: person.mendDevices,
	PersonRetry: person.retry, PersonLooks: person.look, PersonLabels: person.label,
}

func (p person) stop() error {
	scope := []string{"", string(p.partition)}[p.r.IntN(2)]
	answer, err := p.c.Brakes.SetStop(p.ctx, &apipb.SetStopRequest{Partition: scope, Reason: "a drill"})
	if err != nil {
		return err
	}
	p.stopped = true
	p.tell("%s: stopped (%q)", p.d, scope)
	p.stopAnswered(answer.Stop)
	p.after(p.d.Length, func() { _ = p.resume() })
	return nil
}

// resume ends all stops.
func (p person) resume() error {
	list, err := p.c.Brakes.ListStops(p.ctx, &apipb.ListStopsRequest{})
	if err != nil {
		return err
	}
	for _, stop := range list.Stops {
		if stop.Reach == "" { // From the asking on it may be so.
			p.Monitor.Resumed(partitionID(stop.Partition), p.Now())
		}
		if _, err := p.c.Brakes.Resume(p.ctx, &apipb.ResumeRequest{Partition: stop.Partition, Reason: "over"}); err != nil {
			return err
		}
		p.tell("%s: resumed (%q)", p.d, stop.Partition)
	}
	p.stopped = false
	return nil
}

func (p person) hold() error {
	asset := p.asset(p.r)
	p.tell("%s: %s", p.d, asset)
	_, err := p.c.Brakes.SetHold(p.ctx, &apipb.SetHoldRequest{
		Partition: string(p.partition), Asset: string(asset), Reason: "looking", Period: durationpb.New(p.d.Length + time.Second),
	})
	return err
}

func (p person) unhold() error {
	list, err := p.c.Brakes.ListHolds(p.ctx, &apipb.ListHoldsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, hold := range list.Holds {
		if _, err := p.c.Brakes.RemoveHold(p.ctx, &apipb.RemoveHoldRequest{Partition: string(p.partition), Asset: hold.Asset, Reason: "over"}); err != nil {
			return err
		}
	}
	return nil
}

func (p person) pin() error {
	list, err := p.c.Incarnations.ListIncarnations(p.ctx, &apipb.ListIncarnationsRequest{Partition: string(p.partition)})
	if err != nil || len(list.Incarnations) == 0 {
		return err
	}
	to := list.Incarnations[p.r.IntN(len(list.Incarnations))].Id
	asset := p.asset(p.r)
	p.tell("%s: %s to %s", p.d, asset, to)
	_, err = p.c.Brakes.SetPin(p.ctx, &apipb.SetPinRequest{
		Partition: string(p.partition), Asset: string(asset), Incarnation: to, Reason: "the newer one is slow",
		Period: durationpb.New(p.d.Length + time.Second),
	})
	return err
}

func (p person) unpin() error {
	list, err := p.c.Brakes.ListPins(p.ctx, &apipb.ListPinsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	// A pin of a program is not a person's to take off; those after it are.
	var refused error
	for _, pin := range list.Pins {
		if strings.HasPrefix(pin.Holder.GetName(), intent.RolloutPrefix) {
			continue
		}
		if _, err := p.c.Brakes.RemovePin(p.ctx, &apipb.RemovePinRequest{Partition: string(p.partition), Asset: pin.Asset, Reason: "over"}); err != nil {
			refused = err
		}
	}
	return refused
}

// approveAll approves what waits for an approval.
func (p person) approveAll() error {
	return p.approve(func(*apipb.Report) error { return nil })
}

func (p person) approve(then func(*apipb.Report) error) error {
	list, err := p.c.Reports.ListReports(p.ctx, &apipb.ListReportsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, report := range list.Reports {
		if !asksForApproval(report) {
			continue
		}
		// One who may not approve this may still approve the next.
		if _, err := p.agree(report); fault.Is(err, fault.Denied) {
			p.mark("an approval was denied: of an author")
			continue
		} else if err != nil {
			return err
		}
		if err := then(report); err != nil {
			return err
		}
	}
	return nil
}

// agree approves the plan of a report.
func (p person) agree(report *apipb.Report) (*apipb.ApproveAssetResponse, error) {
	p.tell("%s: %s, plan %.8s, by %s", p.d, report.Asset, report.PlanDigest, p.name)
	return p.c.Approvals.ApproveAsset(p.ctx, &apipb.ApproveAssetRequest{
		Partition: string(p.partition), Asset: report.Asset, Plan: report.PlanDigest, Reason: "I looked at it",
	})
}

// approveTwice is one person's yes from two places, which is one person's.
func (p person) approveTwice() error {
	elsewhere := p
	elsewhere.c = p.replica.as(p.name, "api")
	return p.approve(func(report *apipb.Report) error {
		_, err := elsewhere.agree(report)
		return err
	})
}

func (p person) approveThenEdit() error {
	return p.approve(func(*apipb.Report) error {
		p.change(p.d.Number, p.r, 2, edits)
		return nil
	})
}

// accept acknowledges the newest held candidate.
func (p person) accept() error {
	list, err := p.c.Candidates.ListCandidates(p.ctx, &apipb.ListCandidatesRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, candidate := range list.Candidates {
		if candidate.State != string(intent.CandidateHeld) {
			continue
		}
		p.tell("%s: %s", p.d, candidate.Id)
		_, err := p.c.Candidates.AcknowledgeCandidate(p.ctx, &apipb.AcknowledgeCandidateRequest{
			Partition: string(p.partition), Digest: candidate.Digest, Reason: "it is meant",
		})
		return err
	}
	return nil
}

func (p person) disown() error {
	list, err := p.c.Orphans.ListOrphans(p.ctx, &apipb.ListOrphansRequest{Partition: string(p.partition)})
	if err != nil || len(list.Orphans) == 0 {
		return err
	}
	asset := list.Orphans[p.r.IntN(len(list.Orphans))].Asset
	p.tell("%s: %s", p.d, asset)
	_, err = p.c.Orphans.DisownOrphan(p.ctx, &apipb.DisownOrphanRequest{Partition: string(p.partition), Asset: asset, Reason: "ours no more"})
	return err
}

// disownWaitedFor disowns orphans that others wait for: nobody is going to put
// them back.
func (p person) disownWaitedFor() error {
	list, err := p.c.Orphans.ListOrphans(p.ctx, &apipb.ListOrphansRequest{Partition: string(p.partition)})
	if err != nil || len(list.Orphans) == 0 {
		return err
	}
	reports, err := p.c.Reports.ListReports(p.ctx, &apipb.ListReportsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, orphan := range list.Orphans {
		blocks := func(waiting *apipb.WaitingOn) bool { return slices.Contains(waiting.Blockers, orphan.Asset) }
		if !slices.ContainsFunc(reports.Reports, func(r *apipb.Report) bool { return slices.ContainsFunc(r.Waiting, blocks) }) {
			continue
		}
		p.tell("%s: %s", PersonDisown, orphan.Asset)
		if _, err := p.c.Orphans.DisownOrphan(p.ctx, &apipb.DisownOrphanRequest{Partition: string(p.partition), Asset: orphan.Asset, Reason: "ours no more"}); err != nil {
			return err
		}
	}
	return nil
}

// look asks everything that changes nothing (S21).
func (p person) look() error {
	partition := string(p.partition)
	effects := p.effects
	before := p.World.Resources()
	list, err := p.c.Reports.ListReports(p.ctx, &apipb.ListReportsRequest{Partition: partition})
	if err != nil {
		return err
	}
	p.showsMessage("the reports", list)
	for _, report := range list.Reports {
		why, err := p.c.Reports.Why(p.ctx, &apipb.WhyRequest{Partition: partition, Asset: report.Asset})
		if err != nil {
			return err
		}
		p.showsMessage("why", why)
	}
	assets, err := p.c.Assets.ListAssets(p.ctx, &apipb.ListAssetsRequest{Partition: partition})
	if err != nil {
		return err
	}
	p.showsMessage("the assets", assets)
	if err := p.lookClosely(assets); err != nil {
		return err
	}
	if _, err := p.c.Audit.VerifyAudit(p.ctx, &apipb.VerifyAuditRequest{Partition: partition}); err != nil {
		p.wrong("S25", "the audit's chain does not verify: %v", err)
	}
	if _, err := p.c.Server.GetServer(p.ctx, &apipb.GetServerRequest{}); err != nil {
		return err
	}
	if p.effects == effects && len(before) != len(p.World.Resources()) {
		p.wrong("S21", "resources came or went without an effect while somebody looked")
	}
	return nil
}

func (p person) label() error {
	list, err := p.c.Incarnations.ListIncarnations(p.ctx, &apipb.ListIncarnationsRequest{Partition: string(p.partition)})
	if err != nil || len(list.Incarnations) == 0 {
		return err
	}
	_, err = p.c.Incarnations.LabelIncarnation(p.ctx, &apipb.LabelIncarnationRequest{
		Id: list.Incarnations[p.r.IntN(len(list.Incarnations))].Id, Key: "release", Value: strconv.Itoa(p.r.IntN(9)),
	})
	return err
}
