package secret

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

const (
	// shortest value, or line of one, that is looked for in texts: of less, ordinary
	// words would be hidden.
	shortest = 6
	// remembered values of one reference: after a rotation production has the old one
	// still.
	remembered = 4
	// maxForms bounds the memory, over all values; the oldest go first.
	maxForms = 20_000
)

// known are the secrets that this process has read. It is known to the whole process,
// as a message may be written anywhere in it: so no part can forget to ask.
var known = newRedactor()

// Know has Redact replace a value from now on, in whatever form it is written. The
// reference is that of Key; of each the last few values count.
func Know(reference string, value []byte, digest Digest) { known.know(reference, value, digest) }

// Redact replaces each secret that this process has read by its Words, be it written
// plainly, in base64, in hex, as a URL or as a text of JSON or Go. Values of fewer
// than 6 bytes are let through.
func Redact(text string) string { return known.redact(text) }

// IsAnyKnown reports whether this process has read a secret: without one there is
// nothing to redact.
func IsAnyKnown() bool { return known.isAnyKnown() }

// A Redactor replaces the secrets that it was told of, and no others, as Redact replaces all that
// the process has read. Of one value under two references the words are those of the one that it
// was told of first. So a text can be made that is the same in each process.
type Redactor struct{ redactor *redactor }

// NewRedactor returns one that knows no secret.
func NewRedactor() *Redactor { return &Redactor{newRedactor()} }

// Know has it replace a value, in whatever form it is written, as the function Know does.
func (r *Redactor) Know(reference string, value []byte, digest Digest) {
	r.redactor.know(reference, value, digest)
}

// Redact replaces each secret that it knows by its Words.
func (r *Redactor) Redact(text string) string { return r.redactor.redact(text) }

// redactor finds values of which it holds no more than keyed hashes: a rolling one,
// to find candidates in one go for each length, and HMAC-SHA-256, to be sure. Both
// keys are of this process and random.
type redactor struct {
	key  [32]byte
	base uint64

	mutex sync.RWMutex
	// byReference has the newest value of each reference last; order is that of all.
	byReference map[string][]*knownValue
	order       []*knownValue
	forms       int
	// index finds forms by length and rolling hash; lengths are the longest first.
	index   map[int]map[uint64][]*knownForm
	lengths []int
}

type knownValue struct {
	reference string
	digest    Digest
	forms     []*knownForm
}

type knownForm struct {
	length  int
	rolling uint64
	check   [sha256.Size]byte
	value   *knownValue
}

func newRedactor() *redactor {
	r := &redactor{byReference: map[string][]*knownValue{}, index: map[int]map[uint64][]*knownForm{}}
	_, _ = rand.Read(r.key[:]) // It never fails: the program ends instead.
	r.base = binary.LittleEndian.Uint64(r.key[:8]) | 1
	return r
}

func (r *redactor) isAnyKnown() bool {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return len(r.lengths) > 0
}

func (r *redactor) know(reference string, value []byte, digest Digest) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	values := r.byReference[reference]
	if i := slices.IndexFunc(values, func(v *knownValue) bool { return v.digest == digest }); i >= 0 {
		again := values[i]
		r.byReference[reference] = append(slices.Delete(values, i, i+1), again)
		return
	}
	added := &knownValue{reference: reference, digest: digest}
	for _, form := range formsOf(value) {
		added.forms = append(added.forms, &knownForm{length: len(form), rolling: r.roll(form), check: r.confirm(form), value: added})
		clear(form)
	}
	r.insert(added)
	if len(values) >= remembered {
		r.forget(values[0])
	}
	for r.forms > maxForms && len(r.order) > 1 {
		r.forget(r.order[0])
	}
}

func (r *redactor) insert(value *knownValue) {
	r.byReference[value.reference] = append(r.byReference[value.reference], value)
	r.order = append(r.order, value)
	r.forms += len(value.forms)
	for _, form := range value.forms {
		if r.index[form.length] == nil {
			r.index[form.length] = map[uint64][]*knownForm{}
			r.lengths = append(r.lengths, form.length)
			slices.SortFunc(r.lengths, func(a, b int) int { return cmp.Compare(b, a) })
		}
		r.index[form.length][form.rolling] = append(r.index[form.length][form.rolling], form)
	}
}

func (r *redactor) forget(value *knownValue) {
	isIt := func(v *knownValue) bool { return v == value }
	r.order = slices.DeleteFunc(r.order, isIt)
	r.forms -= len(value.forms)
	if left := slices.DeleteFunc(r.byReference[value.reference], isIt); len(left) > 0 {
		r.byReference[value.reference] = left
	} else {
		delete(r.byReference, value.reference)
	}
	for _, form := range value.forms {
		byHash := r.index[form.length]
		byHash[form.rolling] = slices.DeleteFunc(byHash[form.rolling], func(f *knownForm) bool { return f == form })
		if len(byHash[form.rolling]) == 0 {
			delete(byHash, form.rolling)
		}
		if len(byHash) == 0 {
			delete(r.index, form.length)
			r.lengths = slices.DeleteFunc(r.lengths, func(length int) bool { return length == form.length })
		}
	}
}

func (r *redactor) roll(form []byte) (hash uint64) {
	for _, b := range form {
		hash = hash*r.base + uint64(b) + 1
	}
	return hash
}

func (r *redactor) confirm(form []byte) (check [sha256.Size]byte) {
	mac := hmac.New(sha256.New, r.key[:])
	mac.Write(form)
	return [sha256.Size]byte(mac.Sum(nil))
}

// span of a text that is a form of a secret.
type span struct {
	start, end int
	digest     Digest
}

func (r *redactor) redact(text string) string {
	r.mutex.RLock()
	var spans []span
	for _, length := range r.lengths {
		if length <= len(text) {
			spans = r.find(spans, []byte(text), length)
		}
	}
	r.mutex.RUnlock()
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), bytes.Compare(a.digest[:], b.digest[:]))
	})
	var out strings.Builder
	end := 0
	for _, s := range spans {
		if s.start >= end {
			out.WriteString(text[end:s.start])
			out.WriteString(s.digest.Words())
		}
		// Of forms that overlap, what the second adds is hidden with the first.
		end = max(end, s.end)
	}
	out.WriteString(text[end:])
	return out.String()
}

// find adds where forms of one length are.
func (r *redactor) find(spans []span, text []byte, length int) []span {
	byHash := r.index[length]
	leaving := uint64(1)
	for range length - 1 {
		leaving *= r.base
	}
	hash := r.roll(text[:length])
	for start := 0; ; start++ {
		for _, form := range byHash[hash] {
			if r.confirm(text[start:start+length]) == form.check {
				spans = append(spans, span{start, start + length, form.value.digest})
				break
			}
		}
		if start+length >= len(text) {
			return spans
		}
		hash = (hash-(uint64(text[start])+1)*leaving)*r.base + uint64(text[start+length]) + 1
	}
}
