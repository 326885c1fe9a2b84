package web

import (
	"context"
	"fmt"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/ground/workflowtext"
)

// inputPrefix begins the names of a form's fields that are inputs of a workflow.
const inputPrefix = "input-"

// registerWorkflowActs adds the acts on workflows and their runs to those that there are.
func registerWorkflowActs() {
	acts["workflow-start"] = act{
		call: apipbconnect.WorkflowServiceStartRunProcedure, subject: "workflow", title: "Start a run of workflow", button: "Start a run", loosens: true,
		effect: "A run begins, with the definition that is served now, and keeps it. It goes on by itself.",
		show:   showInputs, do: startRun,
		back: func(at address) crumb {
			return crumb{"workflows of " + at.partition, link(at.partition, "workflows", "")}
		},
	}
	for name, action := range map[string]act{
		"workflow-migrate": {
			call: apipbconnect.WorkflowServiceMigrateRunProcedure, title: "Move to the new definition:", button: "Move it", loosens: true,
			effect: "The run goes on by the definition that lehr.yaml has now, as is shown below. What is cut off is not taken up again.",
			show:   showMigration, do: migrateRun,
		},
		"workflow-retry": {
			call: apipbconnect.WorkflowServiceStartRunProcedure, title: "Start again", button: "Start it again", loosens: true,
			effect: "A new run begins with the same inputs, from the start. Nothing of the earlier run is taken over, and what that one left in production is still there.",
			show:   showRetry, do: retryRun,
		},
		"workflow-cancel": {
			call: apipbconnect.WorkflowServiceCancelRunProcedure, title: "Cancel", button: "Cancel it",
			effect: "From now on only transitions are followed that are part of the run's retreat. It ends when that is over, or at once if it has none.",
			show:   showRunGoing, do: cancelRun,
		},
		"workflow-signal": {
			call: apipbconnect.WorkflowServiceSignalRunProcedure, title: "Give a signal to", button: "Give the signal", loosens: true,
			effect: "The run gets the signal, which counts once and is not taken back.",
			show:   showRunGoing, do: signalRun,
		},
		"workflow-approve": {
			call: apipbconnect.WorkflowServiceVoteOnRunProcedure, title: "Approve what is asked by", button: "Approve it", loosens: true,
			effect: "Your approval counts for this question alone. One refusal is enough against it.",
			show:   showQuestion, do: voteOnRun(true),
		},
		"workflow-reject": {
			call: apipbconnect.WorkflowServiceVoteOnRunProcedure, title: "Refuse what is asked by", button: "Refuse it",
			effect: "The question is refused, whoever approved it. The run goes on as its definition says for that.",
			show:   showQuestion, do: voteOnRun(false),
		},
	} {
		action.subject = "run"
		action.about = aboutRun
		action.back = func(at address) crumb {
			return crumb{"run " + at.query.Get("run"), address{kind: workflowRunKind, partition: at.partition, name: at.query.Get("run")}.String()}
		}
		acts[name] = action
	}
}

// aboutRun is what an act on a run is about, as a title has it.
func aboutRun(at address) string {
	text := "run " + at.query.Get("run")
	if machine := at.query.Get("machine"); machine != "" {
		text += ", machine " + machine
	}
	if signal := at.query.Get("signal"); signal != "" {
		text += ": " + signal
	}
	return text
}

// showInputs asks for the inputs of a workflow.
func showInputs(ctx context.Context, r *reader, at address, form *actForm) error {
	name := at.query.Get("workflow")
	response, err := r.Workflows.ListWorkflows(ctx, &apipb.ListWorkflowsRequest{Partition: at.partition})
	if err != nil {
		return err
	}
	for _, w := range response.Workflows {
		if w.Name != name {
			continue
		}
		for _, input := range w.Inputs {
			form.Texts = append(form.Texts, field{Name: inputPrefix + input.Name, Label: input.Name + ", " + input.Type, Value: input.Default, Optional: input.Optional})
		}
		return nil
	}
	return fault.New(fault.NotFound, "partition %s has no workflow %.80q", at.partition, name).WithHint("the page of its workflows lists those that there are")
}

func startRun(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Workflows.ListWorkflows(ctx, &apipb.ListWorkflowsRequest{Partition: request.partition})
	if err != nil {
		return "", err
	}
	inputs := map[string]string{}
	for _, w := range response.Workflows {
		for _, input := range w.Inputs {
			value := request.values.Get(inputPrefix + input.Name)
			if w.Name == request.subject && (value != "" || !input.Optional) {
				inputs[input.Name] = value
			}
		}
	}
	return r.start(ctx, request, request.subject, inputs)
}

// start begins a run. The form names it, so that it begins once at whichever replica the form arrives.
func (r *reader) start(ctx context.Context, request actRequest, name string, inputs map[string]string) (string, error) {
	response, err := r.Workflows.StartRun(ctx, &apipb.StartRunRequest{
		Partition: request.partition, Workflow: name, Inputs: inputs, Reason: request.reason, Request: "page/" + request.values.Get("once"),
	})
	if err != nil {
		return "", err
	}
	message := "Started " + workflowtext.RunName(response.Run) + "."
	if waits := workflowtext.WaitsFor(response.Run); waits != "" {
		message += " It waits for: " + waits
	}
	return message, nil
}

