package workflow

import (
	"fmt"
	"html"
	"strings"
)

// Sizes of a drawing, in pixels.
const (
	svgBoxWidth, svgBoxHeight = 180, 52
	// svgGap is between two columns, where labels of transitions are; svgRowGap between two rows.
	svgGap, svgRowGap = 150, 30
	svgMargin         = 24
	svgTitleHeight    = 34
	// svgBackRow is the height of the lane of one transition that leads back.
	svgBackRow = 22
	// svgLetters fit into a box, and into the gap between two.
	svgLetters, svgLabelLetters = 24, 21
)

// DrawSVG draws a definition as a picture: machines one below the other, the states of each in
// columns by how many transitions lead to them from the initial one. What does not fit is whole in
// the tooltip of its box or arrow. The states in which machines of a run are, by the machines'
// names, are marked; nil: it is no run's.
func (d *Definition) DrawSVG(states map[string]string) string {
	var body strings.Builder
	width, y := 0, svgMargin
	for i := range d.Machines {
		m := &d.Machines[i]
		picture := layOut(m, y+svgTitleHeight)
		fmt.Fprintf(&body, `<text class="machine" x="%d" y="%d">%s</text>`+"\n", svgMargin, y+16, html.EscapeString(m.Name))
		picture.draw(&body, m, states[m.Name])
		width, y = max(width, picture.width), picture.bottom+svgMargin
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="workflow %[3]s">
<style>
text { font: 12px system-ui, sans-serif; fill: #1b1f24 }
.machine { font-weight: 600; font-size: 15px }
.label, .action { fill: #57606a; font-size: 11px }
.label { paint-order: stroke; stroke: #fff; stroke-width: 3px }
rect { fill: #f6f8fa; stroke: #8c959f }
.success rect { fill: #dafbe1; stroke: #1a7f37 }
.failure rect { fill: #ffebe9; stroke: #cf222e }
.current rect { stroke: #0969da; stroke-width: 3 }
.initial rect { stroke-width: 2 }
path { fill: none; stroke: #57606a }
marker path { fill: #57606a; stroke: none }
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
<rect width="100%%" height="100%%" style="fill: #fff; stroke: none"/>
%[4]s</svg>
`, width, y, html.EscapeString(d.Name), body.String())
}

// svgLayout is where the states of a machine are.
type svgLayout struct {
	places        map[string]svgPlace
	width, bottom int
	// back is where the lane of the next transition is that does not lead to the right.
	back int
}

type svgPlace struct{ column, x, y int }

// layOut places the states of a machine below a height.
func layOut(m *Machine, top int) *svgLayout {
	columns := m.columns()
	l := &svgLayout{places: map[string]svgPlace{}}
	rows := map[int]int{}
	for i := range m.States {
		name := m.States[i].Name
		column := columns[name]
		row := rows[column]
		rows[column]++
		place := svgPlace{column, svgMargin + column*(svgBoxWidth+svgGap), top + row*(svgBoxHeight+svgRowGap)}
		l.places[name] = place
		l.width, l.bottom = max(l.width, place.x+svgBoxWidth+svgMargin), max(l.bottom, place.y+svgBoxHeight)
	}
	l.back = l.bottom + svgBackRow
	return l
}

// columns of states: how many transitions lead to each from the initial one, at the least. States
// to which none leads are behind all others.
func (m *Machine) columns() map[string]int {
	columns := map[string]int{m.Initial: 0}
	last := 0
	for queue := []string{m.Initial}; len(queue) > 0; queue = queue[1:] {
		for _, t := range m.Transitions {
			if _, ok := columns[t.To]; t.From == queue[0] && !ok {
				columns[t.To] = columns[queue[0]] + 1
				last = columns[t.To]
				queue = append(queue, t.To)
			}
		}
	}
	for i := range m.States {
		if _, ok := columns[m.States[i].Name]; !ok {
			columns[m.States[i].Name] = last + 1
		}
	}
	return columns
}

func (l *svgLayout) draw(b *strings.Builder, m *Machine, current string) {
	for i := range m.Transitions {
		l.drawTransition(b, m, i)
	}
	for i := range m.States {
		l.drawState(b, m, &m.States[i], m.States[i].Name == current)
	}
}

func (l *svgLayout) drawState(b *strings.Builder, m *Machine, s *State, isCurrent bool) {
	classes := []string{"state"}
	if s.End != NoEnding {
		classes = append(classes, string(s.End))
	}
	if s.Name == m.Initial {
		classes = append(classes, "initial")
	}
	if isCurrent {
		classes = append(classes, "current")
	}
	place := l.places[s.Name]
	fmt.Fprintf(b, `<g class="%s"><title>%s%s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6"/>`,
		strings.Join(classes, " "), html.EscapeString(s.Name), html.EscapeString(describeState(s)), place.x, place.y, svgBoxWidth, svgBoxHeight)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`, place.x+10, place.y+18, html.EscapeString(cutText(s.Name, svgLetters)))
	if s.Action != nil {
		fmt.Fprintf(b, `<text class="action" x="%d" y="%d">%s</text>`, place.x+10, place.y+34, html.EscapeString(cutText(describeAction(s.Action), svgLetters+3)))
	}
	b.WriteString("</g>\n")
}

// drawTransition as an arrow to the right, or through a lane below all states.
func (l *svgLayout) drawTransition(b *strings.Builder, m *Machine, number int) {
	t := &m.Transitions[number]
	from, to := l.places[t.From], l.places[t.To]
	// Arrows that begin or end at one box are apart from each other.
	begin := from.y + svgBoxHeight*(1+m.rank(number, func(t *Transition) string { return t.From }))/(1+m.count(t.From, func(t *Transition) string { return t.From }))
	end := to.y + svgBoxHeight*(1+m.rank(number, func(t *Transition) string { return t.To }))/(1+m.count(t.To, func(t *Transition) string { return t.To }))
	text := strings.TrimPrefix(describeTransition(t), "→ "+t.To)
	fmt.Fprintf(b, `<g class="transition"><title>%s %s</title>`, html.EscapeString(t.From), html.EscapeString(describeTransition(t)))
	right := from.x + svgBoxWidth
	labelX, labelY := right+8, begin-4
	if to.column == from.column+1 {
		middle := right + svgGap/2
		fmt.Fprintf(b, `<path marker-end="url(#arrow)" d="M%d %d C%d %d %d %d %d %d"/>`, right, begin, middle, begin, middle, end, to.x, end)
	} else {
		lane := l.back
		l.back += svgBackRow
		l.bottom = max(l.bottom, lane+4)
		out, in := right+10+4*(number%8), to.x-10-4*(number%8)
		in = max(in, 4)
		fmt.Fprintf(b, `<path marker-end="url(#arrow)" d="M%d %d H%d V%d H%d V%d H%d"/>`, right, begin, out, lane, in, end, to.x)
		l.width = max(l.width, out+svgMargin)
		labelX, labelY = min(out, in)+6, lane-4
		if to.column > from.column {
			labelX = out + 6
		}
	}
	fmt.Fprintf(b, `<text class="label" x="%d" y="%d">%s</text></g>`+"\n", labelX, labelY, html.EscapeString(cutText(strings.TrimSpace(text), svgLabelLetters)))
}

// count the transitions that begin, or end, at a state.
func (m *Machine) count(state string, end func(*Transition) string) (n int) {
	for i := range m.Transitions {
		if end(&m.Transitions[i]) == state {
			n++
		}
	}
	return n
}

// rank of a transition among those that begin, or end, at the same state.
func (m *Machine) rank(number int, end func(*Transition) string) (n int) {
	for i := range m.Transitions[:number] {
		if end(&m.Transitions[i]) == end(&m.Transitions[number]) {
			n++
		}
	}
	return n
}

// cutText leaves out what is beyond so many letters.
func cutText(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return string(letters[:most-1]) + "…"
}
