package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	workflowpb "lehr.dev/gen/lehr/workflow/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/workflow/procedures"
	"lehr.dev/sdk/serve"
)

// DeviceType is the type of the assets that stand for devices, in worlds with Options.Devices. The real
// package procedures looks at them and pushes them: it runs a workflow, and its calls reach
// the devices here.
const DeviceType intent.TypeName = "lehr.workflow.v1.Procedure"

const (
	// DeviceAPI and PagerAPI are the names of the APIs that procedures may call, DevicePath is below which a
	// device is called by its name.
	DeviceAPI, PagerAPI = "fabric", "pager"
	DevicePath          = "/devices/"
	// deviceSteps is how many effects an upgrade has; the last one brings the device back, or isolates it.
	deviceSteps = 4
	// mostReboot is the longest reboot.
	mostReboot = 30 * time.Second
)

// Troubles of calls to devices.
const (
	// CallRefused: the device answers that it cannot, and does nothing.
	CallRefused = "is refused"
	// CallBusy: it answers 503, and does nothing.
	CallBusy = "meets a busy device"
	// CallUnsent: no connection is made.
	CallUnsent = "is not sent"
	// CallVanished: it is sent, and does nothing, and nothing is answered.
	CallVanished = "vanishes"
	// CallUnanswered: it is carried out, and the answer is lost.
	CallUnanswered = "is carried out without an answer"
	// CallCutOff: the plugin dies while it is under way.
	CallCutOff = "loses its caller"
)

// CallTroubles are all of them.
var CallTroubles = []string{CallRefused, CallBusy, CallUnsent, CallVanished, CallUnanswered, CallCutOff}

// Device is a thing that takes other firmware in steps: it is drained, loaded, rebooted, checked and
// brought back, or isolated.
type Device struct {
	// Firmware runs; Loaded is what the next reboot starts.
	Firmware, Loaded string
	// Drained: it is out of service. Isolated: it is cut off until somebody mends it.
	Drained, Isolated bool
	// Faulty: its check fails.
	Faulty bool
	// Up is when its last reboot ends.
	Up time.Time
}

// DeviceCall is a call that reached a device, or the pager.
type DeviceCall struct {
	Asset intent.AssetID
	Push  intent.PushID
	// Name is the last part of its path.
	Name string
	// Key is the idempotency key.
	Key string
	// Wanted is the firmware that the push brings.
	Wanted string
	// Before is the device as the call found it.
	Before Device
	// Refused: the device did nothing.
	Refused bool
}

// device of a name. One that is asked for first runs firmware f0.
func (w *World) device(name string) *Device {
	d := w.devices[name]
	if d == nil {
		d = &Device{Firmware: "f0", Loaded: "f0"}
		w.devices[name] = d
	}
	if !d.Up.IsZero() && !w.now().Before(d.Up) {
		d.Firmware, d.Up = d.Loaded, time.Time{}
	}
	return d
}

// Device returns what a device is now.
func (w *World) Device(name string) Device { return *w.device(name) }

// Devices returns the names of those that were ever asked for.
func (w *World) Devices() []string { return slices.Sorted(maps.Keys(w.devices)) }

// SetFaulty has the checks of a device fail, or pass again.
func (w *World) SetFaulty(name string, faulty bool) { w.device(name).Faulty = faulty }

// MendDevice has somebody bring a device back by hand, with the firmware that it has.
func (w *World) MendDevice(name string) {
	d := w.device(name)
	d.Drained, d.Isolated, d.Faulty = false, false, false
}

// LoseFirmware has somebody start other firmware on a device.
func (w *World) LoseFirmware(name string) {
	d := w.device(name)
	d.Firmware, d.Loaded = "lost", "lost"
}

// state is what a device says of itself.
func (w *World) state(d *Device) string {
	switch {
	case w.now().Before(d.Up):
		return "rebooting"
	case d.Isolated:
		return "isolated"
	case d.Drained:
		return "drained"
	}
	return "up"
}

