package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"strings"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Tokens is where sessions are kept.
type Tokens interface {
	access.Tokens
	CreateToken(ctx context.Context, token store.Token, most int) (store.Token, error)
	RevokeToken(ctx context.Context, id, reason string) (store.Token, error)
}

// Sessions are who is logged in: tokens of the store, so they count at all
// replicas, and end there at once.
type Sessions struct {
	tokens Tokens
	now    func() time.Time
	// most of one person that are kept.
	most func() int
}

// NewSessions keeps them in a store, by its clock, so many of one person.
func NewSessions(tokens Tokens, now func() time.Time, most func() int) *Sessions {
	return &Sessions{tokens, now, most}
}

// origin by which pages are read.
const origin = "page"

// Begin makes a token for who was verified by an ID token, which counts once: it
// is Denied the second time. It returns what its bearer sends.
func (s *Sessions) Begin(ctx context.Context, person Person, idToken string) (store.Token, string, error) {
	token, bearer := access.Mint(store.Token{
		ID: idOf(idToken), Owner: person.Name, Groups: person.Groups, Kind: store.TokenByLogin,
		Description: "login", Until: s.now().Add(MaxSession),
	})
	if err := s.unused(ctx, token.ID); err != nil {
		return token, "", err
	}
	// The server has just made sure of who it is.
	creator := store.Caller{Actor: intent.Actor{Name: person.Name, Origin: "login"}, Local: true}
	created, err := s.tokens.CreateToken(store.WithCaller(ctx, creator), token, s.most())
	if err != nil {
		if used := s.unused(ctx, token.ID); used != nil { // By another at the same time.
			return token, "", used
		}
		return token, "", err
	}
	return created, bearer, nil
}

func (s *Sessions) unused(ctx context.Context, id string) error {
	_, err := s.tokens.TokenByID(ctx, id)
	switch {
	case err == nil:
		return refused("it was exchanged before")
	case fault.Is(err, fault.NotFound):
		return nil
	}
	return err
}

// idOf names the token that an ID token is exchanged for, so that there is one
// at most.
func idOf(idToken string) string {
	const length = 20 // 100 bits
	sum := sha256.Sum256([]byte("lehr login " + idToken))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:length])
}

// enter is the caller that a page's request is of. It is Denied when there is no
// session, or it has ended.
func (s *Sessions) enter(r *http.Request) (store.Caller, error) {
	caller, err := access.Bearer(r, s.tokens, cookie(r, sessionCookie), origin, s.now())
	return caller, err
}

// end ends the session of a request.
func (s *Sessions) end(r *http.Request) error {
	caller, err := s.enter(r)
	if err == nil {
		_, err = s.tokens.RevokeToken(store.WithCaller(r.Context(), caller), caller.Token, "logged out")
	}
	return err
}
