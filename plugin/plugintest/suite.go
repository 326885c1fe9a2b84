package plugintest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"lehr.dev/fault"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/plugin"
	"lehr.dev/plugin/remote"
)

// The example asset has First as its intent in one incarnation, and Second in
// another. In a third its intent is garbage.
const example intent.AssetID = "example"

var (
	first   = intent.IncarnationID{Partition: "plugintest", Sequence: 1}
	second  = intent.IncarnationID{Partition: "plugintest", Sequence: 2}
	garbled = intent.IncarnationID{Partition: "plugintest", Sequence: 3}
)

type suite struct {
	target   Target
	contents *contents
	child    *remote.Child
	pushes   int
	// created is the state after the creation from nothing.
	created []byte
}

type place struct {
	incarnation intent.IncarnationID
	asset       intent.AssetID
}

// contents is the intent that the plugin is given.
type contents struct {
	mutex  sync.Mutex
	bodies map[place][]byte
}

func (c *contents) Content(_ context.Context, incarnation intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	body, found := c.bodies[place{incarnation, asset}]
	if !found {
		return nil, intent.Digest{}, fault.New(fault.NotFound, "%s has no asset %s", incarnation, asset)
	}
	return body, intent.BodyDigest(body), nil
}

func (c *contents) Reads(context.Context, intent.IncarnationID, intent.AssetID) ([]intent.AssetID, error) {
	return nil, nil
}

func (c *contents) put(incarnation intent.IncarnationID, asset intent.AssetID, body []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.bodies[place{incarnation, asset}] = body
}

func (c *contents) putPayload(incarnation intent.IncarnationID, asset intent.AssetID, payload proto.Message) error {
	carried, err := anypb.New(payload)
	if err != nil {
		return err
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&intentpb.Asset{Id: string(asset), Payload: carried})
	c.put(incarnation, asset, body)
	return err
}

