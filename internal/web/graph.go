package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// graph is a directed graph, drawn from left to right, with a list that says the same in
// words. What is in it comes from the API; how it is laid out follows from that alone, so
// that a graph that did not change is drawn the same.
type graph struct {
	// ID tells it from other graphs of the page, and Name says what it shows.
	ID, Name string
	// Edge is the verb of an edge: the first node "waits for" the second.
	Edge  string
	Nodes []*graphNode
	Edges []graphEdge
	// LaneOrder lists lanes from the top; those that it does not name follow by their names.
	LaneOrder []string
	// Note says what was left out, or put together; empty: nothing.
	Note string
	// Width and Height in pixels, and Lanes with names, once it is laid out.
	Width, Height int
	Lanes         []graphLane
}

// graphNode is one box.
type graphNode struct {
	ID string
	// Text is the first line of the box and Note the second.
	Text, Note string
	// Class of the stylesheet, for the colour of its state.
	Class string
	// Link is empty where there is no page about it.
	Link string
	// Lane that it is drawn in; all of one lane stand together.
	Lane string
	// Here: it is what the page is about.
	Here bool
	// X and Y of its upper left corner.
	X, Y int

	column, row int
}

// graphEdge leads from a node to another.
type graphEdge struct {
	From, To string
	// Path is how it is drawn.
	Path string
}

// graphLane is a row of boxes with a name.
type graphLane struct {
	Name      string
	Y, Height int
}

const (
	boxWidth, boxHeight = 184, 40
	boxGap, columnGap   = 10, 46
	laneHead            = 22
	graphMargin         = 8
	// drawnAtMost is how many boxes an eye can read; what exceeds it is put together.
	drawnAtMost = 60
	// lettersInBox of each line; the title of the box has all.
	lettersInBox = 24
)

// layOut gives each node its place: a node stands to the right of all that lead to it, as
// far as there are no circles, and beside those that it is joined with.
func (g *graph) layOut() *graph {
	g.dropStray()
	g.assignColumns()
	g.orderColumns()
	g.placeNodes()
	return g
}

// dropStray removes edges that do not lead from a node to another one, and repeated ones.
func (g *graph) dropStray() {
	ids := map[string]bool{}
	for _, node := range g.Nodes {
		ids[node.ID] = true
	}
	seen := map[[2]string]bool{}
	g.Edges = slices.DeleteFunc(g.Edges, func(e graphEdge) bool {
		key := [2]string{e.From, e.To}
		stray := e.From == e.To || !ids[e.From] || !ids[e.To] || seen[key]
		seen[key] = true
		return stray
	})
}

// assignColumns gives each node the column that follows from the longest way to it. An edge
// that closes a circle does not count.
func (g *graph) assignColumns() {
	outgoing := map[string][]string{}
	incoming := map[string]int{}
	for _, e := range g.Edges {
		outgoing[e.From] = append(outgoing[e.From], e.To)
		incoming[e.To]++
	}
	byID := map[string]*graphNode{}
	for _, node := range g.Nodes {
		byID[node.ID] = node
		node.column = 0
	}
	placed := map[string]bool{}
	for remaining := slices.Clone(g.Nodes); len(remaining) > 0; {
		ready := slices.IndexFunc(remaining, func(n *graphNode) bool { return incoming[n.ID] <= 0 })
		ready = max(ready, 0) // Only circles are left: the first of them begins.
		node := remaining[ready]
		remaining = slices.Delete(remaining, ready, ready+1)
		placed[node.ID] = true
		for _, next := range outgoing[node.ID] {
			incoming[next]--
			if !placed[next] {
				byID[next].column = max(byID[next].column, node.column+1)
			}
		}
	}
}

// orderColumns puts nodes of a column beside what leads to them, lane by lane.
func (g *graph) orderColumns() {
	sources := map[string][]string{}
	for _, e := range g.Edges {
		sources[e.To] = append(sources[e.To], e.From)
	}
	row := map[string]int{}
	weight := func(n *graphNode) int {
		sum := 0
		for _, source := range sources[n.ID] {
			sum += row[source]
		}
		return sum * 1000 / max(1, len(sources[n.ID]))
	}
	columns := map[int][]*graphNode{}
	last := 0
	for _, node := range g.Nodes {
		columns[node.column] = append(columns[node.column], node)
		last = max(last, node.column)
	}
	for column := 0; column <= last; column++ {
		slices.SortStableFunc(columns[column], func(a, b *graphNode) int {
			return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(weight(a), weight(b)), cmp.Compare(a.ID, b.ID))
		})
		next := map[string]int{}
		for _, node := range columns[column] {
			node.row = next[node.Lane]
			row[node.ID] = node.row
			next[node.Lane]++
		}
	}
}

