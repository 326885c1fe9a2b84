package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Faults that can be ordered of a switch.
const (
	// rebootHangs: it never comes back.
	rebootHangs = "reboot-hangs"
	// firmwareRefused: it takes no firmware.
	firmwareRefused = "firmware-refused"
	// verifyFails: it comes back, and does not forward.
	verifyFails = "verify-fails"
	// answerLost: it reboots, and the answer to that is lost.
	answerLost = "answer-lost"
	// answerHeld: it reboots, and the answer to that comes when the caller has gone.
	answerHeld = "answer-held"
)

var faultNames = []string{rebootHangs, firmwareRefused, verifyFails, answerLost, answerHeld}

// switchCount is how many there are: s01 to s10 in row a, s11 to s20 in row b.
const switchCount = 20

// fabric is all switches, and the pager.
type fabric struct {
	reboot time.Duration

	mutex    sync.Mutex
	switches map[string]*device
	pages    []page
	// effects counts all calls that changed something, mostOut by row how many switches were out of
	// service at a time.
	effects int
	mostOut map[string]int
}

// device is a switch.
type device struct {
	Name     string `json:"name"`
	Row      string `json:"row"`
	Firmware string `json:"firmware"`
	// Loaded is what the next reboot starts.
	Loaded string `json:"loaded"`
	// Ports are up, drained, or isolated by an upgrade that failed.
	Ports string `json:"ports"`
	// State is up, rebooting or hung.
	State   string `json:"state"`
	Reboots int    `json:"reboots"`
	Fault   string `json:"fault,omitempty"`
	until   time.Time
}

// page is what somebody was told.
type page struct {
	Switch string `json:"switch"`
	Text   string `json:"text"`
}

// summary of the fabric.
type summary struct {
	Switches []*device      `json:"switches"`
	Pages    []page         `json:"pages"`
	Effects  int            `json:"effects"`
	MostOut  map[string]int `json:"most_out_of_service"`
}

func newFabric(reboot time.Duration) *fabric {
	f := &fabric{reboot: reboot, switches: map[string]*device{}, pages: []page{}, mostOut: map[string]int{}}
	for i := 1; i <= switchCount; i++ {
		row := "a"
		if i > switchCount/2 {
			row = "b"
		}
		name := fmt.Sprintf("s%02d", i)
		f.switches[name] = &device{Name: name, Row: row, Firmware: "1.0", Loaded: "1.0", Ports: "up", State: "up"}
	}
	return f
}

// order a fault of a switch, or none.
func (f *fabric) order(name, fault string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	s := f.switches[name]
	if s == nil || fault != "" && !slices.Contains(faultNames, fault) {
		return false
	}
	s.Fault = fault
	return true
}

// ServeHTTP answers /switches/NAME and below, /pager/pages, and / with a summary.
func (f *fabric) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	switch {
	case err != nil:
		http.Error(w, "the request broke off", http.StatusBadRequest)
	case r.URL.Path == "/":
		f.mutex.Lock()
		defer f.mutex.Unlock()
		answer(w, f.summarize())
	case r.URL.Path == "/pager/pages":
		f.page(w, r.Method, body)
	case parts[0] == "switches" && len(parts) == 2 && r.Method == http.MethodGet:
		f.show(w, parts[1])
	case parts[0] == "switches" && len(parts) == 3:
		f.act(w, r, parts[1], parts[2], body)
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (f *fabric) summarize() summary {
	all := summary{Pages: f.pages, Effects: f.effects, MostOut: f.mostOut}
	for _, s := range f.switches {
		s.settle(time.Now())
		all.Switches = append(all.Switches, s)
	}
	slices.SortFunc(all.Switches, func(a, b *device) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (f *fabric) page(w http.ResponseWriter, method string, body []byte) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if method == http.MethodGet {
		answer(w, f.pages)
		return
	}
	var p page
	if json.Unmarshal(body, &p) != nil || p.Switch == "" {
		http.Error(w, `{"error": "write {\"switch\": NAME, \"text\": TEXT}"}`, http.StatusUnprocessableEntity)
		return
	}
	f.pages = append(f.pages, p)
	f.effects++
	answer(w, p)
}

func (f *fabric) show(w http.ResponseWriter, name string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	s := f.switches[name]
	if s == nil {
		http.Error(w, `{"error": "no such switch"}`, http.StatusNotFound)
		return
	}
	s.settle(time.Now())
	answer(w, s)
}

// settle a reboot whose time has passed.
func (s *device) settle(now time.Time) {
	if s.State == "rebooting" && !now.Before(s.until) {
		s.State, s.Firmware = "up", s.Loaded
		if s.Fault == rebootHangs {
			s.State = "hung"
		}
	}
}

// act on a switch.
func (f *fabric) act(w http.ResponseWriter, r *http.Request, name, what string, body []byte) {
	f.mutex.Lock()
	s := f.switches[name]
	if s == nil {
		f.mutex.Unlock()
		http.Error(w, `{"error": "no such switch"}`, http.StatusNotFound)
		return
	}
	s.settle(time.Now())
	if what == "check" && r.Method == http.MethodGet {
		passed := s.State == "up" && s.Fault != verifyFails
		f.mutex.Unlock()
		answer(w, map[string]bool{"passed": passed})
		return
	}
	fault := s.Fault
	status, problem := f.change(s, what, body)
	if status == http.StatusOK {
		f.effects++
		f.countOut()
	}
	shown := *s
	f.mutex.Unlock()
	switch {
	case status != http.StatusOK:
		http.Error(w, fmt.Sprintf(`{"error": %q}`, problem), status)
	case what == "reboot" && fault == answerLost:
		panic(http.ErrAbortHandler) // The connection ends without an answer.
	case what == "reboot" && fault == answerHeld:
		<-r.Context().Done()
	default:
		answer(w, shown)
	}
}

func (f *fabric) change(s *device, what string, body []byte) (status int, problem string) {
	switch {
	case what == "fault":
		var given struct{ Fault string }
		if json.Unmarshal(body, &given) != nil || given.Fault != "" && !slices.Contains(faultNames, given.Fault) {
			return http.StatusUnprocessableEntity, "write {\"fault\": NAME} with one of " + strings.Join(faultNames, ", ")
		}
		s.Fault = given.Fault
	case what == "isolate":
		s.Ports = "isolated"
	case s.State == "hung":
		return http.StatusConflict, "it does not answer its console"
	case what == "drain":
		s.Ports = "drained"
	case what == "undrain" && s.State == "up":
		s.Ports = "up"
	case what == "firmware":
		var given struct{ Version string }
		if json.Unmarshal(body, &given) != nil || given.Version == "" || s.Fault == firmwareRefused {
			return http.StatusUnprocessableEntity, "the image is refused"
		}
		s.Loaded = given.Version
	case what == "reboot" && s.Ports != "up":
		s.State, s.until = "rebooting", time.Now().Add(f.reboot)
		s.Reboots++
	case what == "reboot":
		return http.StatusConflict, "it forwards traffic: drain it first"
	case what == "undrain":
		return http.StatusConflict, "it is rebooting"
	default:
		return http.StatusNotFound, "there is nothing of that name"
	}
	return http.StatusOK, ""
}

// countOut counts the switches out of service, by row.
func (f *fabric) countOut() {
	out := map[string]int{}
	for _, s := range f.switches {
		if s.Ports != "up" {
			out[s.Row]++
		}
	}
	for row, n := range out {
		f.mostOut[row] = max(f.mostOut[row], n)
	}
}
