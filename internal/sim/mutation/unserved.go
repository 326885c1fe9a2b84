package mutation

// unserved are what may become of assets that no plugin serves.
var unserved = []Mutant{
	{
		Name: "unserved-is-in-sync", Of: Unserved, File: "internal/annealing/enforcer/view.go",
		Old:    `return intent.StateUnserved`,
		New:    "if mutant.On(\"unserved-is-in-sync\") {\n\t\treturn intent.StateInSync\n\t}\n\treturn intent.StateUnserved",
		Breaks: "S11 L4",
		Why:    "What nothing compares with production is reported as if it were as intent says.",
	},
	{
		Name: "unserved-is-a-model", Of: Unserved, File: "internal/annealing/enforcer/view.go",
		Old:    `case a.kind.model:`,
		New:    `case a.kind.model || mutant.On("unserved-is-a-model"):`,
		Breaks: "L4",
		Why:    "What no plugin serves is reported as meant so, and plan and wait pass over it.",
	},
	{
		Name: "unbound-is-forgotten", Of: Unserved, File: "internal/annealing/enforcer/look.go",
		Old:    `if a.enforced > 0 {`,
		New:    `if a.enforced > 0 && !mutant.On("unbound-is-forgotten") {`,
		Breaks: "L4",
		Why:    "A type lost its plugin, and what it had enforced is told to have had none ever.",
	},
	{
		Name: "unserved-counts-in-sync", Of: Unserved, File: "internal/annealing/explain/roll.go",
		Old:    `CurrentInSync: r.Counts[intent.StateInSync], CurrentUnseen: unseen,`,
		New:    `CurrentInSync: r.Counts[intent.StateInSync] + map[bool]int{true: r.Counts[intent.StateUnserved]}[mutant.On("unserved-counts-in-sync")], CurrentUnseen: unseen,`,
		Breaks: "S11",
		Why:    "How a partition is counts as in sync what nobody compares.",
	},
}
