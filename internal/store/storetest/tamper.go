package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
)

// tamper changes the database in one way, and looks whether it is found.
func (h *testimony) tamper(r *rapid.T) {
	rows, heads := slices.Clone(h.rows), slices.Clone(h.heads)
	i := rapid.IntRange(0, len(rows)-1).Draw(r, "row")
	records := decodeRow(rows[i].records)
	j := rapid.IntRange(0, len(records)-1).Draw(r, "record")
	only := false // only by a checkpoint
	// The chain of all partitions may also be missed by what rests on it.
	undetermined := false
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
			heads, only, undetermined = headsOf(rows, heads), hasRows(rows, partition), partition == ""
		}
	case "moved":
		row := rows[i]
		rows = slices.Delete(rows, i, i+1)
		row.partition = rapid.SampledFrom(otherPartitions(row.partition)).Draw(r, "to")
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
		heads, undetermined = headsOf(rows, heads), partition == ""
	}
	h.write(rows, heads)
	if !undetermined {
		h.mustFind(r, nil, !only)
	}
	h.mustFind(r, h.checkpoints, true)
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
		var record intent.AuditRecord
		unmarshal(lines[i], &record)
		record.Partition = intent.PartitionID(rapid.SampledFrom(otherPartitions(string(record.Partition))).Draw(r, "to"))
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
		var r intent.AuditRecord
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
func headsOf(rows []auditRow, previous []auditHead) (heads []auditHead) {
	for _, head := range previous {
		ok := false
		for _, row := range rows {
			if row.partition == head.partition {
				head.last, head.digest, ok = row.last, row.digest, true
			}
		}
		if ok {
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

// otherPartitions are the partitions that something may be moved to.
func otherPartitions(partition string) []string {
	return slices.DeleteFunc([]string{"", "empty", string(shop), string(theatre), "elsewhere"}, func(other string) bool { return other == partition })
}

func changeField(r *rapid.T, record *intent.AuditRecord) {
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
	replacement := byte(rapid.IntRange(' ', '~').Draw(r, "other byte"))
	if text[i] == replacement {
		replacement = ' ' + (replacement-' '+1)%('~'-' '+1)
	}
	if text[i] >= 0x80 && !bytes.Equal(text[i:i+1], []byte{replacement}) && json.Valid(text) {
		// A piece of a letter would leave no text: the whole letter goes.
		return bytes.ToValidUTF8(append(text[:i:i], append([]byte{replacement}, text[i+1:]...)...), []byte("?"))
	}
	text[i] = replacement
	return text
}

func decodeRow(text string) (records []intent.AuditRecord) {
	unmarshal([]byte(text), &records)
	return records
}

func encodeRow(records []intent.AuditRecord) string { return string(marshal(records)) }

func unmarshal(text []byte, target any) {
	if err := json.Unmarshal(text, target); err != nil {
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
		isOther := func(partition string) bool { return partition != head.partition }
		h.write(keep(h.rows, func(r auditRow) bool { return isOther(r.partition) }), keep(h.heads, func(a auditHead) bool { return isOther(a.partition) }))
		if _, err := h.s.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "audit of") {
			t.Errorf("without the chain of %q: %v", head.partition, err)
		}
	}
}

func keep[T any](list []T, include func(T) bool) (rest []T) {
	for _, one := range list {
		if include(one) {
			rest = append(rest, one)
		}
	}
	return rest
}
