package mutation

// targets are what an asset must follow now, and in which mode (S2).
var targets = []Mutant{
	{
		Name: "pin-ignored", File: "internal/ground/intent/pin.go",
		Old:    `if len(live) > 0 {`,
		New:    `if len(live) > 0 && !mutant.On("pin-ignored") {`,
		Breaks: "S2",
		Why:    "A pinned asset follows head.",
	},
	{
		Name: "pin-never-ends", File: "internal/ground/intent/pin.go",
		Old:    `return Expired(p.Until, now) })`,
		New:    `return Expired(p.Until, now) && !mutant.On("pin-never-ends") })`,
		Breaks: "S2",
		Why:    "An asset follows a pin that has ended.",
	},
	{
		Name: "lower-rank-wins", File: "internal/ground/intent/pin.go",
		Old:    `cmp.Compare(a.Rank, b.Rank),`,
		New:    `cmp.Compare(a.Rank, b.Rank)*map[bool]int{false: 1, true: -1}[mutant.On("lower-rank-wins")],`,
		Breaks: "S2",
		Why:    "A rollout's pin beats a person's. It needs pins of two ranks, which only the store's own method sets today.",
	},
	{
		Name: "older-pin-wins", File: "internal/ground/intent/pin.go",
		Old:        `cmp.Compare(a.Revision, b.Revision))`,
		New:        `cmp.Compare(a.Revision, b.Revision)*map[bool]int{false: 1, true: -1}[mutant.On("older-pin-wins")])`,
		Breaks:     "S16",
		Why:        "Of two pins of one rank the older one wins.",
		Equivalent: "the store keeps one pin of each rank",
	},
	{
		Name: "pin-revision-reused", File: "internal/store/relational/rollouts.go",
		Old:    `pin_revision = pin_revision + 1`,
		New:    `pin_revision = pin_revision + " + map[bool]string{false: "1", true: "0"}[mutant.On("pin-revision-reused")] + "`,
		Breaks: "S16",
		Why:    "Two pins of a partition have one revision.",
	},
	{
		Name: "pin-without-bump", File: "internal/store/relational/brakes.go",
		Old:    "if pin, err = setPin(t, pin); err != nil {\n\t\t\treturn err\n\t\t}\n",
		New:    "if pin, err = setPin(t, pin); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif mutant.On(\"pin-without-bump\") {\n\t\t\treturn nil\n\t\t}\n",
		Breaks: "S2",
		Why:    "Neither the enforcer nor an admission under way notices a new pin.",
	},
	{
		Name: "hold-without-bump", File: "internal/store/relational/brakes.go",
		Old:    "\"hold\", string(hold.Asset), \"\").because(hold.Reason)\n",
		New:    "\"hold\", string(hold.Asset), \"\").because(hold.Reason)\n\t\tif mutant.On(\"hold-without-bump\") {\n\t\t\treturn nil\n\t\t}\n",
		Breaks: "S1",
		Why:    "Neither the enforcer nor an admission under way notices a new hold.",
	},
	{
		Name: "late-diff-kept", File: "internal/annealing/enforcer/observed.go",
		Old:    `moved := target != g.target || effective != g.effective`,
		New:    `moved := (target != g.target || effective != g.effective) && !mutant.On("late-diff-kept")`,
		Breaks: "S2",
		Why:    "The target is not read again when a diff has ended: what differed from the older incarnation is pushed, or recorded as in sync.",
	},
	{
		Name: "rebase-over-new-content", File: "internal/annealing/enforcer/observed.go",
		Old:    `if effective != g.effective ||`,
		New:    `if effective != g.effective && !mutant.On("rebase-over-new-content") ||`,
		Breaks: "S2",
		Why:    "What differed from the older content counts as the difference from the newer one.",
	},
	{
		Name: "holds-any-target", File: "internal/annealing/enforcer/look.go",
		Old:    `a.difference.Incarnation == target && a.difference.Effective == effective &&`,
		New:    `(a.difference.Incarnation == target && a.difference.Effective == effective || mutant.On("holds-any-target")) &&`,
		Breaks: "S2 S23",
		Why:    "A pass decides over the difference from an older head, whose policy may have had other budgets. New content, or another pin, begins afresh without a difference.",
	},
	{
		Name: "renew-keeps-difference", File: "internal/annealing/enforcer/apply.go",
		Old:        `*a.trouble = trouble{push: a.push, admitting: a.admitting, tried: a.tried, note: a.note, pushTrace: a.pushTrace, busy: a.busy}`,
		New:        "before := *a.trouble\n\t\t*a.trouble = trouble{push: a.push, admitting: a.admitting, tried: a.tried, note: a.note, pushTrace: a.pushTrace, busy: a.busy}\n\t\tif mutant.On(\"renew-keeps-difference\") {\n\t\t\ta.difference, a.plan, a.requirements = before.difference, before.plan, before.requirements\n\t\t}",
		Breaks:     "S2",
		Why:        "An asset with new content keeps the difference from the old one.",
		Equivalent: "a pass does not rely on the difference from another target, nor a look on what was read of other content",
	},
	{
		Name: "stale-difference-pushed", File: "internal/annealing/enforcer/look.go",
		Old:    `now.Sub(a.difference.At) < e.Limits.FactHold`,
		New:    `(now.Sub(a.difference.At) < e.Limits.FactHold || mutant.On("stale-difference-pushed"))`,
		Breaks: "S1 S18",
		Why:    "After a long stop, or a long wait, an asset is pushed by what was seen before it: resuming looks at nothing again.",
	},
	{
		Name: "absent-follows-older", File: "internal/annealing/enforcer/apply.go",
		Old:    "if a != nil {\n\t\t\t\te.drop(a)\n\t\t\t}\n\t\t\tcontinue",
		New:    "if a != nil && change.Before != nil && mutant.On(\"absent-follows-older\") {\n\t\t\t\tolder := intent.IncarnationID{Partition: e.Partition, Sequence: change.Before.Since}\n\t\t\t\te.view.pins[a.id] = append(e.view.pins[a.id], intent.Pin{Asset: a.id, Incarnation: older})\n\t\t\t\te.view.pinned[pinnedAt{a.id, older.Sequence}] = *change.Before\n\t\t\t}\n\t\t\tif a != nil {\n\t\t\t\te.drop(a)\n\t\t\t}\n\t\t\tcontinue",
		Breaks: "S5 S2",
		Why:    "An asset that left head follows the newest incarnation that has it, its Turndown too. It must leave while it differs.",
	},
	{
		Name: "looser-mode-wins", File: "internal/annealing/enforcer/requirements.go",
		Old:    `for _, mode := range []check.Mode{check.Off, check.Observe, check.Enforce} {`,
		New:    "order := []check.Mode{check.Off, check.Observe, check.Enforce}\n\tif mutant.On(\"looser-mode-wins\") {\n\t\torder[0], order[2] = order[2], order[0]\n\t}\n\tfor _, mode := range order {",
		Breaks: "S1",
		Why:    "An asset of an enforcing partition is pushed though its own mode, or that of its type, is stricter.",
	},
	{
		Name: "observe-pushes", File: "internal/annealing/check/check.go",
		Old:    `if f.Mode == Enforce {`,
		New:    "if f.Mode == Observe && mutant.On(\"observe-pushes\") {\n\t\treturn intent.Passed(\"mode\", time.Time{})\n\t}\n\tif f.Mode == Enforce {",
		Breaks: "S1",
		Why:    "An asset in observe mode is pushed.",
	},
	{
		Name: "off-pushes", File: "internal/annealing/check/check.go",
		Old:        `if f.Mode == Enforce {`,
		New:        "if f.Mode == Off && mutant.On(\"off-pushes\") {\n\t\treturn intent.Passed(\"mode\", time.Time{})\n\t}\n\tif f.Mode == Enforce {",
		Breaks:     "S1",
		Why:        "An asset whose mode is off is pushed.",
		Equivalent: "what is off is not looked at, and what a look finds of it leads to no pass",
	},
	{
		Name: "off-looked-at", File: "internal/annealing/enforcer/look.go",
		Old:        `case e.view.modeNow(a) == check.Off:`,
		New:        `case e.view.modeNow(a) == check.Off && !mutant.On("off-looked-at"):`,
		Breaks:     "S1",
		Why:        "An asset whose mode is off is looked at.",
		Equivalent: "a look changes nothing, what it finds leads to no pass, and before a push the mode is a check",
	},
	{
		Name: "off-passes", File: "internal/annealing/enforcer/observed.go",
		Old:        `case e.view.modeNow(a) == check.Off:`,
		New:        `case e.view.modeNow(a) == check.Off && !mutant.On("off-passes"):`,
		Breaks:     "S1",
		Why:        "What a look finds of an asset whose mode turned off leads to a pass.",
		Equivalent: "the mode is a check, too",
	},
}