// describe waits for the plugin and looks at what it serves.
func (s *suite) describe(ctx context.Context) error {
	description, err := s.child.Describe()
	for ; fault.Is(err, fault.Unavailable); description, err = s.child.Describe() {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err != nil {
		return err
	}
	if s.target.First == nil || s.target.Second == nil {
		return errors.New("there is no example to check it with: give two intents for one resource")
	}
	name := intent.TypeName(s.target.First.ProtoReflect().Descriptor().FullName())
	for _, served := range description.Types {
		if served.Type == name {
			return errors.Join(s.contents.putPayload(first, example, s.target.First), s.contents.putPayload(second, example, s.target.Second))
		}
	}
	return fmt.Errorf("it does not serve %s, the type of the example", name)
}

// diff returns the difference of the example.
func (s *suite) diff(ctx context.Context, incarnation intent.IncarnationID) (intent.Difference, error) {
	differences, err := s.child.Diff(ctx, incarnation, []intent.AssetID{example})
	if err != nil {
		return intent.Difference{}, err
	}
	if d := differences[0]; d.Outcome == intent.Unknown {
		return d, fmt.Errorf("the difference of the example is unknown: %s", d.Reason)
	}
	return differences[0], nil
}

// push pushes what a difference says, with permits as told.
func (s *suite) push(ctx context.Context, d intent.Difference, alter func(*plugin.Push)) plugin.PushResult {
	s.pushes++
	push := plugin.Push{
		ID: intent.PushID(fmt.Sprintf("plugintest-%d-%d", time.Now().UnixNano(), s.pushes)), Incarnation: d.Incarnation, Asset: d.Asset,
		Plan: d.Plan.Digest(), Base: d.Base, Token: 1,
		Permit: func(context.Context, string) error { return nil },
	}
	if alter != nil {
		alter(&push)
	}
	return s.child.Push(ctx, push)
}

func (s *suite) looking(ctx context.Context) error {
	production := func() (string, error) {
		if s.target.Production == nil {
			return "", nil
		}
		return s.target.Production(ctx)
	}
	before, err := production()
	if err != nil {
		return fmt.Errorf("looking at production: %w", err)
	}
	one, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	if one.Outcome != intent.Differs {
		return errors.New("the example exists already: the checks begin with none")
	}
	other, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	if one.Plan.Digest() != other.Plan.Digest() || one.Base != other.Base {
		return fmt.Errorf("two diffs in a row say %s at base %q, then %s at base %q", one.Plan.Digest().Short(), one.Base, other.Plan.Digest().Short(), other.Base)
	}
	after, err := production()
	if err != nil || before != after {
		return fmt.Errorf("production was %q before a diff and %q after it (%v)", before, after, err)
	}
	return nil
}

// unchanged runs a push that must change nothing.
func (s *suite) unchanged(ctx context.Context, want plugin.Ending, alter func(*plugin.Push)) (plugin.PushResult, error) {
	before, err := s.diff(ctx, first)
	if err != nil {
		return plugin.PushResult{}, err
	}
	result := s.push(ctx, before, alter)
	if result.Ending != want {
		return result, fmt.Errorf("the push ended as %s (%s), want %s", result.Ending, result.Reason, want)
	}
	after, err := s.diff(ctx, first)
	if err == nil && (before.Plan.Digest() != after.Plan.Digest() || before.Outcome != after.Outcome) {
		err = errors.New("the push changed production although it should not have begun")
	}
	return result, err
}

func (s *suite) stalePlan(ctx context.Context) error {
	_, err := s.unchanged(ctx, plugin.Stale, func(push *plugin.Push) { push.Plan = intent.Sum("a plan of another day") })
	return err
}

func (s *suite) movedBase(ctx context.Context) error {
	asked := atomic.Bool{}
	_, err := s.unchanged(ctx, plugin.Stopped, func(push *plugin.Push) {
		admitted := push.Base + " of another day"
		push.Base = admitted
		push.Permit = func(_ context.Context, base string) error {
			if base != admitted {
				asked.Store(true)
				return errors.New("the new base is not permitted")
			}
			return nil
		}
	})
	if err == nil && !asked.Load() {
		err = errors.New("it asked for no permit that names the new base")
	}
	return err
}

// reach pushes until in sync with an incarnation, once.
func (s *suite) reach(ctx context.Context, incarnation intent.IncarnationID) (intent.Difference, error) {
	before, err := s.diff(ctx, incarnation)
	if err != nil {
		return before, err
	}
	if before.Outcome != intent.Differs {
		return before, errors.New("nothing differs, although another intent was pushed before: First and Second must differ in what the plugin manages")
	}
	if result := s.push(ctx, before, nil); result.Ending != plugin.Pushed {
		return before, fmt.Errorf("the push ended as %s: %s", result.Ending, result.Reason)
	}
	after, err := s.diff(ctx, incarnation)
	if err == nil && after.Outcome != intent.InSync {
		err = fmt.Errorf("after the push it still differs: %+v", after.Plan.Changes)
	}
	return after, err
}

func (s *suite) create(ctx context.Context) error {
	after, err := s.reach(ctx, first)
	s.created = after.Current
	if err == nil && len(after.Current) == 0 {
		err = errors.New("in sync, and there is no current state: what was created must be shown")
	}
	if err == nil && after.ResourceKey == "" {
		err = errors.New("it names no resource key: two assets could fight over one thing")
	}
	return err
}

func (s *suite) idempotent(ctx context.Context) error {
	before, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	result := s.push(ctx, before, nil)
	if result.Ending != plugin.Pushed && result.Ending != plugin.Stale {
		return fmt.Errorf("a push of what is in sync ended as %s: %s", result.Ending, result.Reason)
	}
	after, err := s.diff(ctx, first)
	if err == nil && (after.Outcome != intent.InSync || !bytes.Equal(before.Current, after.Current) || before.Base != after.Base) {
		err = errors.New("a push of what is in sync changed production")
	}
	return err
}

func (s *suite) update(ctx context.Context) error {
	_, err := s.reach(ctx, second)
	return err
}

func (s *suite) repair(ctx context.Context) error {
	after, err := s.reach(ctx, first)
	if err == nil && !bytes.Equal(after.Current, s.created) {
		err = errors.New("the state differs from the one that the creation from nothing led to")
	}
	return err
}

// withdrawnPermit takes the permit away at the first request.
func (s *suite) withdrawnPermit(ctx context.Context) error {
	before, err := s.diff(ctx, second)
	if err != nil {
		return err
	}
	refused := atomic.Bool{}
	result := s.push(ctx, before, func(push *plugin.Push) {
		push.Permit = func(context.Context, string) error {
			refused.Store(true)
			return errors.New("the permit is withdrawn")
		}
	})
	switch {
	case !refused.Load():
		return skipped("the push of the example ends within its first permit")
	case result.Ending == plugin.Stopped || result.Ending == plugin.Pushed:
		return nil
	default:
		return fmt.Errorf("the push ended as %s: %s", result.Ending, result.Reason)
	}
}

// garbage gives it an intent that cannot be read, beside a good one.
func (s *suite) garbage(ctx context.Context) error {
	s.contents.put(garbled, "garbled", []byte("\xff\xff\xff\xff\xff not an asset"))
	s.contents.put(garbled, "empty", nil)
	if err := s.contents.putPayload(garbled, "foreign", &intentpb.Owner{Owner: "nobody"}); err != nil {
		return err
	}
	if err := s.contents.putPayload(garbled, example, s.target.First); err != nil {
		return err
	}
	differences, err := s.child.Diff(ctx, garbled, []intent.AssetID{"garbled", "empty", "foreign", "missing", example})
	if err != nil {
		return err
	}
	for _, d := range differences {
		if (d.Outcome == intent.Unknown) == (d.Asset == example) {
			return fmt.Errorf("the asset %q has outcome %d (%s): only what cannot be read is unknown", d.Asset, d.Outcome, d.Reason)
		}
	}
	return nil
}
