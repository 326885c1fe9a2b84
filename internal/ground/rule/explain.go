package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/spell"
)

// at is an error at a node of the expression.
func (p *program) at(node ast.Expr, format string, arguments ...any) *fault.Error {
	place := common.Location(common.NoLocation)
	if p.tree != nil {
		place = p.tree.SourceInfo().GetStartLocation(node.ID())
	}
	return p.wrong(place, fmt.Sprintf(format, arguments...))
}

// wrap places an error that is about a literal; it keeps the hint.
func (p *program) wrap(node ast.Expr, err error) error {
	cause, ok := err.(*fault.Error)
	if !ok {
		return p.at(node, "%s", shorten(err.Error()))
	}
	placed := p.at(node, "%s", shorten(cause.Message))
	placed.Hint = cause.Hint
	return placed
}

func (p *program) wrong(place common.Location, problem string) *fault.Error {
	position := ""
	switch {
	case place.Line() > 1 || strings.Contains(p.text, "\n") && place.Line() == 1:
		position = fmt.Sprintf(", line %d, column %d", place.Line(), place.Column()+1)
	case place.Line() == 1:
		position = fmt.Sprintf(", column %d", place.Column()+1)
	}
	return fault.New(fault.Invalid, "expression %.200q%s: %s", p.text, position, problem)
}

// invalid is an error of the whole expression.
func (p *program) invalid(format string, arguments ...any) *fault.Error {
	return fault.New(fault.Invalid, "expression %.200q %s", p.text, fmt.Sprintf(format, arguments...))
}

func (p *program) gives(wanted *cel.Type) bool {
	return p.result.IsExactType(wanted) || p.result.IsExactType(cel.DynType)
}

func (p *program) output() string {
	if p.result.IsExactType(cel.StringType) {
		return "a text"
	}
	return "a value of type " + shorten(cel.FormatCELType(p.result))
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	unfielded  = regexp.MustCompile(`^undefined field '([^']*)'`)
	overloaded = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	mixed      = regexp.MustCompile(`\b(uint, int|int, uint|double, u?int|u?int, double)\b`)
)

// explain says what cel-go found wrong, the first of it.
func (p *program) explain(issues *cel.Issues) error {
	first := issues.Errors()[0]
	message := strings.Join(strings.Fields(first.Message), " ")
	if match := undeclared.FindStringSubmatch(message); match != nil {
		return p.undeclared(first.Location, match[1])
	}
	if match := overloaded.FindStringSubmatch(message); match != nil {
		name := strings.Trim(match[1], "_@")
		problem := p.wrong(first.Location, fmt.Sprintf("%q does not work on %s", name, shorten(match[2])))
		if mixed.MatchString(match[2]) {
			return problem.WithHint("numbers of different kinds can be compared; to calculate with them, convert them by int(…) or double(…)")
		}
		return problem
	}
	if match := unfielded.FindStringSubmatch(message); match != nil {
		problem := p.wrong(first.Location, fmt.Sprintf("no field %q", shorten(match[1])))
		if suggestion := spell.Nearest(match[1], viewFields()); suggestion != "" {
			return problem.WithHint("did you mean %s?", suggestion)
		}
		return problem
	}
	if strings.Contains(message, "recursion") {
		return p.invalid("is nested more than %d deep", maxDepth)
	}
	if syntax, ok := strings.CutPrefix(message, "Syntax error: "); ok {
		return p.syntax(first.Location, syntax)
	}
	return p.wrong(first.Location, shorten(message))
}

// habits of other languages, by the token that CEL stumbles over.
var habits = map[string]string{
	"=": "== compares", "&": "&& is and", "|": "|| is or", "and": "&& is and", "or": "|| is or", "is": "== compares", "like": "matches takes a pattern",
}

var stumbled = regexp.MustCompile(`'(?:\\.|[^'])*'`)

func (p *program) syntax(place common.Location, message string) error {
	message, _, _ = strings.Cut(message, " expecting ")
	if strings.HasSuffix(message, "'<EOF>'") {
		return p.wrong(place, "it is not CEL: it ends too early")
	}
	problem := p.wrong(place, "it is not CEL: "+shorten(message))
	if hint := habits[strings.Trim(stumbled.FindString(message), "' ")]; hint != "" {
		return problem.WithHint("%s", hint)
	}
	return problem
}

func (p *program) undeclared(place common.Location, name string) error {
	problem := p.wrong(place, fmt.Sprintf("nothing is named %q", shorten(name)))
	candidates := append([]string{"has", "size", "startsWith", "endsWith", "contains", "matches", "exists", "all", "filter", "map", "int", "double", "string",
		"parseJSON", "split", "join", "replace", "substring", "lowerAscii", "upperAscii", "trim", "true", "false"}, p.names...)
	if suggestion := spell.Nearest(name, candidates); suggestion != "" {
		return problem.WithHint("did you mean %s?", suggestion)
	}
	if p.view == overAll && slices.Contains(variableNames, name) {
		return problem.WithHint("over the whole, assets are seen through count(…), sum(…), min(…) and max(…)")
	}
	if p.isFieldName(name) {
		return problem.WithHint("did you mean payload.%s?", name)
	}
	return problem.WithHint("an expression finds %s; a text is put in quotes", strings.Join(p.names, ", "))
}

// isFieldName reports whether some payload has such a field.
func (p *program) isFieldName(name string) bool {
	if p.set == nil {
		return false
	}
	for _, holder := range p.everyMessage() {
		for i := range holder.Fields().Len() {
			if string(holder.Fields().Get(i).Name()) == name {
				return true
			}
		}
	}
	return false
}