// pushes are carried out, and end in the journal.
var pushes = []Mutant{
	{
		Name: "pushed-is-believed", File: "internal/annealing/enforcer/push.go",
		Old:    `c.asset.push = nil`,
		New:    "if c.result.Ending == plugin.Pushed && mutant.On(\"pushed-is-believed\") {\n\t\t\t\te.enforced.Add(sighting{c.asset, intent.Report{State: intent.StateInSync}, store.Enforced{\n\t\t\t\t\tAsset: c.asset.id, Type: c.asset.kind.name, Effective: c.asset.tried, Policy: e.view.policy.digest, Incarnation: c.asset.push.target,\n\t\t\t\t\tResourceKey: c.asset.difference.ResourceKey, Absent: c.asset.turnsDown(), At: e.Runtime.Now(),\n\t\t\t\t}})\n\t\t\t}\n\t\t\tc.asset.push = nil",
		Breaks: "S26",
		Why:    "An asset is recorded as enforced because its plugin says that it pushed, though production differs.",
	},
	{
		Name: "doubt-closes", File: "internal/store/relational/journal.go",
		Old:    `if closing.Ending == store.EndingInDoubt {`,
		New:    `if closing.Ending == store.EndingInDoubt && !mutant.On("doubt-closes") {`,
		Breaks: "S3",
		Why:    "A push whose end was lost is closed at once. Until it is settled the enforcer remembers it; the next process does not know of it.",
	},
	{
		Name: "restart-forgets-open", File: "internal/annealing/enforcer/view_update.go",
		Old:    `return e.inherit(ctx)`,
		New:    "if mutant.On(\"restart-forgets-open\") {\n\t\treturn nil\n\t}\n\treturn e.inherit(ctx)",
		Breaks: "L6",
		Why:    "A push that was open at a crash is never settled, and its asset waits for it for ever.",
	},
	{
		Name: "inherit-forgets-guards", File: "internal/annealing/enforcer/settle.go",
		Old:    `e.restoreEnforced(a)`,
		New:    "if !mutant.On(\"inherit-forgets-guards\") {\n\t\t\t\te.restoreEnforced(a)\n\t\t\t}",
		Breaks: "S23",
		Why:    "A push of an asset that left intent is taken over without what the asset was enforced with. It must come back while the push is being settled.",
	},
	{
		Name: "doubt-never-settled", File: "internal/annealing/enforcer/push.go",
		Old:    `e.settle(ctx, a, result.Gone)`,
		New:    "if !mutant.On(\"doubt-never-settled\") {\n\t\t\te.settle(ctx, a, result.Gone)\n\t\t}",
		Breaks: "L6",
		Why:    "A push whose reply was lost stays open.",
	},
}

