package oidc

import (
	"context"
	"net"
	"net/url"

	"lehr.dev/internal/access"
	"lehr.dev/internal/store"
)

// Exchange gives a token of Lehr's for the provider's.
type Exchange struct {
	provider *Provider
	sessions *Sessions
	urls     []*url.URL
}

// NewExchange is of the server that is reached by the URLs.
func NewExchange(provider *Provider, sessions *Sessions, urls []*url.URL) *Exchange {
	return &Exchange{provider, sessions, urls}
}

// Offer is how a command line asks the provider.
func (e *Exchange) Offer() access.OIDC { return e.provider.config }

// LogIn makes a session of what the provider gave to a command line, unless that
// was for a login to another server, or by another client. The context's caller
// tells from where it comes.
func (e *Exchange) LogIn(ctx context.Context, proof Proof) (store.Token, string, error) {
	if proof.Nonce != "" && !MeantFor(proof.Nonce, e.urls, isHere(ctx)) {
		return store.Token{}, "", refused("it is for another server than this one").
			WithHint("log in with --server URL, as the server's operator names it with --url")
	}
	person, err := e.provider.Verify(ctx, proof.IDToken, proof.Nonce)
	if err != nil {
		return store.Token{}, "", err
	}
	return e.sessions.Begin(ctx, person, proof.IDToken)
}

// isHere reports whether the caller is on this machine.
func isHere(ctx context.Context) bool {
	caller, _ := store.CallerOf(ctx)
	host, _, err := net.SplitHostPort(caller.From)
	return caller.Local || err == nil && net.ParseIP(host).IsLoopback()
}
