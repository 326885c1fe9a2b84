package canaries

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer"
)

// The features that the share is printed for.
const (
	ofWorkload = "workloads"
	ofStrategy = "strategies"
	ofTraffic  = "traffic"
	ofAnalysis = "analyses"
)

var features = []string{ofWorkload, ofStrategy, ofTraffic, ofAnalysis}

// words reads the words of one object strictly: each value is carried over, listed, or refused.
type words struct {
	*reading
	object *object
	// feature that values count for.
	feature string
	// again: the object was read before, and is neither counted nor listed anew.
	again bool
}

func (w words) as(feature string) words {
	w.feature = feature
	return w
}

// countValues counts the values that are no mapping and no list; one that is empty counts as one.
func countValues(node *yaml.Node) int {
	if node.Kind == yaml.ScalarNode || len(node.Content) == 0 {
		return 1
	}
	count := 0
	for i, child := range node.Content {
		if node.Kind == yaml.SequenceNode || i%2 == 1 {
			count += countValues(child)
		}
	}
	return count
}

func (w words) keep(node *yaml.Node) {
	if !w.again {
		w.carried[w.feature] += countValues(node)
		w.total[w.feature] += countValues(node)
	}
}

// leave lists what is not carried over.
func (w words) leave(node *yaml.Node, what, why string) {
	if !w.again {
		w.total[w.feature] += countValues(node)
		w.list(node, what, why, false)
	}
}

// wrong lists what the tool does not know either, or what cannot be carried over as it stands.
func (w words) wrong(node *yaml.Node, what, why string) {
	if !w.again {
		w.total[w.feature] += countValues(node)
		w.list(node, what, why, true)
	}
}

// list lists a value that is counted elsewhere.
func (w words) list(node *yaml.Node, what, why string, isWrong bool) {
	w.LeftOut = append(w.LeftOut, importer.LeftOut{
		What: fmt.Sprintf("%s:%d: %s", w.object.file, node.Line, strings.TrimPrefix(what, ": ")), Why: why, Wrong: isWrong,
	})
}

func (w words) refuse(node *yaml.Node, format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf("%s:%d: %s", w.object.file, node.Line, fmt.Sprintf(format, args...)))
}

// reader reads the value of a key.
type reader = func(*yaml.Node)

// eachKey calls read for each key of a mapping that is known, and lists the others.
func (w words) eachKey(node *yaml.Node, what string, known map[string]reader) {
	if isNull(node) {
		w.keep(node)
		return
	}
	if node.Kind != yaml.MappingNode {
		w.refuse(node, "%s is no mapping", what)
		return
	}
	if len(node.Content) == 0 {
		w.keep(node)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if read, ok := known[key.Value]; ok {
			read(value)
			continue
		}
		w.wrong(&yaml.Node{Kind: value.Kind, Content: value.Content, Line: key.Line}, what+": "+key.Value, w.tool+" has no such key here")
	}
}

func (w words) eachItem(node *yaml.Node, what string, read func(*yaml.Node)) {
	if isNull(node) {
		w.keep(node)
		return
	}
	if node.Kind != yaml.SequenceNode {
		w.refuse(node, "%s is no list", what)
		return
	}
	if len(node.Content) == 0 {
		w.keep(node)
	}
	for _, item := range node.Content {
		read(item)
	}
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// kept carries a value over whole, which is read from the object's fields.
func (w words) kept() reader { return func(node *yaml.Node) { w.keep(node) } }

// left has a key listed.
func (w words) left(what, why string) reader {
	return func(node *yaml.Node) { w.leave(node, what, why) }
}

// text takes a value that is a text.
func (w words) text(to *string) reader {
	return func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode || isNull(node) {
			w.refuse(node, "a text is expected here")
			return
		}
		*to = node.Value
		w.keep(node)
	}
}

// count takes a whole number that is not negative.
func (w words) count(to *int) reader {
	return func(node *yaml.Node) {
		n, err := strconv.Atoi(node.Value)
		if node.Kind != yaml.ScalarNode || err != nil || n < 0 {
			w.refuse(node, "a whole number from 0 on is expected here")
			return
		}
		*to = n
		w.keep(node)
	}
}

func (w words) truth(to *bool) reader {
	return func(node *yaml.Node) {
		value, err := strconv.ParseBool(node.Value)
		if node.Kind != yaml.ScalarNode || err != nil {
			w.refuse(node, "true or false is expected here")
			return
		}
		*to = value
		w.keep(node)
	}
}

// while takes a length of time, as 90s, or seconds as a number.
func (w words) while(to *time.Duration) reader {
	return func(node *yaml.Node) {
		text := node.Value
		if _, err := strconv.Atoi(text); err == nil {
			text += "s"
		}
		d, err := time.ParseDuration(text)
		if node.Kind != yaml.ScalarNode || err != nil || d < 0 {
			w.refuse(node, "a time such as 30s or 5m is expected here, and it is %.40q", node.Value)
			return
		}
		*to = d
		w.keep(node)
	}
}

// child of a mapping by its key; nil: there is none.
func child(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		var found *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				found = node.Content[i+1]
			}
		}
		node = found
	}
	return node
}

// dig is a value within others; nil: there is none.
func dig(value any, path ...string) any {
	for _, key := range path {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	return value
}

func digMap(value any, path ...string) map[string]any {
	fields, _ := dig(value, path...).(map[string]any)
	return fields
}

func digText(value any, path ...string) string {
	text, _ := dig(value, path...).(string)
	return text
}

// segment is a name as rollouts, validations and files have it.
func segment(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	if clean = strings.Trim(clean, "-"); clean == "" {
		return "unnamed"
	}
	return strings.TrimRight(clean[:min(len(clean), 50)], "-")
}

// unused is a name that is not taken yet, and takes it.
func unused(taken *[]string, name string) string {
	for i := 1; ; i++ {
		try := name
		if i > 1 {
			try = fmt.Sprintf("%s-%d", name, i)
		}
		if !slices.Contains(*taken, try) {
			*taken = append(*taken, try)
			return try
		}
	}
}
