package world

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// answer is what the plugin does with a call of Diff.
func (l *life) answer(call *diffCall) {
	w, p := l.world, l.process
	p.Point("diff in plugin")
	whole, single, process := w.hitDiff(call.assets)
	l.befall(process)
	// It asks for the content.
	_ = p.Wait(context.Background(), w.latency()+w.latency(), nil)
	if whole != nil {
		switch whole.Kind {
		case DiffHang:
			_ = p.Wait(context.Background(), whole.lasts(30*time.Second, time.Minute), w.healed)
		case DiffSlow:
			_ = p.Wait(context.Background(), whole.within(time.Second, diffTimeout*9/10), w.healed)
		case DiffError:
			l.out.send(func() {
				call.err = fault.New(fault.Unavailable, "the stream of diffs with plugin %s broke", l.child.program.name)
				notify(call.wake)
			})
			return
		}
	}
	arrived := w.now()
	var results []*pluginpb.AssetDiff
	var lies []intent.AssetID
	var swapped []*pluginpb.AssetDiff
	for i, asset := range call.assets {
		var befalls *armed
		for _, s := range single {
			if s.asset == asset {
				befalls = s.armed
			}
		}
		diff := l.difference(call, asset, befalls, arrived)
		switch {
		case befalls != nil && befalls.Kind == DiffMissing:
			continue
		case befalls != nil && befalls.Kind == DiffForOtherAsset:
			diff.Asset = string(otherAsset(call.assets, i, befalls))
			swapped = append(swapped, diff)
		}
		if befalls != nil && befalls.Kind.Lies() {
			lies = append(lies, intent.AssetID(diff.Asset))
		}
		results = append(results, diff)
	}
	p.Point("diffed in plugin")
	l.out.send(func() {
		for _, asset := range lies {
			w.lied[asset] = w.now()
		}
		for _, diff := range swapped {
			if w.OnSwap != nil {
				w.OnSwap(intent.AssetID(diff.Asset), intent.ResourceKey(diff.ResourceKey))
			}
		}
		l.take(call, results)
	})
}

// otherAsset is one of the call, or none of it.
func otherAsset(assets []intent.AssetID, i int, befalls *armed) intent.AssetID {
	if len(assets) == 1 || befalls.Seed%4 == 0 {
		return "of/nobody"
	}
	return assets[(i+1+befalls.random.IntN(len(assets)-1))%len(assets)]
}

func unknown(asset intent.AssetID, reason string) *pluginpb.AssetDiff {
	return &pluginpb.AssetDiff{Asset: string(asset), Outcome: &pluginpb.AssetDiff_Unknown{Unknown: &pluginpb.Unknown{Reason: reason}}}
}

// difference compares one asset with production, and says what the trouble has it say.
// arrived is when the call came.
func (l *life) difference(call *diffCall, asset intent.AssetID, befalls *armed, arrived time.Time) *pluginpb.AssetDiff {
	w := l.world
	wanted, err := w.look(context.Background(), call.incarnation, asset)
	if err != nil {
		return unknown(asset, err.Error())
	}
	served, serves := l.child.program.serves(wanted.Payload.Type)
	if !serves || l.skewed {
		return unknown(asset, "plugin "+l.child.program.name+" does not serve the type "+string(wanted.Payload.Type))
	}
	if wanted.procedure != nil {
		l.watch(call.incarnation.Partition, asset, wanted.key)
		diff := l.lookAtDevice(call, wanted)
		if befalls != nil {
			befalls.spoil(diff, w.now())
		}
		return diff
	}
	if lost := w.lostRun(asset, wanted.key, call.memos[asset]); lost != "" {
		return unknown(asset, lost)
	}
	l.watch(call.incarnation.Partition, asset, wanted.key)
	state, readAt, pending := l.read(call, wanted.key, arrived)
	if pending != nil {
		return pendingOf(asset, pending)
	}
	if befalls != nil && befalls.Kind == DiffPending {
		delete(l.readings, wanted.key) // That a change is under way was read: its end is not.
	}
	if befalls != nil && befalls.Kind == DiffStale {
		state = w.earlier(wanted.key, befalls.random.Uint64())
	}
	diff, err := wanted.difference(state, served)
	if err != nil {
		return unknown(asset, err.Error())
	}
	if w.OnRead != nil && w.options.Cadence > 0 {
		w.OnRead(asset, readAt)
	}
	age := arrived.Sub(readAt)
	if befalls != nil || age > 0 {
		diff = proto.CloneOf(diff)
	}
	if age > 0 {
		diff.Age = durationpb.New(age)
	}
	if befalls != nil {
		befalls.spoil(diff, w.now())
	}
	return l.tellOutputs(wanted, state, diff)
}

