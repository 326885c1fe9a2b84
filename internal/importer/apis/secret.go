package apis

import (
	"context"
	"os"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/secret"
)

// ownSecrets reads variables and files of whoever imports, with that person's rights, so no
// list says which. The other places need what only the plugin links and its operator lists.
type ownSecrets struct{}

// mostSecret is the most bytes of a secret.
const mostSecret = 64 << 10

// Resolve implements endpoint.Secrets.
func (ownSecrets) Resolve(_ context.Context, _ secret.Request, ref *intentpb.SecretRef) (secret.Value, error) {
	switch source := ref.GetSource().(type) {
	case *intentpb.SecretRef_Env:
		value, ok := os.LookupEnv(source.Env)
		if !ok {
			return secret.Value{}, fault.New(fault.NotFound, "the variable %s is not set", source.Env).WithHint("set it for this command")
		}
		return secret.NewValue([]byte(value), secret.Digest{}), nil
	case *intentpb.SecretRef_File:
		content, err := files.Read(source.File, mostSecret)
		return secret.NewValue(content, secret.Digest{}), err
	}
	return secret.Value{}, fault.New(fault.Invalid, "an import reads secrets from variables and files, and this is %s", secret.Name(ref)).
		WithHint("give the import a list of its own, with env or file in that header")
}
