package provenance

import (
	"strconv"
	"strings"
	"unicode"
)

// Lines are the lines of some files that have one name and one value, as in
// YAML and in indented JSON, or one entry of a list. They are found by what they
// look like: the files are of no known format.
type Lines struct {
	// places by name and value; of those that are there twice, the zero Place.
	places map[[2]string]Place
	// all lines, also those that are there twice, and those of them that changed.
	all, altered []line
}

// leastPart is how long a value must be to count as a part of another, and
// mostAltered are the changed lines that are looked through for each value.
const leastPart, mostAltered = 3, 200

// About has places told of which change they are, and notes which lines changed.
func (l *Lines) About(tell func(Place) Place, changed func(Place) bool) {
	l.altered = nil
	for _, line := range l.all {
		line.place = tell(line.place)
		key := [2]string{line.name, line.value}
		if l.places[key].Line > 0 {
			l.places[key] = line.place
		}
		if changed(line.place) && line.value != "" {
			l.altered = append(l.altered, line)
		}
	}
	if len(l.altered) > mostAltered {
		l.altered = nil
	}
}

// line has a value under a name.
type line struct {
	name, value string
	place       Place
	// text of all of it.
	text string
}

// written is the name as the text has it.
func (l line) written() string {
	for _, word := range strings.FieldsFunc(l.text, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if plain(word) == l.name {
			return word
		}
	}
	return l.name
}

// Altered reports whether lines are known that changed.
func (l *Lines) Altered() bool { return len(l.altered) > 0 }

// FindAltered finds the only changed line that has a value, or a part of it: under
// the name of a field, or else under whatever name. It is for fields that changed at
// the same time.
func (l *Lines) FindAltered(path, value string) (Place, bool) {
	if unquoted, err := strconv.Unquote(value); err == nil {
		value = unquoted
	}
	name := lastName(path)
	for _, matches := range []func(line) bool{
		func(l line) bool { return l.name == name && l.value == value },
		func(l line) bool { return l.value == value },
		func(l line) bool { return len(l.value) >= leastPart && strings.Contains(value, l.value) },
	} {
		var candidates []line
		for _, line := range l.altered {
			sameLine := len(candidates) > 0 && candidates[0].place.File == line.place.File && candidates[0].place.Line == line.place.Line
			if value != "" && matches(line) && !sameLine {
				candidates = append(candidates, line)
			}
		}
		if len(candidates) == 1 {
			at := candidates[0].place
			if candidates[0].name != name {
				at.Under = candidates[0].written()
			}
			return at, true
		}
		if len(candidates) > 1 {
			return Place{}, false
		}
	}
	return Place{}, false
}

// entry is the name of what has none, in a list.
const entry = "-"

// Read adds the lines of a file.
func (l *Lines) Read(file Place, content []byte) {
	if l.places == nil {
		l.places = map[[2]string]Place{}
	}
	number := 0
	for text := range strings.Lines(string(content)) {
		number++
		for _, key := range keys(text) {
			at := Place{File: file.File, Source: file.Source, Line: number}
			if _, duplicate := l.places[key]; duplicate {
				at = Place{}
			}
			l.places[key] = at
			l.all = append(l.all, line{key[0], key[1], Place{File: file.File, Source: file.Source, Line: number}, text})
		}
	}
}

// keys are what a line can be found by: most lines by at most one name and value.
func keys(line string) (pairs [][2]string) {
	text := strings.TrimSpace(line)
	rest, listed := strings.CutPrefix(text, "- ")
	if listed {
		text = strings.TrimSpace(rest)
	}
	if bracketed(text) {
		return bracketPairs(text)
	}
	if listed {
		pairs = append(pairs, [2]string{entry, scalar(text)})
	}
	name, value, ok := strings.Cut(text, ":")
	if ok && (value == "" || value[0] == ' ' || strings.HasSuffix(name, `"`)) && !strings.HasPrefix(text, "#") {
		if value = strings.TrimSpace(value); bracketed(value) {
			return append(pairs, bracketPairs(value)...)
		}
		if value = scalar(value); value != "" {
			pairs = append(pairs, [2]string{plain(scalar(name)), value})
		}
		return pairs
	}
	if len(pairs) == 0 && strings.HasPrefix(text, `"`) { // An entry of a list in JSON.
		pairs = append(pairs, [2]string{entry, scalar(text)})
	}
	return pairs
}

