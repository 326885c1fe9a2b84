package main

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// client that people log in with. Those without a secret are native ones, on
// any port of loopback (RFC 8252).
type client struct {
	id, secret string
	redirects  []string
}

func (c client) GetID() string                    { return c.id }
func (c client) RedirectURIs() []string           { return c.redirects }
func (c client) PostLogoutRedirectURIs() []string { return nil }
func (c client) LoginURL(id string) string        { return "/login?id=" + id }
func (c client) IDTokenLifetime() time.Duration   { return time.Hour }
func (c client) DevMode() bool                    { return false }
func (c client) ClockSkew() time.Duration         { return 0 }
func (c client) IsScopeAllowed(scope string) bool { return scope == groupsScope }
func (c client) AccessTokenType() op.AccessTokenType {
	return op.AccessTokenTypeBearer
}

// IDTokenUserinfoClaimsAssertion puts name and groups into ID tokens.
func (c client) IDTokenUserinfoClaimsAssertion() bool { return true }

func (c client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}

func (c client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeDeviceCode}
}

func (c client) ApplicationType() op.ApplicationType {
	if c.secret == "" {
		return op.ApplicationTypeNative
	}
	return op.ApplicationTypeWeb
}

func (c client) AuthMethod() oidc.AuthMethod {
	if c.secret == "" {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}

func (c client) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}

func (c client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