// told is an answer, and the state of which it is true.
type told struct {
	version uint64
	health  intent.HealthState
	class   plugin.Guarantee
	secret  string
	diff    *pluginpb.AssetDiff
}

// difference is what is to be said of a state, to look at only. Most are asked
// for again and again, of a state that did not change.
func (w *wanted) difference(state snapshot, served plugin.Served) (*pluginpb.AssetDiff, error) {
	if t := w.told; t.diff != nil && t.version == state.version && t.health == state.health && t.class == served.Guarantee && t.secret == w.sealed.now() {
		return t.diff, nil
	}
	found, err := w.compare(state, served)
	if err != nil {
		return nil, err
	}
	diff, err := encode(w, state, found)
	if err == nil {
		w.told = told{state.version, state.health, served.Guarantee, found.value, diff}
		w.sealed.tellPlan(w.ID, found)
	}
	return diff, err
}

var actions = map[intent.Action]pluginpb.Action{
	intent.ActionCreate:  pluginpb.Action_ACTION_CREATE,
	intent.ActionUpdate:  pluginpb.Action_ACTION_UPDATE,
	intent.ActionReplace: pluginpb.Action_ACTION_REPLACE,
	intent.ActionDelete:  pluginpb.Action_ACTION_DELETE,
}

// encode says what was found as a plugin says it.
func encode(w *wanted, state snapshot, found *comparison) (*pluginpb.AssetDiff, error) {
	diff := &pluginpb.AssetDiff{
		Asset: string(w.ID), Base: state.base(), ResourceKey: string(w.key),
		Impacts: impacts(w, found), Unmanaged: encodeChanges(found.unmanaged), Health: &pluginpb.Health{},
	}
	if state.exists {
		message := proto.Clone(found.current.Interface())
		clearRedacted(message.ProtoReflect())
		current, err := w.set.Canonical(message)
		if err != nil {
			return nil, err
		}
		diff.Current, diff.Health = current, health(state, found.current)
	}
	if found.plan.Action == "" {
		diff.Outcome = &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}
	} else {
		diff.Outcome = &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{
			Action: actions[found.plan.Action], Changes: encodeChanges(found.plan.Changes),
		}}
	}
	return diff, nil
}

func encodeChanges(changes []intent.FieldChange) []*pluginpb.FieldChange {
	var encoded []*pluginpb.FieldChange
	for _, change := range changes {
		encoded = append(encoded, &pluginpb.FieldChange{
			Path: intent.Shown(change.Path), Current: intent.Shown(change.Current), Target: intent.Shown(change.Target),
			Reason: intent.Shown(change.Reason), Destructive: change.Destructive, Writer: change.Writer,
		})
	}
	return encoded
}

func health(state snapshot, current protoreflect.Message) *pluginpb.Health {
	health := &pluginpb.Health{Reason: "as the world has it"}
	switch state.health {
	case intent.Healthy:
		health.State = pluginpb.Health_STATE_HEALTHY
	case intent.Unhealthy:
		health.State = pluginpb.Health_STATE_UNHEALTHY
	}
	if version := current.Descriptor().Fields().ByName("version"); version != nil && version.Kind() == protoreflect.StringKind && !version.IsList() {
		health.ObservedVersion = intent.Shown(current.Get(version).String())
	}
	return health
}

