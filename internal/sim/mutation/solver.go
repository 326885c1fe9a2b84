package mutation

// checks say whether an asset may be pushed now (S1).
var checks = []Mutant{
	{
		Name: "broken-is-pass", File: "internal/annealing/check/check.go",
		Old:    `return v.Answer != intent.Pass })`,
		New:    `return v.Answer != intent.Pass && !(v.Answer == intent.Broken && mutant.On("broken-is-pass")) })`,
		Breaks: "S11 S1",
		Why:    "A check that could not answer does not hold back a push.",
	},
	{
		Name: "check-ignores-stop", File: "internal/annealing/check/check.go",
		Old:        `if f.Stop == nil {`,
		New:        `if f.Stop == nil || mutant.On("check-ignores-stop") {`,
		Breaks:     "S18",
		Why:        "The decision does not look at the stop.",
		Equivalent: "the admission does",
	},
	{
		Name: "hold-ignored", File: "internal/annealing/check/check.go",
		Old:    `if f.Hold == nil || intent`,
		New:    `if f.Hold == nil || mutant.On("hold-ignored") || intent`,
		Breaks: "S1",
		Why:    "An asset is pushed though a person holds it.",
	},
	{
		Name: "backoff-ignored", File: "internal/annealing/check/approval.go",
		Old:    `if f.Retry == nil ||`,
		New:    `if f.Retry == nil || mutant.On("backoff-ignored") ||`,
		Breaks: "L10",
		Why:    "A push that fails, or that something else undoes, is repeated at once, again and again.",
	},
	{
		Name: "delete-without-turndown", File: "internal/annealing/check/turndown.go",
		Old:    `case f.Turndown == nil && f.Plan.Action == intent.ActionDelete:`,
		New:    `case f.Turndown == nil && f.Plan.Action == intent.ActionDelete && !mutant.On("delete-without-turndown"):`,
		Breaks: "S5",
		Why:    "A plugin that plans to delete what nobody asked to remove is let. A person must approve of it, so it needs one who approves of anything.",
	},
	{
		Name: "turndown-with-dependants", File: "internal/annealing/check/turndown.go",
		Old:    `if !dependant.Known || !dependant.Absent {`,
		New:    `if (!dependant.Known || !dependant.Absent) && !mutant.On("turndown-with-dependants") {`,
		Breaks: "S5",
		Why:    "An asset is removed while others that depend on it, and are to go too, are there. That others stay, validation refuses.",
	},
	{
		Name: "unknown-order-passes", File: "internal/annealing/check/order.go",
		Old:    `if n.Known {`,
		New:    `if n.Known || mutant.On("unknown-order-passes") {`,
		Breaks: "S1 S11",
		Why:    "An asset is pushed before the one that it comes after is seen in sync.",
	},
	{
		Name: "unknown-capacity-passes", File: "internal/annealing/check/capacity.go",
		Old:    `case !s.Known:`,
		New:    `case !s.Known && !mutant.On("unknown-capacity-passes"):`,
		Breaks: "S1 S11",
		Why:    "An asset shrinks while what another expects of it is not known.",
	},
	{
		Name: "version-of-what-is-to-come", File: "internal/annealing/check/version.go",
		Old:    `case !n.Known:`,
		New:    `case !n.Known && !mutant.On("version-of-what-is-to-come"):`,
		Breaks: "S1",
		Why:    "The version that another is asked to have counts as the one that it has.",
	},
	{
		Name: "capacity-reversed", File: "internal/annealing/check/capacity.go",
		Old:    `case s.Serving && exceeds(s.Other.Current, s.Own.Target):`,
		New:    `case s.Serving && (exceeds(s.Other.Current, s.Own.Target) && !mutant.On("capacity-reversed") || mutant.On("capacity-reversed") && exceeds(s.Own.Target, s.Other.Current)):`,
		Breaks: "S1",
		Why:    "An asset may shrink below what is expected of it, and not to what is.",
	},
	{
		Name: "capacity-by-target", File: "internal/annealing/check/capacity.go",
		Old:    `case !s.Serving && exceeds(s.Own.Target, s.Other.Current):`,
		New:    `case !s.Serving && exceeds(s.Own.Target, s.Other.Current) && !(mutant.On("capacity-by-target") && !exceeds(s.Own.Target, s.Other.Target)):`,
		Breaks: "S1",
		Why:    "An asset comes to expect what another is to serve and does not yet.",
	},
	{
		Name: "version-as-text", File: "internal/annealing/check/version.go",
		Old:    `left, errLeft := semver.NewVersion(a)`,
		New:    "if mutant.On(\"version-as-text\") {\n\t\tswitch {\n\t\tcase a < b:\n\t\t\treturn -1, nil\n\t\tcase a > b:\n\t\t\treturn 1, nil\n\t\t}\n\t\treturn 0, nil\n\t}\n\tleft, errLeft := semver.NewVersion(a)",
		Breaks: "S1",
		Why:    "1.9 counts as newer than 1.10.",
	},
	{
		Name: "requirements-error-ignored", File: "internal/annealing/enforcer/pass.go",
		Old:    `if a.requirements.err != nil {`,
		New:    `if a.requirements.err != nil && !mutant.On("requirements-error-ignored") {`,
		Breaks: "S1 S11",
		Why:    "An asset is pushed though what it asks for could not be read, so without its edges and budgets.",
	},
}

