// Package oidc believes an OpenID Connect provider about who people are. It
// verifies its ID tokens for the server, leads browsers through a login, and
// logs in from a command line. It grants nothing: whoever was verified is given
// a token of Lehr's, which is checked like any other. The provider is asked when
// somebody logs in and never before, so a server starts, serves tokens and stops
// without it (S18).
package oidc

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
)

const (
	// MaxSession is how long a login lasts at most.
	MaxSession = 12 * time.Hour
	// maxToken bounds an ID token, in bytes.
	maxToken = 16 << 10
	// maxAge is how old an ID token may be when it is exchanged.
	maxAge = 10 * time.Minute
	// leeway is how far the provider's clock may be from ours.
	leeway = time.Minute
	// maxName bounds names of people and groups, in bytes, and maxGroups how
	// many groups somebody is in.
	maxName, maxGroups = 200, 1000
	// answerTimeout and maxAnswer bound what the provider answers.
	answerTimeout = 10 * time.Second
	maxAnswer     = 1 << 20
	// askPause is the shortest time between two reads of the same document, so
	// that callers without a credential cannot make us burden the provider.
	askPause = time.Second
)

// algorithms by which an ID token may be signed: none that needs a secret, and
// never "none".
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Person is who the provider says somebody is.
type Person struct {
	Name   string
	Groups []string
}

// Provider is one that is believed.
type Provider struct {
	config access.OIDC
	client *http.Client
	now    func() time.Time

	mutex sync.Mutex
	// discovered is nil until the provider was asked; problem and asked are of the
	// last try that failed.
	discovered *oidc.Provider
	problem    error
	triedAt    time.Time
}

// New returns a provider, which is not asked yet. Roots are whose certificates
// are believed; nil: the system's.
func New(config access.OIDC, roots *x509.CertPool, now func() time.Time) *Provider {
	return &Provider{config: config, client: newClient(roots), now: now}
}

// Config is what the policy says of the provider.
func (p *Provider) Config() access.OIDC { return p.config }

// discover reads where the provider's endpoints are, until it has.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.discovered != nil {
		return p.discovered, nil
	}
	if p.problem != nil && p.now().Sub(p.triedAt) < askPause {
		return nil, p.problem
	}
	discovered, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if err != nil {
		p.problem, p.triedAt = undiscovered(p.config.Issuer, err), p.now()
		return nil, p.problem
	}
	p.discovered = discovered
	return discovered, nil
}

func undiscovered(issuer string, err error) error {
	if mismatch, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return fault.New(fault.Invalid, "the provider at %s calls itself %q", issuer, mismatch.Discovered).
			WithHint("write the issuer into the access policy exactly as the provider says it, with or without a slash at its end")
	}
	return fault.New(fault.Unavailable, "asking the login provider %s: %w", issuer, err).
		WithHint("nobody can log in until it answers; tokens and the local command line go on")
}

// Verify says who an ID token is about, if it was made for the client, by the
// provider, for the login that has the nonce. A login by device has none.
func (p *Provider) Verify(ctx context.Context, token, nonce string) (Person, error) {
	return p.verify(ctx, token, nonce, p.config.ClientID, p.config.Audience)
}

// refused is the error for a token that is not believed.
func refused(format string, arguments ...any) *fault.Error {
	return fault.New(fault.Denied, "the provider's ID token is refused: "+format, arguments...).WithHint("log in again")
}

// claims that are looked at besides those that the library checks.
type claims struct {
	AuthorizedParty string                     `json:"azp"`
	Elsewhere       map[string]json.RawMessage `json:"_claim_names"`
}

func (p *Provider) verify(ctx context.Context, raw, nonce, client, audience string) (Person, error) {
	if len(raw) > maxToken {
		return Person{}, refused("it has more than %d bytes", maxToken)
	}
	discovered, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	now := p.now()
	token, err := discovered.Verifier(&oidc.Config{
		ClientID: audience, SupportedSigningAlgs: algorithms, Now: func() time.Time { return now.Add(-leeway) },
	}).Verify(oidc.ClientContext(ctx, p.client), raw)
	if err != nil {
		return Person{}, p.unverified(err)
	}
	var claimed claims
	if err := token.Claims(&claimed); err != nil {
		return Person{}, refused("%w", err)
	}
	switch {
	case token.Subject == "":
		return Person{}, refused("it is about nobody")
	case claimed.AuthorizedParty != "" && claimed.AuthorizedParty != client || claimed.AuthorizedParty == "" && len(token.Audience) > 1:
		return Person{}, refused("it was given to %q, and not to the client %q (azp)", claimed.AuthorizedParty, client)
	case token.IssuedAt.Unix() <= 0 || now.Sub(token.IssuedAt) > maxAge+leeway:
		return Person{}, refused("it was issued at %s, more than %s ago", token.IssuedAt.UTC().Format(time.RFC3339), maxAge)
	case token.IssuedAt.Sub(now) > leeway:
		return Person{}, refused("it was issued at %s, which is still to come", token.IssuedAt.UTC().Format(time.RFC3339)).WithHint("set the clocks of the server and the provider")
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1:
		return Person{}, refused("it is not of this login: its nonce is another")
	case claimed.Elsewhere[p.config.GroupsClaim] != nil:
		return Person{}, refused("it does not hold the groups, only where to ask for them").WithHint("have the provider put only groups that matter here into its tokens")
	}
	return p.person(token)
}

