package secrecy

import "strings"

// hintedForm is a form, ready to be looked for.
type hintedForm struct {
	form
	hints []hint
}

// hint is a text that each secret of a form has, in small letters.
type hint struct {
	text  string
	pairs letterPairs
}

// letterPairs are which pairs of neighbouring bytes a text has, some of them taken for
// others: whoever has all pairs of a hint may have the hint, whoever lacks one has it not.
// They are found for a text once, and most hints are dismissed by them.
type letterPairs [4]uint64

func pairsIn(text string) (pairs letterPairs) {
	for i := 1; i < len(text); i++ {
		at := text[i-1]*31 + text[i]
		pairs[at>>6] |= 1 << (at & 63)
	}
	return pairs
}

func (p letterPairs) hasAll(other letterPairs) bool {
	return other[0]&^p[0]|other[1]&^p[1]|other[2]&^p[2]|other[3]&^p[3] == 0
}

func withHints(forms []form) []hintedForm {
	ready := make([]hintedForm, len(forms))
	for i, f := range forms {
		ready[i].form = f
		for text := range strings.SplitSeq(f.hint, "|") {
			ready[i].hints = append(ready[i].hints, hint{text, pairsIn(text)})
		}
	}
	return ready
}

// hinted reports whether a text in small letters, with its pairs, may have a secret of
// this form.
func (f *hintedForm) hinted(small string, pairs letterPairs) bool {
	for i := range f.hints {
		if h := &f.hints[i]; pairs.hasAll(h.pairs) && strings.Contains(small, h.text) {
			return true
		}
	}
	return false
}
