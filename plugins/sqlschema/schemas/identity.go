package schemas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// maxKey is how long a key may be.
const maxKey = 512

// key names the database and the tables, views and functions that the asset
// declares. Two assets that declare the same ones have one key; those that
// share only some are told apart by the claims kept in the database.
func key(instance string, wanted database.Objects) serve.ResourceKey {
	claims := strings.Join(database.Claims(wanted), ",")
	if len(instance)+1+len(claims) > maxKey {
		claims = "sha256:" + sum(claims)
	}
	if len(instance)+1+len(claims) > maxKey {
		instance = instance[:100] + "…sha256:" + sum(instance)
	}
	return serve.ResourceKey(strings.ToValidUTF8(instance+"#"+claims, ""))
}

// meaning is what the meaning of statements depends on.
func meaning(r database.Request) string { return sum(r.URL + "\x00" + r.Schema + "\x00" + r.SQL) }

func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

// maxPassword is how long a password may be.
const maxPassword = 4096

// password reads the one that the asset names, if any. No message holds it. It only
// opens the database, and is no part of what a push brings about.
func (s *Schemas) password(ctx context.Context, a asset) (string, error) {
	if a.Payload.Password == nil {
		return "", nil
	}
	value, err := s.secrets.Resolve(ctx, a.SecretRequest(), a.Payload.Password)
	if err != nil {
		return "", fmt.Errorf("the password: %w", err)
	}
	defer value.Wipe()
	if len(value.Reveal()) > maxPassword {
		return "", serve.Errorf(serve.Invalid, "the password has more than %d bytes", maxPassword).WithHint("see what the field password names")
	}
	return string(value.Reveal()), nil
}
