package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
)

// closeTimeout is what the browser is given to read that it is logged in.
const closeTimeout = time.Second

// Proof is what a command line gets from the provider, for a server to verify.
type Proof struct {
	IDToken string
	// Nonce that it was asked for with; none by device.
	Nonce string
}

// LogIn logs a person in to a server by their browser on this machine (RFC 8252,
// with PKCE): show is given the address to open, and the provider leads the
// browser back to a socket that is open only for this. The proof is for that
// server alone. It takes until the context ends at most.
func (p *Provider) LogIn(ctx context.Context, server string, show func(address string)) (Proof, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Proof{}, fault.New(fault.Unavailable, "waiting for the browser: %w", err).WithHint("use --device")
	}
	defer socket.Close()
	config, err := p.oauth(ctx, p.config.ClientID, "", "http://"+socket.Addr().String()+"/callback")
	if err != nil {
		return Proof{}, err
	}
	r := &receiver{provider: p, host: socket.Addr().String(), state: rand.Text(), answers: make(chan answer, 1)}
	callbackServer := &http.Server{Handler: r, ReadHeaderTimeout: answerTimeout}
	go func() { _ = callbackServer.Serve(socket) }()
	defer func() {
		// What the browser is told goes out first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = callbackServer.Shutdown(ctx)
	}()
	nonce, verifier := nonceFor(server), oauth2.GenerateVerifier()
	show(config.AuthCodeURL(r.state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)))
	select {
	case <-ctx.Done():
		return Proof{}, fault.New(fault.Unavailable, "nobody logged in: %w", context.Cause(ctx)).WithHint("try again; where there is no browser, with --device")
	case got := <-r.answers:
		defer close(got.outcome)
		proof := Proof{Nonce: nonce}
		if err = got.err; err == nil {
			proof.IDToken, err = p.redeem(ctx, config, got.code, verifier)
		}
		if err == nil {
			err = p.own(ctx, proof)
		}
		got.outcome <- err
		return proof, err
	}
}

// A provider's client id is often that of several servers. The nonce names the
// one that a person logs in to, so that it cannot pass the proof on to another.
func nonceFor(server string) string {
	return rand.Text() + "." + base64.RawURLEncoding.EncodeToString([]byte(server))
}

// MeantFor reports whether a nonce names a server that goes by these URLs; from
// this machine, also one by any of its own names.
func MeantFor(nonce string, urls []*url.URL, isLocal bool) bool {
	_, encoded, _ := strings.Cut(nonce, ".")
	server, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	named, err := url.Parse(string(server))
	if err != nil || named.Host == "" {
		return false
	}
	return isLocal && access.Hosts(nil).Has(named.Host) || slices.ContainsFunc(urls, func(u *url.URL) bool { return u.String() == string(server) })
}

// own checks that the ID token answers our request. For whom it is the server
// judges.
func (p *Provider) own(ctx context.Context, proof Proof) error {
	discovered, err := p.discover(ctx)
	if err != nil {
		return err
	}
	now := p.now().Add(-leeway)
	token, err := discovered.Verifier(&oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: algorithms, Now: func() time.Time { return now }}).
		Verify(oidc.ClientContext(ctx, p.client), proof.IDToken)
	switch {
	case err != nil:
		return p.unverified(err)
	case token.Nonce != proof.Nonce:
		return refused("it is not of this login: its nonce is another")
	}
	return nil
}

// receiver takes the browser back, once.
type receiver struct {
	provider    *Provider
	host, state string
	answers     chan answer
}

// answer of the provider.
type answer struct {
	code string
	err  error
	// outcome is given what became of it, for the browser.
	outcome chan error
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	query := request.URL.Query()
	switch {
	case request.Host != r.host || request.URL.Path != "/callback" || request.Method != http.MethodGet:
		http.NotFound(w, request)
		return
	case subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(r.state)) != 1:
		// Another page's doing: the login goes on.
		http.Error(w, "This is not the end of the login that lehr waits for.", http.StatusBadRequest)
		return
	}
	got := answer{code: query.Get("code"), err: r.provider.answered(query), outcome: make(chan error, 1)}
	select {
	case r.answers <- got:
	default:
		http.Error(w, "This login was answered before.", http.StatusBadRequest)
		return
	}
	select {
	case <-request.Context().Done():
	case err := <-got.outcome:
		if err != nil {
			tell(w, http.StatusForbidden, err, "")
			return
		}
		write(w, http.StatusOK, plainPage{Message: "You are logged in.", Hint: "Close this window, and go back to your terminal."})
	}
}

// Device tells where, and with which code, a person lets a device in.
type Device struct {
	// Address may hold the code already; then Code is to be compared.
	Address, Code string
}

// LogInByDevice logs a person in by a browser on another machine (RFC 8628).
func (p *Provider) LogInByDevice(ctx context.Context, show func(Device)) (Proof, error) {
	config, err := p.oauth(ctx, p.config.ClientID, "", "")
	if err != nil {
		return Proof{}, err
	}
	if config.Endpoint.DeviceAuthURL == "" {
		return Proof{}, fault.New(fault.Invalid, "the provider %s has no login by device", p.config.Issuer).WithHint("log in where there is a browser, without --device")
	}
	ctx = oidc.ClientContext(ctx, p.client)
	authorization, err := config.DeviceAuth(ctx)
	if err != nil {
		_, err = p.idToken(nil, err)
		return Proof{}, err
	}
	address := authorization.VerificationURIComplete
	if address == "" {
		address = authorization.VerificationURI
	}
	if target, err := url.Parse(address); err != nil || !Trustworthy(target) {
		return Proof{}, fault.New(fault.Denied, "the provider %s wants people to log in at %q, which is no https address", p.config.Issuer, address)
	}
	show(Device{Address: address, Code: authorization.UserCode})
	token, err := config.DeviceAccessToken(ctx, authorization)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Proof{}, fault.New(fault.Unavailable, "nobody logged in: %w", err).WithHint("try again")
	}
	proof := Proof{}
	if proof.IDToken, err = p.idToken(token, err); err == nil {
		err = p.own(ctx, proof)
	}
	return proof, err
}