func bracketed(text string) bool { return text != "" && (text[0] == '{' || text[0] == '[') }

// bracketPairs are the names with values, and the entries of lists, between the brackets
// with which a text begins, as far as the line goes.
func bracketPairs(text string) (pairs [][2]string) {
	var open []byte
	name := ""
	for at := 0; at < len(text); {
		switch c := text[at]; c {
		case '{', '[':
			open, name = append(open, c), ""
			at++
			continue
		case '}', ']':
			if open = open[:len(open)-1]; len(open) == 0 {
				return pairs
			}
			name = ""
			at++
			continue
		case ',':
			name = ""
			at++
			continue
		case ' ', '\t', ':':
			at++
			continue
		case '#':
			return pairs
		}
		length := word(text[at:])
		if length == 0 {
			return pairs
		}
		value := scalar(text[at : at+length])
		at += length
		switch mapping := open[len(open)-1] == '{'; {
		case mapping && name == "":
			name = value
		case mapping:
			pairs = append(pairs, [2]string{plain(name), value})
		default:
			pairs = append(pairs, [2]string{entry, value})
		}
	}
	return pairs
}

// word is the length of the scalar between brackets with which a text begins; 0:
// its quote does not end.
func word(text string) int {
	quote := text[0]
	if quote != '"' && quote != '\'' {
		for at := range len(text) {
			rest := text[at:]
			if strings.IndexByte(",{}[]", rest[0]) >= 0 || strings.HasPrefix(rest, ": ") || rest == ":" || strings.HasPrefix(rest, " #") {
				return max(at, 1)
			}
		}
		return len(text)
	}
	for at := 1; at < len(text); at++ {
		switch {
		case quote == '"' && text[at] == '\\':
			at++
		case text[at] != quote:
		case quote == '\'' && strings.HasPrefix(text[at+1:], "'"):
			at++
		default:
			return at + 1
		}
	}
	return 0
}

// scalar is a value without quotes, the comma after it, or a comment.
func scalar(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || text[0] == '#' {
		return ""
	}
	if quote := text[0]; quote == '"' || quote == '\'' {
		end := strings.LastIndexByte(text, quote)
		if end == 0 {
			return ""
		}
		switch rest := strings.TrimSpace(text[end+1:]); {
		case rest != "" && rest != "," && rest[0] != '#':
			return ""
		case quote == '\'':
			return strings.ReplaceAll(text[1:end], "''", "'")
		}
		value, err := strconv.Unquote(text[:end+1])
		if err != nil {
			return ""
		}
		return value
	}
	if at := strings.Index(text, " #"); at >= 0 {
		text = text[:at]
	}
	return strings.TrimRight(text, " ,")
}

var withoutJoints = strings.NewReplacer("_", "", "-", "")

// plain makes one of base_port, basePort and base-port.
func plain(name string) string { return strings.ToLower(withoutJoints.Replace(name)) }

// Find the only line that has a field's name and value. The path is as in
// package query, the value as a filter writes it.
func (l *Lines) Find(path, value string) (Place, bool) {
	if unquoted, err := strconv.Unquote(value); err == nil {
		value = unquoted
	}
	if value == "" {
		return Place{}, false
	}
	name := lastName(path)
	place := l.places[[2]string{name, value}]
	return place, place.Line > 0
}

// Alike reports whether two paths end with the same name.
func Alike(a, b string) bool { return lastName(a) == lastName(b) }

// lastName of a path as lines have it.
func lastName(path string) string {
	name := path[strings.LastIndexByte(path, '.')+1:]
	if prefix, ok := strings.CutSuffix(path, `"]`); ok { // A key of a map, which may have dots.
		name = prefix[strings.LastIndex(prefix, `["`)+2:]
	} else if strings.HasSuffix(name, "]") {
		name = entry
	}
	if name != entry {
		name = plain(name)
	}
	return name
}
