package storetest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Adversary shows that whatever somebody who can write the database changes in
// the audit is found: at once, or, where all was written anew consistently, by
// a checkpoint. The same is shown of exported files.
func Adversary(t *testing.T, s store.All, db *sql.DB) {
	h := newTestimony(t, s, db)
	h.finds("untouched", nil, false)
	h.finds("untouched, by its checkpoints", h.checkpoints, false)
	if len(h.rows) < 60 || len(h.middle) < 3 || len(h.checkpoints) != 4 {
		t.Fatalf("%d rows, %d checkpoints in the middle, %d at the end: the history is poor", len(h.rows), len(h.middle), len(h.checkpoints))
	}
	t.Run("database", func(t *testing.T) { rapid.Check(t, h.tamper) })
	h.write(h.rows, h.heads)
	t.Run("whole chains", h.takeOut)
	h.write(h.rows, h.heads)
	t.Run("checkpoints from before", h.anchored)
	h.write(h.rows, h.heads)
	t.Run("file", func(t *testing.T) { rapid.Check(t, h.tamperFile) })
	h.write(h.rows, h.heads)
}

// auditRow and auditHead are rows of the database.
type auditRow struct {
	partition string
	last      int64
	records   string
	digest    []byte
}

type auditHead struct {
	partition string
	last      int64
	digest    []byte
}

type testimony struct {
	t    *testing.T
	s    store.All
	db   *sql.DB
	file []byte
	rows []auditRow
	// heads by partition, checkpoints of the end, and some from before.
	heads               []auditHead
	checkpoints, middle []audit.Checkpoint
}

// newTestimony lets people and a server do all that is recorded, in an order by
// chance.
func newTestimony(t *testing.T, s store.All, db *sql.DB) *testimony {
	h := &testimony{t: t, s: s, db: db}
	w := newWorld(t, func(*testing.T) store.All { return s })
	w.register(theatre)
	w.must(w.AddPartition(t.Context(), "empty", "/srv/empty.yaml", "later", bob))
	w.publish(entry("a", "x"), entry("b", "x"), entry("c", "x"))
	draw := rapid.Make[uint8]()
	pushes := map[string]string{}
	for i := range 90 {
		if i == 45 {
			h.middle = h.ends()
		}
		asset := []string{"a", "b", "c"}[draw.Example(3*i)%3]
		reason := fmt.Sprintf("reason %d: \"fire\" <&> ü\u2028", i)
		switch draw.Example(3*i+1) % 8 {
		case 0:
			w.must(w.SetHold(t.Context(), shop, intent.Hold{Asset: intent.AssetID(asset), Owner: bob, Reason: reason}))
		case 1:
			_, err := w.SetPin(t.Context(), intent.Pin{Asset: intent.AssetID(asset), Incarnation: at(1), Rank: intent.RankPerson, Holder: alice, Reason: reason})
			w.must(err)
		case 2:
			w.must(w.SetHold(t.Context(), theatre, intent.Hold{Asset: intent.AssetID(asset), Owner: alice, Reason: reason}))
		case 3:
			w.must(w.SetStop(t.Context(), intent.Stop{Owner: bob, Reason: reason}))
			w.must(w.Resume(t.Context(), "", reason, alice))
		case 4:
			lease, err := w.Acquire(t.Context(), theatre, "server-1")
			w.must(err)
			w.must(w.Release(t.Context(), lease))
		case 5:
			w.publish(entry("d", fmt.Sprint(i)))
		default:
			if open := pushes[asset]; open != "" {
				w.must(w.ClosePushes(t.Context(), w.lease, []store.Closing{{Push: intent.PushID(open), Ending: "failed", Reason: reason, At: noon}}))
				pushes[asset] = ""
				continue
			}
			a := w.admission(fmt.Sprint("p", i), asset, at(1))
			w.must(w.Approve(t.Context(), intent.Approval{Partition: shop, Asset: a.Asset, Effective: a.Effective, Plan: a.Plan, By: bob, Reason: reason}))
			a.NeedsApproval, a.Revision = true, w.revision()
			w.admitted(a)
			pushes[asset] = string(a.Push)
		}
	}
	h.checkpoints = h.ends()
	h.read()
	h.file = h.export()
	return h
}

