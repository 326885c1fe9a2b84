package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/store"
)

// trusted is for how long what was seen of a neighbour may be relied on: what
// others changed since may be unknown.
const trusted = 130 * time.Second

// look is what one admission is held against: production as it truly is.
type look struct {
	*Lab
	store.Admission
	head     intent.IncarnationID
	pins     []intent.Pin
	enforced map[intent.AssetID]store.Enforced
	target   declared
	// before is what the asset was enforced with, if that is other content.
	before *declared
}

// declared is what an asset's content says of its neighbours.
type declared struct {
	intent.Asset
	edges              []*intentpb.Dependency
	scopes             map[string]string
	turndown, approval bool
	// unmanaged: production may own some of it.
	unmanaged bool
}

// rests asks of an admission whether its neighbours are as its edges ask, in
// production and not in what Lehr knows of it (S1, S5), and whether a commit
// disarmed its own guards (S23).
func (l *Lab) rests(a store.Admission, requestTime time.Time) {
	const atOnce = time.Second
	l.lied()
	// By a clock that was set back since, pins that had ended hold again.
	if l.options.Definition != "" || l.Now().Sub(requestTime) > atOnce || l.Now().Sub(l.clockMoved) <= atOnce {
		return
	}
	k := look{Lab: l, Admission: a, enforced: map[intent.AssetID]store.Enforced{}}
	partition, err := l.reading.Partition(l.ctx, l.partition)
	if err != nil || partition.Revision != a.Revision {
		return // It was answered late, and what it rested on has moved since.
	}
	k.head = partition.Head
	if k.pins, err = l.reading.Pins(l.ctx, l.partition); err != nil {
		return
	}
	records, err := l.reading.EnforcedPage(l.ctx, l.partition, "", 1000)
	if err != nil {
		return
	}
	for _, e := range records {
		// Of no policy: it was gone until this very admission.
		e.Absent = e.Absent || e.Asset == a.Asset && e.Policy.IsZero()
		k.enforced[e.Asset] = e
	}
	var there bool
	if k.target, there = k.declares(a.Target, a.Asset); !there {
		return
	}
	if e, ok := k.enforced[a.Asset]; ok && e.Incarnation != a.Target && !e.Absent {
		if before, ok := k.declares(e.Incarnation, a.Asset); ok {
			if before.Payload.Type != k.target.Payload.Type {
				before.edges = nil // Those of another thing.
			}
			k.before = &before
		}
	}
	k.guarded()
	k.dependants()
	k.lookedAt(requestTime)
	if l.Now().Sub(l.foreign) > trusted {
		k.neighbours()
		k.orphans()
	}
}

// lied notes that a plugin told what is not so.
func (l *Lab) lied() {
	count := 0
	for kind, n := range l.World.Struck() {
		if kind.Lies() {
			count += n
		}
	}
	if count != l.lies {
		l.lies, l.foreign = count, l.Now()
		l.Monitor.Lied()
	}
}

// declares reads what an asset says as of an incarnation.
func (k look) declares(at intent.IncarnationID, asset intent.AssetID) (d declared, ok bool) {
	_, body, err := k.reading.Content(k.ctx, at, asset)
	if err != nil {
		return d, false
	}
	if d.Asset, err = schema.Decode(body); err != nil {
		return d, false
	}
	dependencies, scope := &intentpb.Dependencies{}, &intentpb.ImpactedScope{}
	_, _ = schema.Addon(d.Asset, dependencies)
	_, _ = schema.Addon(d.Asset, scope)
	d.edges, d.scopes = dependencies.GetDependencies(), scope.GetScopes()
	_, d.turndown = d.Addon("lehr.intent.v1.Turndown")
	_, d.approval = d.Addon("lehr.intent.v1.Approval")
	_, d.unmanaged = d.Addon("lehr.intent.v1.Unmanaged")
	return d, true
}

