package kargo

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer"
)

// tally says of each value what became of it. A task is read once for each Stage that uses it, so
// values are counted where they stand: what one Stage leaves out is left out.
type tally struct {
	// places are the files of nodes.
	places map[*yaml.Node]string
	// values are all that count, in their order, with the kind of their object.
	values []value
	kept   map[*yaml.Node]bool
	// held stand in the assets of Stages, where nothing obeys them yet. told stand there too, for a program that
	// does what they say and hands the result in.
	held, told, left map[*yaml.Node]bool
	leftOut          []importer.LeftOut
	listed           map[importer.LeftOut]bool
	problems         []string
}

// value is a text, a number or the like, or a mapping or list that is empty.
type value struct {
	node *yaml.Node
	kind string
	// key is the nearest one that it stands at.
	key string
}

func newTally() tally {
	return tally{places: map[*yaml.Node]string{}, kept: map[*yaml.Node]bool{}, held: map[*yaml.Node]bool{}, told: map[*yaml.Node]bool{}, left: map[*yaml.Node]bool{},
		listed: map[importer.LeftOut]bool{}}
}

// leaves are the values below a node.
func leaves(node *yaml.Node) (list []*yaml.Node) {
	if node.Kind == yaml.ScalarNode || len(node.Content) == 0 {
		return []*yaml.Node{node}
	}
	for i, child := range node.Content {
		if node.Kind == yaml.SequenceNode || i%2 == 1 {
			list = append(list, leaves(child)...)
		}
	}
	return list
}

// place notes the file of all nodes below.
func (t *tally) place(node *yaml.Node, file string) {
	t.places[node] = file
	for _, child := range node.Content {
		t.place(child, file)
	}
}

// count has the values below a node count.
func (t *tally) count(node *yaml.Node, kind, key string) {
	if node.Kind == yaml.ScalarNode || len(node.Content) == 0 {
		t.values = append(t.values, value{node, kind, key})
		return
	}
	for i, child := range node.Content {
		switch {
		case node.Kind == yaml.SequenceNode:
			t.count(child, kind, key)
		case i%2 == 1:
			t.count(child, kind, node.Content[i-1].Value)
		}
	}
}

func (t *tally) keep(nodes ...*yaml.Node) {
	for _, node := range nodes {
		for _, leaf := range leaves(node) {
			t.kept[leaf] = true
		}
	}
}

func (t *tally) hold(node *yaml.Node) {
	for _, leaf := range leaves(node) {
		t.kept[leaf], t.held[leaf] = true, true
	}
}

func (t *tally) tell(node *yaml.Node) {
	for _, leaf := range leaves(node) {
		t.kept[leaf], t.told[leaf] = true, true
	}
}

// leave lists what is not carried over; at is the node whose line is told.
func (t *tally) leave(at *yaml.Node, what, why string, values ...*yaml.Node) {
	t.list(importer.LeftOut{What: fmt.Sprintf("%s:%d: %s", t.places[at], at.Line, what), Why: why}, values)
}

// wrong lists what needs somebody: it means something here that Lehr does not do.
func (t *tally) wrong(at *yaml.Node, what, why string, values ...*yaml.Node) {
	t.list(importer.LeftOut{What: fmt.Sprintf("%s:%d: %s", t.places[at], at.Line, what), Why: why, Wrong: true}, values)
}

func (t *tally) list(entry importer.LeftOut, values []*yaml.Node) {
	for _, node := range values {
		for _, leaf := range leaves(node) {
			t.left[leaf] = true
		}
	}
	if !t.listed[entry] {
		t.listed[entry], t.leftOut = true, append(t.leftOut, entry)
	}
}

// leaveRest lists what nothing has read.
func (t *tally) leaveRest() {
	for _, v := range t.values {
		if !t.kept[v.node] && !t.left[v.node] {
			t.leave(v.node, v.kind+": "+v.key, "nothing in delivery is like it", v.node)
		}
	}
}

func (t *tally) refuse(node *yaml.Node, format string, args ...any) {
	problem := fmt.Sprintf("%s:%d: %s", t.places[node], node.Line, fmt.Sprintf(format, args...))
	if !slices.Contains(t.problems, problem) {
		t.problems = append(t.problems, problem)
	}
}

// shares are what is carried over of all, of all but what assets hold, and of each kind.
func (t *tally) shares() []string {
	type count struct{ all, carried int }
	var whole count
	held, told, kinds, names := 0, 0, map[string]*count{}, []string{}
	for _, v := range t.values {
		if kinds[v.kind] == nil {
			kinds[v.kind], names = &count{}, append(names, v.kind)
		}
		isCarried := t.kept[v.node] && !t.left[v.node]
		switch {
		case isCarried && t.held[v.node]:
			held++
		case isCarried && t.told[v.node]:
			told++
		}
		for _, c := range []*count{&whole, kinds[v.kind]} {
			c.all++
			if isCarried {
				c.carried++
			}
		}
	}
	slices.Sort(names)
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %s", name, share(kinds[name].carried, kinds[name].all)))
	}
	return []string{
		fmt.Sprintf("%s values are carried over; without the %d in steps of assets, which nothing obeys, %s",
			share(whole.carried, whole.all), held+told, share(whole.carried-held-told, whole.all-held)),
		"by kind: " + strings.Join(parts, ", "),
	}
}

// share is a part of a whole, with its percentage rounded down.
func share(part, whole int) string {
	return fmt.Sprintf("%d of %d (%d %%)", part, whole, part*100/max(whole, 1))
}

// eachKey calls read for each key of a mapping that is known, and lists the others.
func (t *tally) eachKey(node *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		t.refuse(node, "%s is no mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if seen[key.Value] {
			t.refuse(key, "%s has the key %q twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		if read, ok := known[key.Value]; ok {
			read(value)
			continue
		}
		t.wrong(key, what+": "+key.Value, "this importer knows no such key of Kargo here", value)
	}
}

func (t *tally) eachItem(node *yaml.Node, what string, read func(*yaml.Node)) {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		t.keep(node)
		return
	}
	if node.Kind != yaml.SequenceNode {
		t.refuse(node, "%s is no list", what)
		return
	}
	if len(node.Content) == 0 {
		t.keep(node)
	}
	for _, item := range node.Content {
		read(item)
	}
}

// text takes a value that is a text.
func (t *tally) text(to *string) func(*yaml.Node) {
	return func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
			t.refuse(node, "a text is expected here")
			return
		}
		*to = node.Value
		t.keep(node)
	}
}

// truth takes true or false.
func (t *tally) truth(to *bool) func(*yaml.Node) {
	return func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode || node.Value != "true" && node.Value != "false" {
			t.refuse(node, "true or false is expected here")
			return
		}
		*to = node.Value == "true"
		t.keep(node)
	}
}

// leaveAll has a key listed.
func (t *tally) leaveAll(what, why string) func(*yaml.Node) {
	return func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode && len(node.Content) == 0 {
			t.keep(node)
			return
		}
		t.leave(node, what, why, node)
	}
}

// child is the value at keys of mappings, or nil.
func child(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		i := 0
		for i+1 < len(node.Content) && node.Content[i].Value != key {
			i += 2
		}
		if i+1 >= len(node.Content) {
			return nil
		}
		node = node.Content[i+1]
	}
	return node
}

// attribute is the text at keys of mappings, or nothing.
func attribute(node *yaml.Node, keys ...string) string {
	if value := child(node, keys...); value != nil && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
		return value.Value
	}
	return ""
}
