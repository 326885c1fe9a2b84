package monitor

import (
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ann  = intent.Actor{Name: "ann", Origin: "cli"}
	bob  = intent.Actor{Name: "bob", Origin: "cli"}
)

const sim = intent.PartitionID("sim")

// clock is a runtime whose time the test moves.
type clock struct {
	loop.Runtime
	now *time.Time
}

func (c clock) Now() time.Time { return *c.now }

// run is a store with a partition, and a monitor that looks at every commit.
type run struct {
	testing.TB
	*sqlite.Store
	*Monitor
	db    *sql.DB
	lease store.Lease
	now   time.Time
	head  intent.Sequence
	saved map[intent.AssetID]intent.Member
	plan  intent.Digest
	steps int
	// cluster that each asset impacts.
	cluster map[intent.AssetID]string
}

func newRun(t testing.TB) *run {
	t.Helper()
	r := &run{TB: t, now: noon, saved: map[intent.AssetID]intent.Member{}, cluster: map[intent.AssetID]string{}, plan: intent.Sum("plan")}
	var err error
	r.db, err = sqlite.Memory()
	r.must(err)
	t.Cleanup(func() { r.db.Close() })
	r.Store, err = sqlite.Open(t.Context(), sqlite.Options{DB: r.db, Runtime: clock{loop.Real(), &r.now}, Log: slog.New(slog.DiscardHandler)})
	r.must(err)
	t.Cleanup(func() { r.Store.Close() })
	r.Monitor = New(Options{
		DB: r.db, Partition: sim, Now: func() time.Time { return r.now },
		Served: func(kind intent.TypeName) plugin.Served {
			return plugin.Served{Type: kind, Guarantee: plugin.Unguarded, LongestEffect: time.Second}
		},
	})
	r.must(r.AddPartition(t.Context(), sim, "/sim/lehr.yaml", "a try", ann))
	r.acquire("north")
	r.publish(policy(), job("a", "1"), job("b", "1"), job("c", "1"), job("d", "1"), job("e", "1"))
	return r
}

// must also looks, as after every commit.
func (r *run) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	if r.Monitor != nil {
		r.Monitor.Commit()
	}
}

func (r *run) acquire(holder string) {
	r.Helper()
	lease, err := r.Acquire(r.Context(), sim, holder)
	r.must(err)
	r.lease = lease
}

// pass lets time go by.
func (r *run) pass(d time.Duration) { r.now = r.now.Add(d) }

// scans makes the monitor look at everything, as it does now and then.
func (r *run) scans() {
	r.Monitor.commits = 64*sample - 1
	r.Monitor.Commit()
}

type asset struct {
	id      intent.AssetID
	payload proto.Message
	addons  []proto.Message
	cluster string
	removed bool
}

func job(id intent.AssetID, text string, addons ...proto.Message) asset {
	return jobIn("c-"+string(id), id, text, addons...)
}

func jobIn(cluster string, id intent.AssetID, text string, addons ...proto.Message) asset {
	scope := &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": cluster}}
	return asset{
		id: id, payload: &processpb.Job{Name: string(id), Binary: "/bin/" + text, Replicas: 1}, addons: append(addons, scope), cluster: cluster,
	}
}

func gone(id intent.AssetID) asset { return asset{id: id, removed: true} }

func policy(changes ...func(*intentpb.Policy)) asset {
	p := &intentpb.Policy{
		Owner: "ann@example.com", Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE,
		Shrink:  &intentpb.ShrinkGuard{MaxRemovedPercent: 40, MaxChangedPercent: 100, Floor: 1, Period: durationpb.New(time.Hour)},
		Budgets: []*intentpb.Budget{{Scope: "cluster", InFlight: 1}},
		Plugins: []*intentpb.PluginBinding{{Type: "lehr.process.v1.Job", Run: []string{"sim-n"}}},
	}
	for _, change := range changes {
		change(p)
	}
	return asset{id: intent.PolicyAsset, payload: p}
}