// neighbours are what an asset's push rests on.
var neighbours = []Mutant{
	{
		Name: "dropped-edge-disarms", File: "internal/annealing/enforcer/edges.go",
		Old:    `if !slices.Contains(target, old) {`,
		New:    `if !slices.Contains(target, old) && !mutant.On("dropped-edge-disarms") {`,
		Breaks: "S23",
		Why:    "A commit that drops an edge is pushed past it.",
	},
	{
		Name: "dropped-mark-disarms", File: "internal/annealing/enforcer/read.go",
		Old:    `if err == nil && loaded.lastEnforced != nil {`,
		New:    `if err == nil && loaded.lastEnforced != nil && !mutant.On("dropped-mark-disarms") {`,
		Breaks: "S23",
		Why:    "A commit that drops an Approval addon, or a scope with a budget, is pushed without.",
	},
	{
		Name: "orphan-edges-ignored", File: "internal/annealing/enforcer/neighbour.go",
		Old:    "if record, ok := ns.orphans.byID[id]; ok && !record.absent {\n\t\t\t\tns.solveOrphan",
		New:    "if record, ok := ns.orphans.byID[id]; ok && !record.absent && !mutant.On(\"orphan-edges-ignored\") {\n\t\t\t\tns.solveOrphan",
		Breaks: "S23",
		Why:    "A commit that leaves an asset out disarms the edges that it declared, while it goes on running.",
	},
	{
		Name: "stale-neighbour-trusted", File: "internal/annealing/enforcer/neighbour_state.go",
		Old:    `age < ns.facts.holdOf(a) &&`,
		New:    `(age < ns.facts.holdOf(a) || mutant.On("stale-neighbour-trusted")) &&`,
		Breaks: "L10",
		Why:    "A neighbour that was seen in sync long ago counts as in sync. The admission has ended by then and is asked for again at once, so the enforcer turns in a circle until the neighbour is looked at.",
	},
	{
		Name: "unknown-amount-is-zero", File: "internal/annealing/enforcer/neighbour_facts.go",
		Old:    "default:\n\t\tresult.err = fmt.Errorf(\"how much of %s %s has now is not known: its plugin",
		New:    "case mutant.On(\"unknown-amount-is-zero\"):\n\tdefault:\n\t\tresult.err = fmt.Errorf(\"how much of %s %s has now is not known: its plugin",
		Breaks: "S11",
		Why:    "An amount that a plugin does not show counts as nothing. It needs a Capacity addon, and a plugin that shows neither state nor impacts.",
	},
	{
		Name: "nan-impact-counts", File: "internal/annealing/enforcer/neighbour_facts.go",
		Old:        `func isAmount(f float64) bool { return f >= 0 &&`,
		New:        `func isAmount(f float64) bool { return (f >= 0 || f != f && mutant.On("nan-impact-counts")) &&`,
		Breaks:     "S11",
		Why:        "An amount that is no number passes every comparison.",
		Equivalent: "the answer is refused before it gets to the enforcer",
	},
}

// answers of plugins are claims (S11, S26).
var answers = []Mutant{
	{
		Name: "nan-impact-passes", File: "internal/pluginhost/remote/claims.go",
		Old:        `func isAmount(f float64) bool { return f >= 0 &&`,
		New:        `func isAmount(f float64) bool { return (f >= 0 || f != f && mutant.On("nan-impact-passes")) &&`,
		Breaks:     "S11",
		Why:        "A plugin may report an amount that is no number.",
		Equivalent: "the enforcer refuses such amounts, too",
	},
	{
		Name: "silence-is-in-sync", File: "internal/pluginhost/remote/claims.go",
		Old:    `problem = "it says neither in sync, nor differs, nor pending, nor unknown"`,
		New:    "if problem = \"it says neither in sync, nor differs, nor pending, nor unknown\"; mutant.On(\"silence-is-in-sync\") {\n\t\t\td.Outcome, problem = intent.InSync, \"\"\n\t\t}",
		Breaks: "S11",
		Why:    "An answer without an outcome counts as in sync.",
	},
	{
		Name: "destructive-mark-dropped", File: "internal/pluginhost/remote/claims.go",
		Old:    `Destructive: change.Destructive,`,
		New:    `Destructive: change.Destructive && !mutant.On("destructive-mark-dropped"),`,
		Breaks: "S9 L1",
		Why:    "A change that destroys needs no approval. A plugin that compares plans refuses it then, for ever.",
	},
	{
		Name: "unknown-is-in-sync", File: "internal/annealing/enforcer/observed.go",
		Old:    `case g.difference.Outcome == intent.InSync:`,
		New:    `case g.difference.Outcome == intent.InSync || g.difference.Outcome == intent.Unknown && mutant.On("unknown-is-in-sync"):`,
		Breaks: "S11",
		Why:    "What a plugin cannot tell counts as in sync, is recorded as enforced, and lets others pass.",
	},
	{
		Name: "unknown-differs", File: "internal/annealing/enforcer/observed.go",
		Old:    `case g.difference.Outcome == intent.Differs:`,
		New:    `case g.difference.Outcome == intent.Differs || g.difference.Outcome == intent.Unknown && mutant.On("unknown-differs"):`,
		Breaks: "S11 S1",
		Why:    "What a plugin cannot tell is pushed, without a plan and without its requirements.",
	},
}