// deviceName is the name of the device that an asset stands for, and the firmware that it wants.
func (w *wanted) deviceName() string { return strings.TrimPrefix(w.procedure.Path, DevicePath) }
func (w *wanted) firmware() string   { return w.procedure.Inputs["firmware"] }

// readProcedure takes up what an asset says of a device, in worlds that have them.
func (w *World) readProcedure(read *wanted) error {
	if !w.options.Devices || read.Payload.Type != DeviceType {
		return nil
	}
	read.procedure = &workflowpb.Procedure{}
	if err := proto.Unmarshal(read.Payload.Bytes, read.procedure); err != nil {
		return err
	}
	read.key = procedures.KeyOf(deviceAPI{name: read.procedure.Endpoint}, read.procedure.Path)
	return nil
}

// deviceMatches reports whether a device is as intent asks; if not, it says why.
func (w *World) deviceMatches(wanted *wanted) (bool, string) {
	d := w.device(wanted.deviceName())
	if d.Firmware == wanted.firmware() && w.state(d) == "up" {
		return true, ""
	}
	return false, fmt.Sprintf("%s is %s with %s, wanted is %s", wanted.key, w.state(d), d.Firmware, wanted.firmware())
}

// procedures is the plugin's code, with what it remembers while its process lives.
func (l *life) procedures() *procedures.Procedures {
	if l.flow == nil {
		served, _ := l.child.program.serves(DeviceType)
		l.flow = procedures.NewIn(procedures.Environment{
			APIs: func() procedures.APIs { return deviceAPIs{l} }, LongestCall: served.LongestEffect, Now: l.world.now, SleepUntil: sleepInPush,
		})
	}
	return l.flow
}

// intentOf is an asset as the plugin's code gets it.
func intentOf(wanted *wanted, memos []intent.Memo) serve.Intent {
	asked := serve.Intent{Asset: wanted.Asset, Incarnation: wanted.incarnation}
	for _, memo := range memos {
		_, content, _ := strings.Cut(string(memo.Bytes), " ")
		asked.Memos = append(asked.Memos, serve.Memo{Key: memo.Key, Bytes: []byte(content)})
	}
	return asked
}

// lookAtDevice answers as procedures does.
func (l *life) lookAtDevice(call *diffCall, wanted *wanted) *pluginpb.AssetDiff {
	d := l.procedures().Diff(context.Background(), []serve.Intent{intentOf(wanted, call.memos[wanted.ID])})[0]
	diff := &pluginpb.AssetDiff{Asset: string(wanted.ID), Base: d.Base, ResourceKey: string(d.ResourceKey), Current: d.Current, Health: &pluginpb.Health{Reason: d.Health.Reason}}
	switch d.Health.State {
	case serve.Healthy:
		diff.Health.State = pluginpb.Health_STATE_HEALTHY
	case serve.Unhealthy:
		diff.Health.State = pluginpb.Health_STATE_UNHEALTHY
	}
	switch d.Outcome {
	case serve.InSync:
		diff.Outcome = &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}
	case serve.Differs:
		diff.Outcome = &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{Action: actions[d.Plan.Action], Changes: encodeChanges(d.Plan.Changes)}}
	case serve.Pending:
		diff.Outcome = &pluginpb.AssetDiff_Pending{Pending: &pluginpb.Pending{Reason: d.Reason, Ends: d.PendingEnd, Since: timestamppb.New(d.PendingSince)}}
	default:
		unknown := &pluginpb.Unknown{Reason: d.Reason}
		if d.RetryAfter > 0 {
			unknown.RetryAfter = durationpb.New(d.RetryAfter)
		}
		diff.Outcome = &pluginpb.AssetDiff_Unknown{Unknown: unknown}
	}
	return diff
}

// ledPush is what the calls of a push know of it.
type ledPush struct {
	*carried
	wanted *wanted
	end    context.CancelCauseFunc
}

type ledPushKey struct{}

func ledPushOf(ctx context.Context) *ledPush {
	led, _ := ctx.Value(ledPushKey{}).(*ledPush)
	return led
}

