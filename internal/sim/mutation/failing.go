package mutation

// failing are what may become of answers to validations that are broken in a row.
var failing = []Mutant{
	{
		Name: "errors-not-in-a-row", Of: Failing, File: "internal/annealing/strategist/assess.go",
		Old:    "\tif result.Result != \"broken\" || result.Unkept {\n\t\tv.errors = 0\n",
		New:    "\tif result.Result != \"broken\" || result.Unkept {\n\t\tif !mutant.On(\"errors-not-in-a-row\") {\n\t\t\tv.errors = 0\n\t\t}\n",
		Breaks: "S11",
		Why:    "A source that fails now and then takes a good release back, though none of its failures followed another so often.",
	},
	{
		Name: "unasked-is-an-error", Of: Failing, File: "internal/annealing/strategist/assess.go",
		Old:    "\tif result.Unasked {\n\t\treturn\n",
		New:    "\tif result.Unasked && !mutant.On(\"unasked-is-an-error\") {\n\t\treturn\n",
		Breaks: "S11",
		Why:    "What Lehr itself could not ask takes a good release back.",
	},
	{
		Name: "one-error-more", Of: Failing, File: "internal/annealing/strategist/assess.go",
		Old:    "limit.Errors != nil && v.errors > *limit.Errors {\n",
		New:    "limit.Errors != nil && (v.errors > *limit.Errors+1 || v.errors > *limit.Errors && !mutant.On(\"one-error-more\")) {\n",
		Breaks: "L8",
		Why:    "A release that cannot be measured goes on for longer than policy allows.",
	},
	{
		Name: "too-many-errors-are-good", Of: Failing, File: "internal/annealing/strategist/assess.go",
		Old:    "\t\tv.Result, v.next = \"bad\", time.Time{}\n",
		New:    "\t\tv.Result, v.next = \"bad\", time.Time{}\n\t\tif mutant.On(\"too-many-errors-are-good\") {\n\t\t\tv.Result = \"good\"\n\t\t}\n",
		Breaks: "S19",
		Why:    "A stage that nothing could measure is taken for good.",
	},
}
