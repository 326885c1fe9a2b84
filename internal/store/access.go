package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Caller is on whose behalf something is done. Who is neither local nor bears
// a token may do nothing.
type Caller struct {
	// Actor is who it is, for the audit.
	Actor intent.Actor
	// Token is the id of the token that was borne.
	Token string
	// Local: the user of this machine that the server belongs to, or somebody
	// whom the server itself has just made sure of. They may do everything.
	Local bool
	// From is the remote address.
	From string
}

type callerKey struct{}

// WithCaller returns a context of what somebody causes. Writes under it are
// done only as far as the caller may, as of the transaction that makes them
// (S24). A context without a caller is of what Lehr does by itself.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf returns the caller of a context; false: there is none.
func CallerOf(ctx context.Context) (Caller, bool) {
	caller, ok := ctx.Value(callerKey{}).(Caller)
	return caller, ok
}

// Kinds of token.
const (
	TokenByHand  = "token"
	TokenByLogin = "login"
)

// Periods of tokens.
const (
	UsualTokenPeriod = 24 * time.Hour
	MaxTokenPeriod   = 366 * 24 * time.Hour
)

// Token is a credential: whoever bears it may do what its owner may, as far as
// its limits let them.
type Token struct {
	ID string
	// Hash of the secret, which is not kept.
	Hash [sha256.Size]byte
	// Owner and Groups are whose grants count.
	Owner       string
	Groups      []string
	Description string
	// Kind is TokenByHand or TokenByLogin.
	Kind string
	// Limits: at most what these roles include, and in these partitions. None:
	// whatever the owner may.
	Roles      []intent.Role
	Partitions []intent.PartitionID
	// Parent is the token that it was made with; it ends with that one.
	Parent  string
	Created time.Time
	Until   time.Time
	// Revoked is zero while it was not.
	Revoked time.Time
}

// Check is Denied when the token has ended.
func (t Token) Check(now time.Time) error {
	const hint = "make another with lehr auth token create, or log in again"
	switch {
	case !t.Revoked.IsZero():
		return fault.New(fault.Denied, "token %s of %s was revoked at %s", t.ID, t.Owner, t.Revoked.UTC().Format(time.RFC3339)).WithHint(hint)
	case !now.Before(t.Until):
		return fault.New(fault.Denied, "token %s of %s ended at %s", t.ID, t.Owner, t.Until.UTC().Format(time.RFC3339)).WithHint(hint)
	}
	return nil
}

// Limited reports whether it carries less than its owner's authority.
func (t Token) Limited() bool { return len(t.Roles)+len(t.Partitions) > 0 }

// lets reports whether the limits let a role be used in a partition; an empty
// partition means all.
func (t Token) lets(role intent.Role, partition intent.PartitionID) bool {
	return t.letsRole(role) && (len(t.Partitions) == 0 || partition != "" && slices.Contains(t.Partitions, partition))
}

func (t Token) letsRole(role intent.Role) bool {
	return len(t.Roles) == 0 || slices.ContainsFunc(t.Roles, func(r intent.Role) bool { return r.Includes(role) })
}

// Narrow returns the limits of a token that is made with this one; Denied when
// they would be wider.
func (t Token) Narrow(child Token) (Token, error) {
	const hint = "a token can only make one that may do less than itself"
	for _, role := range child.Roles {
		if !t.letsRole(role) {
			return child, fault.New(fault.Denied, "token %s is not for the role %s", t.ID, role).WithHint(hint)
		}
	}
	for _, partition := range child.Partitions {
		if len(t.Partitions) > 0 && !slices.Contains(t.Partitions, partition) {
			return child, fault.New(fault.Denied, "token %s is not for partition %s", t.ID, partition).WithHint(hint)
		}
	}
	if child.Until.After(t.Until) {
		return child, fault.New(fault.Denied, "token %s ends at %s, before the one that it should make", t.ID, t.Until.UTC().Format(time.RFC3339)).WithHint(hint)
	}
	if len(child.Roles) == 0 {
		child.Roles = t.Roles
	}
	if len(child.Partitions) == 0 {
		child.Partitions = t.Partitions
	}
	child.Parent = t.ID
	return child, nil
}

