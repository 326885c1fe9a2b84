package serve

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/sdk/secret"
)

// resourceKind makes a Kind of a Resource and the common differ.
type resourceKind[T proto.Message] struct {
	resource Resource[T]
	serving  Serving
	served   Served
	redacts  bool
	// background is nil where each question is read for.
	background *background[T]
}

func newResourceKind[T proto.Message](r Resource[T], serving Serving) Kind {
	var zero T
	descriptor := zero.ProtoReflect().Descriptor()
	k := &resourceKind[T]{
		resource: r,
		serving:  serving,
		served: Served{
			Type:          TypeName(descriptor.FullName()),
			Guarantee:     serving.Guarantee,
			LongestEffect: serving.LongestEffect,
			Cadence:       serving.Cadence,
		},
		redacts: hasRedacted(descriptor, map[protoreflect.FullName]bool{}),
	}
	if serving.Background != nil {
		k.background = newBackground(*serving.Background, serving.Cadence, k.readSlowly)
	}
	return k
}

// check says what is wrong with how it is served.
func (k *resourceKind[T]) check() error {
	if k.background == nil {
		return nil
	}
	return k.background.check()
}

// watchers are the Resource, where it is one, and what is read in the background.
func (k *resourceKind[T]) watchers() (all []Watcher) {
	if watcher, ok := k.resource.(Watcher); ok {
		all = append(all, watcher)
	}
	if k.background != nil {
		all = append(all, k.background)
	}
	return all
}

// beginReading has reads in the background end with ctx.
func (k *resourceKind[T]) beginReading(ctx context.Context) {
	if k.background != nil {
		k.background.begin(ctx)
	}
}

// readSlowly is a read in the background.
func (k *resourceKind[T]) readSlowly(ctx context.Context, asset Asset[T]) State[T] {
	return k.read(ctx, []Asset[T]{asset})[0]
}

// answer returns the states that a look is answered with.
func (k *resourceKind[T]) answer(ctx context.Context, assets []Asset[T]) []State[T] {
	if k.background == nil {
		return k.read(ctx, assets)
	}
	states := make([]State[T], len(assets))
	for i, asset := range assets {
		states[i] = k.background.answer(asset)
	}
	return states
}

func (k *resourceKind[T]) Served() Served { return k.served }

func (k *resourceKind[T]) Diff(ctx context.Context, assets []Intent) []Difference {
	differences := make([]Difference, len(assets))
	decoded := make([]Asset[T], 0, len(assets))
	places := make([]int, 0, len(assets))
	for i, asset := range assets {
		one, err := k.decode(asset)
		if err != nil {
			differences[i] = unknown(err)
			continue
		}
		decoded = append(decoded, one)
		places = append(places, i)
	}
	states := k.answer(ctx, decoded)
	for i, asset := range decoded {
		difference, err := k.difference(ctx, asset, states[i])
		if err != nil {
			difference = unknown(err)
		}
		differences[places[i]] = difference
	}
	return differences
}

func unknown(err error) Difference {
	tooBusy, _ := errors.AsType[busy](err)
	return Difference{Outcome: Unknown, Reason: err.Error(), RetryAfter: tooBusy.pause}
}

func (k *resourceKind[T]) decode(asset Intent) (Asset[T], error) {
	var zero T
	payload := zero.ProtoReflect().New().Interface().(T)
	// A field that this build does not know is of a newer type: producers move
	// before their plugins do, and no difference is made of it.
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(asset.Payload.Bytes, payload); err != nil {
		return Asset[T]{}, fmt.Errorf("reading the intent of %s as %s: %w", asset.ID, k.served.Type, err)
	}
	return Asset[T]{ID: asset.ID, Incarnation: asset.Incarnation, Payload: payload, Addons: asset.Addons, Reads: asset.Reads, ReadSince: asset.ReadSince, Memos: asset.Memos, asker: asset.asker, push: asset.push}, nil
}

// read reads all states in one call; when that panics, one by one, so that
// only the asset at fault suffers.
func (k *resourceKind[T]) read(ctx context.Context, assets []Asset[T]) []State[T] {
	if len(assets) == 0 {
		return nil
	}
	states, panicked := k.readOnce(ctx, assets)
	if !panicked || len(assets) == 1 {
		return states
	}
	states = states[:0]
	for _, asset := range assets {
		one, _ := k.readOnce(ctx, []Asset[T]{asset})
		states = append(states, one...)
	}
	return states
}

