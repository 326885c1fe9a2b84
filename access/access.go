// Package access says who may speak to a server. Today there is one mode, the
// local one, for a single user: loopback only, a Host allow-list (a web page
// can reach 127.0.0.1 under a name of its own), no cross-origin requests, and
// a token made at every launch, required on every call. Browsers come in by a
// link that counts once, and only read. The server wraps its handlers in it;
// it never looks into a request's body.
package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"lehr.dev/fault"
	"lehr.dev/intent"
)

// Headers by which a client says on whose behalf it calls. In local mode the
// token's bearer is believed.
const (
	ActorHeader  = "Lehr-Actor"
	OriginHeader = "Lehr-Origin"
)

const maxActorName = 200

// NewToken is an unguessable bearer token.
func NewToken() string { return rand.Text() }

// IsLoopback reports whether only this machine reaches an address to listen on.
func IsLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fault.New(fault.Invalid, "listen address %q: %w", address, err).WithHint("write HOST:PORT, for example 127.0.0.1:7474; port 0 picks a free one")
	}
	return isLocalHost(host), nil
}

// Local guards handlers in local single-user mode.
type Local struct {
	// Token every call must bear.
	Token string
}

type actorKey struct{}

// ActorOf is who calls. Only handlers behind Guard are called with one.
func ActorOf(ctx context.Context) intent.Actor {
	actor, _ := ctx.Value(actorKey{}).(intent.Actor)
	return actor
}

// Guard lets a request through to next only when it is meant for this server,
// does not come from another origin, and bears the token. It answers before
// the body is read.
func (l Local) Guard(next http.Handler) http.Handler {
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocalHost(r.Host) {
			http.Error(w, "this server answers to localhost only", http.StatusForbidden)
			return
		}
		if !l.bears(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed: it is in the file STORE.server.json", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), actorKey{}, actorOf(r))))
	})
	return http.NewCrossOriginProtection().Handler(guarded)
}

func (l Local) bears(r *http.Request) bool {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return found && l.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(l.Token)) == 1
}

func actorOf(r *http.Request) intent.Actor {
	actor := intent.Actor{Name: r.Header.Get(ActorHeader), Origin: r.Header.Get(OriginHeader)}
	if actor.Name == "" || len(actor.Name) > maxActorName {
		actor.Name = "local user"
	}
	if actor.Origin != "cli" {
		actor.Origin = "api"
	}
	return actor
}
