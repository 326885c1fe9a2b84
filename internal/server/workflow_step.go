package server

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

// Verbs of the audit.
const (
	signalVerb = "workflow-signal"
	cancelVerb = "workflow-cancel"
	voteVerb   = "workflow-vote"
)

// maxSteps is how often a step is decided anew because the run was stepped by somebody else
// meanwhile.
const maxSteps = 10

// said is what a person or a program says to a run.
type said struct {
	event workflow.Event
	anyOf []intent.Role
	verb  string
	// reason for the audit.
	reason string
}

// SignalRun gives a run a signal.
func (h workflowHandlers) SignalRun(ctx context.Context, request *apipb.SignalRunRequest) (*apipb.SignalRunResponse, error) {
	given := said{
		event: workflow.Event{Kind: workflow.EventSignal, Name: request.Signal, Reason: strings.TrimSpace(request.Reason)},
		anyOf: []intent.Role{intent.Operator}, verb: signalVerb, reason: because(request.Reason),
	}
	run, err := h.say(ctx, request.Partition, request.Number, func(*workflow.Definition, workflow.Run) (said, error) { return given, nil })
	return &apipb.SignalRunResponse{Run: run}, err
}

// CancelRun cancels a run.
func (h workflowHandlers) CancelRun(ctx context.Context, request *apipb.CancelRunRequest) (*apipb.CancelRunResponse, error) {
	reason, err := loosened("cancelling a run of a workflow", request.Reason)
	if err != nil {
		return nil, err
	}
	given := said{event: workflow.Event{Kind: workflow.EventCancel, Reason: reason}, anyOf: []intent.Role{intent.Operator}, verb: cancelVerb, reason: reason}
	run, err := h.say(ctx, request.Partition, request.Number, func(*workflow.Definition, workflow.Run) (said, error) { return given, nil })
	return &apipb.CancelRunResponse{Run: run}, err
}

// VoteOnRun answers a question of a run.
func (h workflowHandlers) VoteOnRun(ctx context.Context, request *apipb.VoteOnRunRequest) (*apipb.VoteOnRunResponse, error) {
	reason, err := because(request.Reason), error(nil)
	if !request.Approve {
		if reason, err = loosened("refusing", request.Reason); err != nil {
			return nil, err
		}
	}
	response := &apipb.VoteOnRunResponse{}
	response.Run, err = h.say(ctx, request.Partition, request.Number, func(definition *workflow.Definition, run workflow.Run) (said, error) {
		question, err := questionOf(definition, run, request)
		if err != nil {
			return said{}, err
		}
		response.Key = question.key
		vote := said{verb: voteVerb, reason: reason, event: workflow.Event{
			Kind: workflow.EventVote, Key: question.key, Person: actorOf(ctx).Name, Approves: request.Approve, Reason: strings.TrimSpace(request.Reason),
		}}
		if person := question.person; person != nil {
			response.Quorum = int32(person.Quorum)
			for _, role := range person.Roles {
				vote.anyOf = append(vote.anyOf, intent.Role(role))
			}
		}
		roles, err := h.workflows.RolesOf(ctx, intent.PartitionID(request.Partition))
		for _, role := range roles {
			vote.event.Roles = append(vote.event.Roles, string(role))
		}
		return vote, err
	})
	if err != nil {
		return nil, err
	}
	response.Outcome, response.Approvals = outcomeOf(response, request.Approve)
	return response, nil
}

// outcomeOf a vote that counted: the question is open still, or was decided by it.
func outcomeOf(response *apipb.VoteOnRunResponse, approves bool) (outcome string, approvals int32) {
	for _, m := range response.Run.Machines {
		if m.Action.GetKey() == response.Key {
			return "", int32(len(m.Action.Approvals))
		}
	}
	if !approves {
		return string(workflow.OutcomeRefused), 0
	}
	return string(workflow.OutcomeApproved), response.Quorum
}

// question that a vote is on. What has a key of nothing that is asked has no person.
type question struct {
	key    string
	person *workflow.Person
}

// questionOf a request: by its key, or its machine, or the only one that is open.
func questionOf(definition *workflow.Definition, run workflow.Run, request *apipb.VoteOnRunRequest) (question, error) {
	var found []question
	var machines, known []string
	for _, m := range definition.Explain(run) {
		known = append(known, m.Name)
		if m.Pending == nil {
			continue
		}
		one := question{m.Pending.Key, m.Action.Person}
		switch {
		case request.Key != "" && request.Key == one.key, request.Key == "" && request.Machine == m.Name:
			return one, nil
		case one.person != nil:
			found, machines = append(found, one), append(machines, m.Name)
		}
	}
	switch {
	case request.Key != "":
		return question{key: request.Key}, nil // The step says why it does not count.
	case run.End != nil:
		return question{}, nil
	case request.Machine != "" && !slices.Contains(known, request.Machine):
		return question{}, fault.New(fault.NotFound, "workflow %s has no machine %q", definition.Name, request.Machine).WithHint("it has %s", strings.Join(known, ", "))
	case request.Machine != "":
		return question{}, fault.New(fault.Conflict, "machine %s asks nothing now", request.Machine).WithHint("%s", asking(machines))
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return question{}, fault.New(fault.Conflict, "the run asks people nothing now").WithHint("lehr workflow status RUN says what it waits for")
	}
	return question{}, fault.New(fault.Invalid, "the run asks several questions").WithHint("name the machine: %s", strings.Join(machines, ", "))
}

// asking says for a hint which machines ask people.
func asking(machines []string) string {
	if len(machines) == 0 {
		return "lehr workflow status RUN says what it waits for"
	}
	return "these ask people: " + strings.Join(machines, ", ")
}

