package artifact

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// Key verifies signatures: a keyring of PGP, for Helm's provenance, or a public key
// of cosign.
type Key struct {
	keyring openpgp.EntityList
	public  crypto.PublicKey
}

// IsPGP reports whether it is a keyring of PGP.
func (k Key) IsPGP() bool { return k.keyring != nil }

// ParseKeyring reads public keys of PGP, in binary or in ASCII.
func ParseKeyring(text []byte) (Key, error) {
	read := openpgp.ReadKeyRing
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN")) {
		read = openpgp.ReadArmoredKeyRing
	}
	keyring, err := read(bytes.NewReader(text))
	if err == nil && len(keyring) == 0 {
		err = errors.New("it has no key")
	}
	return Key{keyring: keyring}, err
}

// ParsePublicKey reads the key of cosign in PEM (cosign.pub): of ECDSA, Ed25519 or
// RSA.
func ParsePublicKey(text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return Key{}, errors.New("it is no public key in PEM")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	switch public.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey, *rsa.PublicKey:
	default:
		if err == nil {
			err = fmt.Errorf("it is a key of the kind %T", public)
		}
	}
	return Key{public: public}, err
}

// Signature is who signed, and when; zero: it does not say when.
type Signature struct {
	By string
	At time.Time
}