// placeNodes turns columns and rows into pixels, and draws the edges.
func (g *graph) placeNodes() {
	rows := map[string]int{}
	for _, node := range g.Nodes {
		rows[node.Lane] = max(rows[node.Lane], node.row+1)
		g.Width = max(g.Width, graphMargin*2+(node.column+1)*boxWidth+node.column*columnGap)
	}
	names := make([]string, 0, len(rows))
	for name := range rows {
		names = append(names, name)
	}
	rank := func(name string) int {
		if at := slices.Index(g.LaneOrder, name); at >= 0 {
			return at
		}
		return len(g.LaneOrder)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	y := graphMargin
	top := map[string]int{}
	for _, name := range names {
		head := 0
		if name != "" {
			head = laneHead
		}
		height := head + rows[name]*(boxHeight+boxGap)
		if name != "" {
			g.Lanes = append(g.Lanes, graphLane{Name: name, Y: y, Height: height})
		}
		top[name] = y + head
		y += height + boxGap
	}
	g.Height = y
	byID := map[string]*graphNode{}
	for _, node := range g.Nodes {
		node.X = graphMargin + node.column*(boxWidth+columnGap)
		node.Y = top[node.Lane] + node.row*(boxHeight+boxGap)
		byID[node.ID] = node
	}
	for i, e := range g.Edges {
		g.Edges[i].Path = edgePath(byID[e.From], byID[e.To])
	}
}

// edgePath leads from the right side of a box to the left one of another; back to an
// earlier column it leads from side to side in a bow.
func edgePath(from, to *graphNode) string {
	x1, y1 := from.X+boxWidth, from.Y+boxHeight/2
	x2, y2 := to.X, to.Y+boxHeight/2
	bow := max((x2-x1)/2, columnGap/2)
	const head = 4
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %dm%d %dL%d %dL%d %d", x1, y1, x1+bow, y1, x2-bow, y2, x2, y2, -2*head, -head, x2, y2, x2-2*head, y2+head)
}

// Label of the box's title.
func (n *graphNode) Label() string { return strings.TrimSuffix(n.Text+", "+n.Note, ", ") }

// First and Second line, as far as the box is wide.
func (n *graphNode) First() string { return boxText(n.Text, true) }

// Second line.
func (n *graphNode) Second() string { return boxText(n.Note, false) }

// boxText is what of a text has a place in a box: of a name its end, which tells it from
// others, and of a sentence its beginning.
func boxText(text string, isName bool) string {
	letters := []rune(text)
	switch {
	case len(letters) <= lettersInBox:
		return text
	case isName:
		return "…" + string(letters[len(letters)-lettersInBox+1:])
	default:
		return string(letters[:lettersInBox-1]) + "…"
	}
}

// Leads are the nodes that a node leads to, for the list in words.
func (g *graph) Leads(node *graphNode) []*graphNode {
	var list []*graphNode
	for _, e := range g.Edges {
		if e.From != node.ID {
			continue
		}
		for _, other := range g.Nodes {
			if other.ID == e.To {
				list = append(list, other)
			}
		}
	}
	return list
}

// Summary is the name of the graph for those who do not see it.
func (g *graph) Summary() string {
	return fmt.Sprintf("%s: %s, %s; the same as a list is below", g.Name, count(len(g.Nodes), "box"), count(len(g.Edges), "arrow"))
}

// fold puts nodes together that key gives the same text, once there are more than an eye
// can read. What merges is told by merge, which makes the box of several nodes.
func (g *graph) fold(key func(*graphNode) string, merge func(key string, nodes []*graphNode) *graphNode) {
	if len(g.Nodes) <= drawnAtMost {
		return
	}
	members := map[string][]*graphNode{}
	var keys []string
	target := map[string]string{}
	for _, node := range g.Nodes {
		name := key(node)
		if node.Here {
			name = node.ID
		}
		if members[name] == nil {
			keys = append(keys, name)
		}
		members[name] = append(members[name], node)
	}
	var nodes []*graphNode
	for _, name := range keys {
		made := members[name][0]
		if len(members[name]) > 1 {
			made = merge(name, members[name])
		}
		for _, node := range members[name] {
			target[node.ID] = made.ID
		}
		nodes = append(nodes, made)
	}
	for i, e := range g.Edges {
		g.Edges[i].From, g.Edges[i].To = target[e.From], target[e.To]
	}
	g.Note = fmt.Sprintf("%d are put together into %s: more than %d cannot be read.", len(g.Nodes), count(len(nodes), "box"), drawnAtMost)
	g.Nodes = nodes
}

// LaneWidth is the width of a lane's panel.
func (g *graph) LaneWidth() int { return max(g.Width-4, 0) }

// LaneText is the line on which a lane's name stands.
func (g *graph) LaneText(lane graphLane) int { return lane.Y + 15 }

// TextX, FirstY and SecondY are where the lines of a box stand.
func (n *graphNode) TextX() int { return n.X + 10 }

// FirstY is the height of the first line.
func (n *graphNode) FirstY() int { return n.Y + 17 }

// SecondY is the height of the second line.
func (n *graphNode) SecondY() int { return n.Y + 32 }
