package storetest

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/audit"
	"lehr.dev/intent"
	"lehr.dev/store"
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
	h.put(h.rows, h.heads)
	t.Run("whole chains", h.takeOut)
	h.put(h.rows, h.heads)
	t.Run("checkpoints from before", h.anchored)
	h.put(h.rows, h.heads)
	t.Run("file", func(t *testing.T) { rapid.Check(t, h.tamperFile) })
	h.put(h.rows, h.heads)
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

// put makes the database's audit these rows.
func (h *testimony) put(rows []auditRow, heads []auditHead) {
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
		h.put(rows, headsOf(rows, h.heads))
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
	other := slices.Clone(h.checkpoints)
	other[1].Store, other[1].Link[0] = "another", other[1].Link[0]+1
	h.put(h.rows, h.heads)
	report, err := audit.VerifyStore(t.Context(), h.s, other, everything)
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
	err := audit.Export(&file, heads, func(partition intent.PartitionID, after uint64) ([]store.AuditRecord, error) {
		return h.s.AuditRecords(context.Background(), partition, after, 7)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return file.Bytes()
}

// finds fails the test unless a verification finds something, or nothing.
func (h *testimony) finds(what string, checkpoints []audit.Checkpoint, want bool) {
	report, err := audit.VerifyStore(context.Background(), h.s, checkpoints, everything)
	if err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	if report.OK() == want {
		h.t.Errorf("%s: found %+v, want something: %t", what, report.Problems, want)
	}
}

// tamper changes the database in one way, and looks whether it is found.
func (h *testimony) tamper(r *rapid.T) {
	rows, heads := slices.Clone(h.rows), slices.Clone(h.heads)
	i := rapid.IntRange(0, len(rows)-1).Draw(r, "row")
	records := decodeRow(rows[i].records)
	j := rapid.IntRange(0, len(records)-1).Draw(r, "record")
	only := false // only by a checkpoint
	// The chain of all partitions may also be missed by what rests on it.
	either := false
	way := rapid.SampledFrom([]string{"byte", "field", "record gone", "row gone", "swapped", "twice", "cut off", "cut off with its end",
		"moved", "row's digest", "row's number", "end's number", "end's digest", "written anew", "chain gone", "spaces"}).Draw(r, "way")
	switch way {
	case "byte":
		rows[i].records = string(otherByte(r, []byte(rows[i].records)))
	case "spaces":
		rows[i].records = strings.Replace(rows[i].records, `,"`, `, "`, 1)
	case "field":
		changeField(r, &records[j])
		rows[i].records = encodeRow(records)
	case "record gone":
		if len(records) == 1 {
			rows = slices.Delete(rows, i, i+1)
		} else {
			rows[i].records = encodeRow(slices.Delete(records, j, j+1))
		}
	case "row gone":
		rows = slices.Delete(rows, i, i+1)
	case "swapped":
		k := rapid.IntRange(0, len(rows)-2).Draw(r, "other")
		if k >= i {
			k++
		}
		rows[i].records, rows[k].records = rows[k].records, rows[i].records
	case "twice":
		records = slices.Insert(records, j, records[j])
		rows[i].records = encodeRow(records)
	case "cut off", "cut off with its end":
		partition := rows[i].partition
		rows = slices.DeleteFunc(rows, func(other auditRow) bool { return other.partition == partition && other.last >= h.rows[i].last })
		if way == "cut off with its end" {
			heads, only, either = headsOf(rows, heads), hasRows(rows, partition), partition == ""
		}
	case "moved":
		row := rows[i]
		rows = slices.Delete(rows, i, i+1)
		row.partition = rapid.SampledFrom(others(row.partition)).Draw(r, "to")
		row.last = headOf(heads, row.partition) + 1
		rows = append(rows, row)
	case "row's digest":
		rows[i].digest = otherByte(r, rows[i].digest)
	case "row's number":
		rows[i].last += 100_000
	case "end's number":
		heads[i%len(heads)].last++
	case "end's digest":
		heads[i%len(heads)].digest = otherByte(r, heads[i%len(heads)].digest)
	case "written anew":
		records[j].Reason += "!"
		rows[i].records = encodeRow(records)
		rows = relink(rows)
		heads, only = headsOf(rows, heads), true
	case "chain gone":
		partition := rows[i].partition
		rows = slices.DeleteFunc(rows, func(other auditRow) bool { return other.partition == partition })
		heads, either = headsOf(rows, heads), partition == ""
	}
	h.put(rows, heads)
	if !either {
		h.found(r, nil, !only)
	}
	h.found(r, h.checkpoints, true)
}

func (h *testimony) found(r *rapid.T, checkpoints []audit.Checkpoint, want bool) {
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

// tamperFile changes the exported file.
func (h *testimony) tamperFile(r *rapid.T) {
	lines := bytes.SplitAfter(bytes.Clone(h.file), []byte("\n"))
	lines = lines[:len(lines)-1]
	i, only := rapid.IntRange(0, len(lines)-1).Draw(r, "line"), false
	way := rapid.SampledFrom([]string{"byte", "gone", "swapped", "twice", "cut off", "cut off within", "elsewhere", "other partition", "written anew"}).Draw(r, "way")
	switch way {
	case "byte":
		line := lines[i][:len(lines[i])-1]
		if i < len(h.checkpoints) { // The store's name is of no chain.
			at := bytes.Index(line, []byte(`"partition"`))
			line = line[at:]
		}
		copy(line, otherByte(r, line))
	case "gone":
		lines = slices.Delete(lines, i, i+1)
	case "swapped":
		k := rapid.IntRange(0, len(lines)-2).Draw(r, "other")
		if k >= i {
			k++
		}
		lines[i], lines[k] = lines[k], lines[i]
	case "twice":
		lines = slices.Insert(lines, i, lines[i])
	case "cut off":
		lines = lines[:i]
	case "cut off within":
		lines = lines[:i+1]
		lines[i] = lines[i][:rapid.IntRange(0, len(lines[i])-1).Draw(r, "byte")]
	case "elsewhere":
		line := lines[i]
		k := rapid.IntRange(0, len(lines)-2).Draw(r, "to")
		if k >= i {
			k++
		}
		lines = slices.Insert(slices.Delete(lines, i, i+1), k, line)
	case "other partition":
		i = max(i, len(h.checkpoints))
		var record store.AuditRecord
		unmarshal(lines[i], &record)
		record.Partition = intent.PartitionID(rapid.SampledFrom(others(string(record.Partition))).Draw(r, "to"))
		lines[i] = append(marshal(record), '\n')
	case "written anew":
		i, only = max(i, len(h.checkpoints)), true
		lines = anew(lines, len(h.checkpoints), i)
	}
	verify := func(checkpoints []audit.Checkpoint, want bool) {
		report, err := audit.VerifyFile(context.Background(), bytes.NewReader(bytes.Join(lines, nil)), checkpoints)
		if err != nil {
			r.Fatal(err)
		}
		judge(r, report, want)
	}
	verify(nil, !only)
	verify(h.checkpoints, true)
}

// anew changes a record of an exported file, and all links after it.
func anew(lines [][]byte, heads, changed int) [][]byte {
	chains := map[intent.PartitionID]*audit.Chain{}
	for i := heads; i < len(lines); i++ {
		var r store.AuditRecord
		unmarshal(lines[i], &r)
		if i == changed {
			r.Reason += "!"
		}
		c := chains[r.Partition]
		if c == nil {
			c = &audit.Chain{Partition: r.Partition}
			chains[r.Partition] = c
		}
		c.Number, c.Link = r.Number, audit.Link(c.Link, r)
		r.Link = audit.Short(c.Link)
		lines[i] = append(marshal(r), '\n')
	}
	for i := range heads {
		var head audit.Checkpoint
		unmarshal(lines[i], &head)
		head.Link = chains[head.Partition].Link
		lines[i] = append(marshal(head), '\n')
	}
	return lines
}

// relink makes all chains consistent.
func relink(rows []auditRow) []auditRow {
	chains := map[string]*audit.Chain{}
	rows = slices.Clone(rows)
	for i := range rows {
		c := chains[rows[i].partition]
		if c == nil {
			c = &audit.Chain{Partition: intent.PartitionID(rows[i].partition)}
			chains[rows[i].partition] = c
		}
		records := decodeRow(rows[i].records)
		for j := range records {
			records[j].Partition = c.Partition
			c.Link = audit.Link(c.Link, records[j])
			records[j].Link, records[j].Partition = audit.Short(c.Link), ""
		}
		rows[i].records, rows[i].digest = encodeRow(records), c.Link[:]
		rows[i].digest = slices.Clone(rows[i].digest)
	}
	return rows
}

// headsOf are the ends that the rows have.
func headsOf(rows []auditRow, before []auditHead) (heads []auditHead) {
	for _, head := range before {
		found := false
		for _, row := range rows {
			if row.partition == head.partition {
				head.last, head.digest, found = row.last, row.digest, true
			}
		}
		if found {
			heads = append(heads, head)
		}
	}
	return heads
}

func headOf(heads []auditHead, partition string) int64 {
	for _, head := range heads {
		if head.partition == partition {
			return head.last
		}
	}
	return 0
}

func hasRows(rows []auditRow, partition string) bool {
	return slices.ContainsFunc(rows, func(r auditRow) bool { return r.partition == partition })
}

// others are the partitions that something may be moved to.
func others(partition string) []string {
	return slices.DeleteFunc([]string{"", "empty", string(shop), string(theatre), "elsewhere"}, func(other string) bool { return other == partition })
}

func changeField(r *rapid.T, record *store.AuditRecord) {
	words := map[string]*string{
		"name": &record.By.Name, "origin": &record.By.Origin, "from": &record.From, "token": &record.Token,
		"verb": &record.Verb, "subject": &record.Subject, "reason": &record.Reason, "detail": &record.Detail, "link": &record.Link,
	}
	fields := append(slices.Sorted(func(yield func(string) bool) {
		for name := range words {
			if !yield(name) {
				return
			}
		}
	}), "at", "number", "version", "partition")
	switch field := rapid.SampledFrom(fields).Draw(r, "field"); field {
	case "at":
		record.At = record.At.Add(1)
	case "number":
		record.Number += uint64(rapid.IntRange(1, 3).Draw(r, "by"))
	case "version":
		record.Version = rapid.SampledFrom([]int{0, 1, 3}).Draw(r, "version")
	case "partition":
		record.Partition = shop
	default:
		*words[field] += "x"
	}
}

// otherByte changes one byte to another that text may have.
func otherByte(r *rapid.T, text []byte) []byte {
	text = bytes.Clone(text)
	i := rapid.IntRange(0, len(text)-1).Draw(r, "byte")
	other := byte(rapid.IntRange(' ', '~').Draw(r, "other byte"))
	if text[i] == other {
		other = ' ' + (other-' '+1)%('~'-' '+1)
	}
	if text[i] >= 0x80 && !bytes.Equal(text[i:i+1], []byte{other}) && json.Valid(text) {
		// A piece of a letter would leave no text: the whole letter goes.
		return bytes.ToValidUTF8(append(text[:i:i], append([]byte{other}, text[i+1:]...)...), []byte("?"))
	}
	text[i] = other
	return text
}

func decodeRow(text string) (records []store.AuditRecord) {
	unmarshal([]byte(text), &records)
	return records
}

func encodeRow(records []store.AuditRecord) string { return string(marshal(records)) }

func unmarshal(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		panic(err)
	}
}

func marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// takeOut removes each chain as a whole, with the note of its end: verifying the
// store tells, as verifying the audit does.
func (h *testimony) takeOut(t *testing.T) {
	if _, err := h.s.Verify(t.Context()); err != nil {
		t.Fatalf("untouched: %v", err)
	}
	for _, head := range h.heads {
		other := func(partition string) bool { return partition != head.partition }
		h.put(keep(h.rows, func(r auditRow) bool { return other(r.partition) }), keep(h.heads, func(a auditHead) bool { return other(a.partition) }))
		if _, err := h.s.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "audit of") {
			t.Errorf("without the chain of %q: %v", head.partition, err)
		}
	}
}

func keep[T any](list []T, kept func(T) bool) (rest []T) {
	for _, one := range list {
		if kept(one) {
			rest = append(rest, one)
		}
	}
	return rest
}