// Sources of grants.
const (
	ByServer     = "server"
	ByDefinition = "definition"
)

// Grant is one in force.
type Grant struct {
	intent.Grant
	// Source is ByServer, the server's policy, or ByDefinition, the
	// partition's.
	Source string
	// Since when a definition gives it; zero: by its first incarnation.
	Since time.Time
}

// ApproverSettles is how long after a definition made somebody an approver that
// counts for nothing: else whoever edits it approves their own change, by the
// same change. Who must not wait has the role by the server's policy.
const ApproverSettles = 24 * time.Hour

// Settling reports whether the role is too new to be used at a time.
func (g Grant) Settling(now time.Time) bool {
	return g.Source == ByDefinition && g.Role == intent.Approver && !g.Since.IsZero() && now.Before(g.Since.Add(ApproverSettles))
}

func (g Grant) String() string {
	scope := "all partitions"
	if g.Partition != "" {
		scope = "partition " + string(g.Partition)
	}
	source := "the server's policy"
	if g.Source == ByDefinition {
		source = "its definition"
	}
	return fmt.Sprintf("%s is %s of %s, by %s", g.Subject, g.Role, scope, source)
}

// Authority is what somebody may do, as of one moment.
type Authority struct {
	Caller Caller
	// Token is what the caller bears, if anything.
	Token Token
	// Grants in force, whoever they are for.
	Grants []Grant
	// Now by the store's clock.
	Now time.Time
}

// Check returns the grant by which the role may be used in a partition, or in
// all if it is empty; else Denied, which says who, what and where. The local
// user needs no grant.
func (a Authority) Check(role intent.Role, partition intent.PartitionID) (Grant, error) {
	if a.Caller.Local {
		return Grant{}, nil
	}
	if err := a.Valid(); err != nil {
		return Grant{}, err
	}
	var fresh Grant
	for _, g := range a.Grants {
		if !g.Covers(a.Token.Owner, a.Token.Groups, role, partition) {
			continue
		}
		if role == intent.Approver && g.Settling(a.Now) {
			fresh = g
			continue
		}
		if !a.Token.lets(role, partition) {
			return Grant{}, fault.New(fault.Denied, "%s may not act as %s in %s with token %s: it is limited to %s",
				a.Token.Owner, role, scopeText(partition), a.Token.ID, a.Token.Limits()).
				WithHint("use another token of %s, without that limit", a.Token.Owner)
		}
		return g, nil
	}
	if !fresh.Since.IsZero() {
		return Grant{}, fault.New(fault.Denied, "%s was made approver of %s by its definition at %s, which counts from %s on",
			a.Token.Owner, scopeText(partition), fresh.Since.UTC().Format(time.DateTime), fresh.Since.Add(ApproverSettles).UTC().Format(time.DateTime)).
			WithHint("let somebody approve who was an approver before; or an admin gives the role by the server's access policy, where it counts at once")
	}
	return Grant{}, fault.New(fault.Denied, "%s has no grant of the role %s in %s", a.Token.Owner, role, scopeText(partition)).
		WithHint("lehr auth whoami lists what you may; an admin adds grants to the server's access policy, or to access: in the partition's lehr.yaml")
}

// Valid is Denied unless the caller has a credential that counts.
func (a Authority) Valid() error {
	switch {
	case a.Caller.Local:
		return nil
	case a.Caller.Token == "":
		return fault.New(fault.Denied, "nobody said who they are").WithHint("bear a token: LEHR_TOKEN=… lehr …")
	}
	return a.Token.Check(a.Now)
}

// May reports whether Check has nothing against it.
func (a Authority) May(role intent.Role, partition intent.PartitionID) bool {
	_, err := a.Check(role, partition)
	return err == nil
}

