package mutation

// retried are what may become of validations that begin anew.
var retried = []Mutant{
	{
		Name: "one-retry-more", Of: Retrying, File: "internal/annealing/strategist/assess.go",
		Old:    "used, most := st.retries[key], int(request.Validation.GetRetries())\n",
		New:    "used, most := st.retries[key], int(request.Validation.GetRetries())\n\tif mutant.On(\"one-retry-more\") && most > 0 {\n\t\tmost++\n\t}\n",
		Breaks: "L8",
		Why:    "What is bad is brought on once more often than policy allows.",
	},
	{
		Name: "retries-forgotten", Of: Retrying, File: "internal/annealing/strategist/assess.go",
		Old:    "\tfor name, count := range run.Progress.Retries {\n",
		New:    "\tfor name, count := range run.Progress.Retries {\n\t\tif mutant.On(\"retries-forgotten\") {\n\t\t\tcontinue\n\t\t}\n",
		Breaks: "L8",
		Why:    "Another process counts retries from zero, so what is bad may never end.",
	},
	{
		Name: "retry-each-stage", Of: Retrying, File: "internal/annealing/strategist/assess.go",
		Old:    "key := retryKey{request.Run.Run, request.Question.Validation}\n",
		New:    "key := retryKey{request.Run.Run, request.Question.Validation}\n\tif mutant.On(\"retry-each-stage\") && entry.Restarted.IsZero() {\n\t\tdelete(st.retries, key)\n\t}\n",
		Breaks: "L8",
		Why:    "Each stage has all retries, so a run may find what is bad more often than policy allows.",
	},
}
