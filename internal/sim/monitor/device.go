package monitor

import (
	"encoding/json"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// deviceWatch is what is known of devices: by the calls that reach them, and by what plugins had Lehr
// keep of their runs.
type deviceWatch struct {
	// runs that were kept last.
	runs map[intent.AssetID]DeviceRun
	// touched is when somebody last changed a device by hand.
	touched map[intent.AssetID]time.Time
}

func newDeviceWatch() deviceWatch {
	return deviceWatch{runs: map[intent.AssetID]DeviceRun{}, touched: map[intent.AssetID]time.Time{}}
}

// DeviceRun is what a memo says of the run of a device.
type DeviceRun struct {
	Number int    `json:"number"`
	ID     string `json:"id"`
	// Content is what the run is for, Rerun what asked for it.
	Content string `json:"content"`
	Rerun   string `json:"rerun"`
	State   struct {
		Machines []struct {
			State string `json:"state"`
		} `json:"machines"`
		End *struct {
			Outcome string `json:"outcome"`
		} `json:"end"`
	} `json:"state"`
}

// ReadDeviceRun reads a memo, which is the asset's id and then the run.
func ReadDeviceRun(memo intent.Memo) (run DeviceRun, err error) {
	err = json.Unmarshal(memo.Bytes[len(world.MemoAsset(memo.Bytes))+1:], &run)
	return run, err
}

// Outcome of a run; empty: it goes on, or was interrupted.
func (r DeviceRun) Outcome() string {
	if r.State.End == nil {
		return ""
	}
	return r.State.End.Outcome
}

// isAt reports whether a machine of the run is in a state.
func (r DeviceRun) isAt(state string) bool {
	for _, machine := range r.State.Machines {
		if machine.State == state {
			return true
		}
	}
	return false
}

// handPeriod is how long what somebody did by hand explains what a device is.
const handPeriod = 15 * time.Minute

// DeviceTouched is called when somebody changes a device by hand.
func (m *Monitor) DeviceTouched(asset intent.AssetID) { m.devices.touched[asset] = m.options.Now() }

func (m *Monitor) isTouched(asset intent.AssetID) bool {
	at, ok := m.devices.touched[asset]
	return ok && m.options.Now().Sub(at) < handPeriod
}

// DeviceCalled judges a call of a push that reaches a device, or the pager (S28): what runs at most
// once came for the first time; a device is loaded and rebooted while it is drained, and goes back
// to work with the firmware that the push brings.
func (m *Monitor) DeviceCalled(c world.DeviceCall) {
	m.CallArrived(c.Key, c.Name == "reboot" || c.Name == "pages")
	if m.isTouched(c.Asset) {
		return
	}
	switch c.Name {
	case "firmware", "reboot":
		m.hold(c.Before.Drained, "S28", "%s reached %s for push %s while it was not drained", c.Name, c.Asset, c.Push)
	case "undrain":
		m.hold(c.Before.Firmware == c.Wanted, "S28", "%s was brought back with %s, and push %s brings %s", c.Asset, c.Before.Firmware, c.Push, c.Wanted)
	}
}

// deviceMemoSaved judges what a plugin had Lehr keep of a run (S28): a run that was interrupted goes on, one
// that failed is not repeated unless somebody asks for that or for something else, and what a run
// says at its end is so.
func (m *Monitor) deviceMemoSaved(asset intent.AssetID, memo intent.Memo) {
	if m.options.Device == nil {
		return
	}
	device, ok := m.options.Device(asset)
	if !ok {
		return
	}
	run, err := ReadDeviceRun(memo)
	m.unread("the run of a device", err)
	before, known := m.devices.runs[asset]
	m.devices.runs[asset] = run
	if known && before.ID != run.ID && before.Content == run.Content && before.Rerun == run.Rerun {
		m.hold(before.Outcome() == "success", "S28", "run %d of %s, which ended in %q, is followed by run %d, and nothing else is wanted", before.Number, asset, before.Outcome(), run.Number)
	}
	if m.isTouched(asset) {
		return
	}
	if run.Outcome() == "success" {
		m.hold(!device.Drained && !device.Isolated, "S28", "run %d of %s ended in success, and left it out of service", run.Number, asset)
	}
	if run.isAt("isolated") {
		m.hold(device.Isolated, "S28", "run %d says that %s is isolated, and it is not", run.Number, asset)
	}
}

// DeviceMemosLost is called when a plugin is handed nothing with a push: it cannot know of an earlier run.
func (m *Monitor) DeviceMemosLost(asset intent.AssetID) { delete(m.devices.runs, asset) }
