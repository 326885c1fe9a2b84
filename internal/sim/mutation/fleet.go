package mutation

// fleets share one store; the runs that find these have three replicas.
var fleets = []Mutant{
	{
		Name: "lease-taken-while-it-runs", File: "internal/store/relational/leases.go", Replicas: 3,
		Old:    `if isHeld && err == nil {`,
		New:    `if isHeld && err == nil && !mutant.On("lease-taken-while-it-runs") {`,
		Breaks: "S4 L5",
		Why:    "Whoever has room takes the lease of a replica that lives.",
	},
	{
		Name: "dead-have-shares", File: "internal/store/relational/replicas.go", Replicas: 3,
		Old:    `WHERE r.ends > ` + "`+now+`" + ` GROUP BY r.name`,
		New:    `WHERE r.ends > ` + "`+map[bool]string{false: now, true: \"0\"}[mutant.On(\"dead-have-shares\")]+`" + ` GROUP BY r.name`,
		Breaks: "L5",
		Why:    "A partition that falls to a replica which is gone has nobody to act for it.",
	},
	{
		Name: "elsewhere-is-gone", File: "internal/app/partition.go", Replicas: 3,
		Old: `	if a.shares() {
		return 0`,
		New: `	if a.shares() && !mutant.On("elsewhere-is-gone") {
		return 0`,
		Breaks: "S3 S4",
		Why:    "A replica that finds its own plugins gone takes for gone, too, those of a replica on another machine, and settles their pushes at once.",
	},
	{
		Name: "elsewhere-asked-seldom", File: "internal/app/fleet.go", Replicas: 3,
		Old:    `_ = a.runtime.Wait(ctx, leasePoll, a.fleet.stirred)`,
		New:    `_ = a.runtime.Wait(ctx, map[bool]time.Duration{false: leasePoll, true: 20 * time.Second}[mutant.On("elsewhere-asked-seldom")], a.fleet.stirred)`,
		Breaks: "L5",
		Why:    "Whoever stands by looks for free leases every 20 s only.",
	},
	{
		Name: "unread-list-is-news", File: "internal/app/partition.go", Replicas: 3,
		Old:    `_ = a.runtime.Wait(ctx, again.After(failures), changed)`,
		New:    `_ = a.runtime.Wait(ctx, map[bool]time.Duration{false: again.After(failures), true: lookAround}[mutant.On("unread-list-is-news")], changed)`,
		Breaks: "L5",
		Why:    "A replica that could not read which partitions there are has its share of them, and asks again after half a minute.",
	},
}
