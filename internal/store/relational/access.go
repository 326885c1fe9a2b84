package relational

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// authorize is Denied unless the caller may use the role in the partition, as
// of this transaction (S24). It must stand in every write that a person or
// program causes. An empty partition means all.
func (t *transaction) authorize(role intent.Role, partition intent.PartitionID) error {
	if t.caller == nil {
		return nil // Lehr itself.
	}
	authority, err := readAuthority(t, *t.caller, t.now)
	if err == nil {
		_, err = authority.Check(role, partition)
	}
	return err
}

// readAuthority reads what a caller may do.
func readAuthority(q querier, caller store.Caller, now time.Time) (store.Authority, error) {
	a := store.Authority{Caller: caller, Now: now}
	if caller.Local || caller.Token == "" {
		return a, nil
	}
	var err error
	if a.Token, err = readToken(q, caller.Token); fault.Is(err, fault.NotFound) {
		return a, fault.New(fault.Denied, "token %s is not known", caller.Token).WithHint("make another with lehr auth token create, or log in again")
	}
	if err == nil {
		a.Grants, err = readGrants(q, "")
	}
	return a, err
}

// Authority is what the caller may do now.
func (s *Store) Authority(ctx context.Context) (a store.Authority, err error) {
	caller, ok := store.CallerOf(ctx)
	if !ok || caller.Local {
		caller.Local = true // Lehr itself may what the local user may.
		return store.Authority{Caller: caller, Now: s.runtime.Now()}, nil
	}
	err = s.read(ctx, "reading what "+caller.Actor.Name+" may do", func(q querier) error {
		a, err = readAuthority(q, caller, s.runtime.Now())
		return err
	})
	return a, err
}

// Authorize is Denied unless the caller may use the role in the partition now.
func (s *Store) Authorize(ctx context.Context, role intent.Role, partition intent.PartitionID) error {
	a, err := s.Authority(ctx)
	if err == nil {
		_, err = a.Check(role, partition)
	}
	return err
}

const tokenColumns = "id, hash, owner, owner_groups, description, kind, roles, partitions, parent, created, ends, revoked"

func scanToken(row scanner) (token store.Token, err error) {
	var hash []byte
	var groups, roles, partitions string
	var created, ends, revoked int64
	err = row.Scan(&token.ID, &hash, &token.Owner, &groups, &token.Description, &token.Kind, &roles, &partitions,
		&token.Parent, &created, &ends, &revoked)
	if err != nil {
		return token, err
	}
	if copy(token.Hash[:], hash) != sha256.Size {
		return token, fault.New(fault.Internal, "the stored hash of token %s has %d bytes", token.ID, len(hash)).WithHint("the store is damaged: restore it from a backup")
	}
	token.Created, token.Until, token.Revoked = unstamp(created), unstamp(ends), unstamp(revoked)
	subject := "limits of token " + token.ID
	return token, cmp.Or(decode(subject, groups, &token.Groups), decode(subject, roles, &token.Roles), decode(subject, partitions, &token.Partitions))
}

func readToken(q querier, id string) (token store.Token, err error) {
	ok := false
	err = q.queryEach("SELECT "+tokenColumns+" FROM token WHERE id = $1", []any{id}, func(row scanner) (err error) {
		ok = true
		token, err = scanToken(row)
		return err
	})
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "there is no token %.100q", id).WithHint("lehr auth token list lists them")
	}
	return token, err
}

// TokenByID reads one.
func (s *Store) TokenByID(ctx context.Context, id string) (token store.Token, err error) {
	err = s.read(ctx, "reading a token", func(q querier) error {
		token, err = readToken(q, id)
		return err
	})
	return token, err
}

// Tokens lists the caller's, or everybody's.
func (s *Store) Tokens(ctx context.Context) (tokens []store.Token, err error) {
	a, err := s.Authority(ctx)
	if err == nil {
		err = a.Valid()
	}
	if err != nil {
		return nil, err
	}
	all := a.May(intent.Admin, "")
	err = s.read(ctx, "listing the tokens", func(q querier) error {
		return q.queryEach("SELECT "+tokenColumns+" FROM token ORDER BY created DESC, id", nil, func(row scanner) error {
			token, err := scanToken(row)
			if all || token.Owner == a.Token.Owner {
				tokens = append(tokens, token)
			}
			return err
		})
	})
	return tokens, err
}

const (
	// forgetTokens is how long an ended token is still listed.
	forgetTokens = 90 * 24 * time.Hour
	// maxDescription bounds what a token is said to be for, in bytes.
	maxDescription = 300
)

