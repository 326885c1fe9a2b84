package mutation

// relaxed are what may become of a policy that does not enforce what a train brings.
var relaxed = []Mutant{
	{
		Name: "train-for-half-of-its-time", Of: Relaxed, File: "internal/annealing/check/train.go",
		Old:    "end := train.Since.Add(config.GetLongest().AsDuration())\n",
		New:    "end := train.Since.Add(config.GetLongest().AsDuration())\n\t\tif mutant.On(\"train-for-half-of-its-time\") {\n\t\t\tend = train.Since.Add(config.GetLongest().AsDuration() / 2)\n\t\t}\n",
		Breaks: "S1",
		Why:    "What a train brings is enforced again before the time that policy says.",
	},
	{
		Name: "train-since-its-release", Of: Relaxed, File: "internal/annealing/delivery/train.go",
		Old:    "Version: stay.Name, Since: stay.Start}\n",
		New:    "Version: stay.Name, Since: stay.Start}\n\t\tif mutant.On(\"train-since-its-release\") {\n\t\t\ttrain.Since = release.At\n\t\t}\n",
		Breaks: "S1",
		Why:    "The time counts from when the release was made, and is over before the train comes.",
	},
	{
		Name: "only-the-newest-train", Of: Relaxed, File: "internal/ground/promotion/release.go",
		Old:    "\t\ttrain = release\n",
		New:    "\t\tif train = release; mutant.On(\"only-the-newest-train\") && i < len(f.Line.Releases)-1 {\n\t\t\ttrain = nil\n\t\t}\n",
		Breaks: "S1",
		Why:    "A train is none any more once another release was made.",
	},
}