// guarded: what the content before asked for is asked for still (S23).
func (k look) guarded() {
	if k.before == nil {
		return
	}
	if k.before.approval && !k.NeedsApproval {
		k.wrong("S23", "push %s of %s to %s was admitted without an approval, which the content before asked for", k.Push, k.Asset, k.Target)
	}
	record := k.enforced[k.Asset]
	if now, _, err := k.reading.Content(k.ctx, k.head, intent.PolicyAsset); err == nil && now.Digest == record.Policy {
		return // It was seen in sync under the policy of now, though at an incarnation before.
	}
	body, ok := k.declares(record.Incarnation, intent.PolicyAsset)
	policy := &intentpb.Policy{}
	if !ok || schema.Payload(body.Asset, policy) != nil {
		return
	}
	for _, budget := range policy.GetBudgets() {
		value, impacted := k.before.scopes[budget.GetScope()]
		if !impacted {
			continue
		}
		key, limit := budget.GetScope()+"="+value+k.back(), 0
		for _, use := range k.Budgets {
			if use.Key == key {
				limit = use.Limit
			}
		}
		if limit == 0 || limit > int(budget.GetInFlight()) {
			k.wrong("S23", "push %s of %s to %s was admitted under the limit %d of %s, and the policy that it was enforced under says %d", k.Push, k.Asset, k.Target, limit, key, budget.GetInFlight())
		}
	}
}

// back ends the keys of the budgets of what a rollback has go back.
func (k look) back() string {
	if target, pin := k.aim(k.Asset); pin != nil && pin.Rank == intent.RankRollback && target != k.head {
		return monitor.Back
	}
	return ""
}

// neighbours asks each edge, from the asset and to it.
func (k look) neighbours() {
	if !k.target.turndown {
		for _, edge := range k.target.edges {
			if !k.has(edge) {
				k.forward(edge, "S1")
			}
		}
		if k.before != nil && !k.letsGo() {
			for _, edge := range k.before.edges {
				if edge.GetRule() != intentpb.Dependency_RULE_VERSION && !k.leaves(edge) && !k.isEndless(edge) {
					k.forward(edge, "S23")
				}
			}
		}
	}
	for _, m := range k.headMembers() {
		other, ok := k.declares(k.follows(m.Asset), m.Asset)
		if !ok || m.Asset == k.Asset || other.turndown {
			continue
		}
		for _, edge := range other.edges {
			if edge.GetOn() == string(k.Asset) && edge.GetRule() == intentpb.Dependency_RULE_CAPACITY {
				k.capacity(other, k.target, "S1")
			}
		}
	}
}

// dependants: nothing is removed before all that depends on it is recorded as
// gone, be it as it is to be or as it was enforced last, in intent or not (S5).
func (k look) dependants() {
	if !k.target.turndown {
		return
	}
	for _, m := range k.headMembers() {
		other, ok := k.declares(k.follows(m.Asset), m.Asset)
		gone := k.enforced[m.Asset].Absent && other.turndown
		if ok && !gone && other.dependsOn(k.Asset) {
			k.wrong("S5", "push %s was admitted to remove %s, and %s depends on it; turndown: %t", k.Push, k.Asset, m.Asset, other.turndown)
		}
	}
	for _, asset := range slices.Sorted(maps.Keys(k.enforced)) {
		record := k.enforced[asset]
		other, ok := k.declares(record.Incarnation, asset)
		if ok && !record.Absent && other.dependsOn(k.Asset) {
			k.wrong("S5", "push %s was admitted to remove %s, and %s was enforced last as at %s, where it depends on it", k.Push, k.Asset, asset, record.Incarnation)
		}
	}
}

// dependsOn leaves out capacity edges: along these it is the other that is served.
func (d declared) dependsOn(asset intent.AssetID) bool {
	return d.ID != asset && slices.ContainsFunc(d.edges, func(edge *intentpb.Dependency) bool {
		return edge.GetOn() == string(asset) && edge.GetRule() != intentpb.Dependency_RULE_CAPACITY
	})
}

// leaves reports whether the asset came after another that is to go now, and
// so waits for it: removal runs backwards.
func (k look) leaves(edge *intentpb.Dependency) bool {
	other := intent.AssetID(edge.GetOn())
	content, ok := k.declares(k.follows(other), other)
	return ok && content.turndown && edge.GetRule() == intentpb.Dependency_RULE_ORDER &&
		!slices.ContainsFunc(k.target.edges, func(kept *intentpb.Dependency) bool {
			return kept.GetRule() == edge.GetRule() && kept.GetOn() == edge.GetOn()
		})
}

