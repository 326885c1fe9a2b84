package database

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Judge returns what changing objects destroys, or may not survive, in words
// by key. rows are the tables that hold rows.
func Judge(current, wanted Objects, rows map[string]bool) map[string]string {
	harms := map[string]string{}
	for key := range union(current, wanted) {
		before, was := current[key]
		after, will := wanted[key]
		if before == after && was == will {
			continue
		}
		kind, name, _ := strings.Cut(key, " ")
		harm := ""
		switch kind {
		case "column":
			table := tableOf(name, current)
			if table != "" {
				harm = columnHarm(before, after, was, will, rows[table])
			}
		case "constraint":
			if was {
				harm = "drops a constraint that guards the data"
			}
		case "index":
			if was && strings.HasPrefix(strings.ToUpper(before), "CREATE UNIQUE") {
				harm = "drops a unique index that guards the data"
			}
		}
		if harm != "" {
			harms[key] = harm
		}
	}
	return harms
}

// tableOf returns the table of "table.column" if it exists, else "".
func tableOf(name string, current Objects) string {
	for i := range name {
		if name[i] == '.' {
			if _, found := current["table "+name[:i]]; found {
				return name[:i]
			}
		}
	}
	return ""
}

func columnHarm(before, after string, was, will, rows bool) string {
	switch {
	case was && !will:
		return "drops the column and what it holds; a column that is renamed is one dropped and one added"
	case !was && rows && notNull(after) && !filled(after):
		return "the table has rows, and they have no value for a column that must not be null: it fails, unless they go first"
	case !was:
		return ""
	}
	typeBefore, _, _ := strings.Cut(before, ", ")
	typeAfter, _, _ := strings.Cut(after, ", ")
	switch {
	case typeBefore != typeAfter && !widens(typeBefore, typeAfter):
		return "changes the type: values may be lost, or not fit"
	case generated(before) != generated(after):
		return "values that are stored are replaced by values that are computed, or the reverse"
	case unguarded(before, after):
		return "drops a constraint that guards the data"
	case !notNull(before) && notNull(after) && rows:
		return "the table has rows: it fails if one of them has no value here"
	}
	return ""
}

func notNull(word string) bool {
	upper := strings.ToUpper(word)
	return strings.Contains(upper, "NOT NULL") || strings.Contains(upper, "PRIMARY KEY")
}

// guards are the constraints that SQLite keeps within a column.
var guards = []string{" primary key", " unique", " check (", " references "}

// unguarded reports whether a constraint of the column is not as it was. What
// follows it counts as part of it: rather one approval too many.
func unguarded(before, after string) bool {
	return slices.ContainsFunc(guards, func(guard string) bool {
		at := strings.Index(before, guard)
		return at >= 0 && !strings.Contains(after, before[at:])
	})
}

// filled reports whether rows that exist get a value.
func filled(word string) bool {
	upper := strings.ToUpper(word)
	return strings.Contains(upper, "DEFAULT") || strings.Contains(upper, "GENERATED")
}

// generated returns the computed part of a column's word.
func generated(word string) string {
	upper := strings.ToUpper(word)
	if at := strings.Index(upper, "GENERATED ALWAYS AS ("); at >= 0 {
		return upper[at:]
	}
	if at := strings.Index(upper, " AS ("); at >= 0 {
		return upper[at:]
	}
	return ""
}

var sized = regexp.MustCompile(`^(.*?)\((\d+)(?:,(\d+))?\)$`)

// ranks order the types each of which holds all values of those before it.
var ranks = [][]string{
	{"smallint", "integer", "bigint", "numeric"},
	{"real", "double precision"},
	{"character varying", "text"},
}

// widens reports whether every value of one type fits the other unchanged.
func widens(before, after string) bool {
	before, after = strings.ToLower(before), strings.ToLower(after)
	from, to := sized.FindStringSubmatch(before), sized.FindStringSubmatch(after)
	nameBefore, nameAfter := before, after
	if from != nil {
		nameBefore = from[1]
	}
	if to != nil {
		nameAfter = to[1]
	}
	if nameBefore == nameAfter {
		switch {
		case to == nil:
			return true
		case from == nil:
			return false
		}
		places, placesAfter := number(from[3]), number(to[3])
		return number(to[2])-placesAfter >= number(from[2])-places && placesAfter >= places
	}
	if to != nil {
		return false
	}
	for _, rank := range ranks {
		i, k := slices.Index(rank, nameBefore), slices.Index(rank, nameAfter)
		if i >= 0 && k > i {
			return true
		}
	}
	return false
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // absent is 0
	return n
}
