package mutation

// rotated are what keeps a push to the value of a secret that it was planned with, and has
// a rotation seen.
var rotated = []Mutant{
	{
		Name: "digest-not-in-words", Of: Rotating, File: "sdk/secret/secret.go",
		Old:    `return "secret (digest " + d.Short() + ")"`,
		New:    "if mutant.On(\"digest-not-in-words\") {\n\t\treturn \"secret\"\n\t}\n\treturn \"secret (digest \" + d.Short() + \")\"",
		Breaks: "S9 L1 L4",
		Why:    "A plan has the same words for every value of a secret.",
	},
	{
		Name: "digest-without-value", Of: Rotating, File: "sdk/secret/digest.go",
		Old:    `return keyed(key, append(parts, value))`,
		New:    "if mutant.On(\"digest-without-value\") {\n\t\tvalue = nil\n\t}\n\treturn keyed(key, append(parts, value))",
		Breaks: "S9 L1 L4",
		Why:    "A digest is of the reference alone, so a rotation is not seen.",
	},
	{
		Name: "push-takes-a-rotated-secret", Of: Rotating, File: "sdk/secret/request.go",
		Old:    `if ok && planned != digest {`,
		New:    `if ok && planned != digest && !mutant.On("push-takes-a-rotated-secret") {`,
		Breaks: "S9",
		Why:    "A push brings whatever the secret is by the time of its effect.",
	},
	{
		Name: "plan-without-targets", Of: Rotating, File: "internal/ground/intent/difference.go",
		Old:    `all.AddText(Shown(c.Target))`,
		New:    "if !mutant.On(\"plan-without-targets\") {\n\t\t\tall.AddText(Shown(c.Target))\n\t\t}",
		Breaks: "S9",
		Why:    "What is approved says which fields change, and not to which values.",
	},
}
