package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/workflows"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/store"
)

// In runs with workflows, people release values in two steps: a run sets alpha, waits until that
// is enforced, soaks, asks a service and two people, at times waits for a signal, sets beta, and
// tells that it is done. What is refused, cancelled or fails is taken back.

// Disturbances of runs with workflows.
const (
	RunStarted    Kind = "somebody starts a run of a workflow"
	RunVoted      Kind = "people vote on a run"
	RunSignalled  Kind = "somebody gives a run its signal"
	RunCancelled  Kind = "somebody cancels a run"
	CourseEdited  Kind = "somebody sets what a run has set"
	CallsFail     Kind = "calls of runs go wrong"
	WorkflowPoint Kind = "a run is started, and something happens around one of its steps"
)

var workflowKinds = []weighed{{RunStarted, 60}, {RunVoted, 90}, {RunSignalled, 30}, {RunCancelled, 16}, {CourseEdited, 8}, {CallsFail, 14}, {WorkflowPoint, 40}}

const (
	// courseDocument has the fields that runs set; coursePrefix is how their assets are called.
	courseDocument, coursePrefix = "course", "course-"
	// courseSoak is between the two fields.
	courseSoak = time.Minute
)

// courseProgram makes an asset for each field.
const courseProgram = `
def generate(ctx):
    return [asset("course-" + name, lehr.command.v1.Command(diff = ["true"], push = ["true"], input = value))
            for name, value in json("course/course.json").items()]
`

// releaseWorkflow is what runs follow.
const releaseWorkflow = `workflow: v1
name: release
inputs:
  version: string
  careful: {type: bool, default: false}
signals: [go_on]
machines:
  alpha:
    initial: setting
    states:
      setting:
        action:
          edit: {document: course, field: /alpha, value: "${inputs.version}"}
          runs: at-least-once
          timeout: 15m
          leaves: alpha
      set: {end: success}
      undoing:
        retreat: true
        action:
          edit: {document: course, field: /alpha, value: "${inputs.version}-back"}
          runs: at-least-once
          undoes: alpha
      undone: {end: failure}
      unclear: {end: failure, retreat: true, accepts: alpha}
    transitions:
      - {from: setting, to: set, on: done}
      - {from: setting, to: undoing, on: [failed, expired]}
      - {from: [setting, set], to: undoing, when: cancelled}
      - {from: set, to: undoing, when: 'machines.approval == "refused" || machines.question == "bad" || machines.beta in ["undone", "unclear"]'}
      - {from: undoing, to: undone, on: done}
      - {from: undoing, to: unclear, on: failed}
  soak:
    initial: idle
    states:
      idle: {end: neutral}
      soaking:
        action: {wait: {for: 1m}}
      soaked: {end: neutral}
    transitions:
      - {from: idle, to: soaking, when: 'machines.alpha == "set"'}
      - {from: soaking, to: soaked, on: done}
  question:
    initial: idle
    states:
      idle: {end: neutral}
      asking:
        action: {ask: {url: "https://ci.example.com/well"}, runs: at-least-once, timeout: 10m, leaves: []}
      good: {end: neutral}
      bad: {end: failure}
    transitions:
      - {from: idle, to: asking, when: 'machines.alpha == "set"'}
      - {from: asking, to: good, on: done}
      - {from: asking, to: bad, on: [failed, expired]}
  approval:
    initial: idle
    states:
      idle: {end: neutral}
      asking:
        action: {person: {question: "Go on?", roles: [approver], quorum: 2}, timeout: 12m}
      given: {end: neutral}
      refused: {end: failure}
    transitions:
      - {from: idle, to: asking, when: 'machines.soak == "soaked"'}
      - {from: asking, to: given, on: approved}
      - {from: asking, to: refused, on: [refused, expired]}
  beta:
    initial: idle
    states:
      idle: {end: neutral}
      setting:
        action:
          edit: {document: course, field: /beta, value: "${inputs.version}"}
          runs: at-least-once
          timeout: 15m
          leaves: beta
      set: {end: success}
      undoing:
        retreat: true
        action:
          edit: {document: course, field: /beta, value: "${inputs.version}-back"}
          runs: at-least-once
          undoes: beta
      undone: {end: failure}
      unclear: {end: failure, retreat: true, accepts: beta}
    transitions:
      - {from: idle, to: setting, when: 'machines.alpha == "set" && machines.approval == "given" && machines.question == "good" && (signals.go_on || !inputs.careful)'}
      - {from: setting, to: set, on: done}
      - {from: setting, to: undoing, on: [failed, expired]}
      - {from: [setting, set], to: undoing, when: cancelled}
      - {from: undoing, to: undone, on: done}
      - {from: undoing, to: unclear, on: failed}
  word:
    initial: idle
    states:
      idle: {end: neutral}
      telling:
        action: {tell: {url: "https://ci.example.com/released", body: "${inputs.version}"}, runs: at-most-once, timeout: 5m, leaves: []}
      told: {end: neutral}
      unknown: {end: neutral}
    transitions:
      - {from: idle, to: telling, when: 'machines.beta == "set"'}
      - {from: telling, to: told, on: done}
      - {from: telling, to: unknown, on: [failed, unknown, expired]}
`

