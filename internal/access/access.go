// Package access says who may speak to a server, and who may make which call.
// Guard lets through who bears the launch token, which is the local user's and
// counts on this machine alone, or a token that the store knows; what they may do
// is judged later, where it is done. It takes only requests that are meant for this server: a Host
// allow-list (a web page can reach 127.0.0.1 under a name of its own), and no
// cross-origin requests. Browsers come in by a link that counts once, and only
// read. It never looks into a request's body.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Headers by which a client says on whose behalf it calls. Who bears the launch
// token is believed; of others only the origin is.
const (
	ActorHeader  = "Lehr-Actor"
	OriginHeader = "Lehr-Origin"
)

const maxActorName = 200

// NewToken is an unguessable launch token.
func NewToken() string { return rand.Text() }

// IsLoopback reports whether only this machine reaches an address to listen on.
func IsLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fault.New(fault.Invalid, "listen address %q: %w", address, err).WithHint("write HOST:PORT, for example 127.0.0.1:7474; port 0 picks a free one")
	}
	return isLocalHost(host), nil
}

// Tokens finds tokens.
type Tokens interface {
	// TokenByID is NotFound when there is none.
	TokenByID(ctx context.Context, id string) (store.Token, error)
}

// Local guards handlers of a server that listens on this machine only.
type Local struct {
	// Token is the launch token: its bearer is the local user.
	Token string
	// Tokens that others may bear; nil: none.
	Tokens Tokens
	// Now is the store's clock; nil: this machine's.
	Now func() time.Time
	// Patience is how long the body of a request may take to arrive; nil: a minute.
	Patience func() time.Duration
}

// Remote guards handlers of a server that other machines reach: who bears no
// token of the store is nobody.
type Remote struct {
	// Hosts are the server's names.
	Hosts  Hosts
	Tokens Tokens
	// Now is the store's clock.
	Now func() time.Time
	// Patience is as Local's.
	Patience func() time.Duration
}

// CallerOf is who calls. Only requests that passed a guard have one.
func CallerOf(ctx context.Context) (store.Caller, error) {
	caller, ok := store.CallerOf(ctx)
	if !ok {
		return caller, fault.New(fault.Denied, "the request passed no guard, so nobody knows who calls")
	}
	return caller, nil
}

// InProcess lets requests of this very process through as the local user's,
// unless a guard has said who calls.
func InProcess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := store.CallerOf(r.Context()); !ok {
			r = withCaller(r, store.Caller{Actor: actorOf(r), Local: true})
		}
		next.ServeHTTP(w, r)
	})
}

func withCaller(r *http.Request, caller store.Caller) *http.Request {
	return r.WithContext(store.WithCaller(r.Context(), caller))
}

// Guard lets a request through to next only when it is meant for this server,
// does not come from another origin, and bears a token that counts, unless the
// call is a public one. It answers before the body is read.
func (l Local) Guard(next http.Handler) http.Handler {
	return guard(nil, next, l.Patience, func(r *http.Request, bearer string) (store.Caller, error) {
		if l.Token != "" && subtle.ConstantTimeCompare([]byte(bearer), []byte(l.Token)) == 1 {
			return store.Caller{Actor: actorOf(r), Local: true, From: r.RemoteAddr}, nil
		}
		if l.Tokens == nil {
			return store.Caller{}, unknownToken
		}
		now := time.Now
		if l.Now != nil {
			now = l.Now
		}
		return Bearer(r, l.Tokens, bearer, originOf(r), now())
	})
}

// Guard is as Local's, and the launch token is none.
func (m Remote) Guard(next http.Handler) http.Handler {
	return guard(m.Hosts, next, m.Patience, func(r *http.Request, bearer string) (store.Caller, error) {
		return Bearer(r, m.Tokens, bearer, originOf(r), m.Now())
	})
}

const (
	// maxPublicBody and publicPatience bound what is read of somebody who has
	// shown no credential.
	maxPublicBody  = 64 << 10
	publicPatience = 10 * time.Second
)

