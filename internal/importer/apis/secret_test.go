package apis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/secret"
)

// TestOwnSecrets: whoever imports reads own variables and files, and nothing else.
func TestOwnSecrets(t *testing.T) {
	t.Setenv("LEHR_TEST_OWN", "of-a-variable")
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("of-a-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, ref := range map[string]*intentpb.SecretRef{
		"of-a-variable": {Source: &intentpb.SecretRef_Env{Env: "LEHR_TEST_OWN"}},
		"of-a-file":     {Source: &intentpb.SecretRef_File{File: path}},
	} {
		value, err := ownSecrets{}.Resolve(t.Context(), secret.Request{}, ref)
		if err != nil || string(value.Reveal()) != want {
			t.Errorf("%s: %q, %v", want, value.Reveal(), err)
		}
	}
	for want, ref := range map[string]*intentpb.SecretRef{
		"LEHR_TEST_NONE":                   {Source: &intentpb.SecretRef_Env{Env: "LEHR_TEST_NONE"}},
		path + ".gone":                     {Source: &intentpb.SecretRef_File{File: path + ".gone"}},
		"reads secrets from variables and": {Source: &intentpb.SecretRef_Command{Command: "vault"}},
	} {
		if _, err := (ownSecrets{}).Resolve(t.Context(), secret.Request{}, ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
