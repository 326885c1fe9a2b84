package app

import (
	"context"

	"lehr.dev/internal/annealing/workflows"
	"lehr.dev/internal/external"
)

// workflowCaller sends the requests of workflows; nil: nobody does, as where what lies outside is
// replaced.
func (a *App) workflowCaller() func(context.Context, workflows.Call) (workflows.Answer, error) {
	if call := a.options.Parts.CallWorkflow; call != nil {
		return call
	}
	if a.options.Parts.Outside != nil || a.options.Parts.Plugins != nil {
		return nil
	}
	return callerBy(a.options.ExternalChecks)
}

// callerBy sends requests as far as the operator's file lets the partition. The file is read
// anew each time.
func callerBy(file string) func(context.Context, workflows.Call) (workflows.Answer, error) {
	return func(ctx context.Context, c workflows.Call) (workflows.Answer, error) {
		policy, err := external.ReadPolicy(file)
		if err != nil {
			return workflows.Answer{}, err
		}
		request, err := policy.Service(c.Partition, external.Workflow, c.URL)
		if err != nil {
			return workflows.Answer{}, err
		}
		request.Method, request.JSON = c.Method, c.Body
		request.Header.Set("Idempotency-Key", c.Key)
		answer, err := external.Ask(ctx, request)
		return workflows.Answer{Status: answer.Status, Text: answer.Text}, err
	}
}
