package mutation

// collections remove what nothing needs, and nothing else (S17).
var collections = []Mutant{
	{
		Name: "collector-one-too-many", File: "internal/store/relational/collect.go",
		Old:    `AND i.seq <= $3`,
		New:    "AND i.seq <= $3` + map[bool]string{true: \" + 1\"}[mutant.On(\"collector-one-too-many\")] + `",
		Breaks: "S17",
		Why:    "One incarnation fewer is kept than asked for.",
	},
	{
		Name: "collector-ignores-pins", File: "internal/store/relational/collect.go",
		Old:    `AND NOT EXISTS (SELECT 1 FROM pin WHERE partition = $1 AND seq = i.seq)`,
		New:    "` + map[bool]string{false: \"AND NOT EXISTS (SELECT 1 FROM pin WHERE partition = $1 AND seq = i.seq)\"}[mutant.On(\"collector-ignores-pins\")] + `",
		Breaks: "S17",
		Why:    "What a pinned asset follows is gone.",
	},
	{
		Name: "collector-ignores-enforced", File: "internal/store/relational/collect.go",
		Old:    `AND NOT EXISTS (SELECT 1 FROM enforced WHERE partition = $1 AND seq = i.seq)`,
		New:    "` + map[bool]string{false: \"AND NOT EXISTS (SELECT 1 FROM enforced WHERE partition = $1 AND seq = i.seq)\"}[mutant.On(\"collector-ignores-enforced\")] + `",
		Breaks: "S17 S23",
		Why:    "What an asset was enforced with, and whose edges guard it, is gone.",
	},
	{
		Name: "collector-ignores-open", File: "internal/store/relational/collect.go",
		Old:    `AND NOT EXISTS (SELECT 1 FROM push WHERE partition = $1 AND open = 1 AND target = i.seq)`,
		New:    "` + map[bool]string{false: \"AND NOT EXISTS (SELECT 1 FROM push WHERE partition = $1 AND open = 1 AND target = i.seq)\"}[mutant.On(\"collector-ignores-open\")] + `",
		Breaks: "S17",
		Why:    "What an open push carries out is gone.",
	},
	{
		Name: "collector-ignores-held", File: "internal/store/relational/collect.go",
		Old:        `FROM candidate WHERE partition = $1 AND base = i.seq`,
		New:        "FROM candidate WHERE partition = $1 AND base = ` + map[bool]string{false: \"i.seq\", true: \"-1\"}[mutant.On(\"collector-ignores-held\")] + `",
		Breaks:     "S17",
		Why:        "What a candidate that is kept is a delta on is gone.",
		Equivalent: "a held candidate's base is head until the next round supersedes it, and what was head lately is kept for its age",
	},
	{
		Name: "collector-takes-live-member", File: "internal/store/relational/collect.go",
		Old:    `AND from_seq > $2 LIMIT $4 + 0) RETURNING digest`,
		New:    "AND from_seq >` + map[bool]string{true: \"=\"}[mutant.On(\"collector-takes-live-member\")] + ` $2 LIMIT $4 + 0) RETURNING digest",
		Breaks: "S17 S7",
		Why:    "Assets that began in a retained incarnation and ended in a collected one are gone from the retained one.",
	},
	{
		Name: "body-in-use-dropped", File: "internal/store/relational/stage.go",
		Old:    `AND NOT EXISTS (SELECT 1 FROM member WHERE digest = $1)`,
		New:    "` + map[bool]string{false: \"AND NOT EXISTS (SELECT 1 FROM member WHERE digest = $1)\"}[mutant.On(\"body-in-use-dropped\")] + `",
		Breaks: "S17 S7",
		Why:    "A body that comes back, or that another row has too, goes with the first row that had it.",
	},
	{
		Name: "body-of-candidate-dropped", File: "internal/store/relational/stage.go",
		Old:    `AND NOT EXISTS (SELECT 1 FROM candidate_entry WHERE digest = $1 AND has_body = 1)`,
		New:    "` + map[bool]string{false: \"AND NOT EXISTS (SELECT 1 FROM candidate_entry WHERE digest = $1 AND has_body = 1)\"}[mutant.On(\"body-of-candidate-dropped\")] + `",
		Breaks: "S17",
		Why:    "A held candidate cannot be shown any more: its bodies went with an incarnation that had them too.",
	},
	{
		Name: "collector-forgets-orphans", File: "internal/store/relational/collect_claims.go",
		Old:    ` AND e.absent = 1`,
		New:    "` + map[bool]string{false: \" AND e.absent = 1\"}[mutant.On(\"collector-forgets-orphans\")] + `",
		Breaks: "S17 S23",
		Why:    "An orphan is forgotten though nobody disowned it: it is not listed, its edges guard nothing, and its resource is free.",
	},
}

