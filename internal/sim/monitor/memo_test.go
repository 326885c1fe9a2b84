package monitor

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

func runMemo(text string) intent.Memo { return intent.Memo{Key: "key/a", Bytes: []byte(text)} }

// keep has the store keep a memo of the asset, by a push of its own.
func (r *run) keep(asset intent.AssetID, memo intent.Memo) {
	r.Helper()
	a := r.admit(asset)
	r.must(r.SaveMemo(r.Context(), r.lease, a.Push, memo))
	r.end(a, "failed")
}

var remembering = []breach{
	{"S27", "and the store has none",
		func(r *run) { r.MemoSaved("a", runMemo("a 1")) },
		func(r *run) { r.keep("a", runMemo("a 1")); r.MemoSaved("a", runMemo("a 1")) }},
	{"S27", `was acknowledged as "a 2"`,
		func(r *run) { r.keep("a", runMemo("a 1")); r.MemoSaved("a", runMemo("a 2")) },
		func(r *run) {
			r.keep("a", runMemo("a 1"))
			r.keep("a", runMemo("a 2"))
			r.MemoSaved("a", runMemo("a 2"))
		}},
	{"S27", "was handed 0 memos",
		func(r *run) { r.keep("a", runMemo("a 1")); r.MemosHanded("a", nil, "") },
		func(r *run) { r.keep("a", runMemo("a 1")); r.MemosHanded("b", nil, "") }},
	{"S27", "push p at a was handed 1 memos", // an older one
		func(r *run) {
			r.keep("a", runMemo("a 1"))
			r.keep("a", runMemo("a 2"))
			r.MemosHanded("a", []intent.Memo{runMemo("a 1")}, "p")
		},
		func(r *run) { r.keep("a", runMemo("a 1")); r.MemosHanded("a", []intent.Memo{runMemo("a 1")}, "p") }},
	{"S27", `was handed a memo of "b"`,
		func(r *run) { r.keep("a", runMemo("b 1")); r.MemosHanded("a", []intent.Memo{runMemo("b 1")}, "") }, nil},
	{"S27", "which push p1 had begun",
		func(r *run) {
			r.RunBegun(world.Run{Asset: "a", Key: "k", Push: "p1", Number: 1})
			r.RunBegun(world.Run{Asset: "a", Key: "k", Push: "p2", Number: 1})
		},
		func(r *run) {
			r.RunBegun(world.Run{Asset: "a", Key: "k", Push: "p1", Number: 1})
			r.RunBegun(world.Run{Asset: "a", Key: "k", Push: "p2", Number: 2})
			r.RunBegun(world.Run{Asset: "b", Key: "k", Push: "p3", Number: 1})
		}},
	{"S4", "names no open push of it",
		func(r *run) { r.records("memo", "a", "push p9: k, 1 bytes, digest 00", "north"); r.Monitor.Commit() }, nil},
	{"S4", "names no open push of it", // of another asset
		func(r *run) {
			a := r.admit("a")
			r.records("memo", "b", "push "+string(a.Push)+": k, 1 bytes, digest 00", "north")
			r.Monitor.Commit()
		}, nil},
	{"S4", "names no open push of it", // of an epoch that is over
		func(r *run) {
			a := r.admit("a")
			r.acquire("south")
			r.records("memo", "a", "push "+string(a.Push)+": k, 1 bytes, digest 00", "south")
			r.Monitor.Commit()
		}, nil},
}
