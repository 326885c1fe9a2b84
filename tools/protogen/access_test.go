package main

import (
	"os"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
)

// A call that does not say who may make it is not generated.
func TestEveryCallSaysWhoMayMakeIt(t *testing.T) {
	contract, err := os.ReadFile("../../proto/lehr/api/v1/access.proto")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ option, want string }{
		"said":           {"option (access) = {role: ROLE_OPERATOR, scope: SCOPE_PARTITION};", ""},
		"by a field":     {`option (access) = {role: ROLE_VIEWER, scope: SCOPE_PARTITION, field: "id"};`, ""},
		"public":         {"option (access) = {scope: SCOPE_PUBLIC};", ""},
		"nothing":        {"", "it does not say who may call it"},
		"empty":          {"option (access) = {};", "it does not say who may call it"},
		"no scope":       {"option (access) = {role: ROLE_ADMIN};", "it does not say who may call it"},
		"no role":        {"option (access) = {scope: SCOPE_ALL};", "every other has one"},
		"a public role":  {"option (access) = {role: ROLE_VIEWER, scope: SCOPE_PUBLIC};", "every other has one"},
		"no such field":  {`option (access) = {role: ROLE_VIEWER, scope: SCOPE_PARTITION, field: "name"};`, `no text field "name"`},
		"a field of all": {`option (access) = {role: ROLE_VIEWER, scope: SCOPE_ALL, field: "id"};`, "is of no partition"},
		"a number":       {`option (access) = {role: ROLE_VIEWER, scope: SCOPE_PARTITION, field: "count"};`, `no text field "count"`},
	} {
		t.Run(name, func(t *testing.T) {
			const file = "lehr/api/v1/try.proto"
			_, err := compile(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{
				"lehr/api/v1/access.proto": string(contract),
				file: `edition = "2023"; package lehr.api.v1; import "lehr/api/v1/access.proto";
					service TryService { rpc Try(TryRequest) returns (TryResponse) { ` + c.option + ` } }
					message TryRequest { string id = 1; int32 count = 2; string partition = 3; } message TryResponse {}`,
			})}, file)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