// letsGo reports whether the approval that the push used may be one of edges
// that a commit dropped: a marked asset needs one in any case.
func (k look) letsGo() bool {
	return k.NeedsApproval && !k.target.approval && (k.before == nil || !k.before.approval)
}

// isEndless reports whether the other end of an edge has to come after this asset, by what it
// is to be and what it was enforced as: then the approval that the push used may be of it, too.
func (k look) isEndless(edge *intentpb.Dependency) bool {
	if edge.GetRule() != intentpb.Dependency_RULE_ORDER || !k.NeedsApproval {
		return false
	}
	pending := []intent.AssetID{intent.AssetID(edge.GetOn())}
	for n := 0; n < len(pending); n++ {
		var edges []*intentpb.Dependency
		for _, at := range []intent.IncarnationID{k.follows(pending[n]), k.enforced[pending[n]].Incarnation} {
			if content, ok := k.declares(at, pending[n]); ok && !content.turndown {
				edges = append(edges, content.edges...)
			}
		}
		for _, next := range edges {
			on := intent.AssetID(next.GetOn())
			switch {
			case next.GetRule() != intentpb.Dependency_RULE_ORDER:
			case on == k.Asset:
				k.mark("a dropped edge was let go, for it closed a circle")
				return true
			case !slices.Contains(pending, on):
				pending = append(pending, on)
			}
		}
	}
	return false
}

// has reports whether the content that is there needs that version already, or
// a higher one: then the push asks for nothing more.
func (k look) has(edge *intentpb.Dependency) bool {
	e, ok := k.enforced[k.Asset]
	if !ok || e.Absent || edge.GetRule() != intentpb.Dependency_RULE_VERSION {
		return false
	}
	there := k.target
	if k.before != nil {
		there = *k.before
	}
	return slices.ContainsFunc(there.edges, func(b *intentpb.Dependency) bool {
		return b.GetRule() == edge.GetRule() && b.GetOn() == edge.GetOn() && number(b.GetAtLeast()) >= number(edge.GetAtLeast())
	})
}

// follows is what an asset must follow now.
func (k look) follows(asset intent.AssetID) intent.IncarnationID {
	target, _ := k.aim(asset)
	return target
}

// aim is what an asset must follow now, and the pin that says so.
func (k look) aim(asset intent.AssetID) (intent.IncarnationID, *intent.Pin) {
	own := slices.DeleteFunc(slices.Clone(k.pins), func(p intent.Pin) bool { return p.Asset != asset })
	return intent.Target(k.head, own, k.At)
}

// forward asks what the asset waits for.
func (k look) forward(edge *intentpb.Dependency, property string) {
	if k.overridden(edge.GetRule()) {
		return
	}
	other := intent.AssetID(edge.GetOn())
	target := k.follows(other)
	content, ok := k.declares(target, other)
	if !ok {
		return
	}
	matches, how := k.World.Matches(k.ctx, target, other)
	if record, ok := k.enforced[other]; !k.hasPlugin(content.Payload.Type) && (!ok || record.Absent) {
		// No plugin ever served it: it is taken to be as its intent says (decision 0080).
		k.mark("an edge was heeded: of what no plugin serves")
		matches = true
	}
	switch edge.GetRule() {
	case intentpb.Dependency_RULE_ORDER:
		// What goes as well, and is no more come after, waits for this one.
		if goes := property == "S23" && content.turndown; !matches && !goes {
			k.wrong(property, "push %s of %s was admitted before %s, which it comes after, is in sync: %s", k.Push, k.Asset, other, how)
		}
	case intentpb.Dependency_RULE_VERSION:
		if has, ok := k.version(content); !ok || has < number(edge.GetAtLeast()) {
			k.wrong(property, "push %s of %s was admitted, and %s is of version %d, and not %s", k.Push, k.Asset, other, has, edge.GetAtLeast())
		}
	case intentpb.Dependency_RULE_CAPACITY:
		k.capacity(k.target, content, property)
	}
	k.mark("an edge was heeded: " + edge.GetRule().String())
}

