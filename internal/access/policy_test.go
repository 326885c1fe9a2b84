package access_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

func TestPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	err := os.WriteFile(path, []byte(`
access: v1
grants:
  - {role: admin, to: [group:platform]}
  - {role: operator, to: [group:sre, user:ann@example.com], partitions: [shop, web]}
  - {role: viewer, to: [everyone]}
oidc: {issuer: "https://accounts.example.com", client_id: lehr}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	got, err := access.ReadPolicy(path)
	if err != nil {
		t.Fatal(err)
	}
	want := access.Policy{
		Grants: []intent.Grant{
			{Subject: "group:platform", Role: intent.Admin},
			{Subject: "group:sre", Role: intent.Operator, Partition: "shop"},
			{Subject: "group:sre", Role: intent.Operator, Partition: "web"},
			{Subject: "user:ann@example.com", Role: intent.Operator, Partition: "shop"},
			{Subject: "user:ann@example.com", Role: intent.Operator, Partition: "web"},
			{Subject: "everyone", Role: intent.Viewer},
		},
		OIDC: access.OIDC{
			Issuer: "https://accounts.example.com", ClientID: "lehr", Audience: "lehr", NameClaim: "email", GroupsClaim: "groups",
			Scopes: []string{"openid", "email"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPolicyThatIsWrongIsRefused(t *testing.T) {
	const admin = "access: v1\ngrants:\n  - {role: admin, to: [user:ann]}\n"
	for name, c := range map[string]struct{ file, want string }{
		"empty":              {"", "p.yaml:1: the file says nothing"},
		"no version":         {"grants: [{role: admin, to: [user:ann]}]", "version v1"},
		"another version":    {strings.Replace(admin, "v1", "v2", 1), "version v1"},
		"unknown field":      {admin + "grant: []", `p.yaml:4: unknown field "grant"`},
		"unknown in a grant": {admin + "  - {role: viewer, to: [everyone], partition: shop}", `p.yaml:4: unknown field "partition"`},
		"unknown role":       {admin + "  - {role: owner, to: [user:bob]}", `p.yaml:4: "owner" is not a role`},
		"no role":            {admin + "  - {to: [user:bob]}", "p.yaml:4: a grant has no role"},
		"to nobody":          {admin + "  - {role: viewer}", "p.yaml:4: a grant is to nobody"},
		"subject":            {admin + "  - {role: viewer, to: [bob]}", `p.yaml:4: "bob" is not somebody`},
		"subject's type":     {admin + "  - {role: viewer, to: [3]}", "p.yaml:4: to must be a text"},
		"to no list":         {admin + "  - {role: viewer, to: everyone}", "p.yaml:4: to must be a list"},
		"partition":          {admin + "  - {role: viewer, to: [user:bob], partitions: [Not One]}", "p.yaml:4:"},
		"no partition":       {admin + "  - {role: viewer, to: [user:bob], partitions: []}", "p.yaml:4: a grant is for no partition"},
		"everyone operates":  {admin + "  - {role: operator, to: [everyone]}", "p.yaml:4: everyone cannot be operator"},
		"nobody is admin":    {"access: v1\ngrants: [{role: admin, to: [user:ann], partitions: [shop]}]", "nobody an admin of all"},
		"twice":              {admin + "access: v1", "already defined"},
		"two documents":      {admin + "---\naccess: v1", "more than one document"},
		"a list":             {"- a", "must be fields with values"},
		"no YAML":            {"access: [", "not valid YAML"},
		"issuer by http":     {admin + "oidc: {issuer: 'http://accounts.example.com', client_id: lehr}", "p.yaml:4: the issuer"},
		"no client":          {admin + "oidc: {issuer: 'https://accounts.example.com'}", "p.yaml:4: oidc has no client_id"},
		"no openid":          {admin + "oidc: {issuer: 'https://accounts.example.com', client_id: lehr, scopes: [email]}", "p.yaml:4: scopes lack openid"},
		"too large":          {admin + strings.Repeat("# \n", 1<<19), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := access.ParsePolicy("p.yaml", []byte(c.file))
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
