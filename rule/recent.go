package rule

import (
	"container/list"

	"lehr.dev/intent"
)

// mostCompiled bounds what an environment remembers. Filters come from
// callers, so their number is theirs to choose.
const mostCompiled = 512

type source struct {
	text string
	over intent.TypeName
	view View
}

// recent keeps the programs that were asked for last. The zero value is empty.
type recent struct {
	order list.List // of *program, the newest in front
	by    map[source]*list.Element
}

func (r *recent) get(key source) *program {
	found := r.by[key]
	if found == nil {
		return nil
	}
	r.order.MoveToFront(found)
	return found.Value.(*program)
}

func (r *recent) put(p *program) {
	if r.by == nil {
		r.by = map[source]*list.Element{}
	}
	if r.by[p.source] != nil {
		return
	}
	r.by[p.source] = r.order.PushFront(p)
	if r.order.Len() > mostCompiled {
		delete(r.by, r.order.Remove(r.order.Back()).(*program).source)
	}
}
