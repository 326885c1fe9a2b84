package sim

import (
	"math/rand/v2"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// probe turns a bit of a body, a blob and a candidate's delta, and cuts off the
// end of the audit, looks whether the store vouches for what it cannot (S7,
// S25), and puts it back, all before anybody else can look.
func (l *Lab) probe(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "store")
	head, err := l.reading.Partition(l.ctx, l.partition)
	if err != nil || head.Head.IsZero() {
		return
	}
	if members := l.headMembers(); len(members) > 0 && len(l.rotten) == 0 { // Turned twice, a bit is right.
		m := members[r.IntN(len(members))]
		digest := m.Digest
		l.flip(digest[:])
		_, body, err := l.reading.Content(l.ctx, head.Head, m.Asset)
		l.flip(digest[:])
		l.refuses(err, "the body of "+string(m.Asset)+" was shown with a bit turned", len(body))
	}
	l.probeBlob(r)
	l.probeAudit()
	if l.probeDelta() || l.options.Definition != "" {
		return
	}
	next := l.good.clone()
	next.dropMuch()
	l.people.Go("probe", func() {
		if l.whileHeld(d, next, "much less", func(intent.Digest) { l.probeDelta() }) {
			l.save(d.Number, l.good.clone(), "what was served")
		}
	})
}

// probeAudit takes the newest row of the audit away.
func (l *Lab) probeAudit() {
	var last uint64
	var records string
	var digest []byte
	err := l.db.QueryRow("SELECT last, records, digest FROM audit WHERE partition = ? ORDER BY last DESC LIMIT 1", string(l.partition)).Scan(&last, &records, &digest)
	if err != nil {
		return // There is none.
	}
	if _, err := l.db.Exec("DELETE FROM audit WHERE partition = ? AND last = ?", string(l.partition), last); err != nil {
		l.wrong("simulator", "cutting off the audit: %v", err)
		return
	}
	verified := l.reading.VerifyAudit(l.ctx, l.partition)
	if _, err := l.db.Exec("INSERT INTO audit (partition, last, records, digest) VALUES (?, ?, ?, ?)", string(l.partition), last, records, digest); err != nil {
		l.wrong("simulator", "mending the audit: %v", err)
	}
	if verified == nil {
		l.wrong("S25", "the audit was verified without its last row, up to record %d", last)
	}
}

// refuses asks that damage was told. That the store is busy proves nothing.
func (l *Lab) refuses(err error, what string, size int) {
	switch {
	case err == nil:
		l.wrong("S7", "%s: %d bytes", what, size)
	case fault.Is(err, fault.Internal):
		l.mark("damage was seen")
	}
}

func (l *Lab) probeBlob(r *rand.Rand) {
	type blob struct {
		id         int64
		kind, name string
	}
	var blobs []blob
	rows, err := l.db.Query("SELECT id, kind, name FROM blob WHERE partition = ? AND length(bytes) > 0 ORDER BY id", string(l.partition))
	if err != nil {
		l.wrong("simulator", "reading blobs: %v", err)
		return
	}
	for rows.Next() {
		var b blob
		if rows.Scan(&b.id, &b.kind, &b.name) == nil {
			blobs = append(blobs, b)
		}
	}
	rows.Close()
	if len(blobs) == 0 {
		return
	}
	b := blobs[r.IntN(len(blobs))]
	var bytes []byte
	if l.db.QueryRow("SELECT bytes FROM blob WHERE id = ?", b.id).Scan(&bytes) != nil {
		return
	}
	l.setBlob(b.id, turned(bytes))
	shown, err := l.reading.GetBlob(l.ctx, l.partition, b.kind, b.name)
	l.setBlob(b.id, bytes)
	l.refuses(err, "blob "+b.name+" of kind "+b.kind+" was shown with a bit turned", len(shown))
}

func turned(bytes []byte) []byte {
	other := append([]byte(nil), bytes...)
	other[len(other)/2] ^= 4
	return other
}

func (l *Lab) setBlob(id int64, bytes []byte) {
	if _, err := l.db.Exec("UPDATE blob SET bytes = ? WHERE id = ?", bytes, id); err != nil {
		l.wrong("simulator", "turning a bit of a blob: %v", err)
	}
}

// probeDelta changes a row of the newest candidate that has any, if one does.
func (l *Lab) probeDelta() bool {
	var candidate, asset string
	err := l.db.QueryRow(`SELECT e.candidate, e.asset FROM candidate_entry e JOIN candidate c ON c.partition = e.partition AND c.digest = e.candidate
		WHERE e.partition = ? AND c.state = 'held' ORDER BY c.number DESC, e.asset LIMIT 1`, string(l.partition)).Scan(&candidate, &asset)
	if err != nil {
		return false
	}
	rename := func(from, to string) {
		if _, err := l.db.Exec("UPDATE candidate_entry SET asset = ? WHERE partition = ? AND candidate = ? AND asset = ?", to, string(l.partition), candidate, from); err != nil {
			l.wrong("simulator", "changing a candidate: %v", err)
		}
	}
	digest, err := intent.ParseDigest(candidate)
	if err != nil {
		return false
	}
	rename(asset, asset+"x")
	delta, err := l.reading.CandidateDelta(l.ctx, intent.CandidateID{Partition: l.partition, Digest: digest})
	rename(asset+"x", asset)
	l.refuses(err, "candidate "+candidate+" was shown with a row changed", len(delta))
	return true
}
