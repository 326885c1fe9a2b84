package commitgraph

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// forked is a history with a branch that was merged, and one that was not:
//
//	a - b - d(merge) - f
//	 \- c -/      \- e
var forked = New([]Commit{
	{ID: "f", Parents: []string{"d"}}, {ID: "e", Parents: []string{"d"}}, {ID: "d", Parents: []string{"b", "c"}},
	{ID: "c", Parents: []string{"a"}}, {ID: "b", Parents: []string{"a"}}, {ID: "a"},
})

// cut is a history whose beginning was not read.
var cut = New([]Commit{{ID: "f", Parents: []string{"e"}}, {ID: "e", Parents: []string{"d"}}})

func TestDescendants(t *testing.T) {
	for _, test := range []struct {
		graph    *Graph
		ancestor string
		want     []string
	}{
		{forked, "c", []string{"c", "d", "e", "f"}},
		{forked, "e", []string{"e"}},
		{forked, "a", []string{"a", "b", "c", "d", "e", "f"}},
		{forked, "zz", []string{"zz"}},
		{cut, "d", []string{"d", "e", "f"}},
		{&Graph{}, "f", []string{"f"}},
	} {
		if got := slices.Sorted(maps.Keys(test.graph.Descendants(test.ancestor))); !slices.Equal(got, test.want) {
			t.Errorf("%s is in %v, want %v", test.ancestor, got, test.want)
		}
	}
}

func TestBetween(t *testing.T) {
	for _, test := range []struct {
		graph    *Graph
		from, to string
		want     string
		known    bool
	}{
		{forked, "b", "f", "f d c", true},
		{forked, "e", "f", "f", true},
		{forked, "f", "b", "", true},
		{cut, "e", "f", "f", true},
		{cut, "a", "f", "f e", false},
	} {
		list, ok := test.graph.Between(test.from, test.to)
		text := ""
		for _, c := range list {
			text += c.ID + " "
		}
		if fmt.Sprint(text, ok) != fmt.Sprint(map[bool]string{true: test.want + " ", false: ""}[test.want != ""], test.known) {
			t.Errorf("from %s to %s: %s, known %v", test.from, test.to, text, ok)
		}
	}
}

func TestRequestOf(t *testing.T) {
	for _, test := range []struct{ subject, body, want string }{
		{"Merge pull request #12 from ann/cart", "", "12"},
		{"Fix the cart (#7)", "", "7"},
		{"Merge branch 'cart' into 'main'", "Fix the cart\n\nSee merge request shop/web!34", "34"},
		{"Fix #7", "", ""},
	} {
		if got := RequestOf(test.subject, test.body); got != test.want {
			t.Errorf("%s: %q", test.subject, got)
		}
	}
}
