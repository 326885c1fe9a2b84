package oidc_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"lehr.dev/internal/access"
	"lehr.dev/internal/access/oidc"
)

// issuer signs what no honest provider would. It has discovery and keys, and
// nothing else; test/login has a real one.
type issuer struct {
	*testing.T
	server  *httptest.Server
	private *rsa.PrivateKey
	edwards ed25519.PrivateKey
	down    atomic.Bool
	// asked counts requests for keys.
	asked atomic.Int32
	// now is the time of Lehr; it goes on when told.
	now      atomic.Int64
	provider *oidc.Provider
	config   access.OIDC
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{T: t}
	var err error
	if i.private, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	_, i.edwards, _ = ed25519.GenerateKey(rand.Reader)
	i.now.Store(time.Now().Unix())
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{
			"issuer": i.server.URL, "authorization_endpoint": i.server.URL + "/authorize", "token_endpoint": i.server.URL + "/token",
			"jwks_uri": i.server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		i.answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{KeyID: "rsa", Key: i.private.Public(), Use: "sig"}, {KeyID: "ed", Key: i.edwards.Public(), Use: "sig"},
		}})
	})
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	i.config = access.OIDC{Issuer: i.server.URL, ClientID: "cli", Audience: "cli", NameClaim: "email", GroupsClaim: "groups", Scopes: []string{"openid", "email"}}
	i.provider = oidc.New(i.config, nil, i.time)
	return i
}

func (i *issuer) time() time.Time { return time.Unix(i.now.Load(), 0) }

func (i *issuer) answer(w http.ResponseWriter, value any) {
	if i.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// claims of a good token, with changes; nil removes one.
func (i *issuer) claims(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": i.server.URL, "sub": "1", "aud": "cli", "azp": "cli", "nonce": "n", "iat": i.now.Load(), "exp": i.now.Load() + 3600,
		"email": "ann@example.com", "email_verified": true, "groups": []string{"sre", "platform", "sre"},
	}
	for name, value := range changes {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// sign signs claims with a key, which is said to be one that is published.
func (i *issuer) sign(algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	i.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		i.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		i.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		i.Fatal(err)
	}
	return compact
}

func (i *issuer) good(changes map[string]any) string {
	return i.sign(jose.RS256, i.private, "rsa", i.claims(changes))
}

// public is the published key as bytes, which could be taken for a secret.
func (i *issuer) public(key crypto.PublicKey) []byte {
	text, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		i.Fatal(err)
	}
	return text
}
