package kubectl

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// scalars that readers of YAML may differ about, and some that they do not.
var scalars = strings.Fields(`y Y n N yes No ON off true False TRUE tRUE null ~ Null nULL
	0 -0 +0 00 -00 7 +7 -7 007 0644 -0644 089 08.5 0x1f 0x1F 0X1f 0X_1 0b11 0B11 -0b11 +0B1 0o17 0O17 -0o7
	1_000 1__0 _1 +_1 -1_ 1_e3 1_0.5 .5_0 ._5 1e3_0 0x 0b 0o 0b2 0o8 0xg 1x 1_a
	1.0 1. .5 -.5 +.5 . .. -. 1e3 1E3 1e+3 1e-3 .5e3 1.e5 1e 1e21 1e22 1e308 1e309 1e-400 12e03 -0.0 0.1 3.14159265358979323846
	.inf -.inf +.Inf .Inf .nan .NaN NaN nan inf Infinity
	9007199254740991 9007199254740992 9007199254740993 356000000 1000000 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 123456789012345678901234567890
	0777777777777777777777 0xFFFFFFFFFFFFFFFF 0x7FFFFFFFFFFFFFFF
	2001-01-01 2001-1-1 2001-01-01T00:00:00Z 2001_01_01 12:30:45 1:30 190:20:30 1.2.3 v1 1.10 5m 1Gi 100m a a-b a.b/c = <<
	!!str\ 12 !!int\ 12 !!int\ '12' !!int\ 1.0 !!float\ 12 !!float\ 0x10 !!float\ 1.5 !!bool\ true !!bool\ y !!bool\ x !!null\ ~ !!null\ x !!binary\ aGk= !!timestamp\ 2001-01-01 !x\ 1
	'y' "n" "0644" '' "" "a\tb" "\u263a" "\x41" 'it''s' "1\n2"`)

var keys = strings.Fields(`a b c y n Y on true True null 1 1 '1' 01 0x1 1.5 1.50 1e3 1e6 1.23456789 1_0 -1 +1 "y" 'true' x-y example.com/name 2001-01-01 ~ << =`)

// Sample makes documents out of a seed.
type Sample struct {
	random *rand.Rand
	// anchors that were made, and those whose values are whole.
	anchor int
	whole  []int
}

// NewSample makes the same documents from the same seed.
func NewSample(seed uint64) *Sample { return &Sample{random: rand.New(rand.NewPCG(seed, 1))} }

// Manifest is an object of a kind without a schema, whose field spec holds anything.
func (s *Sample) Manifest(name string) string {
	s.anchor, s.whole = 0, nil
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: %s}\nspec:%s", name, s.block(2, 2))
}

// File is one manifest or several, with what may stand between and after them.
func (s *Sample) File() string {
	text := pick(s, "", "", "", "# first\n", "---\n", "\n\n", "---\n---\n", "# first\n---\n")
	for i := range 1 + s.random.IntN(2) {
		if i > 0 {
			text += pick(s, "---\n", "--- # next\n", "---   \n", "...\n---\n", "---\n# next\n", "...\n")
		}
		text += s.Manifest(fmt.Sprintf("n%d", i))
	}
	switch s.random.IntN(6) {
	case 0:
		text = strings.TrimRight(text, "\n")
	case 1:
		text += "\n"
	case 2:
		text += "---\n"
	case 3:
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// Values is a mapping for a chart.
func (s *Sample) Values() string { return strings.TrimLeft(s.mapping(0, 2), "\n") }

func pick(s *Sample, of ...string) string { return of[s.random.IntN(len(of))] }

func (s *Sample) scalar() string { return strings.ReplaceAll(pick(s, scalars...), `\ `, " ") }

func (s *Sample) key() string {
	if s.random.IntN(4) > 0 {
		return fmt.Sprintf("k%d", s.random.IntN(40))
	}
	return pick(s, keys...)
}

// block is a value after a key: with what it begins by, and a newline at its end.
func (s *Sample) block(indent, depth int) string {
	kinds := 9
	if depth == 0 {
		kinds = 5
	}
	switch s.random.IntN(kinds) {
	case 0, 1, 2:
		return " " + s.scalar() + "\n"
	case 3:
		return s.literal(indent)
	case 4:
		return pick(s, " # nothing\n", "\n", " {}\n", " []\n", " [ , ]\n", " [a, y, 0B1]\n", " {y: 4, a: n}\n", " {1: a, b: 0X1f}\n", " a b\n", " a # comment\n", " a#b\n")
	case 5, 6, 7:
		return s.mapping(indent, depth-1)
	}
	return s.list(indent, depth-1)
}

func (s *Sample) literal(indent int) string {
	text := " " + pick(s, "|", ">") + pick(s, "", "", "-", "+") + "\n"
	for range 1 + s.random.IntN(3) {
		text += strings.Repeat(" ", indent) + pick(s, "one", "two words", "  deeper", "# no comment", "a: b", "", "tab\there", "- x", "--- y") + "\n"
	}
	return text + pick(s, "", "", "\n", "\n\n")
}

func (s *Sample) mapping(indent, depth int) string {
	text, space, own := "\n", strings.Repeat(" ", indent), 0
	if s.random.IntN(6) == 0 {
		s.anchor++
		own = s.anchor
		text = fmt.Sprintf(" &m%d\n", s.anchor)
	}
	for range 1 + s.random.IntN(4) {
		key := s.key()
		if len(s.whole) > 0 && s.random.IntN(6) == 0 {
			text += fmt.Sprintf("%s%s: *m%d\n", space, pick(s, "<<", "<<", "k1"), s.whole[s.random.IntN(len(s.whole))])
			continue
		}
		text += space + key + ":" + s.block(indent+2, depth)
	}
	if own > 0 {
		s.whole = append(s.whole, own)
	}
	return text
}

func (s *Sample) list(indent, depth int) string {
	text := "\n"
	for range 1 + s.random.IntN(3) {
		text += strings.Repeat(" ", indent) + "-" + s.block(indent+2, depth)
	}
	return text
}
