package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/world"
)

// In runs with upgrades, devices take other firmware by workflows that are pushes: each is drained,
// loaded, rebooted, checked and brought back, or isolated and told of. What is isolated is mended by
// people, who then ask for another run.

// Disturbances of runs with upgrades.
const (
	FirmwareNew    Kind = "devices are to have other firmware"
	FirmwareLost   Kind = "somebody starts other firmware on a device"
	DeviceFaulty   Kind = "a device becomes faulty"
	DeviceMended   Kind = "somebody mends a device, and asks for another run"
	DeviceCallsBad Kind = "calls to devices go wrong"
	UpgradePoint   Kind = "devices are to have other firmware, and something happens around a step of that"
)

var upgradeKinds = []weighed{{FirmwareNew, 60}, {FirmwareLost, 10}, {DeviceFaulty, 14}, {DeviceMended, 24}, {DeviceCallsBad, 34}, {UpgradePoint, 70}}

// upgradeDocument has the firmware of each device and the number of its last rerun; devicePrefix is how
// their assets are called.
const upgradeDocument, devicePrefix = "devices", "device/"

// deviceNames are those of the devices: two in each cluster.
var deviceNames = []string{"a1", "a2", "b1", "b2"}

// upgradeProgram makes an asset of each device.
const upgradeProgram = `
definition = """` + upgradeWorkflow + `"""

def device(name, firmware, rerun):
    procedure = lehr.workflow.v1.Procedure(
        endpoint = "fabric", path = "/devices/" + name, also = ["pager"], definition = definition,
        inputs = {"name": name, "firmware": firmware},
        observe = lehr.workflow.v1.Observation(
            want = {"/firmware": "${inputs.firmware}", "/state": "up"}, healthy = {"/state": "up"}))
    if rerun > 0:
        procedure.rerun = lehr.workflow.v1.Rerun(id = str(rerun), reason = "it was mended")
    return asset("device/" + name, procedure, addons = [lehr.intent.v1.ImpactedScope(scopes = {"cluster": "devices-" + name[0]})])

def generate(ctx):
    plan = json("devices/devices.json")
    return [device(name, plan["firmware"][name], plan["rerun"][name]) for name in sorted(plan["firmware"])]
`

// upgradeWorkflow is what each push of a device follows.
const upgradeWorkflow = `workflow: v1
name: upgrade
inputs:
  name: string
  firmware: string
machines:
  device:
    initial: draining
    states:
      draining:
        action: {tell: {url: /drain}, runs: at-least-once, timeout: 2m, leaves: drained}
      loading:
        action: {tell: {url: /firmware, body: '{"version": "${inputs.firmware}"}'}, runs: at-least-once, timeout: 2m, leaves: []}
      rebooting:
        action: {tell: {url: /reboot}, runs: at-most-once, timeout: 2m, leaves: []}
      resting:
        action: {wait: {for: 5s}}
      looking:
        action: {ask: {url: /}, runs: at-least-once, timeout: 2m, outputs: {state: string, firmware: string}}
      verifying:
        action: {ask: {url: /check}, runs: at-least-once, timeout: 2m, outputs: {passed: bool}}
      undraining:
        action: {tell: {url: /undrain}, runs: at-least-once, timeout: 2m, undoes: drained}
      upgraded: {end: success}
      isolating:
        action: {tell: {url: /isolate}, runs: at-least-once, timeout: 10m, undoes: drained}
      isolated: {end: failure}
      unreachable: {end: failure, accepts: drained}
    transitions:
      - {from: draining, to: loading, on: done}
      - {from: loading, to: rebooting, on: done}
      - {from: [draining, loading], to: isolating, on: [failed, expired]}
      - {from: rebooting, to: resting, on: [done, unknown]}
      - {from: rebooting, to: isolating, on: [failed, expired]}
      - {from: resting, to: looking, on: done}
      - {from: looking, to: verifying, on: done, when: outputs.device.state == "drained" && outputs.device.firmware == inputs.firmware}
      - {from: looking, to: resting, on: done, when: '(outputs.device.state != "drained" || outputs.device.firmware != inputs.firmware && attempts != 10) && attempts < 20'}
      - {from: looking, to: rebooting, on: done, when: 'outputs.device.state == "drained" && outputs.device.firmware != inputs.firmware && attempts == 10'}
      - {from: looking, to: isolating, on: done, when: '(outputs.device.state != "drained" || outputs.device.firmware != inputs.firmware) && attempts >= 20'}
      - {from: looking, to: isolating, on: [failed, expired]}
      - {from: verifying, to: undraining, on: done, when: outputs.device.passed}
      - {from: verifying, to: isolating, on: done, when: "!outputs.device.passed"}
      - {from: verifying, to: isolating, on: [failed, expired]}
      - {from: undraining, to: upgraded, on: done}
      - {from: undraining, to: isolating, on: [failed, expired]}
      - {from: isolating, to: isolated, on: done}
      - {from: isolating, to: unreachable, on: [failed, expired]}
  pager:
    initial: idle
    states:
      idle: {end: neutral}
      paging:
        action: {tell: {endpoint: pager, url: /pages, body: '{"device": "${inputs.name}"}'}, runs: at-most-once, timeout: 5m, leaves: []}
      paged: {end: neutral}
      unpaged: {end: failure}
    transitions:
      - {from: idle, to: paging, when: 'machines.device in ["isolated", "unreachable"]'}
      - {from: paging, to: paged, on: done}
      - {from: paging, to: unpaged, on: [failed, unknown, expired]}
`

