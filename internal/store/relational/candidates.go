package relational

import (
	"context"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// saving is the state of a candidate whose delta is being written; nothing
// shows it.
const saving = intent.CandidateState("saving")

// SaveCandidate stores a candidate with its delta, in bounded transactions;
// it can be seen when the last of them is done. The same digest names the
// same delta: saving it again replaces the record, and keeps the delta when
// none is given.
func (s *Store) SaveCandidate(ctx context.Context, lease store.Lease, candidate intent.Candidate, delta []store.Entry) error {
	attempt := "storing candidate " + candidate.ID.String()
	if candidate.ID.Partition != lease.Partition || candidate.ID.Digest.IsZero() {
		return fault.New(fault.Invalid, "%s under the lease of %q: it names another partition or no digest", attempt, lease.Partition)
	}
	if err := checkDelta(attempt, delta); err != nil {
		return err
	}
	record, err := encode(candidate)
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", attempt, err)
	}
	rows, digest, err := encodeDelta(delta)
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", attempt, err)
	}
	err = s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
		_, err := t.exec(`INSERT INTO candidate (partition, digest, base, state, acknowledged, saved, number, delta, record)
			VALUES ($1, $2, $3, $4, 0, $5, 0, $6, '')
			ON CONFLICT (partition, digest) DO UPDATE SET saved = excluded.saved`,
			string(lease.Partition), candidate.ID.Digest.String(), int64(candidate.Base.Sequence), string(saving), stamp(t.now), []byte{})
		return err
	})
	for first := 0; first < len(delta) && err == nil; first += chunk {
		last := min(first+chunk, len(delta))
		err = s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
			return saveEntries(t, candidate.ID, delta[first:last], rows[first:last])
		})
	}
	if err != nil {
		return err
	}
	return s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
		t.audit(lease.Partition, t.now, serverActor(lease), "save-candidate", candidate.ID.Digest.String(), fmt.Sprintf("%s, on %s", candidate.State, baseName(candidate.Base)))
		return finishCandidate(t, candidate, record, delta != nil, digest)
	})
}

func saveEntries(t *transaction, id intent.CandidateID, delta []store.Entry, rows []string) error {
	for i, entry := range delta {
		hasBody := 0
		if !entry.Removed && entry.Body != nil {
			hasBody = 1
			if err := putBody(t, entry); err != nil {
				return err
			}
			if err := putSpilled(t, id.Partition, entry); err != nil {
				return err
			}
		}
		digest := entry.Member.Digest
		_, err := t.exec(`INSERT INTO candidate_entry (partition, candidate, asset, digest, has_body, record) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (partition, candidate, asset) DO UPDATE SET digest = excluded.digest, has_body = excluded.has_body, record = excluded.record`,
			string(id.Partition), id.Digest.String(), string(entry.Asset), digest[:], hasBody, rows[i])
		if err != nil {
			return err
		}
	}
	return nil
}

func finishCandidate(t *transaction, candidate intent.Candidate, record string, withDelta bool, delta intent.Digest) error {
	partition, digest := string(candidate.ID.Partition), candidate.ID.Digest.String()
	_, err := t.exec(`UPDATE candidate SET state = 'superseded', acknowledged = 0 WHERE partition = $1 AND state = 'held' AND digest <> $2`, partition, digest)
	if err != nil {
		return err
	}
	finished, err := t.exec(`UPDATE candidate SET base = $3, state = $4, record = $5, saved = $6,
			number = (SELECT max(number) + 1 FROM candidate WHERE partition = $1) WHERE partition = $1 AND digest = $2`,
		partition, digest, int64(candidate.Base.Sequence), string(candidate.State), record, stamp(t.now))
	if err == nil && finished == 0 {
		return fault.New(fault.Conflict, "storing candidate %s: it was collected meanwhile", candidate.ID)
	}
	if err != nil || !withDelta {
		return err
	}
	_, err = t.exec("UPDATE candidate SET delta = $3 WHERE partition = $1 AND digest = $2", partition, digest, delta[:])
	return err
}

const candidateColumns = "record, state, digest"

func scanCandidate(row scanner, partition intent.PartitionID) (candidate intent.Candidate, err error) {
	var record, state, digest string
	if err := row.Scan(&record, &state, &digest); err != nil {
		return candidate, err
	}
	if err := decode("candidate", record, &candidate); err != nil {
		return candidate, err
	}
	candidate.State = intent.CandidateState(state)
	candidate.ID.Partition = partition
	candidate.ID.Digest, err = intent.ParseDigest(digest)
	return candidate, err
}

