// Package delivery sets the fields of documents that say which version each environment of an
// application has. The Deliverer is an actor of its own under a partition's lease: it reads the
// facts of one moment, asks package promotion, and sets the fields of those environments that are
// in its partition, whoever's application they are of. Each step is one transaction with the rows
// that explain it, and between two steps it remembers nothing that it could not read again. It
// pushes nothing, and sets no pin. The Reader is for the server as well.
package delivery

import (
	"context"
	"log/slog"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// ActorStore is what a Deliverer reads and writes, as store.All says.
type ActorStore interface {
	Store
	Changed(partition intent.PartitionID) <-chan struct{}
	Check(ctx context.Context, lease store.Lease) error
	Promote(ctx context.Context, lease store.Lease, step store.PromotionStep) error
	EndVerification(ctx context.Context, lease store.Lease, v intent.Verification) error
}

// Options of a Deliverer.
type Options struct {
	Partition intent.PartitionID
	Store     ActorStore
	Reader    *Reader
	Runtime   loop.Runtime
	Log       *slog.Logger
	// Verify runs a verification to its end; nil: nobody does, and they are handed in.
	Verify func(context.Context, Verifying) (Finding, error)
	// Ask asks what a constraint asks, within its time; nil: nobody does, and its versions wait.
	Ask func(context.Context, Asking) (Reply, error)
	// Repositories has the documents that lie in repositories; nil: nobody has, and versions do
	// not come to environments whose document is one.
	Repositories landing.Repositories
	// Measure is told the figures of the partition's applications; nil: nobody is.
	Measure *measure.Delivery
}

// Deliverer of one partition.
type Deliverer struct {
	Options
	lease store.Lease
	// told is what was logged last of each environment.
	told map[string]string
	// unread applications are those of which nothing could be decided, and why.
	unread map[string]string
	// runs are the verifications that this process runs, by their environments.
	runs map[environmentKey]*run
	// inquiries are what constraints ask of the versions that come next.
	inquiries map[inquiryKey]*inquiry
	// unanswered is the verification whose row was stored last, or may have been.
	unanswered intent.Verification
	// visits to the repositories of the partition.
	visits *landing.Visits
	// measured is when figures were told last, by application.
	measured map[string]time.Time
}

// New returns a Deliverer.
func New(o Options) *Deliverer {
	return &Deliverer{
		Options: o, told: map[string]string{}, unread: map[string]string{}, runs: map[environmentKey]*run{}, inquiries: map[inquiryKey]*inquiry{}, measured: map[string]time.Time{},
		visits: landing.New(landing.Options{Partition: o.Partition, Repositories: o.Repositories, Runtime: o.Runtime, Log: o.Log}),
	}
}

const (
	// leastPause is between two looks, however much changes.
	leastPause = 100 * time.Millisecond
	// again is how long to wait before what could not be read is read again, and while an
	// environment has not converged, of which nothing but reports tells.
	again = time.Second
	// quiet is between two looks where nothing is under way: time alone may let a version in.
	quiet = 5 * time.Second
)

// Run goes on until the context ends or the lease is lost.
func (d *Deliverer) Run(ctx context.Context, lease store.Lease) error {
	d.lease = lease
	defer d.endRuns(ctx)
	defer d.visits.End(ctx)
	for ctx.Err() == nil {
		changed := d.Store.Changed(d.Partition)
		pause, err := d.pass(ctx)
		if ctx.Err() != nil {
			break
		}
		switch {
		case fault.Is(err, fault.Conflict):
			// What it rests on moved, or the lease is lost.
			if err := d.Store.Check(ctx, lease); fault.Is(err, fault.Conflict) {
				return err
			}
			pause = 0
		case err != nil:
			d.Log.Warn("delivery cannot go on; trying again", "partition", d.Partition, "error", err)
			pause = again
		}
		if err := d.Runtime.Wait(ctx, leastPause, nil); err != nil {
			return err
		}
		if pause == 0 {
			continue
		}
		if err := d.Runtime.Wait(ctx, pause, changed); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// task is an application some of whose environments are in the partition.
type task struct {
	home store.Partition
	spec *intentpb.Delivery
}

// pass goes on with each application, and says how long to wait at most; below 0: until
// something changes.
func (d *Deliverer) pass(ctx context.Context) (pause time.Duration, err error) {
	tasks, err := d.tasks(ctx)
	if err != nil {
		return -1, err
	}
	if abandoned, err := d.endAbandoned(ctx, tasks); err != nil || abandoned {
		return 0, err
	}
	d.forgetAbandonedQuestions(tasks)
	if len(tasks) == 0 {
		return -1, nil
	}
	pause = quiet
	var conflict error
	for _, t := range tasks {
		next, err := d.deliver(ctx, t)
		key := string(t.home.ID) + "/" + t.spec.GetName()
		switch {
		case fault.Is(err, fault.Conflict):
			conflict, next = err, 0
		case fault.Is(err, fault.Invalid):
			// Nothing is decided of it until its versions or its definition are mended.
			if d.unread[key] != err.Error() {
				d.Log.Warn("an application is not delivered", "partition", d.Partition, "application", key, "error", err)
			}
			d.unread[key], next = err.Error(), quiet
		case err != nil:
			return 0, err
		default:
			delete(d.unread, key)
		}
		pause = min(pause, next)
	}
	return pause, conflict
}

// tasks are the applications of the partition, and those of others that may set fields here.
func (d *Deliverer) tasks(ctx context.Context) (tasks []task, err error) {
	partition, err := d.Store.Partition(ctx, d.Partition)
	if err != nil {
		return nil, err
	}
	policy, err := d.Reader.Policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	for _, spec := range policy.GetDeliveries() {
		tasks = append(tasks, task{partition, spec})
	}
	seen := map[applicationKey]bool{}
	for _, grant := range policy.GetPromotionGrants() {
		key := applicationKey{intent.PartitionID(grant.GetPartition()), grant.GetApplication()}
		if seen[key] || key.home == d.Partition {
			continue
		}
		seen[key] = true
		home, err := d.Store.Partition(ctx, key.home)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		other, err := d.Reader.Policy(ctx, home.Head)
		if err != nil {
			return nil, err
		}
		for _, spec := range other.GetDeliveries() {
			if spec.GetName() == key.application {
				tasks = append(tasks, task{home, spec})
			}
		}
	}
	return tasks, nil
}

// deliver goes on with one application: it notes what it finds in the environments of the
// partition, and sets the field of one of them at most, since the others rest on what that did.
func (d *Deliverer) deliver(ctx context.Context, t task) (pause time.Duration, err error) {
	m, err := d.Reader.Read(ctx, t.home, t.spec)
	if err != nil {
		return 0, err
	}
	if len(m.Versions) == 0 {
		return quiet, nil // Its source was not read yet.
	}
	m.SetNow(d.Runtime.Now())
	for i := range m.Places {
		if place := &m.Places[i]; place.InRepository && place.Partition.ID == d.Partition {
			place.includes = d.includes(place)
		}
	}
	if notes, err := d.observe(ctx, m); err != nil {
		return 0, err
	} else if len(notes) > 0 {
		return 0, d.promote(ctx, m, store.PromotionStep{Records: notes})
	}
	decision := m.Application.Decide(m.Catalogue, m.Facts)
	if begun, err := d.waits(m, decision); err != nil {
		return 0, err
	} else if len(begun) > 0 {
		return 0, d.promote(ctx, m, store.PromotionStep{Records: begun})
	}
	d.measure(m)
	pause = quiet
	if decision.WaitsForFirst() {
		pause = again // Nothing but that application's rows tells when it has come far enough.
	}
	for i := range m.Places {
		place := &m.Places[i]
		if place.Partition.ID != d.Partition {
			continue
		}
		stepped, err := d.goOn(ctx, m, decision, i)
		if err != nil || stepped {
			return 0, err
		}
		if next, stepped, err := d.verify(ctx, m, decision, i); err != nil || stepped {
			return 0, err
		} else if next > 0 {
			pause = min(pause, next)
		}
		if next, stepped, err := d.ask(ctx, m, decision, i); err != nil || stepped {
			return 0, err
		} else if next > 0 {
			pause = min(pause, next)
		}
		if place.Written && !place.Assets.AllGood() {
			pause = again
		}
	}
	if next := d.goVisiting(ctx, m); next > 0 {
		pause = min(pause, next)
	}
	return pause, nil
}

// promote carries a step out, by what was read.
func (d *Deliverer) promote(ctx context.Context, m *Moment, step store.PromotionStep) error {
	step.Home, step.Application, step.HomeRevision, step.Said, step.Rests = m.Home.ID, m.Spec.GetName(), m.Home.Revision, m.Said, m.Rests
	step.Revision = m.Home.Revision
	for i := range m.Places {
		if m.Places[i].Partition.ID == d.Partition {
			step.Revision = m.Places[i].Partition.Revision
		}
	}
	actor := intent.DeliveryHolder(m.Home.ID, m.Spec.GetName())
	for i := range step.Records {
		step.Records[i].By = actor
	}
	d.Runtime.Point("promotion")
	return d.Store.Promote(ctx, d.lease, step)
}

// goOn with one environment: it notes what was let in, and sets the field where it is to be set.
func (d *Deliverer) goOn(ctx context.Context, m *Moment, decision *promotion.Decision, at int) (stepped bool, err error) {
	place, outcome := &m.Places[at], &decision.Outcomes[at]
	name := place.Spec.GetName()
	records, err := admissions(m, decision, at)
	if err != nil {
		return false, err
	}
	if place.InRepository {
		return d.land(ctx, m, decision, at, records)
	}
	if !outcome.Edit {
		if len(records) == 0 {
			return false, nil
		}
		return true, d.promote(ctx, m, store.PromotionStep{Records: records})
	}
	edit, err := editOf(m, place, outcome, decision)
	if err != nil {
		return false, err
	}
	if edit == nil {
		return false, nil // The field holds that name already; its digest is not in the document.
	}
	records = append(records, intent.DeliveryRecord{
		Kind: intent.DeliveryPromotion, Environment: name, Version: outcome.Wants, Why: WhyWord(outcome.Why), Back: outcome.Back, Reason: edit.Reason,
	})
	err = d.promote(ctx, m, store.PromotionStep{Records: records, Document: place.Spec.GetDocument(), Edit: edit})
	if err == nil {
		d.Log.Info("a version was promoted", "partition", d.Partition, "application", m.Spec.GetName(), "environment", name, "version", outcome.Wants.Name, "why", WhyWord(outcome.Why))
	}
	if fault.Is(err, fault.NotFound) {
		return false, nil // The document went meanwhile; the next look says so.
	}
	return true, err
}
