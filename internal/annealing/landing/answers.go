package landing

import (
	"context"
	"sync"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
)

// question is about commits of a document, so its answer never changes: the content at a commit,
// whether a commit has another one in its history, or the revisions between two commits.
type question struct {
	kind            questionKind
	document        string
	commit, another string
}

type questionKind int

const (
	askIncludes questionKind = iota
	askContent
	askSince
)

// answer to a question.
type answer struct {
	includes  bool
	past      Past
	revisions []document.Revision
}

const (
	// mostAnswers bounds the remembered answers, and mostLong those that can be long.
	mostAnswers, mostLong = 10_000, 100
)

// answers caches what is known about commits. The next visit answers the other questions.
type answers struct {
	// asked are the questions for the next visit.
	asked map[question]bool

	lock sync.Mutex
	// pairs are answers to askIncludes, and long all others.
	pairs map[question]bool
	long  map[question]answer
}

func newAnswers() answers {
	return answers{asked: map[question]bool{}, pairs: map[question]bool{}, long: map[question]answer{}}
}

// Includes reports whether a commit of a document has another one in its history. If that is not
// known yet, ok is false, and the next visit finds out.
func (v *Visits) Includes(name, commit, ancestor string) (includes, ok bool) {
	if commit == ancestor {
		return commit != "", true
	}
	q := question{askIncludes, name, commit, ancestor}
	v.answers.lock.Lock()
	includes, ok = v.pairs[q]
	v.answers.lock.Unlock()
	if !ok {
		v.ask(q)
	}
	return includes, ok
}

// Past is the content of a document at a commit.
type Past struct {
	document.Document
	// Missing is why it can never be read at that commit, or nil.
	Missing error
}

// At returns the content of a document at a commit. If it is not known yet, ok is false, and the
// next visit reads it.
func (v *Visits) At(name, commit string) (past Past, ok bool) {
	a, ok := v.find(question{askContent, name, commit, ""})
	return a.past, ok
}

// Since returns the revisions of a document up to one commit that are not in the history of another,
// the newest first. If they are not known yet, ok is false, and the next visit lists them.
func (v *Visits) Since(name, until, after string) (revisions []document.Revision, ok bool) {
	a, ok := v.find(question{askSince, name, until, after})
	return a.revisions, ok
}

func (v *Visits) find(q question) (a answer, ok bool) {
	v.answers.lock.Lock()
	a, ok = v.long[q]
	v.answers.lock.Unlock()
	if !ok {
		v.ask(q)
	}
	return a, ok
}

// ask adds a question for the next visit, which is due at once unless the last one failed.
func (v *Visits) ask(q question) {
	if len(v.asked) >= mostAnswers {
		return
	}
	v.asked[q] = true
	v.Hurry(q.document)
}

// take removes and returns the questions about a document.
func (v *Visits) take(name string) (questions []question) {
	for q := range v.asked {
		if q.document == name {
			questions = append(questions, q)
			delete(v.asked, q)
		}
	}
	return questions
}

// answer finds out what a visit was asked about commits.
func (v *Visits) answer(ctx context.Context, visit *Visit) {
	for _, q := range visit.questions {
		a, err := v.findOut(ctx, q)
		if err != nil {
			visit.unanswered = true
			v.Log.Warn("commits cannot be compared", "partition", v.Partition, "document", q.document, "error", err)
			continue
		}
		v.remember(q, a)
	}
}

func (v *Visits) remember(q question, a answer) {
	v.answers.lock.Lock()
	defer v.answers.lock.Unlock()
	if q.kind == askIncludes {
		if len(v.pairs) >= mostAnswers {
			clear(v.pairs)
		}
		v.pairs[q] = a.includes
		return
	}
	if len(v.long) >= mostLong {
		clear(v.long)
	}
	v.long[q] = a
}

func (v *Visits) findOut(ctx context.Context, q question) (a answer, err error) {
	switch q.kind {
	case askContent:
		a.past.Document, err = v.Repositories.At(ctx, v.Partition, q.document, q.commit)
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
			a.past.Missing, err = err, nil
		}
	case askSince:
		a.revisions, err = v.Repositories.Since(ctx, v.Partition, q.document, q.commit, q.another)
	default:
		a.includes, err = v.Repositories.Includes(ctx, v.Partition, q.document, q.commit, q.another)
	}
	return a, err
}
