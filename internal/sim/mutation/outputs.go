package mutation

// outputted are what may become of what assets tell others.
var outputted = []Mutant{
	{
		Name: "output-gap-is-pushed", Of: Outputs, File: "internal/annealing/check/output.go",
		Old:    `if len(f.Missing) == 0 {`,
		New:    `if len(f.Missing) == 0 || mutant.On("output-gap-is-pushed") {`,
		Breaks: "S11",
		Why:    "Content is pushed in which ${output:…} stands for a value that nobody told.",
	},
	{
		Name: "outputs-without-lease", Of: Outputs, File: "internal/store/relational/documents.go",
		Old:    `now, err := c.store.fence(t, *c.lease)`,
		New:    "if c.atAnyRevision && mutant.On(\"outputs-without-lease\") {\n\t\treturn nil\n\t}\n\tnow, err := c.store.fence(t, *c.lease)",
		Breaks: "S4 L4 L1",
		Why:    "A process that was deposed writes what it was told before over what its successor was.",
	},
	{
		Name: "outputs-forgotten-in-trouble", Of: Outputs, File: "internal/annealing/enforcer/observed.go",
		Old:    `e.reportUnknown(a, g, "the difference is unknown: "+g.difference.Reason, now)`,
		New:    "if mutant.On(\"outputs-forgotten-in-trouble\") {\n\t\t\te.outputs.note(a.id, intent.Difference{})\n\t\t}\n\t\te.reportUnknown(a, g, \"the difference is unknown: \"+g.difference.Reason, now)",
		Breaks: "S11",
		Why:    "Of what cannot be looked at, nothing is told: that does not mean that it is gone.",
	},
	{
		Name: "outputs-undamped", Of: Outputs, File: "internal/ground/outputs/damping.go",
		Old:    `if d.Changes < free ||`,
		New:    `if mutant.On("outputs-undamped") || d.Changes < free ||`,
		Breaks: "L10",
		Why:    "An output that changes with each look makes an incarnation with each look.",
	},
	{
		Name: "outputs-damped-for-ever", Of: Outputs, File: "internal/ground/outputs/damping.go",
		Old:    `if end := d.Last.Add(pause); end.After(now) {`,
		New:    "if mutant.On(\"outputs-damped-for-ever\") {\n\t\treturn now.Add(pause)\n\t}\n\tif end := d.Last.Add(pause); end.After(now) {",
		Breaks: "L4 L1",
		Why:    "The pause begins anew with each look, so what kept changing is never written again.",
	},
	{
		Name: "output-of-another", Of: Outputs, File: "internal/ground/outputs/placeholder.go",
		Old:    "value, known := values[o]\n\t\tuses = append(uses, Use{o, known})\n\t\tif !known {",
		New:    "value, known := values[o]\n\t\tfor other, v := range values {\n\t\t\tif mutant.On(\"output-of-another\") && other.Name == o.Name && other.String() < o.String() {\n\t\t\t\tvalue, known = v, true\n\t\t\t}\n\t\t}\n\t\tuses = append(uses, Use{o, known})\n\t\tif !known {",
		Breaks: "S11 L1",
		Why:    "A value is found by its name alone, whoever told it.",
	},
	{
		Name: "outputs-of-others-are-dropped", Of: Outputs, File: "internal/annealing/enforcer/outputs.go",
		Old:    "operations = append(operations, outputs.Changes(id, stored, current)...)\n\t}\n",
		New:    "operations = append(operations, outputs.Changes(id, stored, current)...)\n\t}\n\tfor id := range edit.stored {\n\t\tif edit.current[id] == nil && mutant.On(\"outputs-of-others-are-dropped\") {\n\t\t\toperations = append(operations, document.Operation{Path: outputs.PathOf(id).String()})\n\t\t}\n\t}\n",
		Breaks: "S10 S11",
		Why:    "What is written is all of the document, so what no plugin told is lost.",
	},
	{
		Name: "edited-outputs-stay", Of: Outputs, File: "internal/annealing/enforcer/view_update.go",
		Old:    `e.viewErr, e.outputs.moved = err, true`,
		New:    `e.viewErr, e.outputs.moved = err, !mutant.On("edited-outputs-stay")`,
		Breaks: "L4 L1",
		Why:    "What a person wrote in place of what a plugin tells stays until that changes.",
	},
	{
		Name: "outputs-read-once", Of: Outputs, File: "internal/prodspec/outputs.go",
		Old:    `if s.outputTable.digest != inputs[0].Digest {`,
		New:    `if s.outputTable.digest.IsZero() || s.outputTable.digest != inputs[0].Digest && !mutant.On("outputs-read-once") {`,
		Breaks: "L1",
		Why:    "What was told later never reaches intent.",
	},
}
