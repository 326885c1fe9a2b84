package enforcer

import (
	"fmt"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// question and the assets that wait for a change of its answer, and the pushes under
// way that it guards.
type question struct {
	check.Question
	failures int
	waiters  map[*asset]bool
	guards   map[*protectionRun]bool
	// at is the newest incarnation for which it was asked.
	at intent.IncarnationID
}

func (q *question) key() string { return fmt.Sprint(q.Question) }

func (q *question) answerer() answerer { return answerer{q.Source, q.Place} }

// answerer of questions. One that hangs keeps no other from being asked.
type answerer struct {
	source check.Source
	place  string
}
