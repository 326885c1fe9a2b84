package kargo

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/expr-lang/expr"
	"go.yaml.in/yaml/v3"
)

// artifact is what a subscription of a Warehouse follows: an application of delivery.
type artifact struct {
	warehouse *warehouse
	node      *yaml.Node
	// kind is image, git or chart.
	kind, repository, chart string
	// name is that of the application.
	name string
	// source is the source of versions, and order how delivery orders them.
	source, order map[string]any
	// ignored are versions that no environment may have.
	ignored []string
	// verdicts are constraints of the Warehouse that a program must tell of, with their nodes.
	verdicts []verdict
	// isMutable: a version is a digest that one tag has now.
	isMutable bool
}

// verdict is a constraint that a program decides: one that Lehr runs by a command, or one that hands the
// result in.
type verdict struct {
	name, text string
	command    []string
}

// reference is a part of an artifact's version.
type reference struct {
	artifact *artifact
	// part is version, digest or repository.
	part string
}

// scope is where an expression stands: a promotion of a Stage.
type scope struct {
	reading *reading
	stage   *stage
	vars    map[string]any
	// outputs are what steps before give, by their names; those of a task are its own.
	outputs, taskOutputs map[string]any
}

// mark stands in a text for what is known at a promotion only.
func (s *scope) mark(a *artifact, part string) string {
	s.reading.references = append(s.reading.references, reference{a, part})
	return fmt.Sprintf("\x00%d\x00", len(s.reading.references)-1)
}

// outputMark stands for what a step before gives.
const outputMark = "\x00output\x00"

var marks = regexp.MustCompile("\x00[0-9a-z]+\x00")

// isKnown reports whether a text is the same in each promotion.
func isKnown(text string) bool { return !strings.Contains(text, "\x00") }

// reference is the one that a whole text stands for.
func (s *scope) reference(text string) (reference, bool) {
	var number int
	if marks.FindString(text) != text {
		return reference{}, false
	}
	if _, err := fmt.Sscanf(text, "\x00%d\x00", &number); err != nil || number >= len(s.reading.references) {
		return reference{}, false
	}
	return s.reading.references[number], true
}

// within copies the scope with more variables.
func (s *scope) within(vars map[string]any) *scope {
	made := *s
	made.vars = maps.Clone(s.vars)
	maps.Copy(made.vars, vars)
	return &made
}

// resolve gives a text with its expressions filled in.
func (s *scope) resolve(text string) (string, error) {
	var made strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${{")
		made.WriteString(before)
		if !ok {
			return made.String(), nil
		}
		expression, after, ok := strings.Cut(rest, "}}")
		if !ok {
			return "", fmt.Errorf("${{ without }}")
		}
		result, err := s.evaluate(strings.TrimSpace(expression))
		if err != nil {
			return "", err
		}
		made.WriteString(result)
		text = after
	}
}

// resolveAt is resolve of a node's text; a mapping or a list has none.
func (s *scope) resolveAt(node *yaml.Node) (string, error) {
	switch {
	case node == nil || node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return "", nil
	case node.Kind != yaml.ScalarNode:
		return "", fmt.Errorf("a text is expected")
	}
	return s.resolve(node.Value)
}

func (s *scope) evaluate(expression string) (string, error) {
	environment := s.environment()
	program, err := expr.Compile(expression, expr.Env(environment))
	if err != nil {
		return "", fmt.Errorf("%q cannot be resolved: %s", expression, firstLine(err))
	}
	result, err := expr.Run(program, environment)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q cannot be resolved: %s", expression, firstLine(err))
	case result == nil:
		return "", fmt.Errorf("%q cannot be resolved: it is nothing in what was read", expression)
	}
	return fmt.Sprint(result), nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// environment is what expressions of Kargo may ask. What only a promotion knows is a mark, and
// what is not there makes the expression one that cannot be resolved.
func (s *scope) environment() map[string]any {
	same := func(value any) string {
		switch value.(type) {
		case map[string]any, []any:
			// Marks stay as they are, so that they are found again.
			if text, err := jsonText(value); err == nil {
				return strings.ReplaceAll(text, `\u0000`, "\x00")
			}
		}
		return fmt.Sprint(value)
	}
	none := func(...any) map[string]any { return map[string]any{} }
	return map[string]any{
		"vars":    s.vars,
		"outputs": s.outputs,
		"task":    map[string]any{"outputs": s.taskOutputs},
		"ctx": map[string]any{
			"project": s.reading.project, "stage": s.stage.name, "promotion": outputMark,
			"targetFreight": map[string]any{"name": outputMark, "alias": outputMark, "origin": map[string]any{"name": outputMark}},
			"meta":          map[string]any{"promotion": map[string]any{"actor": outputMark}},
		},
		"quote": same, "unsafeQuote": same,
		"configMap":       func(name string) map[string]any { return s.reading.configMaps[name] },
		"sharedConfigMap": func(name string) map[string]any { return s.reading.configMaps[name] },
		"secret":          func(name string) map[string]any { return s.reading.secrets[name] },
		"sharedSecret":    func(name string) map[string]any { return s.reading.secrets[name] },
		"freightMetadata": none, "stageMetadata": none,
		"warehouse":  func(name string) string { return name },
		"success":    func() bool { return true },
		"always":     func() bool { return true },
		"failure":    func() bool { return false },
		"imageFrom":  s.lookup("image", "Tag", "Digest"),
		"commitFrom": s.lookup("git", "ID", ""),
		"chartFrom":  s.lookup("chart", "Version", ""),
	}
}

// lookup is imageFrom and its kin: a repository, and optionally the name of a chart and a Warehouse.
func (s *scope) lookup(kind, version, digest string) func(string, ...string) (map[string]any, error) {
	return func(repository string, more ...string) (map[string]any, error) {
		a := s.stage.artifact(kind, repository, more...)
		if a == nil {
			return nil, fmt.Errorf("no Warehouse that the Stage requests freight of has the %s %s", kind, repository)
		}
		made := map[string]any{version: s.mark(a, "version"), "RepoURL": a.repository}
		if digest != "" {
			made[digest] = s.mark(a, "digest")
		}
		if kind == "git" {
			made["Tag"], made["Branch"] = s.mark(a, "version"), a.source["branch"]
		}
		return made, nil
	}
}
