package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/test/pgserver"
)

// upgradeProcedure leads a switch to its firmware. To load and to reboot happen at most once: whether
// they came is seen at the switch.
const upgradeProcedure = `
workflow: v1
name: upgrade
inputs: {firmware: string}
machines:
  switch:
    initial: draining
    states:
      draining:
        action: {tell: {url: /drain}, runs: at-least-once, leaves: drained}
      loading:
        action: {tell: {url: /load, body: '{"firmware": "${inputs.firmware}"}'}, runs: at-most-once, leaves: []}
      rebooting:
        action: {tell: {url: /reboot}, runs: at-most-once, leaves: []}
      looking:
        action: {ask: {url: /}, runs: at-least-once, outputs: {state: string, firmware: string}}
      resting:
        action: {wait: {for: 2s}}
      verifying:
        action: {ask: {url: /check}, runs: at-least-once, outputs: {passed: bool}}
      undraining:
        action: {tell: {url: /undrain}, runs: at-least-once, undoes: drained}
      upgraded: {end: success}
      given_up: {end: failure, accepts: drained}
    transitions:
      - {from: draining, to: loading, on: done}
      - {from: loading, to: rebooting, on: [done, unknown]}
      - {from: rebooting, to: looking, on: [done, unknown]}
      - {from: looking, to: resting, on: done, when: 'outputs.switch.state != "up" && attempts < 9'}
      - {from: looking, to: verifying, on: done, when: 'outputs.switch.state == "up" && outputs.switch.firmware == inputs.firmware'}
      - {from: looking, to: given_up, on: done, when: '(outputs.switch.state != "up" || outputs.switch.firmware != inputs.firmware) && (outputs.switch.state == "up" || attempts >= 9)'}
      - {from: resting, to: looking, on: done}
      - {from: verifying, to: undraining, on: done, when: outputs.switch.passed}
      - {from: verifying, to: given_up, on: done, when: "!outputs.switch.passed"}
      - {from: undraining, to: upgraded, on: done}
      - {from: [draining, loading, rebooting, looking, verifying, undraining], to: given_up, on: failed}
`

// procedureProgram makes the one asset that is pushed by it.
const procedureProgram = `
definition = '''` + upgradeProcedure + `'''

def generate(ctx):
    firmware = str(yaml("source/service.yaml")["values"]["firmware"])
    return [asset("switch/s1", lehr.workflow.v1.Procedure(
        endpoint = "fabric",
        path = "/s1",
        definition = definition,
        inputs = {"firmware": firmware},
        observe = lehr.workflow.v1.Observation(want = {"/firmware": "${inputs.firmware}", "/ports": "up"}),
    ))]
`

// device is a switch, over real HTTP.
type device struct {
	address string

	mutex                  sync.Mutex
	firmware, loaded       string
	ports, state           string
	calls                  []deviceCall
	underWay, mostUnderWay int
	// holdsAt is an await point: the next call to it does what it asks, and is not answered. At
	// "rest" it is answered that the switch is not up yet. Either is sent to arrivals.
	holdsAt  string
	arrivals chan deviceCall
}

// deviceCall is a call of a run. Looks of Lehr itself have no key, and are none.
type deviceCall struct{ replica, what, key string }

func newDevice(t *testing.T) *device {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &device{address: "http://" + listener.Addr().String(), firmware: "1", loaded: "1", ports: "up", state: "up", arrivals: make(chan deviceCall, 1)}
	server := &http.Server{Handler: d}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return d
}

func (d *device) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // Its caller was killed.
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	call := deviceCall{r.Header.Get("X-Replica"), strings.TrimPrefix(r.URL.Path, "/s1"), r.Header.Get("Idempotency-Key")}
	call.what = strings.TrimPrefix(call.what, "/")
	if call.what == "" {
		call.what = "look"
	}
	if call.key == "" {
		d.answer(w)
		return
	}
	d.calls = append(d.calls, call)
	d.underWay++
	defer func() { d.underWay-- }()
	d.mostUnderWay = max(d.mostUnderWay, d.underWay)
	d.change(call.what, body)
	switch {
	case d.holdsAt == call.what:
		d.holdsAt = ""
		d.arrivals <- call
		d.mutex.Unlock()
		<-r.Context().Done()
		d.mutex.Lock()
	case call.what == "look" && d.state != "up":
		d.answer(w)
		d.state = "up" // At the next look.
		if d.holdsAt == "rest" {
			d.holdsAt = ""
			d.arrivals <- call
		}
	default:
		d.answer(w)
	}
}