// Upgrades reports whether devices are upgraded by pushes that are workflows in runs of a seed.
func Upgrades(seed uint64) bool { return seed%27 == 8 }

// upgrades reports whether they are in this run.
func (l *Lab) upgrades() bool { return l.options.Definition == "" && Upgrades(l.options.Seed) }

// upgrading is what the Lab remembers of upgrades.
type upgrading struct {
	// firmwares counts those that were asked for.
	firmwares int
	// troubles of the calls that come next.
	troubles []callTrouble
	// mended is when people did what they could for a device.
	mended map[string]time.Time
}

// callTrouble is what goes wrong with the next call of a name, or with the next of any.
type callTrouble struct{ call, trouble string }

// isDevice reports whether an asset stands for a device.
func (l *Lab) isDevice(asset intent.AssetID) bool {
	return l.upgrades() && strings.HasPrefix(string(asset), devicePrefix)
}

// addUpgrades adds the devices to a definition.
func addUpgrades(text string) string {
	text = strings.Replace(text, "generate:\n", "  devices: {document: devices}\ngenerate:\n  upgrades: {starlark: devices.star, from: [devices]}\n", 1)
	return strings.Replace(text, "plugins:\n", "plugins:\n  "+string(world.DeviceType)+": {run: [sim-flow, "+string(world.DeviceType)+"]}\n", 1)
}

// watchUpgrades has the monitor see what reaches the devices.
func (l *Lab) watchUpgrades() {
	if !l.upgrades() {
		return
	}
	l.upgrading.mended = map[string]time.Time{}
	l.World.OnMemosLost = l.Monitor.DeviceMemosLost
	l.World.CallTrouble = l.nextCallTrouble
	l.World.OnDeviceCall = func(call world.DeviceCall) {
		l.Monitor.DeviceCalled(call)
		if !strings.HasPrefix(call.Key, string(call.Push)+"/") {
			l.mark("upgrade: a run goes on in another push")
		}
		if !call.Refused && call.Name != "" {
			l.mark("upgrade: " + call.Name)
		}
	}
}

// deviceOf is the device that an asset stands for; ok: it stands for one.
func (l *Lab) deviceOf(asset intent.AssetID) (device world.Device, ok bool) {
	name, ok := strings.CutPrefix(string(asset), devicePrefix)
	if !ok || !l.upgrades() {
		return device, false
	}
	return l.World.Device(name), true
}

// nextCallTrouble is what goes wrong with a call to a device.
func (l *Lab) nextCallTrouble(call string) string {
	u := &l.upgrading
	at := slices.IndexFunc(u.troubles, func(t callTrouble) bool { return t.call == "" || t.call == call })
	if at < 0 || l.healing {
		return ""
	}
	trouble := u.troubles[at].trouble
	u.troubles = slices.Delete(u.troubles, at, at+1)
	if trouble != "" {
		l.mark("upgrade: a call " + trouble)
	}
	return trouble
}

// keepDevices makes the document where there is none. Once all is healed, people mend what failed.
func (p person) keepDevices() error {
	if !p.upgrades() {
		return nil
	}
	_, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: string(p.partition), Name: upgradeDocument})
	if fault.Is(err, fault.NotFound) {
		firmware, rerun := map[string]string{}, map[string]int{}
		for _, name := range deviceNames {
			firmware[name], rerun[name] = "f0", 0
		}
		text, marshalErr := json.Marshal(map[string]any{"firmware": firmware, "rerun": rerun})
		if marshalErr != nil {
			return marshalErr
		}
		_, err = p.c.Documents.CreateDocument(p.ctx, &apipb.CreateDocumentRequest{Partition: string(p.partition), Name: upgradeDocument, Content: string(text), Reason: "begun"})
	}
	if err != nil || !p.healing {
		return err
	}
	return p.mendDevices()
}

// setFirmware has some devices, or all, be given new firmware.
func (p person) setFirmware() error {
	p.upgrading.firmwares++
	version := fmt.Sprintf("f%d", p.upgrading.firmwares)
	names := deviceNames
	if p.r.IntN(3) > 0 {
		names = []string{deviceNames[p.r.IntN(len(deviceNames))]}
	}
	var operations []*apipb.DocumentOperation
	for _, name := range names {
		operations = append(operations, &apipb.DocumentOperation{Path: "/firmware/" + name, Value: fmt.Sprintf("%q", version)})
	}
	p.tell("%s: %v get %s", p.d, names, version)
	return p.edits(upgradeDocument, operations...)
}

