package monitor

import (
	"bytes"
	"database/sql"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// memos are what plugins had Lehr keep (S27), and the runs that they count by it.
type memos struct {
	// runs that were begun, and by which push.
	runs map[begunRun]intent.PushID
	// kept is what the store has, as of so many commits.
	kept map[intent.AssetID][]intent.Memo
	as   int
	read bool
}

type begunRun struct {
	asset  intent.AssetID
	key    intent.ResourceKey
	number uint64
}

// remembered takes up the record of a memo: it is of the asset's push, admitted under the
// epoch of now and not ended (S4).
func (m *Monitor) remembered(r record) {
	id, _, _ := strings.Cut(strings.TrimPrefix(r.Detail, "push "), ": ")
	p := m.pushes[intent.PushID(id)]
	m.hold(p != nil && string(p.asset) == r.Subject && p.closed.IsZero() && p.epoch == m.epoch, "S4",
		"a memo of %s was kept under epoch %d, and %q names no open push of it under that epoch", r.Subject, m.epoch, r.Detail)
}

// keptOf is what the store has of an asset.
func (m *Monitor) keptOf(asset intent.AssetID) []intent.Memo {
	if m.memos.read && m.memos.as == m.commits {
		return m.memos.kept[asset]
	}
	m.memos.kept, m.memos.as, m.memos.read = map[intent.AssetID][]intent.Memo{}, m.commits, true
	err := m.database.each("SELECT asset, resource_key, bytes FROM memo WHERE partition = $1 ORDER BY asset, resource_key",
		[]any{string(m.options.Partition)}, func(row *sql.Rows) error {
			var of intent.AssetID
			var memo intent.Memo
			err := row.Scan(&of, &memo.Key, &memo.Bytes)
			m.memos.kept[of] = append(m.memos.kept[of], memo)
			return err
		})
	m.unread("memos", err)
	return m.memos.kept[asset]
}

// MemoSaved is called when Lehr has told a plugin that a memo is kept: then the store has
// it (S27).
func (m *Monitor) MemoSaved(asset intent.AssetID, memo intent.Memo) {
	m.memos.read = false
	m.deviceMemoSaved(asset, memo)
	for _, kept := range m.keptOf(asset) {
		if kept.Key == memo.Key {
			m.hold(bytes.Equal(kept.Bytes, memo.Bytes), "S27", "the memo of %s and %s was acknowledged as %q, and the store has %q", asset, memo.Key, memo.Bytes, kept.Bytes)
			return
		}
	}
	m.hold(false, "S27", "the memo of %s and %s was acknowledged as %q, and the store has none", asset, memo.Key, memo.Bytes)
}

// MemosHanded is called with what Lehr hands to a plugin with an asset to look at, or with
// the push that is named: just what the store has, and of no other asset (S27).
func (m *Monitor) MemosHanded(asset intent.AssetID, handed []intent.Memo, push intent.PushID) {
	kept := m.keptOf(asset)
	if len(kept) == 0 && len(handed) == 0 {
		return
	}
	to := "a look"
	if push != "" {
		to = "push " + string(push)
	}
	same := len(kept) == len(handed)
	for i, memo := range handed {
		same = same && memo.Key == kept[i].Key && bytes.Equal(memo.Bytes, kept[i].Bytes)
		m.hold(world.MemoAsset(memo.Bytes) == asset, "S27", "%s at %s was handed a memo of %q", to, asset, world.MemoAsset(memo.Bytes))
	}
	m.hold(same, "S27", "%s at %s was handed %d memos %q, and the store has %d memos %q", to, asset, len(handed), handed, len(kept), kept)
}

// RunBegun is called when a push begins a run: nobody did before (S27).
func (m *Monitor) RunBegun(r world.Run) {
	key := begunRun{r.Asset, r.Key, r.Number}
	previous, ok := m.memos.runs[key]
	m.hold(!ok, "S27", "push %s begins run %d of %s, which push %s had begun", r.Push, r.Number, r.Asset, previous)
	m.memos.runs[key] = r.Push
}
