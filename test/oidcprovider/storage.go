package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/subtle"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// groupsScope asks for a person's groups.
const groupsScope = "groups"

// storage is all that the provider knows, in memory.
type storage struct {
	mutex    sync.Mutex
	key      *key
	clients  map[string]client
	requests map[string]*request
	// codes lead to requests; each counts once.
	codes   map[string]string
	devices map[string]*device
}

// request is a login that is under way.
type request struct {
	*oidc.AuthRequest
	id, subject string
	at          time.Time
}

// device waits to be let in, by its device code.
type device struct {
	userCode string
	state    op.DeviceAuthorizationState
}

// key is the one that signs.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func (k *key) ID() string                                  { return k.id }
func (k *key) Key() any                                    { return k.private }
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

type publicKey struct{ *key }

func (k publicKey) Key() any                           { return &k.private.PublicKey }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }

func newStorage() *storage {
	s := &storage{
		clients:  map[string]client{},
		requests: map[string]*request{}, codes: map[string]string{}, devices: map[string]*device{},
	}
	for _, c := range []client{
		{id: "cli", redirects: []string{"http://127.0.0.1/callback"}},
		{id: "web", secret: "secret of the web client"},
		{id: "other", redirects: []string{"http://127.0.0.1/callback"}},
	} {
		s.clients[c.id] = c
	}
	if err := s.rotate(); err != nil {
		panic(err) // There is no randomness.
	}
	return s
}

// rotate signs with another key from now on; the old one is forgotten.
func (s *storage) rotate() error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.key = &key{rand.Text(), private}
	return err
}

// allow lets the web client be led back to another place.
func (s *storage) allow(redirect string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	web := s.clients["web"]
	web.redirects = append(slices.Clone(web.redirects), redirect)
	s.clients["web"] = web
}

func (r *request) GetID() string                      { return r.id }
func (r *request) GetACR() string                     { return "" }
func (r *request) GetAMR() []string                   { return []string{"pwd"} }
func (r *request) GetAudience() []string              { return []string{r.ClientID} }
func (r *request) GetAuthTime() time.Time             { return r.at }
func (r *request) GetClientID() string                { return r.ClientID }
func (r *request) GetNonce() string                   { return r.Nonce }
func (r *request) GetRedirectURI() string             { return r.RedirectURI }
func (r *request) GetResponseType() oidc.ResponseType { return r.ResponseType }
func (r *request) GetResponseMode() oidc.ResponseMode { return r.ResponseMode }
func (r *request) GetScopes() []string                { return r.Scopes }
func (r *request) GetState() string                   { return r.State }
func (r *request) GetSubject() string                 { return r.subject }
func (r *request) Done() bool                         { return r.subject != "" }
func (r *request) GetCodeChallenge() *oidc.CodeChallenge {
	if r.CodeChallenge == "" {
		return nil
	}
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}

var errUnknown = errors.New("it is not known, or was used")

func (s *storage) loggedIn(id, subject string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.requests[id]
	if found == nil {
		return errUnknown
	}
	found.subject, found.at = subject, time.Now()
	return nil
}

func (s *storage) CreateAuthRequest(_ context.Context, asked *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	r := &request{AuthRequest: asked, id: rand.Text()}
	s.requests[r.id] = r
	return r, nil
}

func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if found := s.requests[id]; found != nil {
		return found, nil
	}
	return nil, errUnknown
}

func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mutex.Lock()
	id := s.codes[code]
	s.mutex.Unlock()
	return s.AuthRequestByID(ctx, id)
}

func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.codes[code] = id
	return nil
}

func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.requests, id)
	return nil
}

func (s *storage) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	const period = 5 * time.Minute
	return rand.Text(), time.Now().Add(period), nil
}

func (s *storage) SigningKey(context.Context) (op.SigningKey, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.key, nil
}

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *storage) KeySet(context.Context) ([]op.Key, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return []op.Key{publicKey{s.key}}, nil
}

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if found, known := s.clients[id]; known {
		return found, nil
	}
	return nil, errUnknown
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if found := s.clients[id]; found.secret == "" || subtle.ConstantTimeCompare([]byte(found.secret), []byte(secret)) != 1 {
		return errUnknown
	}
	return nil
}

func (s *storage) SetUserinfoFromScopes(_ context.Context, info *oidc.UserInfo, user, _ string, scopes []string) error {
	who := people[user]
	for _, scope := range scopes {
		switch scope {
		case oidc.ScopeOpenID:
			info.Subject = user
		case oidc.ScopeEmail:
			info.Email, info.EmailVerified = who.email, oidc.Bool(who.verified)
		case oidc.ScopeProfile:
			info.PreferredUsername = user
		case groupsScope:
			info.AppendClaims("groups", who.groups)
		}
	}
	return nil
}

func (s *storage) StoreDeviceAuthorization(_ context.Context, client, deviceCode, userCode string, expires time.Time, scopes []string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.devices[deviceCode] = &device{userCode, op.DeviceAuthorizationState{ClientID: client, Scopes: scopes, Expires: expires}}
	return nil
}

func (s *storage) GetDeviceAuthorizatonState(_ context.Context, client, deviceCode string) (*op.DeviceAuthorizationState, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.devices[deviceCode]
	if found == nil || found.state.ClientID != client {
		return nil, errUnknown
	}
	if found.state.Done {
		delete(s.devices, deviceCode)
	}
	state := found.state
	return &state, nil
}

func (s *storage) decideDevice(userCode, subject string, deny bool) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, d := range s.devices {
		if d.userCode == userCode {
			d.state.Done, d.state.Denied, d.state.Subject, d.state.AuthTime = !deny, deny, subject, time.Now()
			return nil
		}
	}
	return errUnknown
}

func (s *storage) Health(context.Context) error { return nil }

// What clients of tests do not ask for.

var errNotHere = errors.New("this provider does not do that")

func (s *storage) CreateAccessAndRefreshTokens(context.Context, op.TokenRequest, string) (string, string, time.Time, error) {
	return "", "", time.Time{}, errNotHere
}

func (s *storage) TokenRequestByRefreshToken(context.Context, string) (op.RefreshTokenRequest, error) {
	return nil, errNotHere
}

func (s *storage) GetRefreshTokenInfo(context.Context, string, string) (string, string, error) {
	return "", "", op.ErrInvalidRefreshToken
}

func (s *storage) TerminateSession(context.Context, string, string) error { return errNotHere }

func (s *storage) RevokeToken(context.Context, string, string, string) *oidc.Error {
	return oidc.ErrInvalidRequest()
}

func (s *storage) SetUserinfoFromToken(context.Context, *oidc.UserInfo, string, string, string) error {
	return errNotHere
}

func (s *storage) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errNotHere
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errNotHere
}

func (s *storage) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errNotHere
}
