package mutation

// protections are asked of each push, and nothing but their pass is one (S11).
var protections = []Mutant{
	{
		Name: "no-answer-passes", Of: Judged, File: "internal/annealing/check/protection.go",
		Old:    `return c.unanswered(q, a)`,
		New:    "if mutant.On(\"no-answer-passes\") {\n\t\t\treturn c.passes(time.Time{})\n\t\t}\n\t\treturn c.unanswered(q, a)",
		Breaks: "S11",
		Why:    "A plugin of checks that does not answer lets everything pass.",
	},
	{
		Name: "judgement-of-another", Of: Judged, File: "internal/pluginhost/remote/checker.go",
		Old:    `case response.Content != request.Content || response.PlanDigest != request.PlanDigest:`,
		New:    `case (response.Content != request.Content || response.PlanDigest != request.PlanDigest) && !mutant.On("judgement-of-another"):`,
		Breaks: "S11",
		Why:    "An answer for other content, or another plan, is taken for the one that was asked for.",
	},
	{
		Name: "judgement-of-any-plan", Of: Judged, File: "internal/annealing/check/protection.go",
		Old:    `PlanDigest: subject.Digest.String(), Changes: len(subject.Plan.Changes),`,
		New:    `PlanDigest: map[bool]string{true: intent.Digest{}.String(), false: subject.Digest.String()}[mutant.On("judgement-of-any-plan")], Changes: len(subject.Plan.Changes),`,
		Breaks: "S11",
		Why:    "Who is asked is not told the plan.",
	},
	{
		Name: "misasked-keeps-its-pass", Of: Judged, File: "internal/annealing/enforcer/outside.go",
		Old:    `if previous.Failed = err; q.Misasked(err) {`,
		New:    `if previous.Failed = err; q.Misasked(err) && !mutant.On("misasked-keeps-its-pass") {`,
		Breaks: "S11",
		Why:    "What was passed before still passes once it may not be asked so any more.",
	},
	{
		Name: "during-not-asked", Of: Judged, File: "internal/annealing/enforcer/guard.go",
		Old:    `if len(g.guarded) == 0 {`,
		New:    `if len(g.guarded) == 0 || mutant.On("during-not-asked") {`,
		Breaks: "S11",
		Why:    "A push under way goes on, whatever the protection says.",
	},
	{
		Name: "during-not-heeded", Of: Judged, File: "internal/annealing/enforcer/protection.go",
		Old:    `g.watched[i].answer = answer`,
		New:    "if mutant.On(\"during-not-heeded\") && answer.Reply != nil && answer.Reply.Blocks {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tg.watched[i].answer = answer",
		Breaks: "S11",
		Why:    "A no during a push is not heard until the last yes is too old.",
	},
	{
		Name: "after-without-a-pass", Of: Judged, File: "internal/annealing/enforcer/after.go",
		Old:    `finished := v.Answer == intent.Pass && !now.Before(w.until) || p.isOverridden(a, w, now)`,
		New:    `finished := (v.Answer == intent.Pass || mutant.On("after-without-a-pass")) && !now.Before(w.until) || p.isOverridden(a, w, now)`,
		Breaks: "S11",
		Why:    "Once its time is over, what is asked after a push counts as passed.",
	},
	{
		Name: "after-forgotten", Of: Judged, File: "internal/annealing/enforcer/view_update.go",
		Old:    `report.Health.IsAfterPush()`,
		New:    `report.Health.IsAfterPush() && !mutant.On("after-forgotten")`,
		Breaks: "S11",
		Why:    "A process that takes over does not know that what is asked after a push did not pass in its time.",
	},
}

// ills: a scope in which much is unhealthy is let be (S8).
var ills = []Mutant{
	{
		Name: "unhealthy-not-counted", Of: Ailing, File: "internal/annealing/enforcer/budget_room.go",
		Old:    `l.unhealthy = bound.most; l.unhealthy == 0 {`,
		New:    `l.unhealthy = bound.most; l.unhealthy == 0 || mutant.On("unhealthy-not-counted") {`,
		Breaks: "S8",
		Why:    "A budget counts only what is in flight.",
	},
	{
		Name: "pushed-beside-the-unhealthy", Of: Ailing, File: "internal/annealing/enforcer/budget_room.go",
		Old:    `return min(use.Limit, room), w.healthyUntil(p.health.period), true`,
		New:    "if mutant.On(\"pushed-beside-the-unhealthy\") {\n\t\troom++\n\t}\n\treturn min(use.Limit, room), w.healthyUntil(p.health.period), true",
		Breaks: "S8",
		Why:    "The one that is to be pushed is not counted among those that may be unhealthy.",
	},
}

