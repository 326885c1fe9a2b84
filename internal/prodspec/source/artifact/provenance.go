package artifact

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
)

// MostProvenance is how many bytes a file of provenance has at most.
const MostProvenance = 1 << 20

// VerifyProvenance verifies that a file of Helm's provenance (NAME-VERSION.tgz.prov)
// is signed by a key, and that it is of an archive by its file name and digest.
func (k Key) VerifyProvenance(subject, archive, archiveDigest string, provenance []byte) (Signature, error) {
	refuse := func(format string, arguments ...any) (Signature, error) {
		return Signature{}, fault.New(fault.Invalid, "%s: its provenance "+format, append([]any{subject}, arguments...)...).
			WithHint("sign it with helm package --sign and the key that is listed; what was read last stays in use")
	}
	block, rest := clearsign.Decode(provenance)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return refuse("is no text signed by PGP")
	}
	signature, signer, err := openpgp.VerifyDetachedSignature(k.keyring, bytes.NewReader(block.Bytes), block.ArmoredSignature.Body, nil)
	if err != nil {
		return refuse("is not signed by the key that is listed: %w", err)
	}
	_, sums, ok := strings.Cut(string(block.Plaintext), "\n...\n")
	var message struct {
		Files map[string]string `yaml:"files"`
	}
	if err := yaml.Unmarshal([]byte(sums), &message); err != nil || !ok {
		return refuse("names no files")
	}
	if signed := message.Files[archive]; signed != archiveDigest {
		return refuse("is of other content: it has the digest %.100q for %s, which is %s", signed, archive, archiveDigest)
	}
	result := Signature{By: fmt.Sprintf("PGP %X", signer.PrimaryKey.Fingerprint)}
	if identity := signer.PrimaryIdentity(); identity != nil {
		result.By = fmt.Sprintf("%s (PGP %X)", identity.Name, signer.PrimaryKey.KeyId)
	}
	if !signature.CreationTime.IsZero() {
		result.At = signature.CreationTime.UTC()
	}
	return result, nil
}