// mendDevices has somebody mend the devices whose last run failed, and ask for another one.
func (p person) mendDevices() error {
	const pause = 2 * time.Minute
	busy := map[intent.AssetID]bool{}
	pushes, err := p.reading.OpenPushes(p.ctx, p.partition)
	if err != nil {
		return err
	}
	for _, push := range pushes {
		busy[push.Asset] = true
	}
	partition, err := p.reading.Partition(p.ctx, p.partition)
	if err != nil {
		return err
	}
	for _, name := range deviceNames {
		asset := intent.AssetID(devicePrefix + name)
		if ok, _ := p.World.Matches(p.ctx, partition.Head, asset); ok {
			continue
		}
		memos, err := p.reading.Memos(p.ctx, p.partition, []intent.AssetID{asset})
		if err != nil {
			return err
		}
		if busy[asset] || p.Now().Sub(p.upgrading.mended[name]) < pause || !hasFailedRun(memos[asset]) {
			continue
		}
		p.upgrading.mended[name] = p.Now()
		p.World.MendDevice(name)
		p.Monitor.DeviceTouched(asset)
		p.upgrading.firmwares++ // A number that no rerun had.
		p.tell("%s: %s is mended", p.d, name)
		p.mark("upgrade: a device is mended")
		if err := p.setDocument(upgradeDocument, "/rerun/"+name, fmt.Sprint(p.upgrading.firmwares)); err != nil {
			return err
		}
	}
	return nil
}

// hasFailedRun reports whether the run of which a memo tells ended badly.
func hasFailedRun(memos []intent.Memo) bool {
	return slices.ContainsFunc(memos, func(memo intent.Memo) bool {
		run, err := monitor.ReadDeviceRun(memo)
		return err == nil && run.Outcome() != "" && run.Outcome() != "success"
	})
}

// firmwareLost has somebody start other firmware on a device that no push is at work on.
func (l *Lab) firmwareLost(d Disturbance, r *rand.Rand) {
	name := deviceNames[r.IntN(len(deviceNames))]
	asset := intent.AssetID(devicePrefix + name)
	if slices.ContainsFunc(l.World.Pushing(), func(push world.Push) bool { return push.Asset == asset }) {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, name)
	l.World.LoseFirmware(name)
	l.Monitor.DeviceTouched(asset)
	l.mark("upgrade: a device has lost its firmware")
}

// deviceFaulty has checks of a device fail, until somebody mends it.
func (l *Lab) deviceFaulty(d Disturbance, r *rand.Rand) {
	name := deviceNames[r.IntN(len(deviceNames))]
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, name)
	l.World.SetFaulty(name, true)
}

func (l *Lab) deviceCallsBad(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "program")
	for range 1 + r.IntN(3) {
		for range r.IntN(4) {
			l.upgrading.troubles = append(l.upgrading.troubles, callTrouble{}) // It goes well before.
		}
		call := []string{"", "", "reboot", "pages"}[r.IntN(4)]
		l.upgrading.troubles = append(l.upgrading.troubles, callTrouble{call, world.CallTroubles[r.IntN(len(world.CallTroubles))]})
	}
	l.tell("%s: %v", d, l.upgrading.troubles)
}

// upgradePoint has firmware be set, and the plugin or Lehr die or stand still around a step of a push,
// or a person stop it, or an answer of the store be lost.
func (l *Lab) upgradePoint(d Disturbance, r *rand.Rand) {
	const around, point = 6 * time.Minute, "device"
	again := Disturbance{Number: d.Number, Point: point, Plugins: true, Seed: d.Seed}
	switch r.IntN(6) {
	case 0, 1:
		again.Kind = KillAtPoint
	case 2:
		again.Kind, again.Length = PauseAtPoint, 20*time.Second
	case 3:
		again.Kind, again.Length = Meanwhile, 5*time.Second
		again.Then = []Kind{PersonStop, PersonHold, FirmwareNew, Restart, Takeover}[r.IntN(5)]
	case 4:
		l.store.refuse, l.store.lose, l.store.only, l.store.left = false, true, "SaveMemo", 1+r.IntN(3)
		l.after(around, func() {
			if l.store.only == "SaveMemo" {
				l.store = storeTrouble{}
			}
		})
	default:
		again.Kind, again.Point, again.Plugins = KillAtPoint, "memo", false
	}
	if again.Kind != "" {
		l.armed = append(l.armed, armed{again, r.IntN(24)})
	}
	l.after(around, func() {
		l.armed = slices.DeleteFunc(l.armed, func(a armed) bool { return a.d.Number == d.Number })
	})
	l.person(Disturbance{Number: d.Number, At: d.At, Kind: FirmwareNew, Seed: d.Seed}, r)
}
