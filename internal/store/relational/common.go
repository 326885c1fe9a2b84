package relational

import (
	"context"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// SetCommonPolicy stores what is asked of many partitions, and what keeps its file from
// being used.
func (s *Store) SetCommonPolicy(ctx context.Context, policy store.CommonPolicy, actor intent.Actor) error {
	const attempt = "setting the common policy"
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	problems, err := encode(policy.Problems)
	if err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if t.caller != nil && !t.caller.Local {
			return fault.New(fault.Denied, "%s: only whoever runs the server may", attempt).WithHint("change the file that the server was given with --common-policy")
		}
		current, err := readCommonPolicy(t)
		if err != nil {
			return err
		}
		return t.replaceCommonPolicy(current, policy, problems, actor)
	})
}

func (t *transaction) replaceCommonPolicy(current, next store.CommonPolicy, problems string, actor intent.Actor) error {
	sameBody := current.Digest == next.Digest
	sameProblems := slices.Equal(current.Problems, next.Problems)
	if sameBody && sameProblems && current.Place == next.Place && current.Revision == next.Revision {
		return nil
	}
	since, problemsSince := stamp(current.Since), stamp(current.ProblemsSince)
	if !sameBody {
		since = stamp(t.now)
	}
	switch {
	case len(next.Problems) == 0:
		problemsSince = 0
	case len(current.Problems) == 0:
		problemsSince = stamp(t.now)
	}
	if _, err := t.exec("DELETE FROM common_policy"); err != nil {
		return err
	}
	body := next.Body
	if body == nil {
		body = []byte{}
	}
	_, err := t.exec("INSERT INTO common_policy (id, body, digest, place, revision, since, problems, problems_since) VALUES (1, $1, $2, $3, $4, $5, $6, $7)",
		body, next.Digest[:], next.Place, next.Revision, since, problems, problemsSince)
	if err != nil {
		return err
	}
	if !sameProblems {
		detail := "its file can be used again"
		if len(next.Problems) > 0 {
			first := next.Problems[0]
			detail = fmt.Sprintf("its file cannot be used, and the last that could counts: line %d of %s: %s", first.Line, first.File, first.Message)
		}
		t.audit("", t.now, actor, "common-policy", next.Place, detail)
	}
	if sameBody {
		return t.tell("")
	}
	t.audit("", t.now, actor, "common-policy", next.Place, fmt.Sprintf("%s in place of %s", next.Digest.Short(), current.Digest.Short()))
	return t.bump("")
}

// CommonPolicy is the one that counts.
func (s *Store) CommonPolicy(ctx context.Context) (policy store.CommonPolicy, err error) {
	err = s.read(ctx, "reading the common policy", func(q querier) error {
		policy, err = readCommonPolicy(q)
		return err
	})
	return policy, err
}

func readCommonPolicy(q querier) (policy store.CommonPolicy, err error) {
	err = q.queryEach("SELECT body, digest, place, revision, since, problems, problems_since FROM common_policy", nil, func(row scanner) error {
		var digest []byte
		var problems string
		var since, problemsSince int64
		if err := row.Scan(&policy.Body, &digest, &policy.Place, &policy.Revision, &since, &problems, &problemsSince); err != nil {
			return err
		}
		copy(policy.Digest[:], digest)
		policy.Since, policy.ProblemsSince = unstamp(since), unstamp(problemsSince)
		return decode("problems of the common policy", problems, &policy.Problems)
	})
	return policy, err
}
