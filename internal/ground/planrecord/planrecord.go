// Package planrecord turns the plan of a push into a few bytes that are kept with the
// push, and back. However large a plan is, and whatever it says, its record has at most
// Most bytes: what does not fit is counted. No secret is in a record that package secrecy
// recognises (S13), and no control character.
//
// It is pure. Stores call it: they encode before their transaction begins.
package planrecord

import (
	"cmp"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/secrecy"
)

// Most is how many bytes a record has at most.
const Most = 4096

// What is kept of one change, in bytes of each text; longer texts are cut. Two changes
// fit in any record.
const (
	mostPath   = 512
	mostValue  = 512
	mostReason = 256
	mostWriter = 128
	mostAction = 32
)

// What one record may cost to make: a large plan is not read to its end.
const (
	// mostRead bytes of texts are searched for secrets; then the changes left are counted.
	mostRead = 64 << 10
	// mostBody bytes of changes are compressed.
	mostBody = 32 << 10
	// smallest body that is compressed. What a push of a small plan costs counts for more
	// than a few hundred bytes of it.
	smallest = 1024
	// mostHead is what the record has beside its changes.
	mostHead = 64
)

// Encode is the record of a plan; nil where the plan says nothing. It is safe for
// concurrent use, and leaves the plan as it is.
func Encode(plan intent.Plan) []byte {
	if plan.Action == "" && len(plan.Changes) == 0 {
		return nil
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	changes := inOrder(plan.Changes)
	s.write(changes)
	action, _ := intent.Cut(intent.Shown(string(plan.Action)), mostAction)
	if len(s.body) < smallest {
		return record{action: action, left: changes[len(s.ends):]}.bytes(s.body, false)
	}
	count, packed := s.fit(Most - mostHead)
	return record{action: action, left: changes[count:]}.bytes(packed, true)
}

// inOrder are the changes in the order in which they are kept, the same slice where they
// have it.
func inOrder(changes []intent.FieldChange) []intent.FieldChange {
	compare := func(a, b intent.FieldChange) int {
		if a.Destructive != b.Destructive {
			if a.Destructive {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Path, b.Path)
	}
	if slices.IsSortedFunc(changes, compare) {
		return changes
	}
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, compare)
	return changes
}

// write puts changes into the body until it is full, or enough was read.
func (s *scratch) write(changes []intent.FieldChange) {
	s.body, s.ends = s.body[:0], s.ends[:0]
	read := 0
	for _, c := range changes {
		read += len(c.Path) + len(c.Current) + len(c.Target) + len(c.Reason) + len(c.Writer)
		if read > mostRead && len(s.ends) > 0 {
			return
		}
		length := len(s.body)
		s.body = appendChange(s.body, bounded(c))
		if len(s.body) > mostBody {
			s.body = s.body[:length]
			return
		}
		s.ends = append(s.ends, len(s.body))
	}
}

// bounded is a change as it is kept. Secrets are looked for before anything is cut: half
// of one would not be recognised.
func bounded(c intent.FieldChange) intent.RecordedChange {
	kept := intent.RecordedChange{FieldChange: c}
	keep := func(text *string, redacted string, most int) {
		short, cut := intent.Cut(intent.Shown(redacted), most)
		*text, kept.Cut = short, kept.Cut || cut
	}
	keep(&kept.Current, secrecy.Shown(c.Path, c.Current), mostValue)
	keep(&kept.Target, secrecy.Shown(c.Path, c.Target), mostValue)
	keep(&kept.Path, secrecy.Redact(c.Path), mostPath)
	keep(&kept.Reason, secrecy.Redact(c.Reason), mostReason)
	keep(&kept.Writer, secrecy.Redact(c.Writer), mostWriter)
	return kept
}

// fit compresses as many of the changes as have a place in so many bytes, and says how
// many these are. The bytes are good until the scratch is used again.
func (s *scratch) fit(most int) (count int, packed []byte) {
	all := len(s.ends)
	if packed = s.pack(all); len(packed) <= most {
		return all, packed
	}
	// All that fit are found by halving, from about where the end would be if each
	// change took as much as another. None fits in nothing, and all do not fit.
	fits, tooMany := 0, all
	for next := all * most / len(packed); tooMany-fits > 1; next = (fits + tooMany) / 2 {
		next = min(max(next, fits+1), tooMany-1)
		if packed = s.pack(next); len(packed) > most {
			tooMany = next
			continue
		}
		if fits = next; len(packed) > most-most/16 {
			return fits, packed // Little is left to win.
		}
	}
	return fits, s.pack(fits)
}