// Candidate finds by full digest, or by a unique prefix of 8 digits or more.
func (s *Store) Candidate(ctx context.Context, partition intent.PartitionID, digest string) (candidate intent.Candidate, err error) {
	attempt := fmt.Sprintf("finding candidate %s@~%s", partition, digest)
	prefix := strings.ToLower(digest)
	if len(prefix) < 8 || strings.Trim(prefix, "0123456789abcdef") != "" {
		return candidate, fault.New(fault.Invalid, "%s: at least 8 hexadecimal digits are needed", attempt)
	}
	err = s.read(ctx, attempt, func(q querier) error {
		count := 0
		err := q.queryEach("SELECT "+candidateColumns+` FROM candidate
			WHERE partition = $1 AND digest >= $2 AND digest < $3 AND state <> 'saving' LIMIT 2`,
			[]any{string(partition), prefix, prefixEnd(prefix)}, func(row scanner) (err error) {
				count++
				candidate, err = scanCandidate(row, partition)
				return err
			})
		switch {
		case err != nil:
			return err
		case count == 0:
			return fault.New(fault.NotFound, "%s: there is none", attempt).WithHint("lehr get candidates lists them")
		case count > 1:
			return fault.New(fault.Invalid, "%s: more than one begins so", attempt).WithHint("give more digits")
		}
		return nil
	})
	return candidate, err
}

// ListCandidates lists the newest first.
func (s *Store) ListCandidates(ctx context.Context, partition intent.PartitionID, limit int) (list []intent.Candidate, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the candidates of %q", partition), func(q querier) error {
		return q.queryEach("SELECT "+candidateColumns+` FROM candidate
			WHERE partition = $1 AND state <> 'saving' ORDER BY number DESC LIMIT $2 + 0`,
			[]any{string(partition), pageSize(limit)}, func(row scanner) error {
				candidate, err := scanCandidate(row, partition)
				list = append(list, candidate)
				return err
			})
	})
	return list, err
}

// CandidateDelta returns the delta in the order of the ids, verified.
func (s *Store) CandidateDelta(ctx context.Context, id intent.CandidateID) (delta []store.Entry, err error) {
	attempt := "reading the delta of candidate " + id.String()
	err = s.read(ctx, attempt, func(q querier) error {
		delta, err = candidateDelta(q, attempt, id)
		return err
	})
	return delta, err
}

func candidateDelta(q querier, attempt string, id intent.CandidateID) ([]store.Entry, error) {
	var stored intent.Digest
	ok, err := q.one("SELECT delta FROM candidate WHERE partition = $1 AND digest = $2 AND state <> 'saving'",
		[]any{string(id.Partition), id.Digest.String()}, digestColumn{&stored})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.NotFound, "%s: there is none", attempt)
	}
	rows := map[intent.AssetID]string{}
	err = q.queryEach("SELECT asset, record FROM candidate_entry WHERE partition = $1 AND candidate = $2 ORDER BY asset",
		[]any{string(id.Partition), id.Digest.String()}, func(row scanner) error {
			var asset intent.AssetID
			var record string
			err := row.Scan(&asset, &record)
			rows[asset] = record
			return err
		})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 && stored.IsZero() {
		return nil, nil // saved without a delta
	}
	if deltaDigest(rows) != stored {
		return nil, fault.New(fault.Internal, "%s: it is not as it was stored", attempt).WithHint("the store is damaged: restore it from a backup")
	}
	return readDelta(q, rows)
}

// Acknowledge lets a held candidate through its guards: exactly this one.
func (s *Store) Acknowledge(ctx context.Context, id intent.CandidateID, reason string, actor intent.Actor) error {
	attempt := "acknowledging candidate " + id.String()
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Approver, id.Partition); err != nil {
			return err
		}
		var state intent.CandidateState
		ok, err := t.one("SELECT state FROM candidate WHERE partition = $1 AND digest = $2 AND state <> 'saving'",
			[]any{string(id.Partition), id.Digest.String()}, &state)
		switch {
		case err != nil:
			return err
		case !ok:
			return fault.New(fault.NotFound, "%s: there is none", attempt).WithHint("lehr get candidates lists them")
		case state != intent.CandidateHeld:
			return fault.New(fault.Conflict, "%s: it is %s, only a held one can be acknowledged", attempt, state)
		}
		if _, err := t.exec("UPDATE candidate SET acknowledged = 1, acknowledger = $3, acknowledger_origin = $4 WHERE partition = $1 AND digest = $2",
			string(id.Partition), id.Digest.String(), actor.Name, actor.Origin); err != nil {
			return err
		}
		t.audit(id.Partition, t.now, actor, "acknowledge", id.Digest.String(), "").because(reason)
		return t.tell(id.Partition)
	})
}

// Acknowledged reports whether somebody did, and who, while the candidate is
// held.
func (s *Store) Acknowledged(ctx context.Context, id intent.CandidateID) (actor intent.Actor, acknowledged bool, err error) {
	err = s.read(ctx, "reading the acknowledgement of candidate "+id.String(), func(q querier) error {
		acknowledged, err = q.one("SELECT acknowledger, acknowledger_origin FROM candidate WHERE partition = $1 AND digest = $2 AND state = 'held' AND acknowledged = 1",
			[]any{string(id.Partition), id.Digest.String()}, &actor.Name, &actor.Origin)
		return err
	})
	return actor, acknowledged, err
}

// baseName is what a candidate would follow, for people.
func baseName(base intent.IncarnationID) string {
	if base.IsZero() {
		return "nothing before it"
	}
	return base.String()
}