// CreateToken stores a token.
func (s *Store) CreateToken(ctx context.Context, token store.Token, most int) (store.Token, error) {
	const attempt = "making a token"
	if err := s.mustServe(attempt); err != nil {
		return token, err
	}
	created := token
	err := s.write(ctx, attempt, func(t *transaction) (err error) {
		if created, err = t.tokenToMake(token); err != nil {
			return err
		}
		if err := checkToken(attempt, created, t.now); err != nil {
			return err
		}
		if _, err := t.exec("DELETE FROM token WHERE ends < $1", stamp(t.now.Add(-forgetTokens))); err != nil {
			return err
		}
		if err := t.roomForToken(attempt, created, most); err != nil {
			return err
		}
		groups, groupsErr := encode(created.Groups)
		roles, rolesErr := encode(created.Roles)
		partitions, err := encode(created.Partitions)
		if err := cmp.Or(groupsErr, rolesErr, err); err != nil {
			return err
		}
		_, err = t.exec("INSERT INTO token ("+tokenColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0)",
			created.ID, created.Hash[:], created.Owner, groups, created.Description, created.Kind, roles, partitions, created.Parent, stamp(created.Created), stamp(created.Until))
		if err != nil {
			return err
		}
		detail := fmt.Sprintf("of %s, until %s", created.Owner, created.Until.UTC().Format(time.RFC3339))
		if created.Limited() {
			detail += ", limited to " + created.Limits()
		}
		if created.Description != "" {
			detail += ": " + created.Description
		}
		t.audit("", t.now, t.actor(), "create-token", created.ID, detail)
		return nil
	})
	return created, err
}

// sessionsKept is how long a session is kept after it began, ended or not: the ID token
// that it was exchanged for counts once, and is older then than one may be.
const sessionsKept = time.Hour

// roomForToken is Exhausted when so many of its owner's are kept, of its kind. It is asked
// where it is made, so whichever replica makes another counts it (serializable).
func (t *transaction) roomForToken(attempt string, token store.Token, most int) error {
	if most <= 0 {
		return nil
	}
	again, hint := time.Hour, "use one that there is: tokens that ended are forgotten after 90 days; whoever runs the server may allow more: tokens in the file of --quotas"
	what := "tokens"
	if token.Kind == store.TokenByLogin {
		what, hint = "sessions", "log out, or go on in a session that there is: each ends after a while; whoever runs the server may allow more: sessions in the file of --quotas"
		_, err := t.exec("DELETE FROM token WHERE owner = $1 AND kind = $2 AND created < $3 AND (ends <= $4 OR revoked <> 0)",
			token.Owner, token.Kind, stamp(t.now.Add(-sessionsKept)), stamp(t.now))
		if err != nil {
			return err
		}
	}
	var count int
	if _, err := t.one("SELECT COUNT(*) FROM token WHERE owner = $1 AND kind = $2", []any{token.Owner, token.Kind}, &count); err != nil || count < most {
		return err
	}
	err := fault.New(fault.Exhausted, "%s: %d %s of %.100q are kept, which is the most", attempt, count, what, token.Owner).WithHint("%s", hint)
	err.RetryAfter = again
	return err
}

// tokenToMake is what the caller may make of what was asked for.
func (t *transaction) tokenToMake(token store.Token) (store.Token, error) {
	token.Created, token.Revoked, token.Parent = t.now.UTC(), time.Time{}, ""
	unbounded := token.Until.IsZero()
	if unbounded {
		token.Until = token.Created.Add(store.UsualTokenPeriod)
	}
	if t.caller == nil || t.caller.Local {
		if token.Owner == "" && t.caller != nil {
			token.Owner = t.caller.Actor.Name
		}
		token.Kind = cmp.Or(token.Kind, store.TokenByHand)
		return token, nil
	}
	a, err := readAuthority(t, *t.caller, t.now)
	if err != nil {
		return token, err
	}
	if err := a.Valid(); err != nil {
		return token, err
	}
	token.Kind, token.Owner = store.TokenByHand, cmp.Or(token.Owner, a.Token.Owner)
	if token.Owner == a.Token.Owner {
		token.Groups = a.Token.Groups
	} else if _, err := a.Check(intent.Admin, ""); err != nil {
		return token, fault.New(fault.Denied, "a token of %s is for %s to make, or for an admin of all partitions: %w", token.Owner, token.Owner, err)
	}
	if unbounded && token.Until.After(a.Token.Until) {
		token.Until = a.Token.Until
	}
	return a.Token.Narrow(token)
}