func (d *device) answer(w http.ResponseWriter) {
	json.NewEncoder(w).Encode(map[string]any{"firmware": d.firmware, "ports": d.ports, "state": d.state, "passed": d.ports == "drained"})
}

func (d *device) change(what string, body []byte) {
	switch what {
	case "drain":
		d.ports = "drained"
	case "load":
		var given struct{ Firmware string }
		if json.Unmarshal(body, &given) == nil {
			d.loaded = given.Firmware
		}
	case "reboot":
		d.firmware, d.state = d.loaded, "rebooting"
	case "undrain":
		d.ports = "up"
	}
}

// hold the next call at an await point.
func (d *device) hold(point string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.holdsAt = point
}

// callsThatCame to the switch.
func (d *device) callsThatCame() []deviceCall {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.calls)
}

// TestReplicaTakesOverAProcedure: two replicas share a database, and a push is a procedure of many steps. At
// each of its await points, in one run or another, the replica that acts is killed, and the other one goes on where it
// was. The switch itself says what came: each step in its order, what runs at most once one time, and of no two
// replicas at once.
func TestReplicaTakesOverAProcedure(t *testing.T) {
	t.Parallel()
	binaries(t)
	if err := compile("procedures/lehr-workflow", "../..", "./plugins/workflow", ""); err != nil {
		t.Fatal(err)
	}
	database := pgserver.New(t)
	database.Start()
	for name, points := range map[string][]string{"tells": {"drain", "load", "reboot", "undrain"}, "asks and rests": {"look", "rest", "check"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A machine that stands still for some seconds has a lease move without a kill. Then only what
			// must hold whoever acts was judged, and it is tried again.
			const tries = 3
			for range tries {
				if newTakeover(t, database).killAt(points) {
					return
				}
			}
			t.Errorf("in each of %d tries the lease moved without a kill", tries)
		})
	}
}

// takeover is two replicas that share a database, and a switch that one of them leads.
type takeover struct {
	*testing.T
	database *pgserver.Server
	url      string
	device   *device
	replicas map[string]*world
	// zone is the definition of the other partition.
	zone string
}

func newTakeover(t *testing.T, database *pgserver.Server) *takeover {
	first := newWorld(t, partition{name: "fabric", plugins: "lehr.workflow.v1.Procedure: {run: [lehr-workflow]}", program: procedureProgram})
	o := &takeover{T: t, database: database, url: database.Database(), device: newDevice(t), zone: filepath.Join(t.TempDir(), "lehr.yaml")}
	o.replicas = map[string]*world{"first": first, "second": first.replica("second")}
	// Each replica has a partition to act for: so the one that comes back takes the other partition, and
	// leaves the procedure to the one that goes on with it.
	first.define(filepath.Dir(o.zone), partition{name: "zone"})
	first.wantIn(filepath.Dir(o.zone), values{"a": 1})
	first.want(values{"firmware": 1})
	for name, w := range o.replicas {
		w.callSwitchAs(name, o.device.address)
		o.serve(name)
	}
	for partition, report := range map[string]string{"fabric": `switch/s1 +in-sync`, "zone": `resource/a +in-sync`} {
		first.await(partition+" is in sync", o.reportSays(first, partition, report))
	}
	return o
}

func (o *takeover) serve(replica string) {
	o.Helper()
	o.replicas[replica].serve("--database", o.url, "-p", o.zone)
}

func (o *takeover) reportSays(w *world, partition, pattern string) func() string {
	return func() string {
		reports, err := w.lehr("get", "reports", "-p", partition)
		return unmatched(reports+text(err), pattern)
	}
}

