package mutation

// memos are what plugins had Lehr keep (S27).
var memos = []Mutant{
	{
		Name: "memo-under-any-epoch", File: "internal/store/relational/memos.go",
		Old:    "return s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {\n\t\tasset, err := mustHoldPush(t, attempt, lease, push)",
		New:    "act, hold := s.act, mustHoldPush\n\tif mutant.On(\"memo-under-any-epoch\") {\n\t\tact = func(ctx context.Context, attempt string, _ store.Lease, work func(*transaction, standing) error) error {\n\t\t\treturn s.write(ctx, attempt, func(t *transaction) error { return work(t, standing{}) })\n\t\t}\n\t\thold = func(t *transaction, _ string, lease store.Lease, push intent.PushID) (asset intent.AssetID, err error) {\n\t\t\t_, err = t.one(\"SELECT asset FROM push WHERE id = $1 AND partition = $2\", []any{string(push), string(lease.Partition)}, &asset)\n\t\t\treturn asset, err\n\t\t}\n\t}\n\treturn act(ctx, attempt, lease, func(t *transaction, _ standing) error {\n\t\tasset, err := hold(t, attempt, lease, push)",
		Breaks: "S4 S27",
		Why:    "Who lost the lease, or whose push has ended, still sets memos, over those of its successor. It must be late.",
	},
	{
		Name: "memo-acknowledged-first", File: "internal/annealing/enforcer/memos.go",
		Old:    `return m.store.SaveMemo(ctx, lease, push, memo)`,
		New:    "if mutant.On(\"memo-acknowledged-first\") {\n\t\tm.runtime.Go(\"memo later\", func() { _ = m.store.SaveMemo(ctx, lease, push, memo) })\n\t\treturn nil\n\t}\n\treturn m.store.SaveMemo(ctx, lease, push, memo)",
		Breaks: "S27",
		Why:    "A plugin is told that its memo is kept before it is.",
	},
	{
		Name: "memo-of-another-asset", File: "internal/store/relational/memos.go",
		Old:    `list, err := memosOf(q, partition, asset)`,
		New:    "of := asset\n\t\t\tif mutant.On(\"memo-of-another-asset\") {\n\t\t\t\tof = assets[0]\n\t\t\t}\n\t\t\tlist, err := memosOf(q, partition, of)",
		Breaks: "S27",
		Why:    "All assets of a batch are handed the memos of its first.",
	},
	{
		Name: "memos-not-handed-on", File: "internal/annealing/enforcer/memos.go",
		Old:    `m.add(assets...)`,
		New:    "if !mutant.On(\"memos-not-handed-on\") {\n\t\t\tm.add(assets...)\n\t\t}",
		Breaks: "S27",
		Why:    "Who takes over, or is started anew, hands no memo of before.",
	},
	{
		Name: "pushed-without-memos", File: "internal/annealing/enforcer/memos.go",
		Old:    `order.Memos = memos[order.Asset]`,
		New:    "if !mutant.On(\"pushed-without-memos\") {\n\t\torder.Memos = memos[order.Asset]\n\t}",
		Breaks: "S27",
		Why:    "Looks are handed memos, and pushes are not.",
	},
	{
		Name: "memo-is-never-replaced", File: "internal/store/relational/memos.go",
		Old:    `number = excluded.number, set_at = excluded.set_at, push = excluded.push, epoch = excluded.epoch`,
		New:    "number = excluded.number, set_at = excluded.set_at, push = excluded.push, epoch = excluded.epoch` +\n\t\tmap[bool]string{true: ` WHERE memo.set_at = 0`}[mutant.On(\"memo-is-never-replaced\")] + `",
		Breaks: "S27",
		Why:    "Only the first memo of a real thing is kept: a second run begins under the number of the first.",
	},
}
