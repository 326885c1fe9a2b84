package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// seal closes values that only who has the key can read or make.
type seal struct{ cipher.AEAD }

// newSeal derives a key from a secret, so that all who have the secret have it;
// without one, the key is this process's alone.
func newSeal(secret string) seal {
	if secret == "" {
		secret = rand.Text() + rand.Text()
	}
	const bytes = 32
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "lehr: a browser's login under way", bytes)
	if err != nil {
		panic(err) // Only for a length that is not ours.
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	sealed, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return seal{sealed}
}

func (s seal) close(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // Only for types that are not ours.
	}
	return base64.RawURLEncoding.EncodeToString(s.Seal(nil, nil, text, nil))
}

// open reports whether it was closed with this key.
func (s seal) open(text string, value any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	opened, err := s.Open(nil, nil, sealed, nil)
	return err == nil && json.Unmarshal(opened, value) == nil
}