// otherReplica than one.
func otherReplica(replica string) string {
	if replica == "first" {
		return "second"
	}
	return "first"
}

// epoch grows each time that a replica takes the lease.
func (o *takeover) epoch() (epoch int) {
	o.Helper()
	text, err := o.database.Query(o.url, "SELECT epoch FROM partitions WHERE id = 'fabric'")
	if err != nil {
		o.Fatal(err)
	}
	if _, err := fmt.Sscan(text, &epoch); err != nil {
		o.Fatalf("the epoch is %q: %v", text, err)
	}
	return epoch
}

// killAt kills the replica that acts at each of some await points, and judges what came to the switch.
// It reports whether the lease moved by kills alone.
func (o *takeover) killAt(points []string) (planned bool) {
	firstEpoch := o.epoch()
	o.device.hold(points[0])
	o.replicas["first"].want(values{"firmware": 2})
	var leader string
	var callsBefore []int // the calls that had come at each kill
	for n, point := range points {
		var call deviceCall
		select {
		case call = <-o.device.arrivals:
		case <-time.After(patience):
			o.Fatalf("no call came to the await point %s within %s; the calls are %v", point, patience, o.device.callsThatCame())
		}
		if o.epoch() != firstEpoch+n {
			return o.endDisturbed()
		}
		if n > 0 && call.replica != otherReplica(leader) {
			o.Fatalf("the call at %s came from replica %s, and the one that lives is %s", point, call.replica, otherReplica(leader))
		}
		leader = call.replica
		if n+1 < len(points) {
			o.device.hold(points[n+1])
		}
		if point == "rest" {
			// The run rests for two seconds. Most often its answer is taken by then; what is judged holds at
			// whichever moment the kill comes.
			time.Sleep(300 * time.Millisecond)
		}
		callsBefore = append(callsBefore, len(o.device.callsThatCame()))
		o.replicas[leader].kill()
		killedAt := time.Now()
		successor := o.replicas[otherReplica(leader)]
		successor.await("the other replica has the lease", func() string {
			holder, err := o.database.Query(o.url, "SELECT holder FROM partitions WHERE id = 'fabric'")
			return unmatched(holder+text(err), fmt.Sprintf(":%d:", successor.server.Process.Pid))
		})
		o.Logf("killed at %s; the other replica had the lease after %.1f s", point, time.Since(killedAt).Seconds())
		o.serve(leader)
	}
	successor := o.replicas[otherReplica(leader)]
	successor.await("the switch is as wanted", o.reportSays(successor, "fabric", `switch/s1 +in-sync`))
	if o.epoch() != firstEpoch+len(points) {
		return o.endDisturbed()
	}
	o.judgeCalls(otherReplica(leader), callsBefore)
	o.judgeHistory(successor, len(points))
	return true
}

// endDisturbed lets the procedure end after the lease moved without a kill, and judges what must hold
// whoever acts: the switch comes to be as wanted, and what runs at most once came once for each key.
func (o *takeover) endDisturbed() (planned bool) {
	o.Helper()
	o.device.hold("")
	o.Logf("the lease moved without a kill; the calls are %v", o.device.callsThatCame())
	anyReplica := o.replicas["first"]
	anyReplica.await("the switch is as wanted", o.reportSays(anyReplica, "fabric", `switch/s1 +in-sync`))
	times := map[deviceCall]int{}
	for _, call := range o.device.callsThatCame() {
		times[deviceCall{what: call.what, key: call.key}]++
	}
	for call, n := range times {
		if n > 1 && (call.what == "load" || call.what == "reboot") {
			o.Errorf("%s with the key %s came %d times", call.what, call.key, n)
		}
	}
	o.device.mutex.Lock()
	defer o.device.mutex.Unlock()
	if o.device.ports != "up" || o.device.firmware != "2" {
		o.Errorf("the ports are %s, with the firmware %s", o.device.ports, o.device.firmware)
	}
	return false
}