func (k *resourceKind[T]) readOnce(ctx context.Context, assets []Asset[T]) (states []State[T], panicked bool) {
	err := protect("Read", assets[0].ID, func() (err error) {
		panicked = true
		states, err = k.resource.Read(ctx, assets)
		panicked = false
		return err
	})
	if err == nil && len(states) != len(assets) {
		err = fmt.Errorf("Read returned %d states for %d assets: a defect of the plugin", len(states), len(assets))
	}
	if err != nil {
		states = make([]State[T], len(assets))
		for i := range states {
			states[i].Err = err
		}
	}
	return states, panicked
}

// protect turns a panic into an error, with the stack on stderr (S12).
func protect(operation string, asset AssetID, f func() error) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(Stderr(), "panic in %s for %s: %v\n%s", operation, asset, problem, debug.Stack())
			err = fmt.Errorf("%s panicked: %v (a defect of the plugin; its log has the stack)", operation, problem)
		}
	}()
	return f()
}

// difference compares one state with intent.
func (k *resourceKind[T]) difference(ctx context.Context, asset Asset[T], state State[T]) (Difference, error) {
	if state.Err != nil {
		return Difference{}, state.Err
	}
	if state.Pending != nil {
		return k.pendingDifference(state)
	}
	change, unmanaged, err := k.plan(ctx, asset, state)
	if err != nil {
		return Difference{}, err
	}
	difference := Difference{
		Outcome:     InSync,
		Base:        state.Base,
		ResourceKey: state.Key,
		Impacts:     state.Impacts,
		Health:      state.Health,
		Unmanaged:   unmanaged,
		At:          state.ReadAt,
	}
	if change.Plan.Action != "" {
		difference.Outcome, difference.Plan = Differs, change.Plan
	} else if difference.Outputs, err = EncodeOutputs(state.Outputs); err != nil {
		return Difference{}, err
	}
	if asset.TurnedDown() {
		difference = turnedDownDifference(difference, present(state.Current))
	}
	if present(state.Current) {
		difference.Current, err = k.current(state.Current)
	}
	return difference, err
}

// pendingDifference tells what is under way. What is there is told too, and compared with
// nothing.
func (k *resourceKind[T]) pendingDifference(state State[T]) (difference Difference, err error) {
	if state.Pending.Reason == "" {
		return Difference{}, errors.New("Read says that a change is pending, and not which: a defect of the plugin")
	}
	difference = Difference{
		Outcome: Pending, Reason: state.Pending.Reason, PendingSince: state.Pending.Since, PendingEnd: state.Pending.Ends,
		RetryAfter: state.Pending.RetryAfter,
		Base:       state.Base, ResourceKey: state.Key, Impacts: state.Impacts, Health: state.Health,
	}
	if present(state.Current) {
		difference.Current, err = k.current(state.Current)
	}
	return difference, err
}