func checkToken(attempt string, token store.Token, now time.Time) error {
	if err := intent.CheckSubject(intent.UserPrefix + token.Owner); err != nil {
		return fault.New(fault.Invalid, "%s: its owner %.100q is no name", attempt, token.Owner)
	}
	for _, role := range token.Roles {
		if _, err := intent.ParseRole(string(role)); err != nil {
			return err
		}
	}
	for _, partition := range token.Partitions {
		if _, err := intent.ParsePartitionID(string(partition)); err != nil {
			return err
		}
	}
	switch {
	case token.ID == "" || token.Hash == [sha256.Size]byte{}:
		return fault.New(fault.Invalid, "%s: it has no id or no secret", attempt)
	case token.Kind != store.TokenByHand && token.Kind != store.TokenByLogin:
		return fault.New(fault.Invalid, "%s: there is no kind %.100q", attempt, token.Kind)
	case len(token.Description) > maxDescription:
		return fault.New(fault.Invalid, "%s: its description has %d bytes, at most %d are allowed", attempt, len(token.Description), maxDescription)
	case !token.Until.After(now):
		return fault.New(fault.Invalid, "%s: it would have ended at %s", attempt, token.Until.UTC().Format(time.RFC3339))
	case token.Until.After(now.Add(store.MaxTokenPeriod)):
		return fault.New(fault.Invalid, "%s: it would last until %s", attempt, token.Until.UTC().Format(time.RFC3339)).WithHint("a token lasts a year at most")
	}
	return nil
}

// madeWith are a token and all that were made with it, or with those.
const madeWith = `WITH RECURSIVE made(id) AS (SELECT id FROM token WHERE id = $1
	UNION SELECT t.id FROM token t JOIN made m ON t.parent = m.id) `

// RevokeToken ends a token and what was made with it.
func (s *Store) RevokeToken(ctx context.Context, id, reason string) (token store.Token, err error) {
	attempt := fmt.Sprintf("revoking token %.100q", id)
	err = s.write(ctx, attempt, func(t *transaction) error {
		if token, err = readToken(t, id); err != nil {
			return t.hide(err)
		}
		if err := t.mayRevoke(token); err != nil {
			return err
		}
		var revoked []string
		err := t.queryEach(madeWith+"UPDATE token SET revoked = $2 WHERE revoked = 0 AND id IN (SELECT id FROM made) RETURNING id",
			[]any{id, stamp(t.now)}, func(row scanner) error {
				var id string
				err := row.Scan(&id)
				revoked = append(revoked, id)
				return err
			})
		if err != nil {
			return err
		}
		slices.Sort(revoked)
		for _, one := range revoked {
			detail := ""
			if one != id {
				detail = "made with " + id
			}
			t.audit("", t.now, t.actor(), "revoke-token", one, detail).because(reason)
		}
		if len(revoked) > 0 {
			t.changed = append(t.changed, "")
		}
		token, err = readToken(t, id)
		return err
	})
	return token, err
}

// hide lets only those know that there is no such token who may know all.
func (t *transaction) hide(missing error) error {
	if err := t.authorize(intent.Admin, ""); err != nil {
		return err
	}
	return missing
}

func (t *transaction) mayRevoke(token store.Token) error {
	if t.caller == nil || t.caller.Local {
		return nil
	}
	a, err := readAuthority(t, *t.caller, t.now)
	if err != nil {
		return err
	}
	if a.Valid() == nil {
		if token.ID == a.Token.ID || token.Owner == a.Token.Owner && !a.Token.Limited() {
			return nil
		}
		var one int
		mine, err := t.one(madeWith+"SELECT 1 FROM made WHERE id = $2", []any{a.Token.ID, token.ID}, &one)
		if err != nil || mine {
			return err
		}
	}
	_, err = a.Check(intent.Admin, "")
	return err
}

// actor is who causes the transaction.
func (t *transaction) actor() intent.Actor {
	if t.caller == nil {
		return intent.Actor{Name: "lehr", Origin: "server"}
	}
	return t.caller.Actor
}

// readGrants lists those of a source; of all, if it is empty.
func readGrants(q querier, source string) (grants []store.Grant, err error) {
	err = q.queryEach("SELECT partition, source, subject, role, since FROM access_grant WHERE $1 = '' OR source = $1 ORDER BY partition, source, subject, role",
		[]any{source}, func(row scanner) error {
			var g store.Grant
			var since int64
			err := row.Scan(&g.Partition, &g.Source, &g.Subject, &g.Role, &since)
			g.Since = unstamp(since)
			grants = append(grants, g)
			return err
		})
	return grants, err
}

