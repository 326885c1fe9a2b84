package artifact

import (
	"bytes"
	"errors"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
)

// VerifyClearsigned returns the text of a document that a key of PGP signed in place, as an
// InRelease of Debian is.
func (k Key) VerifyClearsigned(document []byte) ([]byte, error) {
	block, rest := clearsign.Decode(document)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it is no text signed by PGP")
	}
	_, _, err := openpgp.VerifyDetachedSignature(k.keyring, bytes.NewReader(block.Bytes), block.ArmoredSignature.Body, nil)
	return block.Plaintext, err
}

// VerifyDetached verifies a signature of PGP beside a document, in ASCII or binary.
func (k Key) VerifyDetached(document, signature []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(signature), []byte("-----BEGIN")) {
		_, err := openpgp.CheckArmoredDetachedSignature(k.keyring, bytes.NewReader(document), bytes.NewReader(signature), nil)
		return err
	}
	_, err := openpgp.CheckDetachedSignature(k.keyring, bytes.NewReader(document), bytes.NewReader(signature), nil)
	return err
}