// overridden reports whether somebody let the check of such edges pass.
// Whether they might is the monitor's to ask.
func (k look) overridden(rule intentpb.Dependency_Rule) bool {
	check := map[intentpb.Dependency_Rule]string{
		intentpb.Dependency_RULE_ORDER: "order", intentpb.Dependency_RULE_CAPACITY: "capacity", intentpb.Dependency_RULE_VERSION: "version",
	}[rule]
	return slices.Contains(k.Overrides, check)
}

// capacity: a job may not shrink below what its balancer has, nor a balancer
// grow beyond what its job has.
func (k look) capacity(job, balancer declared, property string) {
	if k.overridden(intentpb.Dependency_RULE_CAPACITY) {
		return
	}
	tasks, wanted, isJob := k.tasks(job)
	upstreams, expected, isBalancer := k.upstreams(balancer)
	switch {
	case !isJob || !isBalancer:
	case k.Asset == job.ID && wanted < tasks && (!job.unmanaged || job.turndown):
		if wanted < upstreams {
			k.wrong(property, "push %s of %s was admitted from %d to %d replicas, and %s expects %d", k.Push, k.Asset, tasks, wanted, balancer.ID, upstreams)
		}
		k.atRest(balancer.ID, property)
	case k.Asset == balancer.ID && expected > upstreams:
		if expected > tasks {
			k.wrong(property, "push %s of %s was admitted from %d to %d upstreams, and %s has %d", k.Push, k.Asset, upstreams, expected, job.ID, tasks)
		}
		k.atRest(job.ID, property)
	}
}

// tasks are those that a job has, and those that it asks for.
func (k look) tasks(job declared) (now, previous int, ok bool) {
	wants, has := &processpb.Job{}, &processpb.Job{}
	if schema.Payload(job.Asset, wants) != nil {
		return 0, 0, false
	}
	k.real("sim:Job/"+wants.GetName(), has)
	if !job.turndown {
		previous = int(wants.GetReplicas())
	}
	return int(has.GetReplicas()), previous, true
}

// upstreams are those that a balancer has, and those that it asks for.
func (k look) upstreams(balancer declared) (now, previous int, ok bool) {
	wants, has := &caddypb.Balancer{}, &caddypb.Balancer{}
	if schema.Payload(balancer.Asset, wants) != nil {
		return 0, 0, false
	}
	k.real("sim:Balancer/"+wants.GetName(), has)
	if !balancer.turndown {
		previous = len(wants.GetUpstreams())
	}
	return len(has.GetUpstreams()), previous, true
}

// atRest: no push of a neighbour on which the admission rests was open before
// it, or what was seen of that one is not so any more.
func (k look) atRest(neighbour intent.AssetID, property string) {
	var open intent.PushID
	err := k.db.QueryRow(`SELECT id FROM push WHERE partition = $1 AND asset = $2 AND open = 1
		AND number < (SELECT number FROM push WHERE id = $3)`, string(k.partition), string(neighbour), string(k.Push)).Scan(&open)
	if err == nil {
		k.wrong(property, "push %s of %s was admitted while push %s of %s, on which it rests, was open", k.Push, k.Asset, open, neighbour)
	}
	k.mark("an admission rested on a neighbour")
}

// real reads a resource; of one that is not there, nothing.
func (k look) real(key string, into proto.Message) {
	if r, ok := k.World.Resource(intent.ResourceKey(key)); ok && r.Exists {
		_ = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(r.Payload, into)
	}
}

// version of a schema as it is.
func (k look) version(d declared) (int, bool) {
	wanted, has := &sqlschemapb.Schema{}, &sqlschemapb.Schema{}
	if schema.Payload(d.Asset, wanted) != nil {
		return 0, false
	}
	for _, r := range k.World.Resources() {
		if r.Asset == d.ID && r.Exists && r.Type == d.Payload.Type {
			_ = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(r.Payload, has)
			return number(has.GetVersion()), true
		}
	}
	return 0, false
}

// schemaVersion is the one that a schema asks for.
func schemaVersion(d declared) int {
	wanted := &sqlschemapb.Schema{}
	if schema.Payload(d.Asset, wanted) != nil {
		return 0
	}
	return number(wanted.GetVersion())
}

// number of a version such as v12; others are none.
func number(version string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(version, "v"))
	return n
}
