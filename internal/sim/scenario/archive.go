package scenario

import "strings"

// archive is a script with the files that go with it, in the format of txtar:
// the script comes first, then each file after a line "-- its name --".
type archive struct {
	script []string
	files  map[string]string
}

func parseArchive(text string) archive {
	a := archive{files: map[string]string{}}
	name := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		marked, ok := strings.CutPrefix(trimmed, "-- ")
		if inner, ends := strings.CutSuffix(marked, " --"); ok && ends && strings.TrimSpace(inner) != "" {
			name = strings.TrimSpace(inner)
			a.files[name] = ""
			continue
		}
		if name == "" {
			a.script = append(a.script, trimmed)
			continue
		}
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		a.files[name] += line
	}
	return a
}

// words splits a line at blanks; what stands in quotes is one word. A # that
// begins a word ends the line.
func words(line string) (list []string) {
	var word strings.Builder
	quote, inWord := rune(0), false
	end := func() {
		if inWord {
			list = append(list, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			end()
		case r == '#' && !inWord:
			return list
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return list
}