// settlings wait until a push in doubt can no longer be running (S3). A target
// that fences or compares hides them.
var settlings = []Mutant{
	{
		Name: "settle-at-once", File: "internal/annealing/enforcer/settle.go",
		Old:    `if outlive(ctx, e.Runtime, kind, pause, effect) != nil {`,
		New:    `if !mutant.On("settle-at-once") && outlive(ctx, e.Runtime, kind, pause, effect) != nil {`,
		Breaks: "S3",
		Why:    "The next push begins while one in doubt may still be running.",
	},
	{
		Name: "lock-delay-without-effect", File: "internal/annealing/enforcer/settle.go",
		Old: `effect = cmp.Or(effect, k.served.longestEffect(k.name))`,
		New: `effect = cmp.Or(effect, k.served.longestEffect(k.name))
		if mutant.On("lock-delay-without-effect") {
			return runtime.Wait(ctx, pause, nil)
		}`,
		Breaks: "S3",
		Why:    "An effect that cannot be cancelled, begun at the end of a permit, runs into the next push. It must be longer than the margin.",
	},
	{
		Name: "lock-delay-without-permit", File: "internal/annealing/enforcer/settle.go",
		Old: `pause = plugin.PermitPeriod + plugin.LockDelayMargin`,
		New: `pause = plugin.PermitPeriod + plugin.LockDelayMargin
		if mutant.On("lock-delay-without-permit") {
			pause = plugin.LockDelayMargin
		}`,
		Breaks: "S3",
		Why:    "A push in doubt begins another effect under its last permit, beside the next push.",
	},
	{
		Name: "settle-before-landing", File: "internal/annealing/enforcer/settle.go",
		Old: `id, effect, kind := a.push.id, a.push.effect, *a.kind`,
		New: `id, effect, kind := a.push.id, a.push.effect, *a.kind
	if pluginGone != nil && mutant.On("settle-before-landing") {
		effect = 1
	}`,
		Breaks: "S3 S1",
		Why:    "Once its plugin is gone a push counts as over. What that had asked its target for lands beside the next push.",
	},
	{
		Name: "settle-ignores-gone", File: "internal/annealing/enforcer/settle.go",
		Old:    `if pluginGone != nil && e.Runtime.Wait(ctx, -1, pluginGone) != nil {`,
		New:    `if pluginGone != nil && !mutant.On("settle-ignores-gone") && e.Runtime.Wait(ctx, -1, pluginGone) != nil {`,
		Breaks: "S3",
		Why:    "The next push does not wait until the plugin's process is gone. It needs plugins that tell when they are.",
	},
}
