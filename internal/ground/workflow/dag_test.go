package workflow

import "testing"

// graph is a workflow as a graph of steps: one rule for all of them. A step runs when all
// before it are done; the graph is over when every step is done.
type graph map[string][]string

// settle runs steps that may run, with the outcomes that they will have, and says which are
// done, and whether the graph is over.
func (g graph) settle(outcomes map[string]Outcome) (done map[string]bool, over bool) {
	done = map[string]bool{}
	for range g {
		for step, before := range g {
			ready := true
			for _, other := range before {
				ready = ready && done[other]
			}
			if ready && outcomes[step] == OutcomeDone {
				done[step] = true
			}
		}
	}
	return done, len(done) == len(g)
}

// deployment is the same course as machines: deploy, and verify; a clean-up runs only if the
// verification fails, which is a rule of its own.
const deployment = `workflow: v1
name: deployment
machines:
  deploy:
    initial: doing
    states: {doing: {action: {edit: {document: web, field: /v, value: "2"}, runs: at-least-once, leaves: v2}}, done: {end: success}, failed: {end: failure}}
    transitions: [{from: doing, to: done, on: done}, {from: doing, to: failed, on: failed}]
  verify:
    initial: idle
    states: {idle: {end: neutral}, doing: {action: {ask: {url: "https://web/ready"}, runs: at-least-once}}, done: {end: success}, failed: {end: failure}}
    transitions: [{from: idle, to: doing, when: 'machines.deploy == "done"'}, {from: doing, to: done, on: done}, {from: doing, to: failed, on: failed}]
  clean:
    initial: idle
    states: {idle: {end: neutral}, doing: {retreat: true, action: {edit: {document: web, field: /v, value: "1"}, runs: at-least-once, undoes: v2}}, done: {end: success}, failed: {end: failure, accepts: v2}}
    transitions:
      - {from: idle, to: doing, when: 'machines.deploy == "failed" || machines.verify == "failed" || cancelled'}
      - {from: doing, to: done, on: done}
      - {from: doing, to: failed, on: failed}
`

// TestGraphLimits holds machines beside a graph of steps at the two limits that the paper on
// intent-based actuation names: one rule for all steps, and an end that is hard to determine.
func TestGraphLimits(t *testing.T) {
	steps := graph{"deploy": nil, "verify": {"deploy"}, "clean": {"verify"}}
	d := must(t, deployment)
	if report := d.Check(DefaultLimit); len(report.Findings) > 0 {
		t.Errorf("the machines have %+v", report.Findings)
	}
	for name, c := range map[string]struct {
		outcomes map[string]Outcome
		// cleansGraph, overGraph: what a graph of steps does.
		cleansGraph, overGraph bool
		clean                  string
		end                    EndOutcome
	}{
		// Rules apply to all steps: in a graph the clean-up comes after a success, too.
		"all goes well": {map[string]Outcome{"deploy": OutcomeDone, "verify": OutcomeDone, "clean": OutcomeDone}, true, true, "idle", EndSuccess},
		// And never after a failure, where it is needed; and the graph is not over, nor can it go on.
		"verify fails":   {map[string]Outcome{"deploy": OutcomeDone, "verify": OutcomeFailed, "clean": OutcomeDone}, false, false, "done", EndFailure},
		"deploy fails":   {map[string]Outcome{"deploy": OutcomeFailed, "verify": OutcomeDone, "clean": OutcomeDone}, false, false, "done", EndFailure},
		"clean-up fails": {map[string]Outcome{"deploy": OutcomeDone, "verify": OutcomeFailed, "clean": OutcomeFailed}, false, false, "failed", EndFailure},
	} {
		t.Run(name, func(t *testing.T) {
			done, over := steps.settle(c.outcomes)
			if done["clean"] != c.cleansGraph || over != c.overGraph {
				t.Errorf("the graph cleans up: %t, is over: %t", done["clean"], over)
			}
			r := begin(t, d, nil)
			for i := 0; i < 10 && r.Run.End == nil; i++ {
				for m, standing := range r.Run.Machines {
					if standing.Action != nil {
						r.step(answered(standing.Action.Key, c.outcomes[d.Machines[m].Name]))
						break
					}
				}
			}
			r.expect("clean", c.clean).ends(c.end)
		})
	}
}
