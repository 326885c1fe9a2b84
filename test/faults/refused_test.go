package faults

import (
	"os"
	"testing"

	"lehr.dev/test/faults/production"
)

// What no partition may say is refused with the place, before anything is
// touched; what was served goes on.
func TestCandidatesRefused(t *testing.T) {
	const payload = "            base_port = job[\"port\"],\n        ),\n"
	on := func(asset string) string {
		return payload + `        addons = [lehr.intent.v1.Dependencies(dependencies = [
            lehr.intent.v1.Dependency(on = "` + asset + `", rule = "RULE_ORDER"),
        ])],
`
	}
	for name, c := range map[string]struct {
		added string
		told  []string
	}{
		"dependency on nothing":           {on("resource/none"), []string{`resource/none`, `web\.star`}},
		"dependency on another partition": {on("other/resource/x"), []string{`other/resource/x`, `web\.star`}},
		"everything unmanaged": {payload + `        addons = [lehr.intent.v1.Unmanaged(fields = [
            lehr.intent.v1.UnmanagedField(path = "*", reason = "nobody knows"),
        ])],
`, []string{`everything`, `OBSERVE|observe`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, partition{name: "refused", plugins: "Job: {run: lehr-process}\n  Command: {run: lehr-command}"})
			other := t.TempDir()
			w.define(other, partition{name: "other"})
			w.wantIn(other, values{"x": 1})
			w.jobs["web"] = job{Replicas: 1}
			w.want(values{"a": 1})
			w.serve("-p", other+"/lehr.yaml")
			w.converges(values{"a": 1, "x": 1})
			w.await("the process runs", w.runs(1))
			before := w.pids()
			w.edit(w.folder+"/web.star", payload, c.added)
			w.want(values{"a": 2})
			told := ""
			w.untouched("it is refused", values{"a": 1}, func() string {
				told, _ = w.lehr("describe", "candidate", "-p", "refused")
				return unmatched(told, append(c.told, `rejected`)...)
			})
			t.Log(told)
			// What is served is still enforced, and the other partition goes on.
			w.write(production.ValuePath(w.production, "a"), "77\n")
			w.wantIn(other, values{"x": 2})
			w.converges(values{"a": 1, "x": 2})
			if after := w.pids(); len(after) != 1 || after[0] != before[0] {
				t.Errorf("the processes were %v and are %v", before, after)
			}
		})
	}
}

// A plugin that lies harms only the assets that it is asked about.
func TestPluginThatLies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "lies", plugins: "Command: {run: lehr-command}\n  " + misbehaving(t, "Job", "lying")})
	w.jobs = map[string]job{"stranger": {Replicas: 1}, "nan": {Replicas: 1}, "endless": {Replicas: 1}}
	w.want(values{"a": 1, "b": 1})
	w.serve()
	for asset, patterns := range map[string][]string{
		"job/stranger": {`plugin`, `resource/a|did not answer|asset`},
		"job/nan":      {`NaN|not a number|finite`},
		"job/endless":  {`and so on`},
	} {
		told := w.awaitTold(asset, patterns...)
		t.Logf("%s: %.900s", asset, told)
		const most = 20_000
		if len(told) > most {
			t.Errorf("why %s is told in %d bytes", asset, len(told))
		}
	}
	for value := range 4 {
		w.want(values{"a": value + 2, "b": 1})
		w.converges(values{"a": value + 2, "b": 1})
	}
	w.awaitTold("resource/a", `production is as lies@5 says`)
	if tasks := w.tasks(); len(tasks) > 0 {
		t.Errorf("processes %v run", tasks)
	}
	for _, push := range w.journal("lies") {
		if push.Asset[:4] == "job/" {
			t.Errorf("it was pushed: %v", push)
		}
	}
	if size, err := os.Stat(w.store); err != nil || size.Size() > 10<<20 {
		t.Errorf("the store has %v bytes %s", size, text(err))
	}
}
