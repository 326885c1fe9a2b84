package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflowtext"
)

// functions are what templates call. html/template escapes what they return;
// plain is for texts that somebody else wrote.
var functions = template.FuncMap{
	"plain": plain, "pretty": pretty, "when": formatMoment, "rfc": rfc, "short": short, "revision": intent.ShortRevision, "name": lastName,
	"stateWord": stateWord, "stateClass": stateClass, "healthClass": healthClass, "modeWords": modeWords, "link": link, "incarnation": incarnationLink,
	"commit": commitLink, "sequence": sequence, "count": count, "place": place, "others": othersText, "value": value, "brief": brief, "mark": mark, "number": grouped, "soon": soon, "currentWord": currentWord,
	"actor": actor, "runClass": runClass, "resultClass": resultClass, "coordinate": formatCoordinate, "plus": func(a, b float64) string { return formatCoordinate(a + b) }, "minus": func(a, b float64) string { return formatCoordinate(a - b) },
	"digits4": func(v any) string { return fmt.Sprintf("%.4g", v) },
	"plots":   plots, "span": span, "assetState": assetState, "newestFirst": newestFirst,
	"transition": workflowtext.Transition, "event": workflowtext.Event, "runActor": workflowtext.Actor, "stateOfRun": workflowtext.State, "ending": workflowtext.Ending, "inputText": inputText, "outcomeClass": outcomeClass,
	"audit": auditOf, "role": roleWord, "some": someFields, "more": moreFields,
	"placed": func(what string, place *apipb.Place) placeView { return placeView{what, place} },
}

// plain shows characters that hide or reorder text as escapes.
func plain(text string) string { return escaped(text, "") }

// pretty is a decoded message, as indented JSON, on lines of its own.
func pretty(content *structpb.Struct) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(content.AsMap()); err != nil {
		return "it cannot be shown: " + err.Error()
	}
	return escaped(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// escaped leaves alone control characters that are wanted.
func escaped(text, wanted string) string {
	hides := func(r rune) bool {
		return (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar) && !strings.ContainsRune(wanted, r)
	}
	if strings.IndexFunc(text, hides) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' && wanted == "":
			b.WriteString(" ⏎ ")
		case hides(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// formatMoment is a moment for those whose browser does not count from it.
func formatMoment(t *timestamppb.Timestamp) string {
	return t.AsTime().UTC().Format("2006-01-02 15:04:05 UTC")
}

func rfc(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format(time.RFC3339) }

// short is enough of a digest to name it by.
func short(digest string) string { return digest[:min(len(digest), 12)] }

// lastName is a type without its package.
func lastName(typeName string) string { return typeName[strings.LastIndexByte(typeName, '.')+1:] }

// sequence is an incarnation without its partition.
func sequence(incarnation string) string {
	_, sequence, _ := strings.Cut(incarnation, "@")
	return "@" + sequence
}

// states are what a report may say, in the order in which they are shown.
var states = []word{
	{"in-sync", "in sync"}, {"pushing", "pushing"}, {"waiting", "waiting"},
	{"off", "off"}, {"unserved", "no plugin"}, {"model", "model"}, {"gone", "gone"},
}

// unseen has no report, and is counted in groups.
var unseen = []word{{"unseen", "not looked at yet"}}

// word is one of the API, as people say it.
type word struct{ name, label string }

func stateWord(state string) string {
	for _, word := range slices.Concat(states, unseen) {
		if word.name == state {
			return word.label
		}
	}
	return cmp.Or(state, "not looked at yet")
}

// currentWord is what production was found to be, as people say it.
func currentWord(current string) string { return strings.ReplaceAll(current, "-", " ") }

// stateClass is a state as a class of the stylesheet.
func stateClass(state string) string {
	for _, word := range states {
		if word.name == state {
			return "state-" + state
		}
	}
	return "state-none"
}

func healthClass(state string) string {
	if slices.Contains([]string{"healthy", "unhealthy"}, state) {
		return "health-" + state
	}
	return "health-unknown"
}

func modeWords(mode string) string {
	switch mode {
	case "enforce":
		return "differences are pushed"
	case "observe":
		return "differences are shown, nothing is pushed"
	case "off":
		return "nothing is looked at"
	default:
		return "nothing is served yet"
	}
}

// count takes an int, an int32 or an int64.
func count(number any, noun string) string {
	var n int64
	switch number := number.(type) {
	case int64:
		n = number
	case int32:
		n = int64(number)
	default:
		n = int64(number.(int))
	}
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "x") {
		return fmt.Sprintf("%s %ses", grouped(n), noun)
	}
	return fmt.Sprintf("%s %ss", grouped(n), noun)
}

// grouped writes a number with spaces between its thousands.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "\u202f" + text[at:]
	}
	return text
}

// place is where a finding is, as "file:line:column".
func place(f *apipb.Finding) string {
	text := f.File
	if f.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, f.Line)
		if f.Column > 0 {
			text = fmt.Sprintf("%s:%d", text, f.Column)
		}
	}
	return cmp.Or(text, f.Asset)
}

// othersText says how many others a finding stands for.
func othersText(f *apipb.Finding) string { return intent.OthersText(int(f.Alike), f.Examples) }

// value is one side of a difference; long ones are cut.
func value(text string) string {
	const most = 2000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return escaped(text, "\n")
}

// brief is one side of a difference in a line among others.
func brief(text string) string {
	if text == "" {
		return "(none)"
	}
	short, _ := intent.Cut(text, 60)
	return escaped(short, "")
}

// mark says in a word what a push would do to a field.
func mark(c *apipb.FieldChange) string {
	switch {
	case c.Destructive:
		return "destructive"
	case c.Current == "":
		return "adds"
	case c.Target == "":
		return "removes"
	default:
		return "changes"
	}
}

// command is a line for a terminal.
func (r *reader) command(partition string, words ...string) string {
	line := "lehr"
	for _, word := range words {
		line += " " + quoted(word)
	}
	if partition != "" {
		line += " --partition " + quoted(partition)
	}
	if r.store != "" && r.store != defaultStore {
		line += " --store " + quoted(r.store)
	}
	return line
}

// defaultStore need not be named on the command line.
const defaultStore = ".lehr/lehr.db"

// quoted makes a word safe in a shell.
func quoted(word string) string {
	safe := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./@=:,~+%", r))
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !safe(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// formatCoordinate writes a coordinate of a drawing, to a tenth.
func formatCoordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