// lead carries out the push of a device: procedures runs its workflow, under the permits of the push.
func (c *carried) lead(wanted *wanted) plugin.PushResult {
	c.stage(1)
	if result, ok := c.endEarly(); ok {
		return result
	}
	push := c.start.push
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	led := &ledPush{c, wanted, cancel}
	outcome := c.life.procedures().Push(context.WithValue(ctx, ledPushKey{}, led), serve.Push{
		ID: push.ID, Asset: intentOf(wanted, push.Memos), Plan: push.Plan, Base: push.Base, Token: push.Token,
		Progress: led.tellProgress, SaveMemo: led.saveMemo,
	}, led)
	if outcome.Ending == serve.Pushed && c.befallen(PushAppliedButError) {
		return plugin.PushResult{Ending: plugin.Failed, Reason: "the plugin lost its own answer", Retryable: true}
	}
	return plugin.PushResult{Ending: outcome.Ending, Reason: outcome.Reason, Retryable: outcome.Retryable, RetryAfter: outcome.RetryAfter}
}

// refuse ends the push for a reason; none: it goes on.
func (l *ledPush) refuse(reason string) error {
	if reason == "" {
		return nil
	}
	err := errors.New(reason)
	l.end(err)
	return err
}

// Effect is serve.Permits'.
func (l *ledPush) Effect(context.Context) error { return l.refuse(l.permit()) }

// Cover is serve.Permits'.
func (l *ledPush) Cover(_ context.Context, base string) error { return l.refuse(l.cover(base)) }

func (l *ledPush) saveMemo(_ context.Context, key serve.ResourceKey, content []byte) error {
	l.life.process.Point("device memo")
	memo := intent.Memo{Key: key, Bytes: append([]byte(string(l.wanted.ID)+" "), content...)}
	refused, stopped := l.remember(memo)
	l.life.process.Point("device memo kept")
	if refused != "" && !stopped {
		return errors.New(refused)
	}
	return l.refuse(refused)
}

func (l *ledPush) tellProgress(text string) {
	life, id := l.life, l.start.push.ID
	life.out.send(func() {
		if open := life.find(id); open != nil {
			open.progress = text
			notify(open.wake)
		}
	})
}

// sleepInPush returns at a time, or when the permits of the push have ended.
func sleepInPush(ctx context.Context, at time.Time) error {
	l := ledPushOf(ctx)
	for {
		now := l.life.world.now()
		rest := at.Sub(now)
		switch {
		case l.refused != "":
			return l.refuse(l.refused)
		case !now.Before(l.until):
			return l.refuse("no permit: the last one ran out and Lehr gave no other")
		case rest <= 0:
			return nil
		}
		_ = l.life.process.Wait(context.Background(), min(rest, l.until.Sub(now)), l.changed)
	}
}

// deviceAPIs are what the operator of a plugin lists.
type deviceAPIs struct{ life *life }

// Find is procedures.APIs'.
func (a deviceAPIs) Find(name, _ string) (procedures.API, error) {
	if name != DeviceAPI && name != PagerAPI {
		return nil, fmt.Errorf("%w: %s", endpoint.ErrNotListed, name)
	}
	return deviceAPI{a.life, name}, nil
}

// deviceAPI is how a plugin reaches devices, or the pager.
type deviceAPI struct {
	life *life
	name string
}

// Key is procedures.API's.
func (a deviceAPI) Key() string { return a.name }