// audits record what was done before it has an effect (S25).
var audits = []Mutant{
	{
		Name: "admit-unaudited", File: "internal/store/relational/admit.go",
		Old:    `d.audit(d.lease.Partition, a.At, serverActor(d.lease), "admit", string(a.Asset), detail)`,
		New:    "if !mutant.On(\"admit-unaudited\") {\n\t\td.audit(d.lease.Partition, a.At, serverActor(d.lease), \"admit\", string(a.Asset), detail)\n\t}",
		Breaks: "S25",
		Why:    "A push leaves no record.",
	},
	{
		Name: "approve-unaudited", File: "internal/store/relational/approvals.go",
		Old:    `t.audit(approval.Partition, t.now, approval.By, "approve", string(approval.Asset),`,
		New:    "if mutant.On(\"approve-unaudited\") {\n\t\t\treturn t.bump(approval.Partition)\n\t\t}\n\t\tt.audit(approval.Partition, t.now, approval.By, \"approve\", string(approval.Asset),",
		Breaks: "S25",
		Why:    "An approval leaves no record.",
	},
	{
		Name: "stop-unaudited", File: "internal/store/relational/stops.go",
		Old:    `t.audit(stop.Partition, t.now, stop.Owner, "stop", string(stop.Partition), "").because(stop.Reason)`,
		New:    "if !mutant.On(\"stop-unaudited\") {\n\t\t\tt.audit(stop.Partition, t.now, stop.Owner, \"stop\", string(stop.Partition), \"\").because(stop.Reason)\n\t\t}",
		Breaks: "S25",
		Why:    "A stop leaves no record.",
	},
	{
		Name: "audit-after-commit", File: "internal/store/relational/writer.go",
		Old:    "if broken == nil {\n\t\tbroken = records.write(&transaction{writer: w, now: started})\n\t}\n\tif broken == nil {\n\t\t_, broken = w.exec(\"COMMIT\")\n",
		New:    "if broken == nil && !mutant.On(\"audit-after-commit\") {\n\t\tbroken = records.write(&transaction{writer: w, now: started})\n\t}\n\tif broken == nil {\n\t\t_, broken = w.exec(\"COMMIT\")\n\t\tif broken == nil && mutant.On(\"audit-after-commit\") {\n\t\t\tw.runtime.Point(\"store: before the audit\")\n\t\t\tif _, broken = w.exec(\"BEGIN IMMEDIATE\"); broken == nil {\n\t\t\t\tbroken = records.write(&transaction{writer: w, now: started})\n\t\t\t}\n\t\t\tif broken == nil {\n\t\t\t\t_, broken = w.exec(\"COMMIT\")\n\t\t\t}\n\t\t}\n",
		Breaks: "S25",
		Why:    "A crash between the commit and the one of its records leaves changes without records.",
	},
	{
		Name: "audit-chain-unlinked", File: "internal/ground/audit/audit.go",
		Old:    `return intent.Sum("lehr.audit.v2", previous[:],`,
		New:    "if mutant.On(\"audit-chain-unlinked\") {\n\t\tprevious = intent.Digest{}\n\t}\n\treturn intent.Sum(\"lehr.audit.v2\", previous[:],",
		Breaks: "S25",
		Why:    "A record can be replaced by another one with a link of its own. The verification agrees with it, so it takes a chain computed elsewhere, or a forged record.",
	},
	{
		Name: "audit-end-not-checked", File: "internal/store/relational/audit.go",
		Old:    `if walk.Number != end.Number || walk.Link != end.Link {`,
		New:    `if (walk.Number != end.Number || walk.Link != end.Link) && !mutant.On("audit-end-not-checked") {`,
		Breaks: "S25",
		Why:    "The newest records can be cut off unseen. It needs somebody who does.",
	},
}

