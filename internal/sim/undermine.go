package sim

import (
	"math/rand/v2"
	"time"
)

// undermine turns down a record and one that comes after it at once, and has
// somebody approve of both: the other must go first.
func (l *Lab) undermine(d Disturbance, _ *rand.Rand) {
	if l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	next := l.good.clone()
	if next.find("record/base") == nil || next.find("record/upon") == nil {
		next.remove("record/base")
		next.remove("record/upon")
		next.Things = append(next.Things,
			Thing{ID: "record/base", Kind: "command", Name: "base", Text: "b"},
			Thing{ID: "record/upon", Kind: "command", Name: "upon", Text: "u", After: []string{"record/base"}})
		l.save(d.Number, next, "a record upon another")
	}
	l.after(10*time.Second, func() {
		if l.turnDown(d, true) {
			for n := range time.Duration(4) {
				l.after(n*5*time.Second, func() { l.soonApproved(d) })
			}
			l.after(time.Minute, func() { l.turnDown(d, false) })
		}
	})
}

// turnDown both, or neither.
func (l *Lab) turnDown(d Disturbance, down bool) bool {
	next := l.good.clone()
	base, upon := next.find("record/base"), next.find("record/upon")
	if base == nil || upon == nil {
		return false
	}
	base.Turndown, upon.Turndown = down, down
	what := "both records stay"
	if down {
		what = "both records are to go"
	}
	l.save(d.Number, next, what)
	return true
}