// current is the state as read, without what must not be shown (S13).
func (k *resourceKind[T]) current(state T) ([]byte, error) {
	message := proto.Message(state)
	if k.redacts || secret.IsAnyKnown() {
		message = proto.Clone(state)
		clearRedacted(message.ProtoReflect())
		hideSecrets(message.ProtoReflect())
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(message)
}

func present[T proto.Message](message T) bool {
	return any(message) != nil && message.ProtoReflect().IsValid()
}

// plan resolves intent and compares it with the state. A plan without an
// action says that they agree.
func (k *resourceKind[T]) plan(ctx context.Context, asset Asset[T], state State[T]) (change Change[T], unmanaged []FieldChange, err error) {
	if asset.TurnedDown() {
		change, err = k.planTurndown(asset, state)
		return change, nil, err
	}
	change = Change[T]{Asset: asset, State: state, Progress: func(string) {}, SaveMemo: noPush}
	err = protect("Resolve", asset.ID, func() (err error) {
		change.Target, err = k.resource.Resolve(ctx, asset)
		return err
	})
	if err != nil {
		return change, nil, fmt.Errorf("resolving the intent of %s: %w", asset.ID, err)
	}
	if !present(change.Target) {
		return change, nil, fmt.Errorf("Resolve returned nothing for %s: a defect of the plugin", asset.ID)
	}
	exists := present(state.Current)
	if exists && proto.Equal(state.Current, change.Target) {
		return change, nil, nil
	}
	var zero T
	current := zero.ProtoReflect()
	if exists {
		current = state.Current.ProtoReflect()
		if unmanaged, err = k.leaveUnmanaged(&change); err != nil {
			return change, nil, err
		}
	}
	changes := compare(current, change.Target.ProtoReflect())
	if exists && len(changes) == 0 {
		return change, unmanaged, nil
	}
	change.Plan = Plan{Action: ActionCreate, Changes: changes}
	if exists {
		change.Plan.Action = ActionUpdate
	}
	err = k.judge(&change, exists)
	hideInPlan(change.Plan.Changes)
	change.Plan = bound(change.Plan)
	return change, unmanaged, err
}

// judge marks what is destroyed, and adds the resource's notes.
func (k *resourceKind[T]) judge(change *Change[T], exists bool) error {
	for i := range change.Plan.Changes {
		field := &change.Plan.Changes[i]
		field.Reason = change.State.Notes[field.Path]
		if exists && coveredByAny(k.serving.Destructive, field.Path) {
			field.Destructive = true
		}
		if exists && coveredByAny(k.serving.Replacing, field.Path) {
			field.Destructive, change.Plan.Action = true, ActionReplace
		}
	}
	destroyer, ok := k.resource.(Destroyer[T])
	if !ok {
		return nil
	}
	return protect("Destructive", change.Asset.ID, func() error {
		handed := *change
		handed.Plan.Changes = slices.Clone(handed.Plan.Changes)
		paths := destroyer.Destructive(handed)
		for i := range change.Plan.Changes {
			if coveredByAny(paths, change.Plan.Changes[i].Path) {
				change.Plan.Changes[i].Destructive = true
			}
		}
		return nil
	})
}

func (k *resourceKind[T]) Push(ctx context.Context, push Push, permits Permits) Outcome {
	if push.Asset.push == nil {
		push.Asset.push = secret.NewPush(time.Now())
	}
	asset, err := k.decode(push.Asset)
	if err != nil {
		return failure(err)
	}
	state := k.read(ctx, []Asset[T]{asset})[0]
	if state.Err != nil {
		return outcomeOf(ctx, Retryable(fmt.Errorf("reading production again: %w", state.Err)))
	}
	if state.Pending != nil {
		return Outcome{Ending: Stale, Reason: "a change is pending by now: " + state.Pending.Reason}
	}
	change, _, err := k.plan(ctx, asset, state)
	if err != nil {
		return outcomeOf(ctx, err)
	}
	if change.Plan.Action == "" {
		return Outcome{Ending: Pushed, Reason: "already in sync"}
	}
	if digest := change.Plan.Digest(); digest != push.Plan {
		return Outcome{Ending: Stale, Reason: fmt.Sprintf("the plan is now %s (%s, %d fields), admitted was %s", digest.Short(), change.Plan.Action, len(change.Plan.Changes), push.Plan.Short()) + rotations(push.Asset.push)}
	}
	if state.Base != push.Base {
		if err := permits.Cover(ctx, state.Base); err != nil {
			return Outcome{Ending: Stopped, Reason: err.Error()}
		}
	}
	change.Push, change.Token, change.Traceparent = push.ID, push.Token, push.Traceparent
	change.Progress, change.SaveMemo = push.Progress, push.SaveMemo
	if k.background != nil {
		defer k.background.invalidate(asset.Incarnation.Partition, asset.ID)
	}
	return outcomeOf(ctx, k.carry(ctx, change, permits))
}

// outcomeOf turns an error of a push into an outcome. What went wrong once the permit was
// withdrawn came of that, also where production was only read.
func outcomeOf(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return Outcome{Ending: Pushed}
	case errors.Is(err, ErrStale) || errors.Is(err, secret.ErrRotated):
		return Outcome{Ending: Stale, Reason: err.Error()}
	case errors.Is(err, errNoPermit) || ctx.Err() != nil:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Outcome{Ending: Stopped, Reason: err.Error()}
	default:
		return failure(err)
	}
}

func failure(err error) Outcome {
	_, ok := errors.AsType[retryable](err)
	refused, _ := errors.AsType[outranked](err)
	tooBusy, waits := errors.AsType[busy](err)
	return Outcome{Ending: Failed, Reason: err.Error(), Retryable: ok || waits, RetryAfter: tooBusy.pause, KnownToken: refused.token}
}
