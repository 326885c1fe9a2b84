package rollouts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// TestRollouts tells one story, of which each part begins where the one before ended.
func TestRollouts(t *testing.T) {
	if testing.Short() {
		t.Skip("rolls real processes out")
	}
	w := newWorld(t)
	for _, part := range []struct {
		what string
		tell func(*world)
	}{
		{"a good release reaches all, over a server that is killed", good},
		{"a release with errors is stopped at the canary", failing},
		{"a slow leak is found below its limit", leaking},
		{"without Prometheus a release is neither good nor bad", blind},
		{"a release and a flag of the same jobs go their own ways", together},
	} {
		t.Run(part.what, func(t *testing.T) {
			now := *w
			now.T = t
			before, began := w.users.got(), time.Now()
			part.tell(&now)
			t.Logf("within %s %s", time.Since(began).Round(time.Second), w.users.got().less(before))
			w.server, w.prometheus = now.server, now.prometheus
		})
		if t.Failed() {
			return
		}
	}
}

// good: a release goes through all ten clusters, and no stage is let go on before the
// one before it is done, though the server is killed while the second soaks.
func good(w *world) {
	w.release("v2")
	before := w.follow("the second stage soaks", func(run *apipb.RolloutRun) string {
		s := stage(run, "two")
		for _, a := range s.Assets {
			if a.State != "soaking" {
				return fmt.Sprintf("it does not soak: %v", s)
			}
		}
		if len(s.Assets) != 2 {
			return fmt.Sprintf("it has not begun: %v", s)
		}
		return ""
	})
	w.server.end(syscall.SIGKILL)
	if missing := runs(w.service, w.drain, func(of string) string {
		if of < cluster(3) {
			return "v2"
		}
		return "v1"
	}); missing != "" {
		w.Error(missing)
	}
	w.serve()
	after := w.follow("the run is known again", func(run *apipb.RolloutRun) string {
		if run.Run == 0 {
			return "it is not"
		}
		return ""
	})
	if after.Run != before.Run || after.To != before.To || !after.Began.AsTime().Equal(before.Began.AsTime()) || len(after.Events) < len(before.Events) ||
		!stage(after, "two").Began.AsTime().Equal(stage(before, "two").Began.AsTime()) {
		w.Errorf("the server that was killed lost something: %v, before %v", after, before)
	}
	w.watcher.exposed(w.T, "v2", "c0", "c1", "c2")
	done := w.becomes(before.Run-1, "done")
	if was, is := verdict(before, "canary"), verdict(done, "canary"); was.Result != "good" || was.Record == "" || !is.At.AsTime().Equal(was.At.AsTime()) || is.Record != was.Record {
		w.Errorf("it is asked again what was found of the canary: %v, before %v", is, was)
	}
	w.runs("v2", "v2")
	ran := w.watcher.ever("v2")
	for name, order := range map[string]struct{ of, after string }{"c1": {"two", "canary"}, "c2": {"two", "canary"}, "c3": {"rest", "two"}, "c9": {"rest", "two"}} {
		if ended := firstDone(done, order.after); ran[name].Before(ended) {
			w.Errorf("%s, of stage %s, ran v2 at %s, and %s was done at %s", name, order.of, ran[name], order.after, ended)
		}
	}
	w.suffered(0)
}

// failing: of a release that fails one search in twenty, users get few failures, and
// it never leaves the canary.
func failing(w *world) {
	before, last := w.users.got(), w.run().Run
	w.release("v3", "--fail=0.05")
	run := w.becomes(last, "rolled-back")
	w.runs("v2", "v2")
	if !strings.Contains(run.Bad, "the validation users of the stage canary") || !strings.Contains(run.Bad, "errors") {
		w.Errorf("it was bad for %q", run.Bad)
	}
	w.watcher.exposed(w.T, "v3", "c0")
	got := w.users.got().less(before)
	if got.failed == 0 || got.share() > 0.01 {
		w.Errorf("users: %s", got)
	}
}

// leaking: a release becomes slower and slower, far below the limit of 0.25 s.
func leaking(w *world) {
	last := w.run().Run
	w.release("v4", "--leak=6ms")
	run := w.becomes(last, "rolled-back")
	w.runs("v2", "v2")
	if !strings.Contains(run.Bad, "latency") {
		w.Errorf("it was bad for %q", run.Bad)
	}
	said := map[string]string{}
	for _, m := range verdict(run, "canary").Metrics {
		said[m.Name] = m.Result + ": " + m.Reason
	}
	if !strings.HasPrefix(said["latency"], "bad") || !strings.HasPrefix(said["limit"], "good") {
		w.Errorf("the metrics say %v", slices.Sorted(maps.Values(said)))
	}
	w.Logf("latency: %s; limit: %s", said["latency"], said["limit"])
	w.watcher.exposed(w.T, "v4", "c0")
	w.suffered(0)
}

