package mutation

// previewed are what may become of previews: what they remove, and when they end.
var previewed = []Mutant{
	{
		Name: "found-is-made", Of: Previewing, File: "internal/store/relational/claims.go",
		Old:    "string(c.Key), string(c.Partition), string(c.Asset), flag(c.creates))",
		New:    "string(c.Key), string(c.Partition), string(c.Asset), flag(c.creates || mutant.On(\"found-is-made\")))",
		Breaks: "S9",
		Why:    "A preview removes what was there before it.",
	},
	{
		Name: "silence-ends-previews", Of: Previewing, File: "internal/annealing/previewer/previewer.go",
		Old:    "\"error\", current.err)\n\t\t\treturn nil, false",
		New:    "\"error\", current.err)\n\t\t\treturn nil, mutant.On(\"silence-ends-previews\")",
		Breaks: "S9",
		Why:    "A git host that does not answer ends all previews.",
	},
	{
		Name: "unlisted-is-closed", Of: Previewing, File: "internal/annealing/previewer/previewer.go",
		Old:    "if found.Progress == githost.Open {",
		New:    "if found.Progress == githost.Open && !mutant.On(\"unlisted-is-closed\") {",
		Breaks: "S9",
		Why:    "A pull request that moved between two pages of a list loses its preview.",
	},
	{
		Name: "ended-preview-stays", Of: Previewing, File: "internal/ground/branchpreview/decide.go",
		Old:    "if f.Entries[name].Ending != nil && f.Gone[name] {",
		New:    "if f.Entries[name].Ending != nil && (f.Gone[name] || mutant.On(\"ended-preview-stays\")) {",
		Breaks: "S6 L1",
		Why:    "An entry is removed before what it made is gone, which nothing removes any more.",
	},
}
