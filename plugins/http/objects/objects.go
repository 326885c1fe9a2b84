// Package objects keeps things behind JSON REST APIs as intended: it reads them as the
// endpoint's profile says, compares the fields that intent has, and writes what differs.
// It removes something only for an asset that asks for its turndown. It keeps nothing
// between calls. Only the program lehr-http calls it, through sdk/serve.
package objects

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	httppb "lehr.dev/gen/lehr/http/v1"
	"lehr.dev/plugins/http/bodydiff"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/http/restapi"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

const (
	// atOnce is how many assets of one batch are read at a time; diffWithin how long the
	// batch may take, because Lehr waits for 10 s.
	atOnce     = 32
	diffWithin = 8 * time.Second
	// effectMargin is for what follows a request's time.
	effectMargin = 500 * time.Millisecond
	// maxKey is the longest key of a resource.
	maxKey = 512
	// maxCurrent is the longest state that is shown whole.
	maxCurrent = 900_000
)

const (
	objectType    serve.TypeName = "lehr.http.v1.Resource"
	unmanagedType serve.TypeName = "lehr.intent.v1.Unmanaged"
)

// Objects serves lehr.http.v1.Resource.
type Objects struct {
	// Source is the operator's list.
	Source *endpoint.Source
}

var _ serve.Kind = Objects{}

// Served is of class C only when each kind of thing on the operator's list is.
func (o Objects) Served() serve.Served {
	served := serve.Served{Type: objectType, Guarantee: serve.Unguarded, LongestEffect: o.Source.LongestEffect() + effectMargin}
	if o.Source.IsGuarded() {
		served.Guarantee = serve.CompareAndSet
	}
	return served
}

// Diff reads the assets' things in any order, so that a rate limit does not always keep
// the same ones from being read.
func (o Objects) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	ctx, cancel := context.WithTimeoutCause(ctx, diffWithin, fmt.Errorf("all things asked for at once were not read within %v", diffWithin))
	defer cancel()
	looks := &looks{list: o.Source.List(), apis: map[*endpoint.Endpoint]*restapi.API{}}
	differences := make([]serve.Difference, len(assets))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for _, i := range rand.Perm(len(assets)) {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			differences[i] = looks.protected(ctx, assets[i])
		})
	}
	running.Wait()
	return differences
}

// protected is the difference of an asset, also when looking at it panics: that is this
// asset's failure only (S12).
func (l *looks) protected(ctx context.Context, asset serve.Intent) (difference serve.Difference) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(os.Stderr, "panic while looking at %s: %v\n%s", asset.ID, problem, debug.Stack())
			difference = unknown(fmt.Errorf("looking at it panicked: %v (a defect of the plugin; its log has the stack)", problem))
		}
	}()
	difference, _ = l.difference(ctx, asset)
	return difference
}

// looks are those of one batch, which share what was listed.
type looks struct {
	list  *endpoint.List
	mutex sync.Mutex
	apis  map[*endpoint.Endpoint]*restapi.API
}

// api returns that of an endpoint. All assets of the looks are of one partition.
func (l *looks) api(e *endpoint.Endpoint, secrets secret.Request) *restapi.API {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.apis[e] == nil {
		l.apis[e] = restapi.New(e, secrets)
	}
	return l.apis[e]
}

// subject is an asset, and what it stands for.
type subject struct {
	asset    serve.Intent
	payload  *httppb.Resource
	endpoint *endpoint.Endpoint
	thing    restapi.Thing
	// body of intent, without what the API writes. initial are its fields that are
	// production's once the thing is there.
	body    map[string]any
	initial []jsonvalue.Pointer
}

// look is what was found, and what is to be done.
type look struct {
	subject subject
	api     *restapi.API
	found   restapi.Found
	// ours are the fields that are compared and written.
	ours map[string]any
	plan serve.Plan
}

// difference of an asset, and the look that it comes from; nil when nothing is known.
func (l *looks) difference(ctx context.Context, asset serve.Intent) (serve.Difference, *look) {
	current, err := l.look(ctx, asset)
	if err != nil {
		return unknown(err), nil
	}
	difference := serve.Difference{
		Outcome: serve.InSync, Base: current.found.Base, ResourceKey: current.subject.key(), Plan: current.plan,
		Health: serve.Health{State: serve.HealthUnknown},
	}
	if current.plan.Action != "" {
		difference.Outcome = serve.Differs
	} else if difference.Outputs, err = current.outputs(); err != nil {
		return unknown(err), nil
	}
	if current.found.Exists {
		difference.Health = current.health()
		difference.Current, err = current.state()
	}
	if asset.TurnedDown() && !current.found.Exists {
		difference.Health = serve.Health{}
	}
	if err != nil {
		return unknown(err), nil
	}
	return difference, current
}

func unknown(err error) serve.Difference {
	difference := serve.Difference{Outcome: serve.Unknown, Reason: err.Error()}
	difference.RetryAfter, _ = serve.BusyPause(err)
	return difference
}

// look reads the thing anew and compares it with intent.
func (l *looks) look(ctx context.Context, asset serve.Intent) (*look, error) {
	s, err := l.subject(ctx, asset)
	if err != nil {
		return nil, err
	}
	current := &look{subject: s, api: l.api(s.endpoint, asset.SecretRequest())}
	if current.found, err = current.api.Read(ctx, s.thing); err != nil {
		return nil, err
	}
	current.ours = s.ours(current.found.Exists)
	if asset.TurnedDown() {
		current.plan, err = current.planTurndown()
	} else {
		current.plan, err = current.planChange()
	}
	return current, err
}