// Effective lists what the caller may do, after the token's limits: for each
// grant the most that is left of it.
func (a Authority) Effective() []Grant {
	if a.Caller.Local {
		return []Grant{{Grant: intent.Grant{Subject: intent.UserPrefix + a.Caller.Actor.Name, Role: intent.Admin}, Source: "local"}}
	}
	if a.Valid() != nil {
		return nil
	}
	var effective []Grant
	for _, g := range a.Grants {
		if !g.Covers(a.Token.Owner, a.Token.Groups, intent.Viewer, g.Partition) {
			continue
		}
		if g.Settling(a.Now) {
			g.Role = intent.Viewer // All that it is for now.
		}
		partitions := []intent.PartitionID{g.Partition}
		if g.Partition == "" && len(a.Token.Partitions) > 0 {
			partitions = a.Token.Partitions
		}
		for _, partition := range partitions {
			for _, role := range a.most(g, partition) {
				part := g
				part.Partition, part.Role = partition, role
				effective = append(effective, part)
			}
		}
	}
	return effective
}

// most are the roles of a grant that the limits leave, without those that
// another of them includes.
func (a Authority) most(g Grant, partition intent.PartitionID) (roles []intent.Role) {
	for _, role := range slices.Backward(intent.Roles()) {
		covered := slices.ContainsFunc(roles, func(r intent.Role) bool { return r.Includes(role) })
		if g.Role.Includes(role) && a.Token.lets(role, partition) && !covered {
			roles = append(roles, role)
		}
	}
	return roles
}

// Limits says what a limited token is limited to.
func (t Token) Limits() string {
	var limits []string
	if len(t.Roles) > 0 {
		limits = append(limits, "roles "+join(t.Roles))
	}
	if len(t.Partitions) > 0 {
		limits = append(limits, "partitions "+join(t.Partitions))
	}
	return strings.Join(limits, " and ")
}

func join[S ~string](list []S) string {
	words := make([]string, len(list))
	for i, item := range list {
		words[i] = string(item)
	}
	return strings.Join(words, ", ")
}

func scopeText(partition intent.PartitionID) string {
	if partition == "" {
		return "all partitions"
	}
	return "partition " + string(partition)
}

// Access is who may do what. Its methods, and every write that a person or
// program causes, judge the caller of the context in their transaction (S24).
type Access interface {
	// CreateToken stores a token for the caller, or for another owner: that
	// takes an admin of all. A zero Until is UsualTokenPeriod from now, or the
	// end of the token that it is made with; none is longer than
	// MaxTokenPeriod. Exhausted: so many of the owner's are kept, of that kind; 0: any
	// number. Sessions that ended, and began an hour ago, make place for others. A
	// caller's token hands down its owner's groups, its limits
	// and its end.
	CreateToken(ctx context.Context, token Token, most int) (Token, error)
	// TokenByID is NotFound when there is none. It asks nothing of the caller.
	TokenByID(ctx context.Context, id string) (Token, error)
	// Tokens lists the caller's; for an admin of all, everybody's, the newest
	// first. Those that ended long ago are forgotten.
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken ends a token, and all that were made with it, at once. A
	// limited token can only end itself and those. Again changes nothing.
	RevokeToken(ctx context.Context, id, reason string) (Token, error)
	// SetPolicy makes the grants those of the server's policy; the audit tells
	// what was added and removed. The same again changes nothing. Only Lehr
	// itself and the local user may.
	SetPolicy(ctx context.Context, grants []intent.Grant, actor intent.Actor) error
	// Grants lists those in force. It asks nothing of the caller.
	Grants(ctx context.Context) ([]Grant, error)
	// Authority is what the caller may do now.
	Authority(ctx context.Context) (Authority, error)
	// Authorize is Denied unless the caller may use the role in the partition
	// now; an empty partition means all. Writes ask by themselves.
	Authorize(ctx context.Context, role intent.Role, partition intent.PartitionID) error
}
