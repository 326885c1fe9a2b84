package mutation

// fences keep out who holds the lease no more (S4).
var fences = []Mutant{
	{
		Name: "fence-not-in-writes", File: "internal/store/relational/leases.go",
		Old:    `lease.Epoch == 0 || epoch != lease.Epoch || holder != lease.Holder`,
		New:    `(lease.Epoch == 0 || epoch != lease.Epoch || holder != lease.Holder) && !(mutant.On("fence-not-in-writes") && func() bool { _, writes := q.(*transaction); return writes }())`,
		Breaks: "S4",
		Why:    "A process that lost the lease goes on to admit, close, record and publish.",
	},
	{
		Name: "fence-not-in-reads", File: "internal/store/relational/leases.go",
		Old:    `lease.Epoch == 0 || epoch != lease.Epoch || holder != lease.Holder`,
		New:    `(lease.Epoch == 0 || epoch != lease.Epoch || holder != lease.Holder) && !(mutant.On("fence-not-in-reads") && func() bool { _, reads := q.(snapshot); return reads }())`,
		Breaks: "L7 L5",
		Why:    "A process that lost the lease is never told: it starts its actors again and again, and does not take the lease back when the next holder is gone. Its pushes have no permits all the same, for Acquire marks them as in doubt.",
	},
	{
		Name: "fence-by-name", File: "internal/store/relational/leases.go",
		Old:    `lease.Epoch == 0 || epoch != lease.Epoch || holder != lease.Holder`,
		New:    `(lease.Epoch == 0 || epoch != lease.Epoch || holder != lease.Holder) && !(mutant.On("fence-by-name") && lease.Epoch != 0 && holder == lease.Holder)`,
		Breaks: "S4",
		Why:    "The holder's name is compared, the epoch is not: two processes of one name, as first processes of containers are, both act.",
	},
	{
		Name: "acquire-keeps-epoch", File: "internal/store/relational/leases.go",
		Old:    `epoch = epoch + 1, holder = $2`,
		New:    `epoch = " + map[bool]string{false: "epoch + 1", true: "max(epoch, 1)"}[mutant.On("acquire-keeps-epoch")] + ", holder = $2`,
		Breaks: "S4",
		Why:    "Two holders have one epoch, and a push id is used again.",
	},
	{
		Name: "release-resets-epoch", File: "internal/store/relational/leases.go",
		Old:    `UPDATE partitions SET holder = '' WHERE id = $1`,
		New:    `UPDATE partitions SET holder = ''" + map[bool]string{true: ", epoch = 0"}[mutant.On("release-resets-epoch")] + " WHERE id = $1`,
		Breaks: "S4 S15",
		Why:    "After an orderly stop the epochs begin anew, below what targets have seen.",
	},
	{
		Name: "acquire-forgets-doubt", File: "internal/store/relational/leases.go",
		Old:        `UPDATE push SET doubt = 1 WHERE partition = $1 AND open = 1"`,
		New:        `UPDATE push SET doubt = 1 WHERE partition = $1 AND open = 1" + map[bool]string{true: " AND 1 = 0"}[mutant.On("acquire-forgets-doubt")]`,
		Breaks:     "S4",
		Why:        "Pushes of the holder before do not count as in doubt, so that it may have permits for them.",
		Equivalent: "the fence in reads refuses it permits, and the new enforcer takes over every open push as in doubt",
	},
	{
		Name: "lost-lease-unnoticed", File: "internal/app/partition.go",
		Old:    `if err := a.store.Check(ctx, lease); fault.Is(err, fault.Conflict) {`,
		New:    `if err := a.store.Check(ctx, lease); fault.Is(err, fault.Conflict) && !mutant.On("lost-lease-unnoticed") {`,
		Breaks: "L5",
		Why:    "A process does not look whether it still has the lease. In a quiet partition it writes nothing that would be refused, so that when the next holder is gone nobody takes the lease.",
	},
	{
		Name: "since-newest-epoch", File: "internal/app/partition.go",
		Old:    `if a.firstEpochs[lease.Partition] == 0 {`,
		New:    `if a.firstEpochs[lease.Partition] == 0 || mutant.On("since-newest-epoch") {`,
		Breaks: "S3",
		Why:    "A process that lost its lease and has it back takes its own open pushes for those of an older process, whose plugins are gone. It shows with plugins that tell when they are alone.",
	},
}

