package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
)

// Policy is what a server's policy file says: who may do what, and who vouches
// for people. It adds to what the partitions' definitions grant, and nothing
// takes away from either.
type Policy struct {
	Grants []intent.Grant
	// OIDC is zero when nobody can log in.
	OIDC OIDC
}

// OIDC is the OpenID Connect provider whose ID tokens are believed.
type OIDC struct {
	// Issuer is its URL, exactly as its tokens say it.
	Issuer string
	// ClientID of the command line, a public client.
	ClientID string
	// WebClientID of the status page, where it is another client, and the file
	// that holds its secret, if it has one.
	WebClientID, WebClientSecretFile string
	// Audience that tokens must be for; usually the client's id.
	Audience string
	// NameClaim and GroupsClaim hold a person's name ("email" where nothing is
	// said) and groups ("groups").
	NameClaim, GroupsClaim string
	// Scopes to ask for ("openid", "email" where nothing is said).
	Scopes []string
}

// maxPolicy bounds a policy file, in bytes.
const maxPolicy = 1 << 20

// ReadPolicy reads a policy file.
func ReadPolicy(path string) (Policy, error) {
	file, err := files.OpenGiven(path)
	if err != nil {
		return Policy{}, fault.New(fault.Unavailable, "reading the access policy: %w", err).WithHint("name a file that the server can read with --access FILE")
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxPolicy+1))
	if err != nil {
		return Policy{}, fault.New(fault.Unavailable, "reading the access policy %s: %w", path, err)
	}
	return ParsePolicy(path, data)
}

// ParsePolicy reads what a policy file holds. What is not known is refused, and
// so is a file that makes nobody an admin of all: none could mend it. The error
// names every mistake with its line.
func ParsePolicy(path string, data []byte) (Policy, error) {
	r := &policyReader{file: path}
	policy := r.policy(data)
	if len(r.mistakes) == 0 {
		return policy, nil
	}
	hint := ""
	if len(r.hints) > 0 {
		hint = r.hints[0]
	}
	return Policy{}, fault.New(fault.Invalid, "%s", strings.Join(r.mistakes, "\n")).WithHint("%s", hint)
}

// policyReader gathers all mistakes of a file in one go.
type policyReader struct {
	file            string
	mistakes, hints []string
}

func (r *policyReader) at(node *yaml.Node, hint, format string, arguments ...any) {
	r.mistakes = append(r.mistakes, fmt.Sprintf("%s:%d: ", r.file, node.Line)+fmt.Sprintf(format, arguments...))
	if hint != "" {
		r.hints = append(r.hints, hint)
	}
}

// check turns an error of a value into a mistake.
func (r *policyReader) check(node *yaml.Node, err error) {
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		r.at(node, cause.Hint, "%s", cause.Message)
	} else if err != nil {
		r.at(node, "", "%s", err)
	}
}

