package rule

import (
	"container/list"

	"lehr.dev/internal/ground/intent"
)

// mostCompiled bounds what an environment remembers. Filters come from
// callers, so their number is theirs to choose.
const mostCompiled = 512

type source struct {
	text        string
	payloadType intent.TypeName
	view        View
}

// recent keeps the programs that were asked for last. The zero value is empty.
type recent struct {
	order    list.List // of *program, the newest in front
	elements map[source]*list.Element
}

func (r *recent) get(key source) *program {
	element := r.elements[key]
	if element == nil {
		return nil
	}
	r.order.MoveToFront(element)
	return element.Value.(*program)
}

func (r *recent) put(p *program) {
	if r.elements == nil {
		r.elements = map[source]*list.Element{}
	}
	if r.elements[p.source] != nil {
		return
	}
	r.elements[p.source] = r.order.PushFront(p)
	if r.order.Len() > mostCompiled {
		delete(r.elements, r.order.Remove(r.order.Back()).(*program).source)
	}
}