func unbound(p *intentpb.Policy) { p.Plugins = nil }

func (r *run) entry(a asset) store.Entry {
	r.Helper()
	if a.removed {
		return store.Entry{Asset: a.id, Removed: true}
	}
	set := schema.Builtin()
	payload, err := set.Pack(a.payload)
	if err != nil {
		r.Fatal(err)
	}
	content := intent.Asset{ID: a.id, Payload: payload}
	for _, addon := range a.addons {
		message, err := set.Pack(addon)
		if err != nil {
			r.Fatal(err)
		}
		content.Addons = append(content.Addons, message)
	}
	body, digest, err := set.Encode(content)
	if err != nil {
		r.Fatal(err)
	}
	return store.Entry{Asset: a.id, Member: intent.Member{Asset: a.id, Type: payload.Type, Digest: digest, Effective: digest}, Body: body}
}

// publish makes the next incarnation.
func (r *run) publish(assets ...asset) { r.Helper(); r.publishLabelled(nil, assets...) }

func (r *run) publishLabelled(labels map[string]string, assets ...asset) {
	r.Helper()
	r.publishAs(ann, labels, assets...)
}

func (r *run) publishAs(by intent.Actor, labels map[string]string, assets ...asset) {
	r.Helper()
	var delta []store.Entry
	for _, a := range assets {
		entry := r.entry(a)
		delta = append(delta, entry)
		if delete(r.saved, a.id); !a.removed {
			r.saved[a.id], r.cluster[a.id] = entry.Member, a.cluster
		}
	}
	r.must(r.Stage(r.Context(), r.lease, r.at(r.head), delta))
	_, err := r.Publish(r.Context(), r.lease, intent.Incarnation{
		ID: r.at(r.head + 1), Parent: r.at(r.head), Count: len(r.saved), Created: r.now, Author: by, Labels: labels,
	})
	r.must(err)
	r.head++
}

func (r *run) at(sequence intent.Sequence) intent.IncarnationID {
	return intent.IncarnationID{Partition: sim, Sequence: sequence}
}

func (r *run) admission(id intent.AssetID, changes ...func(*store.Admission)) store.Admission {
	r.Helper()
	p, err := r.Partition(r.Context(), sim)
	r.must(err)
	r.steps++
	a := store.Admission{
		Push: intent.PushID(fmt.Sprintf("sim/%d-%d", r.lease.Epoch, r.steps)), Asset: id, Target: r.at(r.head),
		Effective: r.saved[id].Effective, Plan: r.plan, ResourceKey: intent.ResourceKey("key/" + id), Revision: p.Revision,
		Checks: always, At: r.now, Budgets: []store.BudgetUse{{Key: "cluster=" + r.cluster[id], Limit: 1}},
	}
	for _, change := range changes {
		change(&a)
	}
	return a
}

// admit admits a push, and fails the test when the store refuses.
func (r *run) admit(id intent.AssetID, changes ...func(*store.Admission)) store.Admission {
	r.Helper()
	a := r.admission(id, changes...)
	refusals, err := r.Admit(r.Context(), r.lease, []store.Admission{a})
	r.must(err)
	if refusals[0] != nil {
		r.Fatalf("refused: %+v", refusals[0])
	}
	return a
}

func (r *run) end(a store.Admission, ending string) {
	r.Helper()
	r.must(r.ClosePushes(r.Context(), r.lease, []store.Closing{{Push: a.Push, Ending: ending, At: r.now}}))
}

func (r *run) approve(id intent.AssetID, until time.Time) {
	r.Helper()
	r.must(r.Approve(r.Context(), intent.Approval{Partition: sim, Asset: id, Effective: r.saved[id].Effective, Plan: r.plan, By: bob, Until: until}))
}