// comeBack is after how long a busy target is to be asked again.
func (t Trouble) comeBack() time.Duration { return time.Duration(5+t.Seed%55) * time.Second }

// spoil makes a true answer what the trouble has the plugin say.
func (a *armed) spoil(diff *pluginpb.AssetDiff, now time.Time) {
	inSync := &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}
	switch a.Kind {
	case DiffUnknown:
		diff.Outcome = &pluginpb.AssetDiff_Unknown{Unknown: &pluginpb.Unknown{Reason: "the provider does not answer"}}
	case DiffBusy:
		diff.Outcome = &pluginpb.AssetDiff_Unknown{Unknown: &pluginpb.Unknown{Reason: "too many requests", RetryAfter: durationpb.New(a.comeBack())}}
	case DiffPending:
		diff.Outcome = &pluginpb.AssetDiff_Pending{Pending: a.waits(now)}
	case DiffOld:
		diff.Age = durationpb.New(time.Duration(25+a.random.IntN(100)) * time.Hour)
	case DiffSilent:
		diff.Outcome = nil
	case DiffLiesInSync:
		diff.Outcome = inSync
	case DiffBare:
		diff.Current, diff.Impacts = nil, nil
	case DiffLiesDiffers:
		diff.Outcome = &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{
			Action: pluginpb.Action_ACTION_UPDATE, Changes: []*pluginpb.FieldChange{{Path: "made.up", Current: "1", Target: fmt.Sprint(a.random.Uint32())}},
		}}
	case DiffLiesDelete:
		diff.Outcome = &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{Action: pluginpb.Action_ACTION_DELETE}}
	case DiffHealthGarbage:
		diff.Health = &pluginpb.Health{State: 99, Reason: strings.Repeat("\x1b[2J\x00", 3000), ObservedVersion: strings.Repeat("\xff", 999)}
	case DiffNoNumber:
		diff.Current, diff.Impacts = nil, nil
		for _, dimension := range []string{"tasks", "upstreams"} {
			diff.Impacts = append(diff.Impacts, &pluginpb.Impact{Dimension: dimension, Current: math.NaN(), Target: 1})
		}
	case DiffGarbage:
		a.garble(diff)
	}
}

// garble says what no plugin may say.
func (a *armed) garble(diff *pluginpb.AssetDiff) {
	differs := func(action pluginpb.Action, changes ...*pluginpb.FieldChange) {
		diff.Outcome = &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{Action: action, Changes: changes}}
	}
	update := pluginpb.Action_ACTION_UPDATE
	switch a.random.IntN(10) {
	case 0:
		diff.Impacts = []*pluginpb.Impact{{Dimension: "replicas", Current: math.NaN(), Target: 1}}
	case 1:
		diff.Impacts = []*pluginpb.Impact{{Dimension: "replicas", Current: 1, Target: -1}}
	case 2:
		differs(update, &pluginpb.FieldChange{Current: "a", Target: "b"})
	case 3:
		// It differs, and in nothing.
		differs(update)
	case 4:
		many := make([]*pluginpb.FieldChange, 10_000)
		for i := range many {
			many[i] = &pluginpb.FieldChange{Path: fmt.Sprintf("field[%d]", i), Target: "x"}
		}
		differs(update, many...)
	case 5:
		diff.Current = []byte{0xff, 0xff, 0xff}
	case 6:
		diff.Base = strings.Repeat("b", 1<<20)
	case 7:
		diff.ResourceKey = "sim:\x1b[2J"
	case 8:
		differs(pluginpb.Action(77), &pluginpb.FieldChange{Path: "version", Current: "1", Target: "2"})
	default:
		same := &pluginpb.FieldChange{Path: "version", Current: "1", Target: "2"}
		differs(update, same, same)
	}
}