// subject reads the asset's payload, and finds what the operator's list says of it.
func (l *looks) subject(ctx context.Context, asset serve.Intent) (subject, error) {
	s := subject{asset: asset, payload: &httppb.Resource{}}
	fail := func(format string, arguments ...any) (subject, error) {
		return subject{}, fmt.Errorf("%s: %w", asset.ID, fmt.Errorf(format, arguments...))
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(asset.Payload.Bytes, s.payload); err != nil {
		return fail("reading its intent as %s: %w", objectType, err)
	}
	if slices.ContainsFunc(asset.Addons, func(addon serve.Message) bool { return addon.Type == unmanagedType }) {
		return fail("its addon Unmanaged cannot name fields within a body: leave them out of body, or name them under initial")
	}
	var err error
	if s.endpoint, err = l.list.Find(s.payload.Endpoint, string(asset.Incarnation.Partition)); err != nil {
		return fail("%w", err)
	}
	resource, err := s.endpoint.Resource(s.payload.Resource)
	if err != nil {
		return fail("%w", err)
	}
	s.thing = restapi.Thing{Name: s.payload.Resource, Resource: resource, Identity: s.payload.Identity}
	if err := s.thing.CheckIdentity(); err != nil {
		return fail("%w", err)
	}
	text := []byte(s.payload.Body)
	if s.payload.External != nil {
		if text, err = asset.Blob(ctx, s.payload.External); err != nil {
			return fail("reading its body: %w", err)
		}
	}
	if s.body, err = jsonvalue.Object(text); err != nil {
		return fail("its body is no JSON object: %w", err)
	}
	for _, place := range resource.ReadOnly {
		place.Parts.Delete(s.body)
	}
	if place, ok := bodydiff.MissingKey(resource, s.body); ok {
		return fail("the element %s of its body has no key of its own, by which the elements of this list are told apart", place)
	}
	for _, text := range s.payload.Initial {
		place, err := jsonvalue.ParsePointer(text)
		if err != nil || len(place) == 0 {
			return fail("initial has %q, which is no place in its body: write for example /size", text)
		}
		s.initial = append(s.initial, place)
	}
	return s, nil
}

// ours are the fields that are Lehr's.
func (s subject) ours(exists bool) map[string]any {
	if !exists {
		return s.body
	}
	ours := jsonvalue.Clone(s.body).(map[string]any)
	for _, place := range s.initial {
		place.Delete(ours)
	}
	return ours
}

// key names the thing for all that may reach it.
func (s subject) key() serve.ResourceKey {
	key := "http:" + s.endpoint.Key() + "/" + s.payload.Resource
	for _, name := range slices.Sorted(maps.Keys(s.payload.Identity)) {
		key += "/" + name + "=" + s.payload.Identity[name]
	}
	if len(key) > maxKey {
		key = strings.ToValidUTF8(key[:maxKey-70], "") + fmt.Sprintf("…%x", sha256.Sum256([]byte(key)))
	}
	return serve.ResourceKey(key)
}

// state is what production has of intent's fields, in the payload's type; of an asset with a
// Health addon, of all fields, for those that tell how a thing fares are mostly production's.
func (l *look) state() ([]byte, error) {
	var shown any = l.found.Raw
	if !l.subject.asset.IsJudged() {
		shown = bodydiff.Project(l.subject.thing.Resource, l.found.Body, l.ours)
	}
	body := l.found.Redact(jsonvalue.Canonical(shown))
	if len(body) > maxCurrent {
		body = fmt.Sprintf(`{"sha256":"%x"}`, sha256.Sum256([]byte(body)))
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&httppb.Resource{
		Endpoint: l.subject.payload.Endpoint, Resource: l.subject.payload.Resource, Identity: l.subject.payload.Identity, Body: body,
	})
}

// outputs are the values that the asset is to tell, as the API has them.
func (l *look) outputs() ([]serve.Output, error) {
	values := map[string]any{}
	for name, text := range l.subject.payload.Outputs {
		place, err := jsonvalue.ParsePointer(text)
		if err != nil {
			return nil, fmt.Errorf("%s: its output %s: %w", l.subject.asset.ID, name, err)
		}
		if value, ok := place.Get(l.found.Raw); ok && value != nil {
			values[name] = value
		}
	}
	return serve.EncodeOutputs(values)
}

// health is what the thing says of itself, where the profile knows.
func (l *look) health() serve.Health {
	says := l.subject.thing.Resource.Health
	health := serve.Health{State: serve.HealthUnknown}
	if says == nil {
		return health
	}
	value, ok := says.At.Parts.Get(l.found.Raw)
	if !ok {
		return health
	}
	word, isText := value.(string)
	if !isText {
		word = jsonvalue.Canonical(value)
	}
	switch {
	case slices.Contains(says.Healthy, word):
		health.State = serve.Healthy
	case slices.Contains(says.Unhealthy, word):
		health.State = serve.Unhealthy
		health.Reason = fmt.Sprintf("the API has %q at %s", l.found.Redact(word), says.At)
		if says.Reason != nil {
			if why, ok := says.Reason.Parts.Get(l.found.Raw); ok {
				health.Reason += ": " + l.found.Redact(jsonvalue.Canonical(why))
			}
		}
	}
	return health
}