func (r *policyReader) policy(data []byte) (policy Policy) {
	first := &yaml.Node{Line: 1}
	if len(data) > maxPolicy {
		r.at(first, "", "the file is larger than %d bytes", maxPolicy)
		return policy
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	err := decoder.Decode(&document)
	if err == nil {
		// Decoding into a value refuses duplicate keys and excessive aliases.
		var value any
		err = document.Decode(&value)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.at(first, "write it as docs/operate/access.md shows", "not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return policy
	}
	if tagged, ok := unknownTag(&document); ok {
		r.at(tagged, "write the value that is meant", "the tag %.100s is not known", tagged.Tag)
		return policy
	}
	if len(document.Content) != 1 {
		r.at(first, "start it with access: v1", "the file says nothing")
		return policy
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		r.at(&more, "write one policy in one file", "the file holds more than one document")
		return policy
	}
	top := r.fields(document.Content[0], "", "access", "grants", "oidc")
	if version := r.text(top["access"], "access"); version != "v1" && len(r.mistakes) == 0 {
		r.at(document.Content[0], "start it with access: v1", "the file is no access policy of version v1")
	}
	for _, node := range r.list(top["grants"], "grants") {
		policy.Grants = append(policy.Grants, r.grants(node)...)
	}
	if node := top["oidc"]; node != nil {
		policy.OIDC = r.oidc(node)
	}
	if isAdmin := func(g intent.Grant) bool { return g.Role == intent.Admin && g.Partition == "" }; !slices.ContainsFunc(policy.Grants, isAdmin) && len(r.mistakes) == 0 {
		r.at(first, "add to grants: {role: admin, to: [user:NAME]}", "it makes nobody an admin of all partitions")
	}
	return policy
}

func (r *policyReader) grants(node *yaml.Node) (grants []intent.Grant) {
	fields := r.fields(node, "grants", "role", "to", "partitions")
	role, err := intent.ParseRole(r.text(fields["role"], "role"))
	if fields["role"] == nil {
		r.at(node, "write {role: operator, to: [group:NAME]}", "a grant has no role")
		return nil
	}
	r.check(fields["role"], err)
	if fields["to"] == nil {
		r.at(node, "write {role: operator, to: [group:NAME]}", "a grant is to nobody")
		return nil
	}
	partitions := []intent.PartitionID{""}
	if named := fields["partitions"]; named != nil {
		partitions = nil
		for _, item := range r.list(named, "partitions") {
			id, err := intent.ParsePartitionID(r.text(item, "partitions"))
			r.check(item, err)
			partitions = append(partitions, id)
		}
		if len(partitions) == 0 {
			r.at(named, "name some, or leave partitions out: then it is all", "a grant is for no partition")
		}
	}
	for _, item := range r.list(fields["to"], "to") {
		subject := r.text(item, "to")
		r.check(item, intent.CheckSubject(subject))
		if subject == intent.Everyone && role != intent.Viewer {
			r.at(item, "name groups or users; everyone can be viewer", "everyone cannot be %s", role)
		}
		for _, partition := range partitions {
			grants = append(grants, intent.Grant{Subject: subject, Role: role, Partition: partition})
		}
	}
	return grants
}

func (r *policyReader) oidc(node *yaml.Node) OIDC {
	fields := r.fields(node, "oidc", "issuer", "client_id", "web_client_id", "web_client_secret_file", "audience", "name_claim", "groups_claim", "scopes")
	o := OIDC{
		Issuer: r.text(fields["issuer"], "issuer"), ClientID: r.text(fields["client_id"], "client_id"),
		WebClientID: r.text(fields["web_client_id"], "web_client_id"), WebClientSecretFile: r.text(fields["web_client_secret_file"], "web_client_secret_file"),
		Audience: r.text(fields["audience"], "audience"), NameClaim: r.text(fields["name_claim"], "name_claim"),
		GroupsClaim: r.text(fields["groups_claim"], "groups_claim"),
	}
	for _, item := range r.list(fields["scopes"], "scopes") {
		o.Scopes = append(o.Scopes, r.text(item, "scopes"))
	}
	if issuer, err := url.Parse(o.Issuer); err != nil || issuer.Host == "" || issuer.Scheme != "https" && !(issuer.Scheme == "http" && isLocalHost(issuer.Host)) {
		r.at(node, "write issuer: https://accounts.example.com", "the issuer %.200q is no https URL", o.Issuer)
	}
	if o.ClientID == "" {
		r.at(node, "write client_id: NAME, as the provider knows it", "oidc has no client_id")
	}
	if o.Audience == "" {
		o.Audience = o.ClientID
	}
	if o.NameClaim == "" {
		o.NameClaim = "email"
	}
	if o.GroupsClaim == "" {
		o.GroupsClaim = "groups"
	}
	if o.Scopes == nil {
		o.Scopes = []string{"openid", "email"}
	}
	if !slices.Contains(o.Scopes, "openid") {
		r.at(node, "add openid to scopes", "scopes lack openid, and a provider gives no ID token without")
	}
	return o
}

// unknownTag finds a tag that nobody here knows.
func unknownTag(node *yaml.Node) (*yaml.Node, bool) { return document.UnknownTag(node) }

// fields returns the values of a mapping by key, refusing others.
func (r *policyReader) fields(node *yaml.Node, location string, allowed ...string) map[string]*yaml.Node {
	values := map[string]*yaml.Node{}
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		r.at(node, "known here: "+strings.Join(allowed, ", "), "%s must be fields with values", strings.TrimSpace("what stands "+location))
		return values
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if !slices.Contains(allowed, key.Value) {
			r.at(key, "known here: "+strings.Join(allowed, ", "), "unknown field %.100q", key.Value)
			continue
		}
		values[key.Value] = resolved(node.Content[i+1])
	}
	return values
}

// list returns the items of a list; of nothing, none.
func (r *policyReader) list(node *yaml.Node, field string) []*yaml.Node {
	if node == nil {
		return nil
	}
	node = resolved(node)
	if node.Kind != yaml.SequenceNode {
		r.at(node, fmt.Sprintf("write %s: [...]", field), "%s must be a list", field)
		return nil
	}
	return node.Content
}

// text is "" for nothing.
func (r *policyReader) text(node *yaml.Node, field string) string {
	if node == nil {
		return ""
	}
	node = resolved(node)
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" {
		r.at(node, fmt.Sprintf("write %s: %q", field, "text"), "%s must be a text", field)
		return ""
	}
	return node.Value
}

func resolved(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// Equal reports whether both say the same.
func (p Policy) Equal(other Policy) bool {
	a, b := p.OIDC, other.OIDC
	return slices.Equal(p.Grants, other.Grants) && slices.Equal(a.Scopes, b.Scopes) && a.Issuer == b.Issuer && a.ClientID == b.ClientID &&
		a.Audience == b.Audience && a.WebClientID == b.WebClientID && a.WebClientSecretFile == b.WebClientSecretFile && a.NameClaim == b.NameClaim && a.GroupsClaim == b.GroupsClaim
}
