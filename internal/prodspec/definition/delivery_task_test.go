package definition_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// TestTasksOfThePageAreRead: the samples of docs/use/delivery-tasks.md are taken, and say what the page says.
func TestTasksOfThePageAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/use/delivery-tasks.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		d, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+text), schema.Builtin())
		if len(findings) > 0 {
			t.Fatalf("%+v in\n%s", findings, text)
		}
		for _, spec := range d.Policy.GetDeliveries() {
			application, err := promotion.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			for at, name := range application.Names() {
				if application.IsTask(at) {
					dependents, followed, onFailure := application.Follows(at)
					got = append(got, name+": "+strings.Join(dependents, " ")+" | "+strings.Join(followed, " ")+" | "+strings.Join(onFailure, " "))
				}
			}
		}
	}
	want := []string{
		"load: production | staging | ", "scan: migrate |  | ", "migrate: production |  | ", "tell:  | production | ", "clean:  |  | staging production",
		"migrate-eu: shop-eu |  | ", "migrate-us: shop-us |  | ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTasksThatAreWrong: each is told at its line, with what to do.
func TestTasksThatAreWrong(t *testing.T) {
	for task, want := range map[string][2]string{
		"set: {document: knobs, field: /m}, assets: true":                                                                    {"delivery.web.tasks.migrate", "nothing has the task run"},
		"after: [prod], set: {document: knobs, field: /m}":                                                                   {"delivery.web.tasks.migrate.assets", "is missing"},
		"after: [prod, prod], set: {document: knobs, field: /m}, assets: true":                                               {"delivery.web.tasks.migrate.after[1]", "named twice"},
		"after: [prd], set: {document: knobs, field: /m}, assets: true":                                                      {"delivery.web.tasks.migrate", `no environment "prd"`},
		"after: [prod], set: {document: knobs, field: /m, parameters: /m}, assets: true":                                     {"delivery.web.tasks.migrate.set.parameters", "overlaps"},
		"after: [prod], set: {document: knobs, field: /m/version, parameters: /m}, assets: true":                             {"delivery.web.tasks.migrate.set.parameters", "overlaps"},
		"after: [prod], set: {document: sizes, field: /m, parameters: /p}, assets: true":                                     {"delivery.web.tasks.migrate.set.parameters", "its digest only"},
		"after: [prod], set: {document: knobs, field: /prod}, assets: true":                                                  {"delivery.web.tasks.migrate", "so does prod"},
		"after: [prod], set: {document: knobs, field: /m}, assets: true, verify: [smoke]":                                    {"delivery.web.tasks.migrate.verify", "allowed: set"},
		"after: [prod], set: {document: knobs, field: /m}, assets: true, attempts: 2":                                        {"delivery.web.tasks.migrate", "parameters"},
		"after: [prod], set: {document: knobs, field: /m}, assets: true, constraints: {run: {min_age: 1h}}":                  {"delivery.web.tasks.migrate.constraints.run", "is called run"},
		"each: {by: scope eu}, after: [prod], set: {document: knobs, field: '/{each}'}, assets: true":                        {"delivery.web.tasks.migrate.each", "select environments, and no tasks"},
		"after: [prod], set: {document: knobs, field: /m}, assets: true, constraints: {a: {task: migrate, rollbacks: true}}": {"delivery.web.tasks.migrate.constraints.a.rollbacks", "waits for no task"},
		"after: [prod], set: {document: knobs, field: /m}, assets: true, constraints: {a: {task: prod}}":                     {"delivery.web.tasks.migrate.constraints.a", "no task"},
		"on_failure: [prod], set: {document: knobs, field: /m}, assets: true, constraints: {a: {depends_on: [migrate]}}":     {"delivery.web.tasks.migrate.constraints.a", "is a task"},
		"on_failure: [prod], set: {document: knobs, field: /m}, assets: true, constraints: {a: {task: migrate}}":             {"delivery.web.tasks.migrate", "circle"},
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+`delivery:
  web:
    versions: images
    environments: {prod: {set: {document: knobs, field: /prod}, assets: true}}
    tasks: {migrate: {`+task+`}}
`), schema.Builtin())
		isTold := func(f intent.Finding) bool {
			return f.Line > 0 && f.Field == want[0] && strings.Contains(f.Message+"; "+f.Hint, want[1]) && f.Hint != ""
		}
		if !slices.ContainsFunc(findings, isTold) {
			t.Errorf("%s: %+v, want %q", task, findings, want)
		}
	}
}
