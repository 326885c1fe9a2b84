package kubeobject

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/plugins/kubernetes/kubeapi"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/plugins/kubernetes/workload"
	"lehr.dev/sdk/serve"
)

// absentBase is the base of an object that is not there: what creates it is refused once
// anything of its name is.
const absentBase = "absent"

// look is what was found of one asset, and what is to be done.
type look struct {
	*subject
	connection *connection
	place      kubeapi.Place
	cluster    string // Its UID.
	// accepted is the restore after which the cluster's versions count anew.
	accepted string
	// observed: the cluster is only read. alone says why it is not asked what it would do, and
	// objects are compared with intent alone; empty: it is asked.
	observed bool
	alone    string
	// live is the object as it is; nil: there is none. wanted by the server is predicted;
	// nil: it was not asked, or refused.
	live, predicted *unstructured.Unstructured
	liveDigest      [sha256.Size]byte
	// basis of the prediction, how long it holds, and when it was made.
	basis       string
	holds       time.Duration
	predictedAt time.Time
	// sending is what a push applies; written is what the server answered to it.
	sending   *unstructured.Unstructured
	written   *unstructured.Unstructured
	plan      serve.Plan
	unmanaged []serve.FieldChange
	health    serve.Health
	pending   *serve.PendingChange
	// note says why the server was not asked, or refused.
	note string
	// replaces: the object is deleted, and made anew.
	replaces bool
	// otherVersion says that the server has the kind in another version than intent names, so that it
	// is not known whether the object is there; empty: it has not.
	otherVersion string
	// unreadyCallee says which Service that the API server would call because of a new object is not
	// ready; empty: none.
	unreadyCallee string
	// refusal is the server's verdict about the change of an object; nil: it would make it.
	refusal error
}

// maxLooks at an object that somebody writes between the look and the question what the
// server would make of it; conflictPause is the first pause between them, and doubles.
const (
	maxLooks      = 5
	conflictPause = 10 * time.Millisecond
)

// purpose of a look.
type purpose bool

const (
	// isAnswered: it is told, so a prediction of this very object and intent may be older.
	isAnswered purpose = false
	// isPushed: the server is asked for all.
	isPushed purpose = true
)

// look reads the object anew and asks what the server would make of it.
func (o *Objects) look(ctx context.Context, c *connection, s *subject, why purpose) (found *look, err error) {
	for try := range maxLooks {
		if found, err = o.lookOnce(ctx, c, s, why); !kubeapi.IsConflict(err) {
			break
		}
		select { // Controllers write the status of what has just changed many times a second.
		case <-ctx.Done():
			return found, err
		case <-time.After(conflictPause << try):
		}
	}
	return found, err
}

