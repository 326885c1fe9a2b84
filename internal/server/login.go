package server

import (
	"context"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access/oidc"
	"lehr.dev/internal/ground/fault"
)

// GetLogin names the provider; none: nobody can log in.
func (s *Server) GetLogin(context.Context, *apipb.GetLoginRequest) (*apipb.GetLoginResponse, error) {
	login := s.login()
	if login == nil {
		return &apipb.GetLoginResponse{}, nil
	}
	offer := login.Offer()
	return &apipb.GetLoginResponse{Issuer: offer.Issuer, Client: offer.ClientID, Scopes: offer.Scopes}, nil
}

// Login exchanges the provider's ID token for one of Lehr's, whose secret is
// shown this once.
func (s *Server) Login(ctx context.Context, request *apipb.LoginRequest) (*apipb.LoginResponse, error) {
	login := s.login()
	if login == nil {
		return nil, fault.New(fault.Invalid, "nobody can log in to this server: it believes no provider").
			WithHint("lehr auth token create, on the server's machine, makes a token")
	}
	token, secret, err := login.LogIn(ctx, oidc.Proof{IDToken: request.IdToken, Nonce: request.Nonce})
	if err != nil {
		return nil, err
	}
	return &apipb.LoginResponse{Token: toToken(token), Secret: secret}, nil
}
