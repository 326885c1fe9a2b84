package server

import (
	"context"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// WhoAmI says what a credential is taken for.
func (s *Server) WhoAmI(ctx context.Context, _ *apipb.WhoAmIRequest) (*apipb.WhoAmIResponse, error) {
	holds, err := s.store.Authority(ctx)
	if err != nil {
		return nil, err
	}
	response := &apipb.WhoAmIResponse{Name: holds.Caller.Actor.Name, By: "local", Grants: convertEach(holds.Effective(), toGrant)}
	if !holds.Caller.Local {
		token := holds.Token
		response.Name, response.Groups, response.By = token.Owner, token.Groups, token.Kind
		response.Token, response.Until = token.ID, toTime(token.Until)
	}
	return response, nil
}

// Can answers that somebody may not rather than failing.
func (s *Server) Can(ctx context.Context, request *apipb.CanRequest) (*apipb.CanResponse, error) {
	role, partition, err := wanted(request)
	if err != nil {
		return nil, err
	}
	holds, err := s.store.Authority(ctx)
	if err == nil {
		err = holds.Valid()
	}
	if err == nil && request.Name != "" {
		holds, err = s.authorityOf(ctx, holds, request, partition)
	}
	if err != nil {
		return nil, err
	}
	if role == "" {
		return &apipb.CanResponse{Allowed: true, Reason: "whoever has a credential may; the answer holds only what they may read"}, nil
	}
	grant, err := holds.Check(role, partition)
	switch {
	case fault.Is(err, fault.Denied):
		return &apipb.CanResponse{Reason: err.Error()}, nil
	case err != nil:
		return nil, err
	case grant.Role == "":
		return &apipb.CanResponse{Allowed: true, Reason: "the local user may do everything"}, nil
	}
	return &apipb.CanResponse{Allowed: true, Reason: grant.String(), By: toGrant(grant)}, nil
}

// wanted is the role that is asked for, and where; none: any credential will do.
func wanted(request *apipb.CanRequest) (intent.Role, intent.PartitionID, error) {
	partition := intent.PartitionID(request.Partition)
	if partition != "" {
		if _, err := intent.ParsePartitionID(request.Partition); err != nil {
			return "", "", err
		}
	}
	role := access.FromRole(request.Role)
	switch {
	case (role == "") == (request.Call == ""):
		return "", "", fault.New(fault.Invalid, "one is to be asked for: a role or a call").WithHint("name viewer, editor, approver, operator or admin, or a call such as lehr.api.v1.BrakeService/SetStop")
	case len(request.Groups) > 0 && request.Name == "":
		return "", "", fault.New(fault.Invalid, "groups are given of nobody").WithHint("name whose they are")
	case role != "":
		return role, partition, nil
	}
	call, ok := access.CallOf(request.Call)
	switch {
	case !ok:
		return "", "", fault.New(fault.Invalid, "there is no call %.200q", request.Call).WithHint("write its full name, for example lehr.api.v1.BrakeService/SetStop")
	case call.Scope == apipb.Scope_SCOPE_ALL:
		return call.Role, "", nil
	case call.Scope == apipb.Scope_SCOPE_PARTITION:
		return call.Role, partition, nil
	}
	return "", "", nil
}

// authorityOf is what somebody else may, for an admin to know.
func (s *Server) authorityOf(ctx context.Context, holds store.Authority, request *apipb.CanRequest, partition intent.PartitionID) (store.Authority, error) {
	if _, err := holds.Check(intent.Admin, partition); err != nil {
		return holds, fault.New(fault.Denied, "what %.100q may is for an admin to ask: %w", request.Name, err)
	}
	grants, err := s.store.Grants(ctx)
	return store.Authority{
		Caller: store.Caller{Token: "none"}, Grants: grants, Now: holds.Now,
		Token: store.Token{Owner: request.Name, Groups: request.Groups, Until: holds.Now.Add(store.UsualTokenPeriod)},
	}, err
}

// CreateToken shows the secret this once.
func (s *Server) CreateToken(ctx context.Context, request *apipb.CreateTokenRequest) (*apipb.CreateTokenResponse, error) {
	end, err := s.deadlineAfter(request.Period)
	if err != nil {
		return nil, err
	}
	token, bearer := access.Mint(store.Token{Owner: request.Owner, Description: request.Description, Until: end})
	for _, word := range request.Roles {
		role := access.FromRole(word)
		if role == "" {
			return nil, fault.New(fault.Invalid, "the role %s is none to limit a token to", word)
		}
		token.Roles = append(token.Roles, role)
	}
	for _, partition := range request.Partitions {
		token.Partitions = append(token.Partitions, intent.PartitionID(partition))
	}
	created, err := s.makeToken(ctx, token)
	if err != nil {
		return nil, err
	}
	holds, err := s.store.Authority(store.WithCaller(ctx, store.Caller{Token: created.ID}))
	return &apipb.CreateTokenResponse{Token: toToken(created), Secret: bearer, Grants: convertEach(holds.Effective(), toGrant)}, err
}

// makeToken has one stored, unless its owner has too many. The local user has no bound.
func (s *Server) makeToken(ctx context.Context, token store.Token) (store.Token, error) {
	most := s.quotas.Limits().Tokens
	if caller, _ := store.CallerOf(ctx); caller.Local {
		most = 0
	}
	return s.store.CreateToken(ctx, token, most)
}

// How many tokens a page has, if nothing is said, and at most.
const (
	usualTokens = 100
	mostTokens  = 1000
)

// ListTokens lists them a page at a time, the newest first.
func (s *Server) ListTokens(ctx context.Context, request *apipb.ListTokensRequest) (*apipb.ListTokensResponse, error) {
	size := usualTokens
	if request.Limit > 0 {
		size = int(min(request.Limit, mostTokens))
	}
	tokens, err := s.store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	if request.After != "" {
		at := slices.IndexFunc(tokens, func(t store.Token) bool { return t.ID == request.After })
		if at < 0 {
			return nil, fault.New(fault.Invalid, "the page token names no token that is listed").WithHint("list from the beginning")
		}
		tokens = tokens[at+1:]
	}
	response := &apipb.ListTokensResponse{}
	if len(tokens) > size {
		tokens = tokens[:size]
		response.Next = tokens[size-1].ID
	}
	response.Tokens = convertEach(tokens, toToken)
	return response, nil
}

func (s *Server) RevokeToken(ctx context.Context, request *apipb.RevokeTokenRequest) (*apipb.RevokeTokenResponse, error) {
	if request.Id == "" {
		return nil, fault.New(fault.Invalid, "no token was named").WithHint("lehr auth token list lists them")
	}
	revoked, err := s.store.RevokeToken(ctx, request.Id, request.Reason)
	if err != nil {
		return nil, err
	}
	return &apipb.RevokeTokenResponse{Token: toToken(revoked)}, nil
}

func toGrant(g store.Grant) *apipb.Grant {
	return &apipb.Grant{Subject: g.Subject, Role: access.ToRole(g.Role), Partition: string(g.Partition), Source: g.Source}
}

func toToken(t store.Token) *apipb.Token {
	return &apipb.Token{
		Id: t.ID, Owner: t.Owner, Description: t.Description, Roles: convertEach(t.Roles, access.ToRole), Kind: t.Kind,
		Partitions: convertEach(t.Partitions, func(p intent.PartitionID) string { return string(p) }), Groups: t.Groups,
		Created: toTime(t.Created), Until: toTime(t.Until), Revoked: toTime(t.Revoked),
	}
}