// declared: what an asset's Health addon says counts as its plugin's word does (S8, S11).
var declared = []Mutant{
	{
		Name: "health-addon-ignored", Of: Health, File: "internal/annealing/enforcer/health_addon.go",
		Old:    `if !hasAddon {`,
		New:    `if !hasAddon || mutant.On("health-addon-ignored") {`,
		Breaks: "S8",
		Why:    "Only the plugin's word counts.",
	},
	{
		Name: "addon-makes-healthy", Of: Health, File: "internal/annealing/enforcer/health_addon.go",
		Old:    `case told.State == intent.Unhealthy:`,
		New:    "case told.State == intent.Unhealthy && err == nil && problem == \"\" && mutant.On(\"addon-makes-healthy\"):\n\t\tjudged.State = intent.Healthy\n\tcase told.State == intent.Unhealthy:",
		Breaks: "S8",
		Why:    "What its plugin calls unhealthy is healthy where the expression says so.",
	},
	{
		Name: "uncomputed-health-is-the-plugins", Of: Health, File: "internal/annealing/enforcer/health_addon.go",
		Old:    `case err != nil:`,
		New:    "case err != nil && mutant.On(\"uncomputed-health-is-the-plugins\"):\n\t\tjudged = told\n\tcase err != nil:",
		Breaks: "S8",
		Why:    "Where the expression fails the plugin's word counts.",
	},
	{
		Name: "judged-while-content-is-new", Of: Health, File: "internal/annealing/enforcer/observation.go",
		Old:    `return !g.contentKnown || g.judge != judgePlugin ||`,
		New:    `return !g.contentKnown || g.judge != judgePlugin && !mutant.On("judged-while-content-is-new") ||`,
		Breaks: "S8",
		Why:    "The addon judges the first state that is read of new content, and the plugin all later ones.",
	},
}

// notifications are told once they were delivered (L4).
var notifications = []Mutant{
	{
		Name: "sent-before-it-is-sent", Of: Telling, File: "internal/notify/notify.go",
		Old:    `message := d.Message`,
		New:    "message := d.Message\n\t\tif mutant.On(\"sent-before-it-is-sent\") {\n\t\t\tn.engine.delivered(d, nil, now)\n\t\t}",
		Breaks: "L4",
		Why:    "What a target does not take, or a restart cuts off, counts as delivered.",
	},
	{
		Name: "owed-not-stored", Of: Telling, File: "internal/notify/notify.go",
		Old:    `if n.owing || n.dirty && now.Sub(n.stored) >= keep {`,
		New:    "if mutant.On(\"owed-not-stored\") && n.owing {\n\t\towed := n.engine.Outbox\n\t\tn.engine.Outbox = nil\n\t\terr := n.save(ctx, now)\n\t\tif n.engine.Outbox = owed; err != nil {\n\t\t\treturn next, err\n\t\t}\n\t}\n\tif n.owing || n.dirty && now.Sub(n.stored) >= keep {",
		Breaks: "L4",
		Why:    "What was not delivered yet is forgotten by a restart.",
	},
	{
		Name: "one-outbox-for-all", Of: Telling, File: "internal/notify/engine.go",
		Old:    `if visited[d.Target] {`,
		New:    `if visited[d.Target] || len(visited) > 0 && mutant.On("one-outbox-for-all") {`,
		Breaks: "L2",
		Why:    "A target that does not take its message keeps those of others waiting.",
	},
	{
		Name: "edited-but-told-as-before", Of: Telling, File: "internal/notify/engine.go",
		Old:    `e.rules = rules`,
		New:    "previous := e.rules\n\te.rules = rules\n\tif mutant.On(\"edited-but-told-as-before\") {\n\t\te.rules = slices.Clone(rules)\n\t\tfor i, c := range e.rules {\n\t\t\tif at := slices.IndexFunc(previous, func(b *compiled) bool { return b.Name == c.Name }); at >= 0 {\n\t\t\t\te.rules[i] = previous[at]\n\t\t\t}\n\t\t}\n\t}",
		Breaks: "L4 L2",
		Why:    "Whom an edit names is told only once the server has been restarted.",
	},
}
