package mutation

// circles: an approval lets go of dropped edges that close a circle, and of no others (S23, L1).
var circles = []Mutant{
	{
		Name: "circles-wait-for-ever", Of: Circles, File: "internal/annealing/enforcer/neighbour.go",
		Old:    `n.WaitsForThis = !n.Known &&`,
		New:    `n.WaitsForThis = !n.Known && !mutant.On("circles-wait-for-ever") &&`,
		Breaks: "L1",
		Why:    "Two assets that were enforced after each other wait for each other, whatever is approved.",
	},
	{
		Name: "circles-go-without-approval", Of: Circles, File: "internal/annealing/check/edges.go",
		Old:    `o.endless && f.Approved && !f.removes()):`,
		New:    `o.endless && (f.Approved || mutant.On("circles-go-without-approval")) && !f.removes()):`,
		Breaks: "S23",
		Why:    "A dropped edge that closes a circle is let go though nobody approved.",
	},
	{
		Name: "any-dropped-edge-is-endless", File: "internal/annealing/check/order.go",
		Old:    `endless: n.WaitsForThis}`,
		New:    `endless: n.WaitsForThis || mutant.On("any-dropped-edge-is-endless")}`,
		Breaks: "S23",
		Why:    "The approval of a marked asset also lets go of a dropped edge that could be met.",
	},
}