// livenesses are what must happen in the end.
var livenesses = []Mutant{
	{
		Name: "wait-unreported", File: "internal/annealing/enforcer/report.go",
		Old:    `report := intent.Report{State: intent.StateWaiting, Target: target, Effective: effective, Waiting: waiting}`,
		New:    "if mutant.On(\"wait-unreported\") {\n\t\treturn\n\t}\n\treport := intent.Report{State: intent.StateWaiting, Target: target, Effective: effective, Waiting: waiting}",
		Breaks: "L4",
		Why:    "An asset waits, and nobody is told what for.",
	},
	{
		Name: "backoff-survives-new-intent", File: "internal/annealing/enforcer/apply.go",
		Old:    `*a.trouble = trouble{push: a.push, admitting: a.admitting, tried: a.tried, note: a.note, pushTrace: a.pushTrace, busy: a.busy}`,
		New:    "failures, retry := a.failures, a.retry\n\t\t*a.trouble = trouble{push: a.push, admitting: a.admitting, tried: a.tried, note: a.note, pushTrace: a.pushTrace, busy: a.busy}\n\t\tif mutant.On(\"backoff-survives-new-intent\") {\n\t\t\ta.failures, a.retry = failures, retry\n\t\t}",
		Breaks: "L3",
		Why:    "A good incarnation waits as long as the bad one before it failed.",
	},
	{
		Name: "busy-ends-with-intent", File: "internal/annealing/enforcer/apply.go",
		Old:    `*a.trouble = trouble{push: a.push, admitting: a.admitting, tried: a.tried, note: a.note, pushTrace: a.pushTrace, busy: a.busy}`,
		New:    "*a.trouble = trouble{push: a.push, admitting: a.admitting, tried: a.tried, note: a.note, pushTrace: a.pushTrace, busy: a.busy}\n\t\tif mutant.On(\"busy-ends-with-intent\") {\n\t\t\ta.busy = nil\n\t\t}",
		Breaks: "L10",
		Why:    "Every edit of an asset has a target asked that is too busy.",
	},
	{
		Name: "busy-ignored", File: "internal/annealing/enforcer/retry.go",
		Old:    `a.busy != nil && a.busy.Until.After(now)`,
		New:    `a.busy != nil && a.busy.Until.After(now) && !mutant.On("busy-ignored")`,
		Breaks: "L10",
		Why:    "A target that is too busy is asked again at once.",
	},
	{
		Name: "quiet-rewrites-reports", File: "internal/annealing/enforcer/reporter.go",
		Old:    `if report.Key() == a.reported {`,
		New:    `if report.Key() == a.reported && !mutant.On("quiet-rewrites-reports") {`,
		Breaks: "L10",
		Why:    "Every look at an asset at rest writes its report.",
	},
	{
		Name: "quiet-rewrites-records", File: "internal/annealing/enforcer/in_sync.go",
		Old:    ` a.settled && a.enforcedAs() == g.effective {`,
		New:    ` a.settled && a.enforcedAs() == g.effective && !mutant.On("quiet-rewrites-records") {`,
		Breaks: "L10",
		Why:    "Every look at an asset at rest writes its enforced record.",
	},
	{
		Name: "fight-never-slows", File: "internal/annealing/enforcer/drift.go",
		Old:    `if t.flips <= patience {`,
		New:    `if t.flips <= patience || mutant.On("fight-never-slows") {`,
		Breaks: "L10",
		Why:    "Lehr and another writer change an asset back and forth for ever.",
	},
	{
		Name: "failed-actor-stays-down", File: "internal/app/partition.go",
		Old:    `pause := again.After(failures)`,
		New:    "if mutant.On(\"failed-actor-stays-down\") {\n\t\t\treturn nil\n\t\t}\n\t\tpause := again.After(failures)",
		Breaks: "L7",
		Why:    "After one failure of the store a partition has no pipeline, enforcer or collector any more.",
	},
	{
		Name: "poison-spoils-batch", File: "internal/annealing/enforcer/observed.go",
		Old:    `t.share = max(1, size/2)`,
		New:    "t.share = max(1, size/2)\n\tif mutant.On(\"poison-spoils-batch\") {\n\t\tt.share = size\n\t}",
		Breaks: "L2",
		Why:    "An asset at which its plugin fails keeps those of its batch from being looked at.",
	},
}