// unverified says in our words what the library found.
func (p *Provider) unverified(err error) error {
	if late, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return refused("it expired at %s", late.Expiry.UTC().Format(time.RFC3339))
	}
	if strings.Contains(err.Error(), "fetching keys") {
		return undiscovered(p.config.Issuer, err)
	}
	return refused("%s", strings.TrimPrefix(err.Error(), "oidc: "))
}

// person reads name and groups.
func (p *Provider) person(token *oidc.IDToken) (Person, error) {
	values := map[string]any{}
	if err := token.Claims(&values); err != nil {
		return Person{}, refused("%w", err)
	}
	name, _ := values[p.config.NameClaim].(string)
	if name == "" {
		return Person{}, refused("it has no %q", p.config.NameClaim).
			WithHint("let the provider put it into ID tokens, ask for its scope, or name another claim with name_claim in the access policy")
	}
	if !isName(name) {
		return Person{}, refused("%q is no name", p.config.NameClaim)
	}
	if verified := values["email_verified"]; p.config.NameClaim == "email" && verified != true && verified != "true" {
		return Person{}, refused("the provider has not verified that %s is theirs (email_verified)", name).
			WithHint("confirm the address at the provider, or use another claim with name_claim in the access policy")
	}
	groups, err := groupsOf(values[p.config.GroupsClaim])
	if err != nil {
		return Person{}, refused("%q: %w", p.config.GroupsClaim, err)
	}
	return Person{Name: name, Groups: groups}, nil
}

// groupsOf reads a list of names, one name, or nothing.
func groupsOf(value any) (groups []string, err error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		groups = []string{value}
	case []any:
		for _, one := range value {
			group, _ := one.(string)
			groups = append(groups, group)
		}
	default:
		return nil, errors.New("it is no list of names")
	}
	if len(groups) > maxGroups {
		return nil, fmt.Errorf("there are more than %d groups", maxGroups)
	}
	for _, group := range groups {
		if !isName(group) {
			return nil, fmt.Errorf("%.*q is no name", maxName, group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// isName reports whether a text can be shown in one line and compared.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && utf8.ValidString(text) && text == strings.TrimSpace(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// oauth is how a client asks the provider to log somebody in.
func (p *Provider) oauth(ctx context.Context, client, secret, redirect string) (*oauth2.Config, error) {
	discovered, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	endpoint := discovered.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	var offers struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = discovered.Claims(&offers) // Without it, the usual one.
	if secret != "" && (len(offers.Methods) == 0 || slices.Contains(offers.Methods, "client_secret_basic")) {
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{ClientID: client, ClientSecret: secret, Endpoint: endpoint, RedirectURL: redirect, Scopes: p.config.Scopes}, nil
}

// redeem exchanges the provider's code for an ID token.
func (p *Provider) redeem(ctx context.Context, config *oauth2.Config, code, verifier string) (string, error) {
	token, err := config.Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(verifier))
	return p.idToken(token, err)
}

func (p *Provider) idToken(token *oauth2.Token, err error) (string, error) {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		reason := cmp.Or(answer.ErrorDescription, answer.ErrorCode, answer.Response.Status)
		return "", fault.New(fault.Denied, "the provider %s refused the login: %.300s", p.config.Issuer, reason).WithHint("log in again")
	}
	if err != nil {
		return "", undiscovered(p.config.Issuer, err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return "", refused("there is none").WithHint("the scope openid must be among the access policy's scopes")
	}
	return raw, nil
}

// newClient asks by TLS with a verified certificate, or on this machine.
func newClient(roots *x509.CertPool) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = roots
	return &http.Client{Timeout: answerTimeout, Transport: &careful{inner: transport, next: map[string]time.Time{}}}
}

// careful sends nothing in the clear beyond this machine, reads no endless
// answer, and no document again at once: keys that are not known, which callers
// without a credential make up, are looked for once in a while, for all of them.
type careful struct {
	inner http.RoundTripper

	mutex sync.Mutex
	// next is when documents may be asked for.
	next map[string]time.Time
}

func (c *careful) RoundTrip(request *http.Request) (*http.Response, error) {
	if !Trustworthy(request.URL) {
		return nil, fmt.Errorf("%s is not asked: it is no https address", request.URL.Redacted())
	}
	if request.Method == http.MethodGet {
		select {
		case <-request.Context().Done():
			return nil, request.Context().Err()
		case <-time.After(c.pause(request.URL.String())):
		}
	}
	answer, err := c.inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	return answer, nil
}

// pause is how long to wait before a document is asked for.
func (c *careful) pause(address string) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := time.Now()
	at := c.next[address]
	if at.Before(now) {
		at = now
	}
	c.next[address] = at.Add(askPause)
	return at.Sub(now)
}

// Trustworthy reports whether what is sent to an address reaches it alone: by
// TLS, or on this machine.
func Trustworthy(target *url.URL) bool {
	return target.Scheme == "https" && target.Host != "" || target.Scheme == "http" && access.Hosts(nil).Has(target.Host)
}