// showRetry shows what would be started again.
func showRetry(ctx context.Context, r *reader, at address, form *actForm) error {
	run, err := r.workflowRun(ctx, at.partition, at.query.Get("run"))
	if err != nil {
		return err
	}
	form.parts = append(form.parts, makePart("run", "workflow-run-facts", r.viewRun(run)))
	if run.Ended == nil {
		form.Refused = fault.New(fault.Conflict, "%s goes on, so it cannot be started again", workflowtext.RunName(run)).WithHint("wait for its end, or cancel it")
	}
	return nil
}

func retryRun(ctx context.Context, r *reader, request actRequest) (string, error) {
	run, err := r.workflowRun(ctx, request.partition, request.subject)
	if err != nil {
		return "", err
	}
	if run.Ended == nil {
		return "", fault.New(fault.Conflict, "%s goes on, so it cannot be started again", workflowtext.RunName(run)).WithHint("wait for its end, or cancel it")
	}
	return r.start(ctx, request, run.Workflow, run.Inputs)
}

// showRunGoing shows a run that must go on for the act to make sense.
func showRunGoing(ctx context.Context, r *reader, at address, form *actForm) error {
	run, err := r.workflowRun(ctx, at.partition, at.query.Get("run"))
	if err != nil {
		return err
	}
	form.parts = append(form.parts, makePart("run", "workflow-run-facts", r.viewRun(run)))
	if run.Ended != nil {
		form.Refused = fault.New(fault.Conflict, "%s", workflowtext.Ending(run))
	}
	return nil
}

func cancelRun(ctx context.Context, r *reader, request actRequest) (string, error) {
	run, err := r.workflowRun(ctx, request.partition, request.subject)
	if err != nil {
		return "", err
	}
	response, err := r.Workflows.CancelRun(ctx, &apipb.CancelRunRequest{Partition: request.partition, Number: run.Number, Reason: request.reason})
	if err != nil {
		return "", err
	}
	return workflowtext.RunName(run) + " is cancelled." + goesOn(response.Run), nil
}

func signalRun(ctx context.Context, r *reader, request actRequest) (string, error) {
	run, err := r.workflowRun(ctx, request.partition, request.subject)
	if err != nil {
		return "", err
	}
	signal := request.query.Get("signal")
	response, err := r.Workflows.SignalRun(ctx, &apipb.SignalRunRequest{Partition: request.partition, Number: run.Number, Signal: signal, Reason: request.reason})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s has signal %s.%s", workflowtext.RunName(run), signal, goesOn(response.Run)), nil
}

// goesOn says after an act what a run waits for, or how it ended.
func goesOn(run *apipb.WorkflowRun) string {
	if run.Ended != nil {
		return " " + workflowtext.Ending(run)
	}
	if waits := workflowtext.WaitsFor(run); waits != "" {
		return " It waits for: " + waits
	}
	return ""
}

// showQuestion binds an answer to the question that is shown.
func showQuestion(ctx context.Context, r *reader, at address, form *actForm) error {
	run, err := r.workflowRun(ctx, at.partition, at.query.Get("run"))
	if err != nil {
		return err
	}
	for _, m := range run.Machines {
		if m.Name != at.query.Get("machine") || m.Action.GetKind() != "person" {
			continue
		}
		if linked := at.query.Get("question"); linked != "" && linked != m.Action.Key {
			form.Refused = fault.New(fault.Conflict, "machine %s of %s asks another question now than the link is about", m.Name, workflowtext.RunName(run)).WithHint("the run's page shows what it asks")
			return nil
		}
		form.parts = append(form.parts, makePart("question", "workflow-question", machineView{WorkflowMachine: m}), makePart("run", "workflow-run-facts", r.viewRun(run)))
		form.Bound = []field{{Name: "key", Value: m.Action.Key}}
		if !m.Action.MayAnswer {
			form.Refused = fault.New(fault.Denied, "you have none of the roles that may answer")
		}
		return nil
	}
	form.Refused = fault.New(fault.Conflict, "machine %.80q of %s asks nothing now", at.query.Get("machine"), workflowtext.RunName(run)).WithHint("the run's page shows what it waits for")
	return nil
}

func voteOnRun(approve bool) func(context.Context, *reader, actRequest) (string, error) {
	return func(ctx context.Context, r *reader, request actRequest) (string, error) {
		run, err := r.workflowRun(ctx, request.partition, request.subject)
		if err != nil {
			return "", err
		}
		response, err := r.Workflows.VoteOnRun(ctx, &apipb.VoteOnRunRequest{
			Partition: request.partition, Number: run.Number, Key: request.values.Get("key"), Machine: request.query.Get("machine"), Approve: approve, Reason: request.reason,
		})
		if err != nil {
			return "", err
		}
		message := "The question of machine " + request.query.Get("machine") + " in " + workflowtext.RunName(run)
		switch response.Outcome {
		case "":
			return fmt.Sprintf("%s has %d of %d approvals.", message, response.Approvals, response.Quorum), nil
		case string(workflow.OutcomeRefused):
			return message + " is refused." + goesOn(response.Run), nil
		}
		return message + " is approved." + goesOn(response.Run), nil
	}
}