func (h *testimony) ends() []audit.Checkpoint {
	identity, err := h.s.Identity(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	ends, err := h.s.AuditEnds(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return audit.Checkpoints(identity, ends, noon)
}

func (h *testimony) read() {
	rows, err := h.db.Query("SELECT partition, last, records, digest FROM audit ORDER BY partition, last")
	for err == nil && rows.Next() {
		var r auditRow
		err = rows.Scan(&r.partition, &r.last, &r.records, &r.digest)
		h.rows = append(h.rows, r)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	rows.Close()
	heads, err := h.db.Query("SELECT partition, last, digest FROM audit_head ORDER BY partition")
	for err == nil && heads.Next() {
		var r auditHead
		err = heads.Scan(&r.partition, &r.last, &r.digest)
		h.heads = append(h.heads, r)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	heads.Close()
}

// write makes the database's audit these rows.
func (h *testimony) write(rows []auditRow, heads []auditHead) {
	tx, err := h.db.Begin()
	if err != nil {
		h.t.Fatal(err)
	}
	do := func(text string, arguments ...any) {
		if _, err := tx.Exec(text, arguments...); err != nil {
			h.t.Fatal(err)
		}
	}
	do("DELETE FROM audit")
	do("DELETE FROM audit_head")
	for _, r := range rows {
		do("INSERT INTO audit (partition, last, records, digest) VALUES ($1, $2, $3, $4)", r.partition, r.last, r.records, r.digest)
	}
	for _, r := range heads {
		do("INSERT INTO audit_head (partition, last, digest) VALUES ($1, $2, $3)", r.partition, r.last, r.digest)
	}
	if err := tx.Commit(); err != nil {
		h.t.Fatal(err)
	}
}

// anchored: a checkpoint covers what was written before it, and the report says
// how far that is.
func (h *testimony) anchored(t *testing.T) {
	middle := h.middle[slices.IndexFunc(h.middle, func(c audit.Checkpoint) bool { return c.Partition == shop })]
	for _, c := range []struct {
		keep  uint64
		found bool
	}{{middle.Number - 1, true}, {middle.Number, false}, {middle.Number + 1, false}} {
		rows := slices.DeleteFunc(slices.Clone(h.rows), func(r auditRow) bool { return r.partition == string(shop) && uint64(r.last) > c.keep })
		h.write(rows, headsOf(rows, h.heads))
		report, err := audit.VerifyStore(t.Context(), h.s, h.middle, everything)
		if err != nil {
			t.Fatal(err)
		}
		chain := report.Chains[slices.IndexFunc(report.Chains, func(c audit.Verified) bool { return c.Partition == shop })]
		switch {
		case report.OK() == c.found:
			t.Errorf("cut off after %d, with a checkpoint of %d: %+v", c.keep, middle.Number, report.Problems)
		case c.found && !strings.Contains(report.Problems[0].Message, fmt.Sprintf("it ends at record %d", c.keep)):
			t.Errorf("it says %q", report.Problems[0].Message)
		case !c.found && chain.Anchored != middle.Number:
			t.Errorf("anchored up to %d, want %d", chain.Anchored, middle.Number)
		case c.keep > middle.Number && !strings.Contains(strings.Join(report.Notes, " "), "no checkpoint covers"):
			t.Errorf("it does not say what it cannot see: %v", report.Notes)
		}
	}
	foreign := slices.Clone(h.checkpoints)
	foreign[1].Store, foreign[1].Link[0] = "another", foreign[1].Link[0]+1
	h.write(h.rows, h.heads)
	report, err := audit.VerifyStore(t.Context(), h.s, foreign, everything)
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Hint, "is of store another") {
		t.Errorf("with another store's checkpoint: %+v %v", report.Problems, err)
	}
}

func everything(intent.PartitionID) bool { return true }

func (h *testimony) export() []byte {
	heads := h.ends()
	for i := range heads {
		heads[i].At = time.Time{}
	}
	var file bytes.Buffer
	err := audit.Export(&file, heads, func(partition intent.PartitionID, cursor uint64) ([]intent.AuditRecord, error) {
		return h.s.AuditRecords(context.Background(), partition, cursor, 7)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return file.Bytes()
}

// finds fails the test unless a verification finds something, or nothing.
func (h *testimony) finds(label string, checkpoints []audit.Checkpoint, want bool) {
	report, err := audit.VerifyStore(context.Background(), h.s, checkpoints, everything)
	if err != nil {
		h.t.Fatalf("%s: %v", label, err)
	}
	if report.OK() == want {
		h.t.Errorf("%s: found %+v, want something: %t", label, report.Problems, want)
	}
}

func (h *testimony) mustFind(r *rapid.T, checkpoints []audit.Checkpoint, want bool) {
	report, err := audit.VerifyStore(context.Background(), h.s, checkpoints, everything)
	if err != nil {
		r.Fatal(err)
	}
	judge(r, report, want)
}

// judge also asks that the first problem says which record, and what to do.
func judge(r *rapid.T, report audit.Report, want bool) {
	if report.OK() == want {
		r.Fatalf("found %+v, notes %v, want something: %t", report.Problems, report.Notes, want)
	}
	if want && (report.Problems[0].Message == "" || report.Problems[0].Hint == "") {
		r.Fatalf("it does not say what to do: %+v", report.Problems[0])
	}
}