// Releases reports whether workflows run in runs of a seed.
func Releases(seed uint64) bool { return seed%27 == 11 }

// releases reports whether they do in this run.
func (l *Lab) releases() bool { return l.options.Definition == "" && Releases(l.options.Seed) }

// courseOfRuns is what the Lab remembers of runs of workflows.
type courseOfRuns struct {
	// started counts them.
	started int
	// troubles of the calls that arrive next.
	troubles []string
}

// isOfCourse reports whether an asset is made of what runs set.
func (l *Lab) isOfCourse(asset intent.AssetID) bool {
	return l.releases() && strings.HasPrefix(string(asset), coursePrefix)
}

// addWorkflow adds the workflow, and what it sets, to a definition.
func addWorkflow(text string) string {
	text = strings.Replace(text, "generate:\n", "  course: {document: course}\ngenerate:\n  fields: {starlark: course.star, from: [course]}\n", 1)
	return text + "workflows:\n  release: {file: release.yaml}\n"
}

// watchedCourse is what the monitor is to know of it; nil: no workflow runs.
func (l *Lab) watchedCourse() *monitor.Course {
	if !l.releases() {
		return nil
	}
	return &monitor.Course{Document: courseDocument, Prefix: coursePrefix, Soak: courseSoak}
}

// keepCourse makes the document where there is none, and lets runs come to their end once all is
// healed.
func (p person) keepCourse() error {
	if !p.releases() {
		return nil
	}
	_, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: string(p.partition), Name: courseDocument})
	if fault.Is(err, fault.NotFound) {
		text, marshalErr := json.Marshal(map[string]string{"alpha": "v0", "beta": "v0"})
		if marshalErr != nil {
			return marshalErr
		}
		_, err = p.c.Documents.CreateDocument(p.ctx, &apipb.CreateDocumentRequest{Partition: string(p.partition), Name: courseDocument, Content: string(text), Reason: "begun"})
	}
	if err != nil || !p.healing {
		return err
	}
	runs, err := p.openRuns()
	for _, run := range runs {
		_ = p.signalRun(run)
		for _, name := range everybody[:2] {
			_ = p.as(name).voteOnRun(run, true)
		}
	}
	return err
}

