package workflow

import (
	"slices"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/rule"
)

// unmet parts of a formula that is wanted to be true, or false. Of alternatives of which one would do there
// is one part that names them all.
func (e *explainer) unmet(machine int, t *Transition, f rule.Formula, want bool) []Unmet {
	switch f.Kind {
	case rule.Constant:
		if f.Value != want {
			return []Unmet{{Text: strconv.FormatBool(want) + " (the guard says " + strconv.FormatBool(f.Value) + ")"}}
		}
		return nil
	case rule.Not:
		return e.unmet(machine, t, f.Parts[0], !want)
	case rule.All, rule.Any:
		if want == (f.Kind == rule.All) {
			return e.unmetOfAll(machine, t, f.Parts, want)
		}
		return e.unmetOfAny(machine, t, f.Parts, want)
	}
	verdict := e.leaf(machine, t, f)
	if verdict == rule.Holds && want || verdict == rule.Fails && !want {
		return nil
	}
	return []Unmet{{Text: e.describe(machine, t, f, want), Reads: slices.Clone(readsOf(f))}}
}

// unmetOfAll: each part counts, once.
func (e *explainer) unmetOfAll(machine int, t *Transition, parts []rule.Formula, want bool) (all []Unmet) {
	for _, part := range parts {
		for _, one := range e.unmet(machine, t, part, want) {
			if !slices.ContainsFunc(all, func(u Unmet) bool { return u.Text == one.Text }) {
				all = append(all, one)
			}
		}
	}
	return all
}

// unmetOfAny: one part would do.
func (e *explainer) unmetOfAny(machine int, t *Transition, parts []rule.Formula, want bool) []Unmet {
	var alternatives []string
	var reads []string
	for _, part := range parts {
		missing := e.unmet(machine, t, part, want)
		if len(missing) == 0 {
			return nil
		}
		var texts []string
		for _, one := range missing {
			texts, reads = append(texts, one.Text), append(reads, one.Reads...)
		}
		if text := strings.Join(texts, " and "); !slices.Contains(alternatives, text) {
			alternatives = append(alternatives, text)
		}
	}
	slices.Sort(reads)
	return []Unmet{{Text: strings.Join(alternatives, ", or "), Reads: slices.Compact(reads)}}
}

// describe a leaf that is wanted to be true or false, and what it is now.
func (e *explainer) describe(machine int, t *Transition, leaf rule.Formula, want bool) string {
	value, ok := "", true
	if leaf.Kind != rule.Opaque {
		value, ok = e.value(machine, t, leaf.Name)
	}
	condition := e.condition(leaf, want)
	kind, _, _ := strings.Cut(leaf.Name, ".")
	switch {
	case !ok:
		return condition + " (is not known yet)"
	case leaf.Kind == rule.Opaque:
		return condition + " (does not hold)"
	case kind == "signals" && want:
		return condition + " (has not come)"
	case kind == "signals":
		return condition + " (has come)"
	}
	return condition + " (is " + shorten(value) + ")"
}

// shorten a value that is shown in a sentence.
func shorten(value string) string {
	const most = 100
	runes := []rune(value)
	if len(runes) <= most {
		return value
	}
	return string(runes[:most]) + "…"
}

// condition that is wanted, as it would be written in a guard.
func (e *explainer) condition(leaf rule.Formula, want bool) string {
	isBool := e.types[leaf.Name] == rule.ScalarBool
	switch {
	case leaf.Kind == rule.Opaque && want:
		return leaf.Text
	case leaf.Kind == rule.Opaque:
		return "!(" + leaf.Text + ")"
	case leaf.Kind == rule.Less && want:
		return leaf.Name + " < " + strconv.FormatInt(leaf.Bound, 10)
	case leaf.Kind == rule.Less:
		return leaf.Name + " >= " + strconv.FormatInt(leaf.Bound, 10)
	case isBool && want == (leaf.Literal == "true"):
		return leaf.Name
	case isBool:
		return "!" + leaf.Name
	}
	literal := leaf.Literal
	if scalar := e.types[leaf.Name]; scalar == rule.ScalarString || scalar == rule.ScalarTime {
		literal = strconv.Quote(literal)
	}
	if want {
		return leaf.Name + " == " + literal
	}
	return leaf.Name + " != " + literal
}
