package access_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const document = "../../docs/operate/access.md"

// The document's table is the contract's, call by call: a change of who may
// call what is seen in it.
func TestTheDocumentSaysWhoMayCallWhat(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	where := map[apipb.Scope]string{
		apipb.Scope_SCOPE_PARTITION: "the partition", apipb.Scope_SCOPE_ALL: "all", apipb.Scope_SCOPE_OWN: "any: what one may read", apipb.Scope_SCOPE_PUBLIC: "everybody",
	}
	var want []string
	for _, call := range access.Calls() {
		role := string(call.Role)
		switch call.Scope {
		case apipb.Scope_SCOPE_PUBLIC:
			role = "none"
		case apipb.Scope_SCOPE_OWN:
			role = "any credential"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", strings.TrimPrefix(call.Name(), "lehr.api.v1."), role, where[call.Scope]))
	}
	got := regexp.MustCompile("(?m)^\\| `[A-Z]\\w+/\\w+` .*$").FindAllString(string(text), -1)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s has\n%s\nwant\n%s", document, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The document's policy is read as it stands.
func TestTheDocumentsPolicyIsRead(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(access: v1\n.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatal("it has none")
	}
	policy, err := access.ParsePolicy("access.yaml", example[1])
	if err != nil {
		t.Fatal(err)
	}
	may := func(name string, role intent.Role, partition intent.PartitionID, groups ...string) bool {
		for _, g := range policy.Grants {
			if g.Covers(name, groups, role, partition) {
				return true
			}
		}
		return false
	}
	if !may("a", intent.Admin, "", "platform") || !may("ann@example.com", intent.Operator, "shop") || may("ann@example.com", intent.Operator, "other") ||
		!may("anybody", intent.Viewer, "other") || policy.OIDC.Issuer == "" {
		t.Errorf("it says %+v", policy)
	}
}

func TestCallsAreFoundByName(t *testing.T) {
	for _, call := range access.Calls() {
		for _, name := range []string{call.Name(), "/" + call.Name()} {
			if found, ok := access.CallOf(name); !ok || found.Method != call.Method {
				t.Errorf("%s is not found", name)
			}
		}
	}
	if _, ok := access.CallOf("/lehr.api.v1.BrakeService/SetHolt"); ok {
		t.Error("one that is not there is found")
	}
	call, _ := access.CallOf("lehr.api.v1.IncarnationService/LabelIncarnation")
	for id, want := range map[string]intent.PartitionID{"shop@12": "shop", "shop": "shop", "": "", "@1": ""} {
		if got := call.Partition(&apipb.LabelIncarnationRequest{Id: id}); got != want {
			t.Errorf("%q is of %q, want %q", id, got, want)
		}
	}
}

func TestBearers(t *testing.T) {
	token, bearer := access.Mint(store.Token{Owner: "ann"})
	id, secret, err := access.ParseBearer(bearer)
	if err != nil || id != token.ID || len(secret) != 26 || strings.Contains(bearer, fmt.Sprintf("%x", token.Hash)) {
		t.Errorf("%s is %s, %s, %v", bearer, id, secret, err)
	}
	if _, again := access.Mint(store.Token{Owner: "ann"}); again == bearer {
		t.Error("two are the same")
	}
	for _, bearer := range []string{"", "lehr_", "lehr_a", "lehr_a_", "lehr__b", "lehr", "other_a_b", "LEHR_a_b", "lehr_a_" + strings.Repeat("b", 100)} {
		if _, _, err := access.ParseBearer(bearer); err == nil {
			t.Errorf("%q is a token", bearer)
		}
	}
}