// permits hold back pushes under way (S2, S18).
var permits = []Mutant{
	{
		Name: "permit-always", File: "internal/store/relational/permit.go",
		Old:    `attempt := fmt.Sprintf("permitting push %s", push)`,
		New:    "attempt := fmt.Sprintf(\"permitting push %s\", push)\n\tif mutant.On(\"permit-always\") {\n\t\treturn nil\n\t}",
		Breaks: "S18 S2 S4",
		Why:    "A long push goes on after a stop, a takeover, or newer intent.",
	},
	{
		Name: "permit-ignores-stop", File: "internal/store/relational/permit.go",
		Old:    `if standing.stopped {`,
		New:    `if standing.stopped && !mutant.On("permit-ignores-stop") {`,
		Breaks: "S18",
		Why:    "A long push goes on after a stop.",
	},
	{
		Name: "stop-of-all-not-fenced", File: "internal/store/relational/leases.go",
		Old:    `SELECT min(partition) FROM stop WHERE partition = '' OR partition = p.id)`,
		New:    "SELECT min(partition) FROM stop WHERE ` + map[bool]string{false: \"partition = '' OR \"}[mutant.On(\"stop-of-all-not-fenced\")] + `partition = p.id)",
		Breaks: "S18",
		Why:    "A stop of one partition ends its permits; one of all partitions does not.",
	},
	{
		Name: "permit-ignores-target", File: "internal/store/relational/permit.go",
		Old:    `if target.Sequence == admitted {`,
		New:    `if target.Sequence == admitted || mutant.On("permit-ignores-target") {`,
		Breaks: "S2",
		Why:    "A long push of superseded content goes on beyond its permit.",
	},
	{
		Name: "permit-ignores-pins", File: "internal/store/relational/permit.go",
		Old:    `pins, err := scanPins(q, lease.Partition, asset)`,
		New:    "pins, err := scanPins(q, lease.Partition, asset)\n\t\tif mutant.On(\"permit-ignores-pins\") {\n\t\t\tpins = nil\n\t\t}",
		Breaks: "S2 L1",
		Why:    "A long push goes on after a pin to other content, and one of pinned content never has a second permit.",
	},
	{
		Name: "permit-ignores-doubt", File: "internal/store/relational/permit.go",
		Old:        `case doubt:`,
		New:        `case doubt && !mutant.On("permit-ignores-doubt"):`,
		Breaks:     "S4",
		Why:        "A push that is in doubt since its holder lost the lease has permits.",
		Equivalent: "the fence in reads refuses the holder before, and a push whose reply was lost cannot ask",
	},
	{
		Name: "permit-for-ended", File: "internal/store/relational/permit.go",
		Old:        ` AND open = 1",`,
		New:        `" + map[bool]string{false: " AND open = 1"}[mutant.On("permit-for-ended")],`,
		Breaks:     "S3",
		Why:        "A plugin that was paused for longer than the lock delay asks for a permit of a push that was settled, and goes on beside the next one.",
		Equivalent: "the caller of a plugin answers only for calls of Push that are open, a push is closed after its call has ended, and another holder's process is refused by the fence",
	},
	{
		Name: "push-without-second-look", File: "internal/annealing/enforcer/push.go",
		Old:    `age > fresh || wallAge > fresh || wallAge < 0 {`,
		New:    `(age > fresh || wallAge > fresh || wallAge < 0) && !mutant.On("push-without-second-look") {`,
		Breaks: "S18 S2",
		Why:    "A process that was paused between admission and push begins it, though stop or target changed meanwhile.",
	},
}
