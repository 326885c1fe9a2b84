package fetch

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/prodspec/source"
)

// A source is looked at again and again, whatever the jitter, and its owner is
// woken when it changes or begins to fail, and not else.
func TestLooksGoOn(t *testing.T) {
	var asked, version atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if version.Load() < 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"version": %d}`, version.Load())
	})
	remote := overHTTP(s.URL)
	remote.Every = source.EveryAtLeast
	r := newReader(t, remote, "limits.json")
	woken := make(chan struct{}, 1000)
	r.options.Mode, r.options.Runtime = Polled, hasty{Runtime: r.options.Runtime, patient: true}
	r.options.Wake = func() { woken <- struct{}{} }
	folder, err := Open(r.options, "service", "/home/service", remote, r.files, r.limits)
	if err != nil {
		t.Fatal(err)
	}
	r.folder = folder
	r.holds(map[string]string{"limits.json": `{"version": 0}`})
	for deadline := time.Now().Add(time.Minute); asked.Load() < 50; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it was looked at %d times", asked.Load())
		}
	}
	if len(woken) > 0 {
		t.Errorf("woken %d times though nothing changed", len(woken))
	}
	wake := func(what string) {
		t.Helper()
		select {
		case <-woken:
		case <-time.After(time.Minute):
			t.Fatalf("not woken when %s", what)
		}
	}
	version.Store(1)
	wake("it changed")
	r.holds(map[string]string{"limits.json": `{"version": 1}`})
	version.Store(-1)
	wake("it began to fail")
	r.stays(map[string]string{"limits.json": `{"version": 1}`}, "500")
	version.Store(1)
	wake("it was mended")
	r.holds(map[string]string{"limits.json": `{"version": 1}`})
	folder.Close()
	before := asked.Load()
	folder.Hint()
	if asked.Load() != before {
		t.Error("it is looked at though it was closed")
	}
}