// blind: Prometheus is killed while the canary is judged. The run waits, and says so,
// until it is back.
func blind(w *world) {
	number := w.run().Run + 1
	w.release("v5")
	w.follow("the canary soaks", func(run *apipb.RolloutRun) string {
		if s := stage(run, "canary"); run.Run != number || len(s.Assets) == 0 || s.Assets[0].State != "soaking" {
			return fmt.Sprintf("it does not soak: %v", s)
		}
		return ""
	})
	w.prometheus.end(syscall.SIGKILL)
	asked := map[time.Time]bool{}
	w.follow("the run waits for Prometheus, however often it asks", func(run *apipb.RolloutRun) string {
		v := verdict(run, "canary")
		switch {
		case run.State != "running":
			w.Fatalf("without Prometheus run %d is %s: %s", run.Run, run.State, lastEvent(run))
		case v.Result != "broken" || !strings.Contains(v.Reason, "did not answer") || !strings.Contains(run.Waits, "users, which is broken"):
			return fmt.Sprintf("the verdict is %s: %s", v.Result, v.Reason)
		}
		asked[v.At.AsTime()] = true
		if len(asked) < 2 {
			return "it was asked once"
		}
		return ""
	})
	if why := w.says("why", "frontend/c5"); !strings.Contains(why, "the validation users, which is broken") || !strings.Contains(why, "did not answer") {
		w.Errorf("why says %s", why)
	}
	if status := w.says("rollout", "status", "frontends"); !strings.Contains(status, "which is broken") || !strings.Contains(status, "did not answer") {
		w.Errorf("the status is %s", status)
	}
	w.watcher.exposed(w.T, "v5", "c0")
	w.watch()
	w.becomes(number-1, "done")
	w.runs("v5", "v5")
	w.suffered(0)
}

// together: while a flag soaks in its canary, a release begins in its own. Both reach
// all ten clusters, each by its stages, and then the flag is taken back alone.
func together(w *world) {
	before := w.drain
	w.drain = "300ms"
	w.orders("rollout", "start", "flags", "--to", w.drain, "--reason", "users are patient")
	w.follow("the flag is where it begins", func(*apipb.RolloutRun) string {
		if ran := w.watcher.ever(w.drain); len(ran) == 0 {
			return "it is nowhere"
		}
		return ""
	})
	w.release("v6")
	w.follow("both go on at once", func(release *apipb.RolloutRun) string {
		flag := w.runOf("flags")
		if ran := w.watcher.ever("v6"); len(ran) == 0 || release.State != "running" || flag.State != "running" {
			return fmt.Sprintf("v6 is in %v, its run is %s, and the flag's is %s", ran, release.State, flag.State)
		}
		return ""
	})
	w.watcher.exposed(w.T, "v6", "c0")
	w.watcher.exposed(w.T, w.drain, "c9")
	w.runs("v6", "v6")
	var flag *apipb.RolloutRun
	release := w.follow("both are done", func(release *apipb.RolloutRun) string {
		if flag = w.runOf("flags"); release.State != "done" || flag.State != "done" {
			return fmt.Sprintf("the release is %s, and the flag %s", release.State, flag.State)
		}
		return ""
	})
	const soak = 5 * time.Second
	for i := range clusters - 1 {
		if ran, ended := w.watcher.ever(w.drain)[cluster(i)], stage(flag, "canary").Ended.AsTime(); ran.Before(ended) {
			w.Errorf("%s ran with the flag at %s, and its canary was done at %s", cluster(i), ran, ended)
		}
	}
	for of, after := range map[string]string{"c1": "c0", "c2": "c0", "c3": "c1", "c9": "c1"} {
		if ran := w.watcher.ever("v6"); ran[of].Sub(ran[after]) < soak {
			w.Errorf("%s ran v6 at %s, and %s, which soaks for %s before, at %s", of, ran[of], after, soak, ran[after])
		}
	}
	w.Logf("the flag: %s; the release: %s", lastEvent(flag), lastEvent(release))
	w.drain = before
	w.orders("rollout", "rollback", "flags", "--reason", "users are not")
	w.runs("v6", "v6")
	w.suffered(0)
}

// suffered fails the test when more than a share of all requests until now failed, but
// those of the release that was made to.
func (w *world) suffered(share float64) {
	w.Helper()
	if got := w.users.got(); got.share() > share+0.01 {
		w.Errorf("users: %s", got)
	}
}
