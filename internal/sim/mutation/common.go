package mutation

// commons are what the common policy asks of many partitions (S23), and what of its file counts (S6).
var commons = []Mutant{
	{
		Name: "common-gives-way", Of: Common, File: "internal/annealing/enforcer/read.go",
		Old:    `err = r.requireCommon(ctx, g, loaded, &all, budgets, collected)`,
		New:    "if !mutant.On(\"common-gives-way\") || len(collected.policies) == 0 {\n\t\t\terr = r.requireCommon(ctx, g, loaded, &all, budgets, collected)\n\t\t}",
		Breaks: "S23",
		Why:    "A partition that has a policy of its own is not asked what the common policy asks: it loosens it.",
	},
	{
		Name: "common-unreadable-is-empty", Of: Common, File: "internal/app/common.go",
		Old:    `next.Place, next.Problems = a.options.CommonPolicy, problems`,
		New:    "if mutant.On(\"common-unreadable-is-empty\") {\n\t\t\tnext = store.CommonPolicy{}\n\t\t}\n\t\tnext.Place, next.Problems = a.options.CommonPolicy, problems",
		Breaks: "S6",
		Why:    "A file that does not parse is taken for one that asks nothing.",
	},
	{
		Name: "common-observed-holds", Of: Common, File: "internal/annealing/check/common.go",
		Old:    `if !c.Common.Observed {`,
		New:    `if !c.Common.Observed || mutant.On("common-observed-holds") {`,
		Breaks: "L1",
		Why:    "A rule that is only observed holds what it would hold were it required.",
	},
	{
		Name: "common-change-passes-admission", Of: Common, File: "internal/store/relational/common.go",
		Old:    `return t.bump("")`,
		New:    "if mutant.On(\"common-change-passes-admission\") {\n\t\treturn t.tell(\"\")\n\t}\n\treturn t.bump(\"\")",
		Breaks: "S23",
		Why:    "What was decided before the common policy changed is admitted after.",
	},
}