// Grants lists those in force.
func (s *Store) Grants(ctx context.Context) (grants []store.Grant, err error) {
	err = s.read(ctx, "listing the grants", func(q querier) error {
		grants, err = readGrants(q, "")
		return err
	})
	return grants, err
}

// SetPolicy makes the server's grants be these.
func (s *Store) SetPolicy(ctx context.Context, grants []intent.Grant, actor intent.Actor) error {
	const attempt = "setting the server's access policy"
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	for _, g := range grants {
		if err := checkGrant(attempt, g); err != nil {
			return err
		}
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if t.caller != nil && !t.caller.Local {
			return fault.New(fault.Denied, "%s: only whoever runs the server may", attempt).WithHint("change the file that the server was given with --access")
		}
		existing, err := readGrants(t, store.ByServer)
		if err != nil {
			return err
		}
		return t.replaceGrants(existing, grants, store.ByServer, time.Time{}, actor)
	})
}

func checkGrant(attempt string, g intent.Grant) error {
	if err := intent.CheckSubject(g.Subject); err != nil {
		return err
	}
	if _, err := intent.ParseRole(string(g.Role)); err != nil {
		return err
	}
	if g.Partition != "" {
		if _, err := intent.ParsePartitionID(string(g.Partition)); err != nil {
			return err
		}
	}
	if g.Subject == intent.Everyone && g.Role != intent.Viewer {
		return fault.New(fault.Invalid, "%s: everyone cannot be %s", attempt, g.Role)
	}
	return nil
}

// checkDefinitionGrants: a definition gives roles of its own partition, and
// none that could give more.
func checkDefinitionGrants(attempt string, incarnation intent.Incarnation) error {
	for _, g := range incarnation.Grants {
		if err := checkGrant(attempt, g); err != nil {
			return err
		}
		if g.Role == intent.Admin || g.Partition != incarnation.ID.Partition {
			return fault.New(fault.Invalid, "%s: its definition cannot make %s %s of %q", attempt, g.Subject, g.Role, g.Partition)
		}
	}
	return nil
}

// publishGrants makes the definition's grants those of the incarnation.
func publishGrants(t *transaction, incarnation *intent.Incarnation) error {
	var existing []store.Grant
	err := t.queryEach("SELECT subject, role FROM access_grant WHERE partition = $1 AND source = $2 ORDER BY subject, role",
		[]any{string(incarnation.ID.Partition), store.ByDefinition}, func(row scanner) error {
			g := store.Grant{Source: store.ByDefinition, Grant: intent.Grant{Partition: incarnation.ID.Partition}}
			err := row.Scan(&g.Subject, &g.Role)
			existing = append(existing, g)
			return err
		})
	if err != nil {
		return err
	}
	start := t.now
	if incarnation.Parent.IsZero() {
		start = time.Time{} // Nobody was an approver before, and nothing is guarded yet.
	}
	return t.replaceGrants(existing, incarnation.Grants, store.ByDefinition, start, incarnation.Author)
}

// replaceGrants writes what differs, and a record of each.
func (t *transaction) replaceGrants(existing []store.Grant, want []intent.Grant, source string, start time.Time, actor intent.Actor) error {
	missing := map[intent.Grant]bool{}
	for _, g := range want {
		missing[g] = true
	}
	for _, g := range existing {
		if missing[g.Grant] {
			delete(missing, g.Grant)
			continue
		}
		if err := t.changeGrant("ungrant", g, actor, "DELETE FROM access_grant WHERE partition = $1 AND source = $2 AND subject = $3 AND role = $4"); err != nil {
			return err
		}
	}
	for _, g := range sortedGrants(missing) {
		err := t.changeGrant("grant", store.Grant{Grant: g, Source: source}, actor,
			"INSERT INTO access_grant (partition, source, subject, role, since) VALUES ($1, $2, $3, $4, $5)", stamp(start))
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) changeGrant(verb string, g store.Grant, actor intent.Actor, text string, more ...any) error {
	t.changed = append(t.changed, g.Partition)
	t.audit(g.Partition, t.now, actor, verb, g.Subject, string(g.Role)+", by the "+g.Source)
	_, err := t.exec(text, append([]any{string(g.Partition), g.Source, g.Subject, string(g.Role)}, more...)...)
	return err
}

func sortedGrants(grants map[intent.Grant]bool) (list []intent.Grant) {
	for g := range grants {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b intent.Grant) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), strings.Compare(a.Subject, b.Subject), cmp.Compare(a.Role, b.Role))
	})
	return list
}
