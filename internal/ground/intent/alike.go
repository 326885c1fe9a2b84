package intent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// fewAlike findings of one cause at one place are told each, mostPlaces are told
	// of one cause, and mostExamples are named of what is only counted.
	fewAlike, mostPlaces, mostExamples = 3, 10, 3
	// mostCauses of one list are told.
	mostCauses = 200
)

// Examples name some of the findings that one stands for: their assets, or the
// files that they are about.
type Examples [mostExamples]string

// List has those that there are.
func (e Examples) List() []string {
	return slices.DeleteFunc(slices.Clone(e[:]), func(text string) bool { return text == "" })
}

func (e Examples) MarshalJSON() ([]byte, error) { return json.Marshal(e.List()) }

func (e *Examples) UnmarshalJSON(text []byte) error {
	var list []string
	err := json.Unmarshal(text, &list)
	*e = Examples{}
	copy(e[:], list)
	return err
}

func (e *Examples) add(text string) {
	for i := range e {
		if e[i] == text || text == "" {
			return
		}
		if e[i] == "" {
			e[i] = text
			return
		}
	}
}

// OthersText says how many others a finding stands for; empty: none.
func OthersText(alike int, examples []string) string {
	if alike == 0 {
		return ""
	}
	text := fmt.Sprintf("and %d more like this", alike)
	if len(examples) > 0 {
		text += ", such as " + strings.Join(examples, ", ")
	}
	return text
}

// OthersText says how many others the finding stands for; empty: none.
func (f Finding) OthersText() string { return OthersText(f.Alike, f.Examples.List()) }

// place is where a finding is, as "file:line"; empty: it names none.
func (f Finding) place() string {
	if f.File == "" || f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// names are what tells a finding, and those that it stands for, from the first of
// its cause.
func (f Finding) names(first Finding) []string {
	examples := f.Examples.List()
	switch {
	case f.Alike == 0 && len(examples) > 0:
		return examples
	case f.Asset != "" && f.Asset != first.Asset:
		return append([]string{string(f.Asset)}, examples...)
	case f.place() != first.place():
		return append([]string{f.place()}, examples...)
	}
	return examples
}

// cause is what findings of one kind have in common: the words that do not name
// what they are about.
type cause struct {
	rule, severity, field, message string
}

// varying are the parts of a text that name what it is about: quoted texts,
// names with a slash, and numbers.
var varying = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^\s",;:()\[\]]*/[^\s",;:()\[\]]*|[0-9]+`)

func shape(text string) string { return varying.ReplaceAllString(text, "…") }

func causeOf(f Finding) cause {
	message := f.Message
	for _, name := range []string{string(f.Asset), f.File, f.Examples[0]} {
		message = withoutWord(message, name)
	}
	return cause{f.Rule, string(f.Severity), shape(f.Field), shape(message)}
}

// withoutWord replaces a name where it stands by itself.
func withoutWord(text, name string) string {
	if name == "" || !strings.Contains(text, name) {
		return text
	}
	part := func(b byte) bool {
		return b == '_' || b == '-' || b == '/' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	var result strings.Builder
	for {
		at := strings.Index(text, name)
		if at < 0 {
			result.WriteString(text)
			return result.String()
		}
		end := at + len(name)
		if at > 0 && part(text[at-1]) || end < len(text) && part(text[end]) {
			result.WriteString(text[:end])
		} else {
			result.WriteString(text[:at] + "…")
		}
		text = text[end:]
	}
}

// GroupFindings tells findings with one cause once, with how many others there
// are and some of them, where they are more than a few. The order is that of the
// first of each. A list that was grouped may be grouped again, with others. The
// Examples of a finding that stands for itself are what it is about, for this
// function only.
func GroupFindings(findings []Finding) []Finding {
	grouped := slices.Clone(findings)
	for i := range grouped {
		if grouped[i].Alike == 0 {
			grouped[i].Examples = Examples{}
		}
	}
	if isGrouped := func(f Finding) bool { return f.Alike > 0 }; len(findings) <= fewAlike && !slices.ContainsFunc(findings, isGrouped) {
		return grouped
	}
	merged := make([]bool, len(findings))
	for _, places := range byCause(findings) {
		for at, p := range places {
			first, rest := p.findings[0], p.findings[1:]
			switch {
			case at == mostPlaces: // It is counted at the last place that is told.
				first, rest = places[at-1].findings[0], p.findings
			case p.total <= fewAlike:
				continue
			}
			target := &grouped[first]
			for _, i := range rest {
				target.Alike += 1 + findings[i].Alike
				for _, name := range findings[i].names(findings[first]) {
					target.Examples.add(name)
				}
				merged[i] = true
			}
		}
	}
	return bounded(grouped, merged)
}

// samePlace are findings of one cause at one place, by their indexes, and how many
// they stand for.
type samePlace struct {
	file     string
	line     int
	findings []int
	total    int
}

// byCause sorts findings by their causes and places. The last place of a cause
// has those of all further ones.
func byCause(findings []Finding) map[cause][]*samePlace {
	causes := map[cause][]*samePlace{}
	for i, f := range findings {
		c := causeOf(f)
		places := causes[c]
		at := slices.IndexFunc(places, func(p *samePlace) bool { return p.file == f.File && p.line == f.Line })
		if at < 0 && len(places) > mostPlaces {
			at = mostPlaces
		}
		if at < 0 {
			at, causes[c] = len(places), append(places, &samePlace{file: f.File, line: f.Line})
		}
		p := causes[c][at]
		p.findings, p.total = append(p.findings, i), p.total+1+f.Alike
	}
	return causes
}

// ruleLimit is about findings that are not told, as one too many.
const ruleLimit = "limit"

// bounded are the findings that are not gone, at most mostCauses of them, and one
// for all others, as severe as the worst.
func bounded(findings []Finding, merged []bool) (reported []Finding) {
	untold := Finding{
		Rule: ruleLimit, Severity: Warning, Alike: -1,
		Message: fmt.Sprintf("a finding beyond the first %d is not shown", mostCauses), Hint: "mend those that are shown first",
	}
	for i, f := range findings {
		switch {
		case merged[i]:
		case len(reported) < mostCauses && f.Rule != ruleLimit:
			reported = append(reported, f)
		default:
			untold.Alike += 1 + f.Alike
			if f.Severity == Error || untold.Severity == Warning {
				untold.Severity = f.Severity
			}
		}
	}
	if untold.Alike >= 0 {
		reported = append(reported, untold)
	}
	return reported
}