// Do is procedures.API's. A look is answered at once; a call of a run takes its time, and is sent under
// a permit.
func (a deviceAPI) Do(ctx context.Context, call endpoint.Call) (endpoint.Answer, error) {
	w := a.life.world
	led := ledPushOf(ctx)
	name := strings.TrimPrefix(call.Path, DevicePath)
	if call.Begin == nil {
		return jsonAnswer(w.deviceState(name)), nil
	}
	p := a.life.process
	p.Point("device call")
	_ = p.Wait(context.Background(), w.latency(), nil)
	trouble := ""
	if w.CallTrouble != nil {
		trouble = w.CallTrouble(call.Path[strings.LastIndexByte(call.Path, '/')+1:])
	}
	if trouble == CallUnsent {
		return endpoint.Answer{}, errors.New("no connection to the device")
	}
	if err := call.Begin(ctx); err != nil {
		return endpoint.Answer{}, err
	}
	if ctx.Err() != nil {
		return endpoint.Answer{}, context.Cause(ctx)
	}
	began, left := w.now(), led.until.Sub(w.now())
	answer := endpoint.Answer{Status: http.StatusNotFound}
	dies := trouble == CallCutOff
	served, _ := a.life.child.program.serves(DeviceType)
	_ = led.await(served.LongestEffect, dies, func(posthumous bool) error {
		switch trouble {
		case CallBusy:
			answer.Status = http.StatusServiceUnavailable
		case CallVanished:
		default:
			answer = led.arrive(call, Effect{Began: began, PermitLeft: left, Posthumous: posthumous}, trouble == CallRefused)
		}
		return nil
	})
	p.Point("device called")
	led.stage(2)
	if trouble == CallVanished || trouble == CallUnanswered {
		return endpoint.Answer{}, &endpoint.NoAnswerError{Err: errors.New("no answer in time")}
	}
	return answer, nil
}

func (w *World) deviceState(name string) map[string]any {
	d := w.device(name)
	return map[string]any{"firmware": d.Firmware, "state": w.state(d)}
}

func jsonAnswer(value any) endpoint.Answer {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // It is made of texts and truths.
	}
	return endpoint.Answer{Status: http.StatusOK, Header: http.Header{}, Body: body}
}

// arrive has a call of a push reach the device.
func (l *ledPush) arrive(call endpoint.Call, effect Effect, refuses bool) endpoint.Answer {
	w := l.life.world
	name := l.wanted.deviceName()
	d := w.device(name)
	path := strings.TrimPrefix(strings.TrimPrefix(call.Path, DevicePath+name), "/")
	before := *d
	if w.OnDeviceCall != nil {
		w.OnDeviceCall(DeviceCall{
			Asset: l.wanted.ID, Push: l.start.push.ID, Name: path, Key: call.Headers["Idempotency-Key"], Wanted: l.wanted.firmware(), Before: before, Refused: refuses,
		})
	}
	if refuses {
		return endpoint.Answer{Status: http.StatusConflict, Header: http.Header{}}
	}
	step := deviceSteps
	switch path {
	case "":
		return jsonAnswer(w.deviceState(name))
	case "check":
		return jsonAnswer(map[string]any{"passed": !d.Faulty && w.state(d) != "rebooting"})
	case "pages":
		return jsonAnswer(map[string]any{})
	case "drain":
		step, d.Drained = 1, true
	case "firmware":
		var body struct{ Version string }
		if json.Unmarshal(call.Body, &body) != nil || body.Version == "" {
			return endpoint.Answer{Status: http.StatusBadRequest, Header: http.Header{}}
		}
		step, d.Loaded = 2, body.Version
	case "reboot":
		step, d.Up = 3, w.now().Add(time.Second+time.Duration(w.random.Int64N(int64(mostReboot))))
	case "undrain":
		d.Drained = false
	case "isolate":
		d.Drained, d.Isolated = false, true
	default:
		return endpoint.Answer{Status: http.StatusNotFound, Header: http.Header{}}
	}
	push := l.start.push
	effect.Key, effect.Class, effect.By, effect.Asset = l.wanted.key, plugin.Unguarded, ByLehr, l.wanted.ID
	effect.Push, effect.Incarnation, effect.Effective, effect.Plan = push.ID, l.wanted.incarnation, l.wanted.effective, push.Plan
	effect.Token, effect.Replica, effect.Outlived = push.Token, l.life.child.replica.Name(), !l.life.child.replica.Alive()
	effect.Action, effect.Step, effect.Steps = intent.ActionUpdate, step, deviceSteps
	w.version++
	w.tell(effect, deviceSnapshot(before, w.version-1), deviceSnapshot(*d, w.version), "")
	return jsonAnswer(map[string]any{})
}

// deviceSnapshot is a device as effects show it.
func deviceSnapshot(d Device, version uint64) snapshot {
	return snapshot{exists: true, payload: fmt.Append(nil, d), version: version}
}
