package mutation

// A stop counts before the store has it (S18).
var brakes = []Mutant{
	{
		Name: "permit-without-the-brake", Of: Braked, File: "internal/store/braked/braked.go",
		Old:    `if stop, stopped := s.inForce(lease.Partition); stopped {`,
		New:    `if stop, stopped := s.inForce(lease.Partition); stopped && !mutant.On("permit-without-the-brake") {`,
		Breaks: "S18",
		Why:    "A push under way goes on, for its permits ask the store alone, which does not know of the stop.",
	},
	{
		Name: "brake-not-in-its-file", Of: Braked, File: "internal/store/braked/braked.go",
		Old:    `return append(stops, b.stop)`,
		New:    "if mutant.On(\"brake-not-in-its-file\") {\n\t\t\treturn stops\n\t\t}\n\t\treturn append(stops, b.stop)",
		Breaks: "S18",
		Why:    "The next process pushes, though it was answered that the file has the stop.",
	},
	{
		Name: "brake-tried-once", Of: Braked, File: "internal/store/braked/braked.go",
		Old:    `for _, partition := range s.waiting() {`,
		New:    "if mutant.On(\"brake-tried-once\") {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tfor _, partition := range s.waiting() {",
		Breaks: "S18",
		Why:    "A stop that the store did not take at once is never in it.",
	},
}
