package monitor

import (
	"fmt"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// devicePlay plays the upgrade of one device before a monitor.
type devicePlay struct {
	*Monitor
	now    time.Time
	device world.Device
}

const playedDevice intent.AssetID = "device/a1"

func newDevicePlay() *devicePlay {
	p := &devicePlay{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), device: world.Device{Firmware: "f1", Loaded: "f1"}}
	p.Monitor = New(Options{
		Now:    func() time.Time { return p.now },
		Device: func(asset intent.AssetID) (world.Device, bool) { return p.device, asset == playedDevice },
	})
	return p
}

// call reaches the device, of a push that brings f2.
func (p *devicePlay) call(name, key string) {
	p.DeviceCalled(world.DeviceCall{Asset: playedDevice, Push: "sim/1-1", Name: name, Key: key, Wanted: "f2", Before: p.device})
}

// keep the state of a run: its outcome is empty as long as it goes on.
func (p *devicePlay) keep(id, content, rerun, state, outcome string) {
	end := "null"
	if outcome != "" {
		end = fmt.Sprintf(`{"outcome": %q}`, outcome)
	}
	text := fmt.Sprintf(`%s {"number": 1, "id": %q, "content": %q, "rerun": %q, "state": {"machines": [{"state": %q}], "end": %s}}`, playedDevice, id, content, rerun, state, end)
	p.deviceMemoSaved(playedDevice, intent.Memo{Key: "workflow:fabric/devices/a1", Bytes: []byte(text)})
}

func TestDevicesAreWatched(t *testing.T) {
	for name, c := range map[string]struct {
		play func(p *devicePlay)
		want bool // S28 is told.
	}{
		"as it should be": {func(p *devicePlay) {
			p.keep("sim/1-1", "c2", "", "draining", "")
			p.call("drain", "sim/1-1/device/draining/1")
			p.device.Drained = true
			p.call("firmware", "sim/1-1/device/loading/2")
			p.call("firmware", "sim/1-1/device/loading/2")
			p.call("reboot", "sim/1-1/device/rebooting/3")
			p.device.Firmware = "f2"
			p.call("undrain", "sim/1-1/device/undraining/4")
			p.device.Drained = false
			p.keep("sim/1-1", "c2", "", "upgraded", "success")
			p.keep("sim/1-2", "c2", "", "draining", "")
		}, false},
		"rebooted twice by one call": {func(p *devicePlay) {
			p.device.Drained = true
			p.call("reboot", "sim/1-1/device/rebooting/3")
			p.call("reboot", "sim/1-1/device/rebooting/3")
		}, true},
		"paged twice by one call": {func(p *devicePlay) {
			p.DeviceTouched(playedDevice)
			p.call("pages", "sim/1-1/pager/paging/5")
			p.call("pages", "sim/1-1/pager/paging/5")
		}, true},
		"loaded at work":   {func(p *devicePlay) { p.call("firmware", "sim/1-1/device/loading/2") }, true},
		"rebooted at work": {func(p *devicePlay) { p.call("reboot", "sim/1-1/device/rebooting/3") }, true},
		"rebooted at work, which somebody put it to": {func(p *devicePlay) {
			p.DeviceTouched(playedDevice)
			p.call("reboot", "sim/1-1/device/rebooting/3")
		}, false},
		"rebooted at work, long after somebody had it in hand": {func(p *devicePlay) {
			p.DeviceTouched(playedDevice)
			p.now = p.now.Add(handPeriod)
			p.call("reboot", "sim/1-1/device/rebooting/3")
		}, true},
		"brought back with what it had": {func(p *devicePlay) {
			p.device.Drained = true
			p.call("undrain", "sim/1-1/device/undraining/4")
		}, true},
		"interrupted, and begun anew": {func(p *devicePlay) {
			p.keep("sim/1-1", "c2", "", "loading", "")
			p.keep("sim/1-2", "c2", "", "draining", "")
		}, true},
		"interrupted, and something else is wanted": {func(p *devicePlay) {
			p.keep("sim/1-1", "c2", "", "loading", "")
			p.keep("sim/1-2", "c3", "", "draining", "")
		}, false},
		"failed, and repeated": {func(p *devicePlay) {
			p.device.Isolated = true
			p.keep("sim/1-1", "c2", "", "isolated", "failure")
			p.keep("sim/1-2", "c2", "", "draining", "")
		}, true},
		"failed, and asked for again": {func(p *devicePlay) {
			p.device.Isolated = true
			p.keep("sim/1-1", "c2", "", "isolated", "failure")
			p.keep("sim/1-2", "c2", "OPS-7", "draining", "")
		}, false},
		"failed, and forgotten": {func(p *devicePlay) {
			p.device.Isolated = true
			p.keep("sim/1-1", "c2", "", "isolated", "failure")
			p.DeviceMemosLost(playedDevice)
			p.keep("sim/1-2", "c2", "", "draining", "")
		}, false},
		"in success, and out of service": {func(p *devicePlay) {
			p.device.Drained = true
			p.keep("sim/1-1", "c2", "", "upgraded", "success")
		}, true},
		"isolated, as it says": {func(p *devicePlay) { p.keep("sim/1-1", "c2", "", "isolated", "failure") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newDevicePlay()
			c.play(p)
			told := false
			for _, v := range p.Violations() {
				if v.Property != "S28" {
					t.Errorf("%s: %s", v.Property, v.What)
				}
				told = true
			}
			if told != c.want {
				t.Errorf("S28 is told: %v, want %v: %v", told, c.want, p.Violations())
			}
		})
	}
}
