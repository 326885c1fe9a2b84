package conduct

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"lehr.dev/internal/ground/intent"
)

// landed notes the fields whose new value is in head, and names the other assets that the
// incarnation changed.
func (d *decider) landed() {
	if d.Field.Head == nil {
		return
	}
	fresh := map[string][]*intent.RolloutEdit{}
	var revisions []string
	for i := range d.run.Edits {
		e := &d.run.Edits[i]
		if e.Set() && e.Revision != "" && e.Landed.Sequence == 0 && d.inHead(e) {
			if fresh[e.Revision] == nil {
				revisions = append(revisions, e.Revision)
			}
			fresh[e.Revision] = append(fresh[e.Revision], e)
		}
	}
	for _, revision := range revisions {
		at, changed := d.Field.Landing(revision)
		for _, e := range fresh[revision] {
			e.Landed = d.Head
			if at.Sequence > 0 {
				e.Landed = at
			}
		}
		ours := map[intent.AssetID]bool{}
		for i := range d.Assets {
			if e := d.editOf(d.Assets[i].Pointer); e != nil && e.Revision == revision {
				ours[d.Assets[i].ID] = true
			}
		}
		changed = slices.DeleteFunc(changed, func(id intent.AssetID) bool { return ours[id] })
		text := fmt.Sprintf("%s has revision %s of %s", d.Head, revision, d.Field.Document)
		if at.Sequence > 0 {
			text = fmt.Sprintf("%s has revision %s of %s", at, revision, d.Field.Document)
		}
		if len(changed) > 0 {
			text += fmt.Sprintf("; it also changed %s of other fields: %s", count(len(changed), "asset", "assets"), listed(changed))
		}
		d.event(d.holder(), "land", "%s", text)
	}
}

// inHead reports whether head has the value of a field, at the revision that set it or later.
func (d *decider) inHead(e *intent.RolloutEdit) bool {
	head := d.Field.Head
	return head != nil && same(head.at(e.Pointer), d.run.Value) && (e.Revision == "" || !d.isBefore(head.Revision, e.Revision))
}

// isBefore reports whether a revision of the document is before another.
func (d *decider) isBefore(a, b string) bool {
	if d.Field.Older != nil {
		return d.Field.Older(a, b)
	}
	return Older(a, b)
}

// onTheWay says where a value is that is not in head yet.
func (d *decider) onTheWay(e *intent.RolloutEdit) string {
	p := d.proposalOf(e.Pointer, false)
	switch c := d.Field.Candidate; {
	case e.Revision == "" && p != nil && p.Pending():
		return "it waits " + proposalWords(p)
	case e.Revision == "" && d.Field.Refused != "":
		return "its document cannot be edited: " + d.Field.Refused
	case e.Revision == "":
		return "its document is not edited yet"
	case d.isUnservedCandidate(c, e.Revision):
		return fmt.Sprintf("head does not have revision %s of %s: %s", e.Revision, e.Document, unserved(c))
	}
	return fmt.Sprintf("head does not have revision %s of %s yet", e.Revision, e.Document)
}

// isUnservedCandidate reports whether a candidate was built from a revision of the document, or from
// a later one, and is not served.
func (d *decider) isUnservedCandidate(c *intent.Candidate, revision string) bool {
	if c == nil || c.State != intent.CandidateRejected && c.State != intent.CandidateHeld {
		return false
	}
	return slices.ContainsFunc(c.Sources, func(s intent.SourceRevision) bool {
		return s.Source == d.Field.Source && !d.isBefore(s.Revision, revision)
	})
}

// Older reports whether a revision of a document that Lehr holds is before another.
func Older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x < y
}

// unserved says why a candidate is not served.
func unserved(c *intent.Candidate) string {
	text := fmt.Sprintf("candidate %s is %s", c.ID, c.State)
	if len(c.Findings) > 0 {
		f := c.Findings[0]
		text += ": " + f.Message
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
	}
	return text
}

// unservable says why head can never have what the run set; empty if nothing says so, or not for
// long enough.
func (d *decider) unservable(waits time.Duration) string {
	for i := range d.run.Edits {
		e := &d.run.Edits[i]
		if c := d.Field.Candidate; e.Set() && e.Revision != "" && e.Landed.Sequence == 0 && d.isUnservedCandidate(c, e.Revision) && c.State == intent.CandidateRejected && d.Now.Sub(e.At) >= waits {
			return fmt.Sprintf("%s of %s cannot be served since %s: %s", e.Pointer, e.Document, e.At.UTC().Format(time.RFC3339), unserved(c))
		}
	}
	return ""
}
