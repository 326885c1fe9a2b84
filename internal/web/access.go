package web

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

// accessKind is the page of who may do what, and its link.
const accessKind = "access"

// tokensShown are the newest.
const tokensShown = 100

// accessView is who the viewer is and may do, with a form that asks about anybody.
type accessView struct {
	*apipb.WhoAmIResponse
	// Everything: no grant limits the viewer, who is the local user.
	Everything            bool
	Name, In, GroupsAsked string
	Roles                 []option
	// Answer to the form; nil: nothing was asked.
	Answer  *apipb.CanResponse
	Command string
}

// showAccess shows who the viewer is, what the viewer may do, whether anybody may do something, and tokens without their secrets.
func showAccess(ctx context.Context, r *reader, at address) (page, error) {
	if _, err := r.readServer(ctx); err != nil {
		return page{}, err
	}
	person, err := r.Auth.WhoAmI(ctx, &apipb.WhoAmIRequest{})
	if err != nil {
		return page{}, err
	}
	view := accessView{WhoAmIResponse: person, Everything: person.By == "local", Name: at.query.Get("name"), In: at.query.Get("partition"), GroupsAsked: at.query.Get("groups")}
	chosen := at.query.Get("role")
	role := apipb.Role_ROLE_UNSPECIFIED
	for number, name := range roles() {
		view.Roles = append(view.Roles, option{Value: name, Text: name, Selected: name == chosen})
		if name == chosen {
			role = apipb.Role(number + 1)
		}
	}
	pageData := page{Title: "Access", Fixed: true, Form: true, Back: crumb{"home", home}}
	if chosen != "" && role == apipb.Role_ROLE_UNSPECIFIED {
		return page{}, fault.New(fault.Invalid, "%.40q is no role", chosen).WithHint("the roles are %s", strings.Join(roles(), ", "))
	}
	if role != apipb.Role_ROLE_UNSPECIFIED {
		request := &apipb.CanRequest{Role: role, Partition: view.In, Name: view.Name}
		request.Groups = strings.FieldsFunc(view.GroupsAsked, func(c rune) bool { return c == ',' || c == ' ' })
		words := []string{"auth", "can", chosen}
		if view.Name != "" {
			words = append(words, "--as", view.Name)
		}
		if len(request.Groups) > 0 {
			words = append(words, "--groups", strings.Join(request.Groups, ","))
		}
		view.Command = r.command(view.In, words...)
		if view.Answer, err = r.Auth.Can(ctx, request); err != nil {
			pageData.Parts = []part{makePart("person", "access-person", view), makePart("ask", "access-form", view), problem("problem", err)}
			return pageData, nil
		}
	}
	pageData.Parts = []part{makePart("person", "access-person", view), makePart("ask", "access-form", view)}
	tokens, err := r.Auth.ListTokens(ctx, &apipb.ListTokensRequest{Limit: tokensShown})
	if err != nil {
		return page{}, err
	}
	pageData.Parts = append(pageData.Parts, makePart("tokens", "access-tokens", tokensView{tokens}))
	return pageData, nil
}

// tokensView is tokens without their secrets.
type tokensView struct{ *apipb.ListTokensResponse }

// Revoke leads to the form that ends a token.
func (tokensView) Revoke(id string) actButton { return newActButton("", "revoke-token", id) }

// New leads to the form that makes a token.
func (tokensView) New() actButton { return newActButton("", "token-create", "") }

// roles lists the roles, in the order of the API.
func roles() []string {
	var names []string
	for number := range apipb.Role_name {
		if number != 0 {
			names = append(names, roleWord(apipb.Role(number)))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(roleNumber(a), roleNumber(b)) })
	return names
}

func roleNumber(word string) int32 { return apipb.Role_value["ROLE_"+strings.ToUpper(word)] }

// roleWord is a role as people say it.
func roleWord(role apipb.Role) string {
	return strings.ToLower(strings.TrimPrefix(role.String(), "ROLE_"))
}
