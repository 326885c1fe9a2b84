package web

import (
	"context"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflowtext"
)

// migrationView is what becomes of a run in another definition, and asks where its machines go that cannot stay.
type migrationView struct {
	Action, Run, States, Inputs string
	Machines                    []string
	Problems                    []*apipb.MigrationProblem
}

// showMigration shows what the move would do with the states and inputs of the address.
func showMigration(ctx context.Context, r *reader, at address, form *actForm) error {
	if err := showRunGoing(ctx, r, at, form); err != nil || form.Refused != nil {
		return err
	}
	run, err := r.workflowRun(ctx, at.partition, at.query.Get("run"))
	if err != nil {
		return err
	}
	view := migrationView{
		Action: address{kind: "act", partition: at.partition, name: "workflow-migrate"}.String(), Run: at.query.Get("run"),
		States: at.query.Get("states"), Inputs: at.query.Get("inputs"),
	}
	foreseen, err := migrate(ctx, r, at, run.Number, &apipb.MigrateRunRequest{DryRun: true})
	if err != nil {
		form.Refused = err
	}
	for _, machine := range foreseen.GetMachines() {
		view.Machines = append(view.Machines, workflowtext.Migrated(machine, run))
	}
	view.Problems = foreseen.GetProblems()
	form.Asks = len(view.Problems) > 0
	form.parts = append(form.parts, makePart("migration", "workflow-migration", view))
	return nil
}

func migrateRun(ctx context.Context, r *reader, request actRequest) (string, error) {
	run, err := r.workflowRun(ctx, request.partition, request.subject)
	if err != nil {
		return "", err
	}
	at := address{kind: "act", partition: request.partition, query: request.query}
	response, err := migrate(ctx, r, at, run.Number, &apipb.MigrateRunRequest{Reason: request.reason})
	if err != nil {
		return "", err
	}
	return workflowtext.RunName(run) + " follows the definition that lehr.yaml has now." + goesOn(response.Run), nil
}

// migrate asks for the move of a run with the states and inputs of an address.
func migrate(ctx context.Context, r *reader, at address, number uint64, request *apipb.MigrateRunRequest) (*apipb.MigrateRunResponse, error) {
	request.Partition, request.Number = at.partition, number
	for key, values := range map[string]*map[string]string{"states": &request.States, "inputs": &request.Inputs} {
		*values = map[string]string{}
		for word := range strings.FieldsSeq(at.query.Get(key)) {
			name, value, ok := strings.Cut(word, "=")
			if !ok || name == "" {
				return nil, fault.New(fault.Invalid, "%.80q of the %s is no NAME=VALUE", word, key).WithHint("write them as deploy=idle test=testing")
			}
			(*values)[name] = value
		}
	}
	return r.Workflows.MigrateRun(ctx, request)
}
