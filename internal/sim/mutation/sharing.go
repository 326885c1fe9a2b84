package mutation

// sharedFields are what may become of fields that other managers have.
var sharedFields = []Mutant{
	{
		Name: "writer-is-not-believed", Of: Sharing, File: "internal/pluginhost/remote/claims.go",
		Old:    `Writer: printable(change.Writer, maxName),`,
		New:    `Writer: printable(map[bool]string{false: change.Writer}[mutant.On("writer-is-not-believed")], maxName),`,
		Breaks: "S25",
		Why:    "Nobody is told whose fields a push takes.",
	},
	{
		Name: "writer-is-not-kept", Of: Sharing, File: "internal/ground/planrecord/form.go",
		Old:    `texts := [...]string{c.Path, c.Current, c.Target, c.Reason, c.Writer}`,
		New:    "texts := [...]string{c.Path, c.Current, c.Target, c.Reason, c.Writer}\n\tif mutant.On(\"writer-is-not-kept\") {\n\t\ttexts[4] = \"\"\n\t}",
		Breaks: "S25",
		Why:    "A plan that was shown with whose fields it takes is kept without.",
	},
	{
		Name: "writer-of-the-first-field", Of: Sharing, File: "internal/pluginhost/remote/claims.go",
		Old: `seen[change.Path] = true
		checked = append(checked, intent.FieldChange{`,
		New:    "seen[change.Path] = true\n\t\tif mutant.On(\"writer-of-the-first-field\") {\n\t\t\tchange.Writer = changes[0].GetWriter()\n\t\t}\n\t\tchecked = append(checked, intent.FieldChange{",
		Breaks: "S25",
		Why:    "All fields of a plan are said to be those of one manager.",
	},
}
