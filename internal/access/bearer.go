package access

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// bearerPrefix begins what is borne, so that it is known where it is found.
const bearerPrefix = "lehr_"

// idLength is enough for ids to differ; the secret is what nobody guesses.
const idLength = 12

// Mint gives a token its id, unless it has one, and the hash of a secret of 130
// random bits, and returns what its bearer sends: "lehr_<id>_<secret>". It is kept
// nowhere.
func Mint(token store.Token) (store.Token, string) {
	secret := rand.Text()
	token.Hash = sha256.Sum256([]byte(secret))
	if token.ID == "" {
		token.ID = strings.ToLower(rand.Text()[:idLength])
	}
	return token, bearerPrefix + token.ID + "_" + secret
}

// ParseBearer returns the id and the secret of what is borne.
func ParseBearer(bearer string) (id, secret string, err error) {
	const most = 100
	rest, ok := strings.CutPrefix(bearer, bearerPrefix)
	id, secret, whole := strings.Cut(rest, "_")
	if !ok || !whole || id == "" || secret == "" || len(bearer) > most {
		return "", "", fault.New(fault.Denied, "what is borne is no token: it is not of the form lehr_ID_SECRET")
	}
	return id, secret, nil
}