// openRuns lists the numbers of the runs that go on.
func (p person) openRuns() (numbers []uint64, err error) {
	list, err := p.c.Workflows.ListWorkflowRuns(p.ctx, &apipb.ListWorkflowRunsRequest{Partition: string(p.partition), OpenOnly: true})
	if err != nil {
		return nil, err
	}
	for _, run := range list.Runs {
		numbers = append(numbers, run.Number)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// someRun is one that goes on; ok: there is one.
func (p person) someRun() (number uint64, ok bool, err error) {
	runs, err := p.openRuns()
	if err != nil || len(runs) == 0 {
		return 0, false, err
	}
	return runs[p.r.IntN(len(runs))], true, nil
}

// startRun has somebody start a run. Where no answer comes it is started again by the same name.
func (p person) startRun() error {
	runs, err := p.openRuns()
	const most = 3
	if err != nil || len(runs) >= most {
		return err
	}
	p.workflows.started++
	value, careful := fmt.Sprintf("v%d", p.workflows.started), p.r.IntN(3) == 0
	p.Monitor.RunAsked(value, careful)
	for range 3 {
		var started *apipb.StartRunResponse
		started, err = p.c.Workflows.StartRun(p.ctx, &apipb.StartRunRequest{
			Partition: string(p.partition), Workflow: "release", Request: value, Reason: "it is time",
			Inputs: map[string]string{"version": value, "careful": fmt.Sprint(careful)},
		})
		p.tell("%s: a run sets %s, careful: %v (%v)", p.d, value, careful, err)
		if err == nil {
			p.attendRun(started.Run.Number, careful)
		}
		if err == nil || !fault.Is(err, fault.Unavailable) || p.people.Wait(p.ctx, time.Second, nil) != nil {
			break
		}
		p.mark("workflow: a start is repeated")
	}
	return err
}

// attendRun has people say to a run, in the minutes to come, what such runs are mostly told.
func (p person) attendRun(run uint64, careful bool) {
	say := func(at time.Duration, do func(p person) error) {
		p.after(at, func() {
			if replica := p.anyone(); replica != nil && replica.Client != nil {
				_ = do(p.named(replica, somebody, p.d, p.r))
			}
		})
	}
	votes := func(approve bool, names ...string) {
		at := time.Duration(p.r.IntN(120)) * time.Second
		for i := range 4 * len(names) { // Some come before they are asked for, or while nothing answers.
			name := names[i%len(names)]
			say(at, func(p person) error { return p.as(name).voteOnRun(run, approve) })
			at += time.Duration(5+p.r.IntN(40)) * time.Second
		}
	}
	switch lot := p.r.IntN(12); {
	case lot < 7:
		votes(true, "ann", "bob")
	case lot == 7:
		votes(true, "ann")
	case lot == 8:
		votes(false, "carol")
	case lot < 11:
		votes(true, "ann", "bob")
		say(time.Duration(p.r.IntN(240))*time.Second, func(p person) error { return p.cancelRun(run) })
	}
	if careful && p.r.IntN(5) > 0 {
		say(time.Duration(p.r.IntN(300))*time.Second, func(p person) error { return p.signalRun(run) })
	}
}

// voteOnSome has one, two or three people say what they think of a run.
func (p person) voteOnSome() error {
	run, ok, err := p.someRun()
	if err != nil || !ok {
		return err
	}
	var last error
	for _, name := range everybody[:1+p.r.IntN(3)] {
		if err := p.as(name).voteOnRun(run, p.r.IntN(10) > 0); err != nil {
			last = err
		}
	}
	return last
}

func (p person) voteOnRun(run uint64, approve bool) error {
	return p.insists(func() error {
		vote := p.Monitor.RunVoteAsked(run, p.name, approve)
		_, err := p.c.Workflows.VoteOnRun(p.ctx, &apipb.VoteOnRunRequest{Partition: string(p.partition), Number: run, Approve: approve, Reason: "I have looked"})
		if err == nil {
			p.Monitor.RunVoteAnswered(vote)
			p.mark(fmt.Sprintf("workflow: a vote: %v", approve))
		}
		return err
	})
}

// onSomeRun does something to a run that goes on, if there is one.
func (p person) onSomeRun(do func(run uint64) error) error {
	run, ok, err := p.someRun()
	if err != nil || !ok {
		return err
	}
	return do(run)
}

func (p person) signalSome() error { return p.onSomeRun(p.signalRun) }

func (p person) signalRun(run uint64) error {
	return p.insists(func() error {
		p.Monitor.RunSignalAsked(run)
		_, err := p.c.Workflows.SignalRun(p.ctx, &apipb.SignalRunRequest{Partition: string(p.partition), Number: run, Signal: "go_on", Reason: "all is well"})
		if err == nil {
			p.Monitor.RunSignalAnswered(run)
			p.mark("workflow: a signal")
		}
		return err
	})
}

func (p person) cancelSome() error { return p.onSomeRun(p.cancelRun) }

func (p person) cancelRun(run uint64) error {
	return p.insists(func() error {
		p.Monitor.RunCancelAsked(run)
		_, err := p.c.Workflows.CancelRun(p.ctx, &apipb.CancelRunRequest{Partition: string(p.partition), Number: run, Reason: "I have my reasons"})
		p.tell("%s: run %d (%v)", p.d, run, err)
		if err == nil {
			p.Monitor.RunCancelAnswered(run)
			p.mark("workflow: a cancel")
		}
		return err
	})
}

// editCourse has somebody set a field beside the runs.
func (p person) editCourse() error {
	field := []string{"alpha", "beta"}[p.r.IntN(2)]
	p.tell("%s: %s", p.d, field)
	p.mark("workflow: a field is set by a person")
	return p.setDocument(courseDocument, "/"+field, fmt.Sprintf("%q", fmt.Sprintf("p%d", p.r.IntN(1000))))
}

// Troubles of calls.
var callTroubles = []string{"fails", "is busy", "hangs", "loses the answer", "is slow", "loses its caller"}

func (l *Lab) callsFail(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "program")
	for range 1 + r.IntN(3) {
		l.workflows.troubles = append(l.workflows.troubles, callTroubles[r.IntN(len(callTroubles))])
	}
	l.tell("%s: %v", d, l.workflows.troubles)
}

// workflowPoint has a run started, and the process die or stand still around a step, or an answer
// of the store be lost, or a person cancel between a decision and its step.
func (l *Lab) workflowPoint(d Disturbance, r *rand.Rand) {
	const around, point = 5 * time.Minute, "workflow"
	switch r.IntN(5) {
	case 0:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: KillAtPoint, Point: point, Seed: d.Seed}, r.IntN(12)})
	case 1:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: PauseAtPoint, Point: point, Length: 20 * time.Second, Seed: d.Seed}, r.IntN(12)})
	case 2:
		// The first step sets a field.
		then := []Kind{RunCancelled, RunVoted, RunSignalled, PersonStop, PersonStop}[r.IntN(5)]
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: Meanwhile, Then: then, Point: point, Length: 5 * time.Second, Seed: d.Seed}, r.IntN(6)})
	default:
		only := []string{"StepWorkflow", "StepWorkflowAs", "StartWorkflow"}[r.IntN(3)]
		l.store.refuse, l.store.lose, l.store.only, l.store.left = false, true, only, 1+r.IntN(4)
		l.after(around, func() {
			if l.store.only == only {
				l.store = storeTrouble{}
			}
		})
	}
	l.after(around, func() {
		l.armed = slices.DeleteFunc(l.armed, func(a armed) bool { return a.d.Number == d.Number })
	})
	l.person(Disturbance{Number: d.Number, At: d.At, Kind: RunStarted, Seed: d.Seed}, r)
}