func guard(hosts Hosts, next http.Handler, patience func() time.Duration, identify func(r *http.Request, bearer string) (store.Caller, error)) http.Handler {
	refusals := connect.NewErrorWriter()
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hosts.Has(r.Host) {
			http.Error(w, hosts.refusal(), http.StatusForbidden)
			return
		}
		if call, ok := CallOf(r.URL.Path); ok && call.Scope == apipb.Scope_SCOPE_PUBLIC {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(publicPatience))
			r.Body = http.MaxBytesReader(w, r.Body, maxPublicBody)
			next.ServeHTTP(w, withCaller(r, store.Caller{From: r.RemoteAddr}))
			return
		}
		caller, err := borne(r, identify)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(refusals, w, r, err)
			return
		}
		timeout := usualPatience
		if patience != nil {
			timeout = patience()
		}
		r.Body = &timely{ReadCloser: r.Body, control: http.NewResponseController(w), until: time.Now().Add(timeout)}
		next.ServeHTTP(w, withCaller(r, caller))
	})
	return http.NewCrossOriginProtection().Handler(guarded)
}

// usualPatience is how long the body of a request may take, if nothing is said.
const usualPatience = time.Minute

// timely is a body that arrives by some time, or never. What comes after it, as a long
// answer, has no such bound.
type timely struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
}

func (t *timely) Read(buffer []byte) (int, error) {
	_ = t.control.SetReadDeadline(t.until)
	n, err := t.ReadCloser.Read(buffer)
	_ = t.control.SetReadDeadline(time.Time{})
	return n, err
}

// borne identifies who bears something.
func borne(r *http.Request, identify func(r *http.Request, bearer string) (store.Caller, error)) (store.Caller, error) {
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || bearer == "" {
		return store.Caller{}, fault.New(fault.Denied, "a bearer token is needed").
			WithHint("log in with lehr auth login, or put a token into LEHR_TOKEN (lehr auth token create makes one); on the server's machine, lehr finds it in STORE.server.json")
	}
	return identify(r, bearer)
}

// Bearer is who bears a token of the store that counts; else Denied, with one
// word for all that could be guessed at. Origin is what they call by.
func Bearer(r *http.Request, tokens Tokens, bearer, origin string, now time.Time) (store.Caller, error) {
	id, secret, err := ParseBearer(bearer)
	if err != nil {
		return store.Caller{}, unknownToken
	}
	token, err := tokens.TokenByID(r.Context(), id)
	if fault.Is(err, fault.NotFound) {
		return store.Caller{}, unknownToken
	}
	if err != nil {
		return store.Caller{}, err
	}
	if hash := sha256.Sum256([]byte(secret)); subtle.ConstantTimeCompare(hash[:], token.Hash[:]) != 1 {
		return store.Caller{}, unknownToken
	}
	return store.Caller{Actor: intent.Actor{Name: token.Owner, Origin: origin}, Token: id, From: r.RemoteAddr}, token.Check(now)
}

var unknownToken = fault.New(fault.Denied, "the server does not know the token").
	WithHint("a launch token changes at every start, and is in STORE.server.json; lehr auth token create makes one that stays")

// refuse answers in the protocol of the call, where it is one.
func refuse(writer *connect.ErrorWriter, w http.ResponseWriter, r *http.Request, err error) {
	code, status := connect.CodeUnauthenticated, http.StatusUnauthorized
	if !fault.Is(err, fault.Denied) {
		code, status = connect.CodeUnavailable, http.StatusServiceUnavailable
	}
	if !writer.IsSupported(r) {
		http.Error(w, err.Error(), status)
		return
	}
	refusal := connect.NewError(code, err)
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		refusal = connect.NewError(code, errors.New(cause.Message))
		if detail, detailErr := connect.NewErrorDetail(&apipb.ErrorDetail{Hint: cause.Hint}); detailErr == nil && cause.Hint != "" {
			refusal.AddDetail(detail)
		}
	}
	_ = writer.Write(w, r, refusal)
}

func actorOf(r *http.Request) intent.Actor {
	actor := intent.Actor{Name: r.Header.Get(ActorHeader)}
	if actor.Name == "" || len(actor.Name) > maxActorName {
		actor.Name = "local user"
	}
	actor.Origin = originOf(r)
	return actor
}

func originOf(r *http.Request) string {
	if r.Header.Get(OriginHeader) == "cli" {
		return "cli"
	}
	return "api"
}
