package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/files"
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

// maxSecret is how long a password may be.
const maxSecret = 4096

// secret reads a password. No message holds it.
func secret(from *sqlschemapb.Secret) (string, error) {
	switch source := from.GetSource().(type) {
	case *sqlschemapb.Secret_Env:
		value := os.Getenv(source.Env)
		if value == "" {
			return "", serve.Errorf(serve.Denied, "the plugin's environment has no variable %s for the password", source.Env).
				WithHint("set it for the program that starts the plugin; a plugin that Lehr starts sees only variables that begin with LEHR_")
		}
		return value, nil
	case *sqlschemapb.Secret_File:
		content, err := files.ReadForeign(source.File, files.MostGiven)
		if err != nil {
			return "", serve.Errorf(serve.Denied, "reading the password: %w", err).WithHint("the plugin's user must be able to read the file")
		}
		value := strings.TrimRight(string(content), " \t\r\n")
		if value == "" || len(value) > maxSecret {
			return "", serve.Errorf(serve.Invalid, "the file %s holds no password: it is empty, or longer than %d bytes", source.File, maxSecret).WithHint("write the password alone into it")
		}
		return value, nil
	}
	return "", nil
}