// approveAs is somebody's approval of "a", reject a rejection of it.
func (r *run) approveAs(by intent.Actor) {
	r.Helper()
	r.must(r.Approve(r.Context(), intent.Approval{Partition: sim, Asset: "a", Effective: r.saved["a"].Effective, Plan: r.plan, By: by, Created: r.now}))
}

func (r *run) reject(by intent.Actor) {
	r.Helper()
	r.must(r.Reject(r.Context(), intent.Rejection{Partition: sim, Asset: "a", Effective: r.saved["a"].Effective, Plan: r.plan, By: by, Reason: "no"}))
}

// lifts lets people override, override does.
func (r *run) lifts() {
	r.Helper()
	r.publish(policy(func(p *intentpb.Policy) { p.Overrides = &intentpb.OverridePolicy{Allow: []string{"order", "version"}} }))
}

func (r *run) override(id intent.AssetID, check string, period time.Duration) {
	r.Helper()
	r.must(r.Override(r.Context(), intent.Override{
		Partition: sim, Asset: id, Effective: r.saved[id].Effective, Check: check, By: bob, Reason: "blind", Created: r.now, Until: r.now.Add(period),
	}))
}

// enforce records an asset as in sync with head.
func (r *run) enforce(id intent.AssetID) {
	r.Helper()
	_, err := r.SaveEnforced(r.Context(), r.lease, []store.Enforced{{
		Asset: id, Type: r.saved[id].Type, Effective: r.saved[id].Effective, Policy: r.saved[intent.PolicyAsset].Digest,
		Incarnation: r.at(r.head), ResourceKey: intent.ResourceKey("key/" + id), At: r.now,
	}})
	r.must(err)
}

// acknowledged publishes a change of "a" that somebody let through a guard.
func (r *run) acknowledged(by intent.Actor) {
	r.Helper()
	candidate := intent.Sum("candidate")
	r.records("acknowledge", candidate.String(), "", by.Name)
	r.Monitor.Commit()
	r.publishAs(intent.Actor{Name: "north", Origin: intent.ServerOrigin}, map[string]string{acknowledgedLabel: candidate.String()}, job("a", "2"))
}

// pinAs pins an asset in somebody's name.
func (r *run) pinAs(id intent.AssetID, at intent.Sequence, by intent.Actor) {
	r.Helper()
	_, err := r.SetPin(r.Context(), intent.Pin{Asset: id, Incarnation: r.at(at), Rank: intent.RankPerson, Holder: by})
	r.must(err)
}

// approveOther approves another plan of the same content.
func (r *run) approveOther(id intent.AssetID) {
	r.Helper()
	r.must(r.Approve(r.Context(), intent.Approval{Partition: sim, Asset: id, Effective: r.saved[id].Effective, Plan: intent.Sum("other"), By: bob}))
}

// effect is a change of production by an admitted push.
func (r *run) effect(a store.Admission, changes ...func(*world.Effect)) {
	e := world.Effect{
		Number: 1, At: r.now, Began: r.now, Key: a.ResourceKey, Class: plugin.Unguarded, By: world.ByLehr, Asset: a.Asset, Push: a.Push,
		Incarnation: a.Target, Effective: a.Effective, Plan: a.Plan, Token: r.lease.Epoch, Action: intent.ActionUpdate,
		Step: 1, Steps: 1, PermitLeft: time.Second, Before: "x", After: "y",
	}
	for _, change := range changes {
		change(&e)
	}
	r.Monitor.Effect(e)
}

// fine fails the test when the monitor found anything.
func (r *run) fine() {
	r.Helper()
	for _, violation := range r.Violations() {
		r.Errorf("%s: %s", violation.Property, violation.What)
	}
}

// found fails the test unless that property was broken, in such words.
func (r *run) found(property, words string) {
	r.Helper()
	for _, violation := range r.Violations() {
		if violation.Property == property && strings.Contains(violation.What, words) {
			return
		}
	}
	r.Errorf("no breach of %s with %q was seen, but %+v", property, words, r.Violations())
}