// judgeCalls that came to the switch: those between two kills are of one replica.
func (o *takeover) judgeCalls(last string, callsBefore []int) {
	o.Helper()
	calls := o.device.callsThatCame()
	leader := last
	for n := len(callsBefore); n >= 0; n-- {
		first, end := 0, len(calls)
		if n > 0 {
			first = callsBefore[n-1]
		}
		if n < len(callsBefore) {
			end = callsBefore[n]
		}
		for _, call := range calls[first:end] {
			if call.replica != leader {
				o.Errorf("after %d kills replica %s called, and %s acted: %v", n, call.replica, leader, call)
			}
		}
		leader = otherReplica(leader)
	}
	var steps, keys []string
	times := map[string]int{}
	for _, call := range calls {
		times[call.what]++
		if !slices.Contains(keys, call.key) {
			keys = append(keys, call.key)
			steps = append(steps, call.what)
		} else if steps[len(steps)-1] != call.what {
			o.Errorf("%v came again after another step", call)
		}
	}
	if want := []string{"drain", "load", "reboot", "look", "look", "check", "undrain"}; !slices.Equal(steps, want) {
		o.Errorf("the steps were %v, not %v", steps, want)
	}
	for _, once := range []string{"load", "reboot"} {
		if times[once] != 1 {
			o.Errorf("%s came %d times", once, times[once])
		}
	}
	o.device.mutex.Lock()
	defer o.device.mutex.Unlock()
	if o.device.mostUnderWay != 1 {
		o.Errorf("%d calls were under way at once", o.device.mostUnderWay)
	}
	if o.device.ports != "up" || o.device.firmware != "2" {
		o.Errorf("the ports are %s, with the firmware %s", o.device.ports, o.device.firmware)
	}
	if o.Failed() {
		o.Logf("the calls were %v; kills came after %v", calls, callsBefore)
	}
}

// judgeHistory that a person is shown: of one run, in one push more than there were kills.
func (o *takeover) judgeHistory(w *world, kills int) {
	o.Helper()
	pushes, err := w.lehr("get", "pushes", "-p", "fabric")
	if n := strings.Count(pushes, " settled "); n != kills || strings.Count(pushes, " pushed ") != 1 || err != nil {
		o.Errorf("after %d kills the pushes are (%v):\n%s", kills, err, pushes)
	}
	last := regexp.MustCompile(`fabric/\S+`).FindString(pushes)
	for _, c := range []struct {
		arguments []string
		patterns  []string
	}{
		{[]string{"why", "switch/s1", "-p", "fabric"}, []string{`switch/s1 is in-sync`, `current: +in sync`}},
		{[]string{"describe", "push", last, "-p", "fabric"}, []string{`ending: +pushed`, `run: run 1 at switch at \w+ → run 1 to its end`}},
		{[]string{"audit", "verify", "--database", o.url}, nil},
	} {
		printed, err := w.lehr(c.arguments...)
		if missing := unmatched(printed, c.patterns...); missing != "" || err != nil {
			o.Errorf("lehr %s: %v %s", strings.Join(c.arguments, " "), err, missing)
		}
	}
}

// callSwitchAs has a replica's plugin name the replica in all that it calls: the program that the
// server finds is a script with the replica's own list.
func (w *world) callSwitchAs(name, address string) {
	w.Helper()
	folder := w.TempDir()
	list := filepath.Join(folder, "endpoints.yaml")
	w.write(list, fmt.Sprintf(`http-endpoints: v1
endpoints:
- {name: fabric, url: %q, profile: calls, partitions: [fabric], requests_per_second: 200, timeout: 2s, headers: [{name: X-Replica, value: %s}]}
`, address, name))
	program := filepath.Join(folder, "lehr-workflow")
	w.write(program, fmt.Sprintf("#!/bin/sh\nexec %s --endpoints %s \"$@\"\n", filepath.Join(w.programs, "procedures", "lehr-workflow"), list))
	if err := os.Chmod(program, 0o700); err != nil {
		w.Fatal(err)
	}
	w.environment = append(w.environment, "PATH="+folder+":"+os.Getenv("PATH"))
}
