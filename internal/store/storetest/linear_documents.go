package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// LinearDocuments lets many clients create, edit, undo, delete and read a few
// documents at once, through any of the stores, which share a database, while
// disturb does its worst; as Linear does. A client whose call was not answered
// repeats it: however often it was carried out, that is once.
func LinearDocuments(t *testing.T, stores []store.All, disturb func(random *rand.Rand)) {
	t.Helper()
	const clients, calls = 6, 150
	Register(t, stores[0])
	h := &documentHistory{t: t, stores: stores, startedAt: time.Now(), outcomes: map[string]int{}, newest: map[string]uint64{}}
	var group, disturbing sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 2))
			for n := range calls {
				h.call(client, n, random)
			}
		})
	}
	done := make(chan struct{})
	disturbing.Go(func() {
		random := rand.New(rand.NewPCG(9, 9))
		for {
			select {
			case <-done:
				return
			default:
				disturb(random)
			}
		}
	})
	group.Wait()
	close(done)
	disturbing.Wait()
	h.check()
}

// documentQuestion is one call, and documentAnswer what came of it.
type documentQuestion struct {
	kind, name string
	// base of an edit or a deletion; which revision is undone.
	base uint64
	// value that is set, which no other call sets.
	value string
}

type documentAnswer struct {
	// outcome: ok, conflict, absent, invalid, or lost (nobody knows).
	outcome  string
	revision uint64
	value    string
}

// documentState is one document. Made are the calls that made its revisions, and
// values what it was at each, "-" for not there, both with separators.
type documentState struct {
	calls, values string
}

func (s documentState) list(encoded string) []string { return strings.Split(encoded, ";")[1:] }

func (s documentState) newest() (revision uint64, value string) {
	values := s.list(s.values)
	if len(values) == 0 {
		return 0, "-"
	}
	return uint64(len(values)), values[len(values)-1]
}

func (s documentState) at(revision uint64) string {
	if revision == 0 {
		return "-"
	}
	return s.list(s.values)[revision-1]
}

func (s documentState) extended(call, value string) documentState {
	return documentState{s.calls + ";" + call, s.values + ";" + value}
}

type documentHistory struct {
	t         *testing.T
	stores    []store.All
	startedAt time.Time

	mutex      sync.Mutex
	operations []porcupine.Operation
	outcomes   map[string]int
	newest     map[string]uint64
}

func (h *documentHistory) call(client, n int, random *rand.Rand) {
	q := documentQuestion{name: fmt.Sprint("d", random.IntN(3)), value: fmt.Sprintf(`"%d-%d"`, client, n)}
	h.mutex.Lock()
	newest := h.newest[q.name]
	h.mutex.Unlock()
	q.kind = []string{"edit", "edit", "edit", "edit", "read", "undo", "create", "delete"}[random.IntN(8)]
	switch q.kind {
	case "edit", "delete":
		q.base = max(newest, 1)
	case "undo":
		q.base = max(newest, 1)
	case "read":
		q.value = ""
	}
	for range 3 {
		s := h.stores[random.IntN(len(h.stores))]
		start := time.Since(h.startedAt)
		a := h.ask(s, q)
		if q.kind != "read" && random.IntN(8) == 0 {
			a = documentAnswer{outcome: "lost"} // Somewhere on the way back.
		}
		h.note(client, start, q, a)
		if a.outcome != "lost" {
			return
		}
	}
}

func (h *documentHistory) ask(s store.All, q documentQuestion) documentAnswer {
	ctx, actor, base := h.t.Context(), intent.Actor{Name: "tester", Origin: "cli"}, fmt.Sprint(q.base)
	var result document.Document
	var err error
	switch q.kind {
	case "create":
		result, err = s.CreateDocument(ctx, shop, q.name, []byte(q.value), q.value, actor)
	case "edit":
		edit := setting(base, "", q.value)
		result, err = s.EditDocument(ctx, shop, q.name, edit, actor)
	case "undo":
		result, err = s.UndoDocument(ctx, shop, q.name, base, q.value, actor)
	case "delete":
		result, err = s.DeleteDocument(ctx, shop, q.name, base, q.value, actor)
	default:
		result, err = s.Document(ctx, shop, q.name, "")
	}
	switch {
	case fault.Is(err, fault.Conflict):
		return documentAnswer{outcome: "conflict"}
	case fault.Is(err, fault.NotFound):
		return documentAnswer{outcome: "absent"}
	case fault.Is(err, fault.Unavailable):
		return documentAnswer{outcome: "lost"}
	case err != nil:
		return documentAnswer{outcome: err.Error()}
	}
	a := documentAnswer{outcome: "ok", value: "-"}
	if _, err := fmt.Sscan(result.Revision.ID, &a.revision); err != nil {
		return documentAnswer{outcome: err.Error()}
	}
	if result.Content != nil {
		a.value = string(result.Content)
	}
	return a
}