func (o *Objects) lookOnce(ctx context.Context, c *connection, s *subject, why purpose) (*look, error) {
	l := &look{subject: s, connection: c, observed: c.cluster.Observe, alone: reasonNotAsked(c.cluster, s.kind().GroupKind())}
	if err := o.read(ctx, l); err != nil {
		return nil, fmt.Errorf("looking at %s in the cluster %s: %w", s.name(), s.payload.Cluster, err)
	}
	var err error
	switch {
	case l.live != nil && l.live.GetDeletionTimestamp() != nil:
		l.pending = l.deletion()
	case s.asset.TurnedDown():
		err = l.planTurndown(ctx)
	case l.live == nil:
		err = l.planCreation(ctx, why)
	case l.alone != "":
		err = l.planAlone(ctx)
	case why == isAnswered && o.isAsPredicted(l, time.Now()):
		_, l.unmanaged, err = l.sent(l.live, l.managers())
	default:
		l.predictedAt = time.Now()
		err = l.planChange(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the cluster %s what it would make of %s: %w", s.payload.Cluster, s.name(), err)
	}
	if l.live != nil {
		l.readHealth(ctx) // After the question, so that little time is between it and what was read.
	}
	if l.live != nil && l.pending == nil && l.plan.Action == "" && !l.asset.TurnedDown() {
		l.pending = l.pendingRun()
	}
	return l, nil
}

// managers are who counts as us in the cluster.
func (l *look) managers() objectdiff.Managers {
	return objectdiff.Managers{Own: kubeapi.Manager, Adopted: l.connection.cluster.Adopt}
}

// resource as the server names it.
func (l *look) resource() schema.GroupResource { return l.place.Select("").Resource.GroupResource() }

func (o *Objects) read(ctx context.Context, l *look) (err error) {
	server, watches := l.connection.server, l.connection.watches
	if l.cluster, err = server.UID(ctx); err != nil {
		return err
	}
	if l.place, err = server.Find(ctx, l.kind(), l.payload.Namespace); err != nil {
		return err
	}
	if l.accepted, err = o.believe(ctx, l.connection, l.resource()); err != nil {
		return err
	}
	if !l.place.Served {
		return l.readOtherVersions(ctx)
	}
	watches.Follow(ctx, l.place, l.object(), l.seenKey().asset)
	l.basis, l.holds = watches.Basis(l.resource(), l.payload.Namespace)
	item, age, isThere := watches.Find(l.object())
	if l.live, err = l.place.Get(ctx, l.payload.Name); err != nil {
		server.Forget(l.kind().GroupVersion())
		return err
	}
	// What has just gone may be told by the watch a moment later.
	contradicted := isThere && age.IsKnown() && (l.live == nil || item.IsBehind(l.live.GetUID(), l.live.GetResourceVersion()))
	if err := watches.Verify(ctx, l.place, l.payload.Name, contradicted); err != nil {
		return err
	}
	if l.live == nil {
		return nil
	}
	l.liveDigest = digestOf(l.live)
	return nil
}

// readOtherVersions finds out whether the server has the kind in another version.
func (l *look) readOtherVersions(ctx context.Context) error {
	versions, err := l.connection.server.VersionsWith(ctx, l.kind().GroupKind())
	if err == nil && len(versions) > 0 {
		l.otherVersion = fmt.Sprintf("the cluster has no kind %s in %s, but in %s: name one of these as apiVersion", l.payload.Kind, l.payload.ApiVersion, strings.Join(versions, ", "))
	}
	return err
}

// deletion is under way: nothing is compared with what goes.
func (l *look) deletion() *serve.PendingChange {
	pending := &serve.PendingChange{Since: l.live.GetDeletionTimestamp().Time, Reason: l.name() + " is being deleted", Ends: "the end of its deletion", RetryAfter: time.Second}
	if finalizers := l.live.GetFinalizers(); len(finalizers) > 0 {
		slices.Sort(finalizers)
		pending.Reason += ", and waits for its finalizers " + strings.Join(finalizers, ", ")
		pending.Ends = "whoever set these finalizers removes them when they have cleaned up"
	}
	if kept := workload.KeptBy(l.live); kept != "" {
		pending.Reason += ": " + kept
	}
	return pending
}

// difference is what Lehr is told.
func (l *look) difference() serve.Difference {
	difference := serve.Difference{
		Outcome: serve.InSync, Plan: l.plan, Base: l.base(), ResourceKey: l.key(l.cluster), Health: l.health, Unmanaged: l.unmanaged,
		Impacts: workload.Replicas(l.live, l.target()),
	}
	switch {
	case l.pending != nil:
		difference.Outcome, difference.Reason, difference.PendingSince = serve.Pending, l.pending.Reason, l.pending.Since
		difference.PendingEnd, difference.RetryAfter = l.pending.Ends, l.pending.RetryAfter
	case l.plan.Action != "":
		difference.Outcome = serve.Differs
	}
	if l.alone != "" && !l.observed {
		difference.Unmanaged = append(difference.Unmanaged, serve.FieldChange{Path: "prediction", Current: "not asked", Reason: l.alone})
	}
	if l.live == nil {
		switch {
		case l.otherVersion != "":
			difference.Health = serve.Health{State: serve.HealthUnknown, Reason: l.otherVersion}
		case !l.asset.TurnedDown():
			difference.Health = serve.Health{State: serve.Unhealthy, Reason: l.name() + " does not exist"}
		}
		return difference
	}
	current, err := l.current(l.live)
	if err != nil {
		return unknown(err)
	}
	difference.Current = current
	if difference.Outcome == serve.InSync {
		if difference.Outputs, err = l.outputs(); err != nil {
			return unknown(err)
		}
	}
	return difference
}

// target is the object after a push; nil: none is there then.
func (l *look) target() *unstructured.Unstructured {
	switch {
	case l.asset.TurnedDown():
		return nil
	case l.predicted != nil:
		return l.predicted
	}
	return l.wanted
}

// base is a token that the server compares in the call that writes. A token from before a
// restore does not count: the storage gives the same versions out again.
func (l *look) base() string {
	base := absentBase
	if l.live != nil {
		base = string(l.live.GetUID()) + "/" + l.live.GetResourceVersion()
	}
	if l.accepted != "" {
		base += "/restored-" + l.accepted
	}
	return base
}

// shown turns a change into one for people.
func (l *look) shown(change objectdiff.Change) serve.FieldChange {
	field := serve.FieldChange{
		Path: objectdiff.Text(change.Path), Current: objectdiff.Show(change.Current, change.HasCurrent), Target: objectdiff.Show(change.Target, change.HasTarget), Writer: change.Writer,
	}
	if objectdiff.IsSecret(l.payload.Kind, field.Path) {
		field.Current, field.Target = redact(change.HasCurrent), redact(change.HasTarget)
	}
	return field
}

func redact(ok bool) string {
	if ok {
		return objectdiff.Redacted
	}
	return ""
}
