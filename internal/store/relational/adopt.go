package relational

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// margin is how far numbers go on past those that are known to be lost: more
// than a second's commits, which a power cut may have taken from a witness.
const margin = 10_000

// Adopt begins a generation (S15). An epoch, a sequence or a revision grows by
// one at most with each commit that is counted, so what is known to be lost
// bounds them. Where nobody knows, they go on at the seconds since 1970, which
// they never reach by themselves.
func (s *Store) Adopt(ctx context.Context, a store.Adoption) (adopted store.Adopted, err error) {
	const attempt = "adopting the store"
	if a.At.IsZero() {
		a.At = s.runtime.Now()
	}
	err = s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Admin, ""); err != nil {
			return err
		}
		adopted = store.Adopted{}
		c, ok, err := s.chapter(t)
		if err != nil {
			return err
		}
		if !ok || c.trusted() && a.Beyond == 0 {
			return fault.New(fault.Conflict, "%s: nothing stands against it: it is as new as it was", attempt).
				WithHint("lehr get stops says what stops pushes; if a target knows a higher epoch than this store, give it with --beyond")
		}
		adopted.Found = historyOf(c)
		leap := leapOf(c, a)
		if adopted.Partitions, err = leap.partitions(t, a.By); err != nil {
			return err
		}
		if adopted.Doubted, err = t.exec("UPDATE push SET doubt = 1 WHERE open = 1"); err != nil {
			return err
		}
		if adopted.Voided, err = voidAll(t); err != nil {
			return err
		}
		next := chapter{generation: c.generation + 1, timeline: rand.Text(), place: c.currentPlace, currentPlace: c.currentPlace}
		if _, err := t.exec(insertChapter(s.engine), next.generation, next.timeline, stamp(t.now)); err != nil {
			return err
		}
		adopted.History = historyOf(next)
		t.audit("", t.now, a.By, "adopt", "store", fmt.Sprintf("generation %d, of which %d commits were known to be lost%s; %d pushes in doubt, %d approvals void",
			next.generation, c.lost, map[bool]string{true: ", perhaps more"}[adopted.Found.Unsure], adopted.Doubted, adopted.Voided)).because(a.Reason)
		return t.bump("")
	})
	return adopted, err
}

func historyOf(c chapter) store.History {
	h := store.History{Generation: uint64(c.generation), Timeline: c.timeline, Lost: c.lost, Unsure: c.unsure || c.place != c.currentPlace}
	if !c.trusted() {
		stop := c.stop()
		h.Stop = &stop
	}
	return h
}

// leap is how far numbers go on.
type leap struct {
	increment, atLeast int64
	knownEpoch         int64
}

func leapOf(c chapter, a store.Adoption) leap {
	l := leap{increment: c.lost + margin, knownEpoch: int64(min(a.Beyond, uint64(maxEpoch)))}
	if c.unsure || c.place != c.currentPlace {
		l.atLeast = a.At.Unix()
	}
	return l
}

// maxEpoch leaves room for as many again.
const maxEpoch = int64(1) << 61

func (l leap) advance(number int64) int64 { return max(number+l.increment, l.atLeast) }

// partitions moves the numbers of all, also of those that are not registered
// any more.
func (l leap) partitions(t *transaction, actor intent.Actor) (adopted []store.AdoptedPartition, err error) {
	err = t.queryEach("SELECT id, epoch, head FROM partitions ORDER BY id", nil, func(row scanner) error {
		var p store.AdoptedPartition
		err := row.Scan(&p.ID, &p.Epoch, &p.Head.Sequence)
		p.Head.Partition = p.ID
		adopted = append(adopted, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range adopted {
		p := &adopted[i]
		p.Epoch = uint64(max(l.advance(int64(p.Epoch)), l.knownEpoch+1))
		if err := l.head(t, p, actor); err != nil {
			return nil, err
		}
		if _, err := t.exec(`UPDATE partitions SET epoch = $2, holder = '', revision = revision + $3, pin_revision = pin_revision + $3,
			stage_revision = stage_revision + $3 WHERE id = $1`, string(p.ID), p.Epoch, l.increment); err != nil {
			return nil, err
		}
		t.audit(p.ID, t.now, actor, "adopt", string(p.ID), fmt.Sprintf("epoch %d, head %s", p.Epoch, p.Head))
	}
	return adopted, nil
}

// head gives what head has a new sequence: what is published next must not
// bear the name of an incarnation that was lost, which plugins have read.
func (l leap) head(t *transaction, p *store.AdoptedPartition, actor intent.Actor) error {
	previous := p.Head
	for more := int64(1); more > 0; {
		more = 0
		for _, clear := range []func(*transaction, intent.PartitionID, intent.Sequence) (int64, error){
			unstageMembers, unstageEdges, unstageFields, unstageBuckets,
		} {
			count, err := clear(t, p.ID, previous.Sequence+1)
			if err != nil {
				return err
			}
			more += count
		}
	}
	p.Head.Sequence = intent.Sequence(l.advance(int64(previous.Sequence)))
	i := intent.Incarnation{}
	if previous.Sequence > 0 {
		var record string
		ok, err := t.one("SELECT record FROM incarnation WHERE partition = $1 AND seq = $2", []any{string(p.ID), int64(previous.Sequence)}, &record)
		switch {
		case err != nil:
			return err
		case !ok:
			return fault.New(fault.Internal, "adopting the store: %s, which is head, is missing", previous).WithHint("the store is damaged: restore another backup")
		}
		if err := decode("incarnation "+previous.String(), record, &i); err != nil {
			return err
		}
	} else {
		var err error
		if i.Digest, err = membershipDigest(t, p.ID); err != nil {
			return err
		}
	}
	i.ID, i.Parent, i.Author, i.Created, i.Labels = p.Head, previous, actor, time.Time{}, nil
	i.Added, i.Changed, i.Removed = 0, 0, 0
	return enthrone(t, &i)
}

// voidAll forgets approvals and acknowledgements that were not used: they may
// have been, in what was lost (S9).
func voidAll(t *transaction) (int64, error) {
	approvals, err := t.exec("DELETE FROM approval WHERE used_by = ''")
	if err != nil {
		return 0, err
	}
	acknowledgements, err := t.exec("UPDATE candidate SET acknowledged = 0 WHERE acknowledged = 1")
	return approvals + acknowledgements, err
}