// say something to a run, and store the step that follows from it. Somebody else may step the
// run meanwhile: then it is decided anew. What has no effect is an error, and nothing is stored.
func (h workflowHandlers) say(ctx context.Context, partition string, number uint64, decide func(*workflow.Definition, workflow.Run) (said, error)) (*apipb.WorkflowRun, error) {
	var conflict error
	for range maxSteps {
		p, row, err := h.runOf(ctx, partition, number)
		if err != nil {
			return nil, err
		}
		step, what, err := h.stepOf(ctx, row, decide)
		if err != nil {
			return nil, err
		}
		stored, err := h.workflows.StepWorkflowAs(ctx, step, what.anyOf, what.verb, what.reason)
		if err == nil {
			return h.toRun(ctx, p, stored)
		}
		if conflict = err; !fault.Is(err, fault.Conflict) {
			return nil, err
		}
	}
	return nil, fault.New(fault.Conflict, "run %d was stepped by others %d times while this was decided: %w", number, maxSteps, conflict).WithHint("ask again")
}

// stepOf a run by what is said to it. Timers that are due fire in a step before, so that the
// history does not say that the caller caused what they did.
func (h workflowHandlers) stepOf(ctx context.Context, row intent.WorkflowRun, decide func(*workflow.Definition, workflow.Run) (said, error)) (store.WorkflowStep, said, error) {
	definition, before, err := h.definitionOf(row)
	if err != nil {
		return store.WorkflowStep{}, said{}, err
	}
	now := h.runtime.Now().UTC()
	tick := workflow.Event{Kind: workflow.EventTick}
	ticked := workflow.Result{Run: before}
	if before.End == nil {
		ticked = definition.Step(before, tick, now)
	}
	what, err := decide(definition, ticked.Run)
	if err != nil {
		return store.WorkflowStep{}, what, err
	}
	result := definition.Step(ticked.Run, what.event, now)
	if result.WhyIgnored != "" {
		return store.WorkflowStep{}, what, ignored(definition, row, what, result)
	}
	events := workflow.Record(definition, before, tick, ticked, intent.WorkflowHolder(row.Partition, row.Workflow))
	events = append(events, workflow.Record(definition, ticked.Run, what.event, result, actorOf(ctx))...)
	if err := workflow.UpdateRow(&row, ticked, now); err != nil {
		return store.WorkflowStep{}, what, err
	}
	err = workflow.UpdateRow(&row, result, now)
	return store.WorkflowStep{Run: row, Events: events}, what, err
}

// ignored is the error of something that was said and has no effect.
func ignored(definition *workflow.Definition, row intent.WorkflowRun, what said, result workflow.Result) error {
	name := row.Workflow + "#" + strconv.FormatUint(row.Number, 10)
	kind, text, hint := fault.Conflict, "", "lehr workflow status "+name+" says what the run waits for"
	switch result.WhyIgnored {
	case workflow.RunIsOver:
		outcome := row.Outcome
		if result.Run.End != nil {
			outcome = string(result.Run.End.Outcome)
		}
		text, hint = "run "+name+" is over: "+outcome, "lehr workflow retry "+name+" starts another one with the same inputs"
	case workflow.OtherDefinition:
		kind, text = fault.Internal, "the stored definition of run "+name+" is not the one that it was started with"
	case workflow.UnknownAction:
		kind, text = fault.NotFound, "run "+name+" has no action "+strconv.Quote(what.event.Key)
	case workflow.AnsweredBefore:
		text = "the question " + strconv.Quote(what.event.Key) + " was answered before"
	case workflow.CameLate:
		text = "the run does not wait for an answer to " + strconv.Quote(what.event.Key) + " any more"
	case workflow.CameAfterCancel:
		text = "the cancel of run " + name + " took the question " + strconv.Quote(what.event.Key) + " back"
	case workflow.NotAskedOfPeople:
		kind, text = fault.Invalid, "the action "+strconv.Quote(what.event.Key)+" asks no people"
	case workflow.RoleIsMissing:
		kind, text = fault.Denied, "the question "+strconv.Quote(what.event.Key)+" is asked of those who have one of the roles "+listRoles(what.anyOf)
		hint = "ask somebody who has one of them, or an admin of partition " + string(row.Partition) + " for the role"
	case workflow.VotedBefore:
		text, hint = what.event.Person+" approved "+strconv.Quote(what.event.Key)+" before", "somebody else must approve it too"
	case workflow.UnknownSignal:
		kind, text, hint = fault.Invalid, "workflow "+row.Workflow+" has no signal "+strconv.Quote(what.event.Name), signalHint(definition, what.event.Name)
	case workflow.SignalledBefore:
		text = "run " + name + " was given signal " + strconv.Quote(what.event.Name) + " before"
	case workflow.CancelledBefore:
		text = "run " + name + " was cancelled before"
	default:
		text = "it has no effect on run " + name + ": " + string(result.WhyIgnored)
	}
	return fault.New(kind, "%s", text).WithHint("%s", hint).WithCause(&workflow.Ignored{Reason: result.WhyIgnored})
}

func signalHint(definition *workflow.Definition, name string) string {
	var names []string
	for _, signal := range definition.Signals {
		names = append(names, signal.Name)
	}
	switch near := spell.Nearest(name, names); {
	case len(names) == 0:
		return "it has no signals at all"
	case near != "":
		return "did you mean " + near + "? it has " + strings.Join(names, ", ")
	}
	return "it has " + strings.Join(names, ", ")
}

func listRoles(roles []intent.Role) string {
	var names []string
	for _, role := range roles {
		names = append(names, string(role))
	}
	return strings.Join(names, ", ")
}
