package validate

import (
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// CheckChecks compiles the expressions of a policy's checks, and says what is
// wrong with them.
func CheckChecks(types *schema.Set, checks []*intentpb.Check) (problems []RuleProblem) {
	if len(checks) == 0 {
		return nil
	}
	environment := rule.New(types)
	for i, c := range checks {
		if field, err := checkCheck(environment, c); err != nil {
			problems = append(problems, RuleProblem{i, field, err})
		}
	}
	return problems
}

// checkCheck names the field that is wrong.
func checkCheck(e *rule.Environment, c *intentpb.Check) (field string, err error) {
	payloadType := intent.TypeName("")
	if c.Where != "" {
		filter, err := e.Filter(c.Where)
		if err != nil {
			return "where", err
		}
		payloadType = filter.Narrow().Type
	}
	if must := c.GetCondition().GetMust(); must != "" {
		_, err := e.Condition(must, payloadType, rule.Moving)
		return "must", err
	}
	if version := c.GetDeny().GetVersion(); version != "" {
		_, err := e.Compile(version, payloadType)
		return "version", err
	}
	for _, labels := range []map[string]string{c.GetQuery().GetLabels(), c.GetAlerts().GetLabels(), c.GetPeak().GetLabels()} {
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if _, err := e.Compile(labels[name], payloadType); err != nil {
				return "labels", err
			}
		}
	}
	if serves := c.GetPeak().GetServes(); serves != "" {
		_, err := e.Compile(serves, payloadType)
		return "serves", err
	}
	return "", nil
}