// call is what receives the requests of runs.
func (r *Replica) call(ctx context.Context, c workflows.Call) (workflows.Answer, error) {
	l := r.lab
	l.Monitor.CallArrived(c.Key, c.Method != http.MethodGet)
	trouble := ""
	if t := &l.workflows.troubles; len(*t) > 0 && !l.healing {
		trouble, *t = (*t)[0], (*t)[1:]
		l.mark("workflow: a call " + trouble)
	}
	length := time.Duration(l.stream("calls").Int64N(int64(3 * time.Second)))
	switch trouble {
	case "hangs":
		length = -1
	case "is slow":
		length = 20 * time.Second
	case "loses its caller":
		length = time.Minute
		l.people.Go("a caller dies", func() {
			if l.people.Wait(l.ctx, 500*time.Millisecond, nil) == nil && r.Alive() {
				r.Kill("it calls")
			}
		})
	}
	if err := r.Wait(ctx, length, nil); err != nil {
		return workflows.Answer{}, err
	}
	switch trouble {
	case "fails":
		return workflows.Answer{Status: http.StatusNotFound}, nil
	case "is busy":
		return workflows.Answer{Status: http.StatusServiceUnavailable}, fault.New(fault.Unavailable, "it answered with status 503")
	}
	l.Monitor.CallWasGood(c.Key)
	if trouble == "loses the answer" {
		return workflows.Answer{}, fault.New(fault.Unavailable, "the connection was lost")
	}
	return workflows.Answer{Status: http.StatusOK}, nil
}

// runStepped marks what came of a step.
func (l *Lab) runStepped(step store.WorkflowStep, stored intent.WorkflowRun, err error) {
	switch {
	case fault.Is(err, fault.Conflict):
		l.mark("workflow: somebody was faster")
	case err != nil:
	case step.Edit != nil:
		l.mark("workflow: a document is edited")
	case !stored.Ended.IsZero():
		l.tell("run %d ended: %s", stored.Number, stored.Outcome)
		l.mark("workflow: ended: " + stored.Outcome)
	}
}

// openRun says which run goes on that nothing holds; empty: none does. A timer that began on a
// clock that was ahead is due by that clock.
func (l *Lab) openRun() string {
	if !l.releases() {
		return ""
	}
	runs, err := l.reading.WorkflowRuns(l.ctx, l.partition, store.WorkflowFilter{Open: true, Limit: 1})
	switch {
	case err != nil:
		return err.Error()
	case len(runs) > 0 && l.clocksGoWrong() && runs[0].Wakes.After(l.Now()):
	case len(runs) > 0:
		return fmt.Sprintf("run %s#%d goes on", runs[0].Workflow, runs[0].Number)
	}
	return ""
}