func (h *documentHistory) note(client int, start time.Duration, q documentQuestion, a documentAnswer) {
	end := time.Since(h.startedAt)
	if a.outcome == "lost" {
		if q.kind == "read" {
			return
		}
		const never = 1000 * time.Hour
		end = never
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.newest[q.name] = max(h.newest[q.name], a.revision)
	h.outcomes[q.kind+": "+a.outcome]++
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: q, Output: a, Call: int64(start), Return: int64(end)})
}

func (h *documentHistory) check() {
	h.t.Helper()
	model := porcupine.NondeterministicModel{
		Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
			byName := map[string]int{}
			for _, o := range all {
				name := o.Input.(documentQuestion).name
				at, exists := byName[name]
				if !exists {
					at, parts = len(parts), append(parts, nil)
					byName[name] = at
				}
				parts[at] = append(parts[at], o)
			}
			return parts
		},
		Init: func() []any { return []any{documentState{}} },
		Step: func(state, input, output any) []any {
			return state.(documentState).step(input.(documentQuestion), output.(documentAnswer))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
	const patience = 2 * time.Minute
	switch porcupine.CheckOperationsTimeout(model.ToModel(), h.operations, patience) {
	case porcupine.Illegal:
		h.t.Errorf("no order of these %d calls answers as they were answered", len(h.operations))
	case porcupine.Unknown:
		h.t.Errorf("no order was found within %s", patience)
	}
	h.t.Logf("%d calls: %v", len(h.operations), h.outcomes)
	for _, needed := range []string{"create: ok", "create: conflict", "edit: lost", "edit: ok", "edit: conflict", "edit: absent", "undo: ok", "delete: ok", "read: ok", "read: absent"} {
		if h.outcomes[needed] == 0 {
			h.t.Errorf("no call came out as %q", needed)
		}
	}
}

// step returns what may be after a call that was answered so.
func (s documentState) step(q documentQuestion, a documentAnswer) []any {
	next, want := s.apply(q)
	switch {
	case a.outcome == "lost":
		return []any{s, next}
	case a != want:
		return nil
	}
	return []any{next}
}

// apply is the document after a call, and the call's answer.
func (s documentState) apply(q documentQuestion) (documentState, documentAnswer) {
	newest, value := s.newest()
	call := q.kind + q.value
	refused := func(outcome string) (documentState, documentAnswer) {
		// Was it made before?
		calls := s.list(s.calls)
		at := uint64(slices.Index(calls, call) + 1)
		if newest > 0 && calls[newest-1] == call {
			at = newest
		}
		if at > 0 && (at == newest || q.kind == "edit" || q.kind == "delete") {
			return s, documentAnswer{"ok", at, s.at(at)}
		}
		return s, documentAnswer{outcome: outcome}
	}
	ok := func(value string) (documentState, documentAnswer) {
		return s.extended(call, value), documentAnswer{"ok", newest + 1, value}
	}
	switch q.kind {
	case "read":
		if value == "-" {
			return s, documentAnswer{outcome: "absent"}
		}
		return s, documentAnswer{"ok", newest, value}
	case "create":
		if value != "-" {
			return refused("conflict")
		}
		return ok(q.value)
	case "undo":
		switch {
		case newest == 0, q.base > newest:
			return refused("absent")
		case s.at(q.base) != value:
			return refused("conflict")
		}
		return ok(s.at(q.base - 1))
	}
	switch {
	case newest == 0:
		return refused("absent")
	case q.base != newest:
		return refused("conflict")
	case value == "-":
		return refused("absent")
	case q.kind == "delete":
		return ok("-")
	}
	return ok(q.value)
}
