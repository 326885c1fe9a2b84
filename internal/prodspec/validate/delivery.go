package validate

import (
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// CheckDeliveries compiles the filters by which environments of a policy's applications select
// their assets, and says what is wrong with them. Those of other partitions are compiled there,
// where their types are.
func CheckDeliveries(types *schema.Set, policy *intentpb.Policy) (problems []RuleProblem) {
	if len(policy.GetDeliveries()) == 0 {
		return nil
	}
	environment := rule.New(types)
	for i, application := range policy.GetDeliveries() {
		for _, s := range application.GetSelectors() {
			if s.GetWhere() == "" {
				continue
			}
			if _, err := environment.Filter(s.GetWhere()); err != nil {
				problems = append(problems, RuleProblem{i, "environments." + s.GetEnvironment() + ".each.where", err})
			}
		}
		for _, e := range application.GetEnvironments() {
			if e.GetPartition() != "" {
				continue
			}
			if _, err := environment.Filter(e.GetAssets()); err != nil {
				problems = append(problems, RuleProblem{i, promotion.FieldOf(e) + ".assets", err})
			}
		}
	}
	return problems
}
