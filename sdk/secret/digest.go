package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// DigestOf is HMAC-SHA-256 under the key of the operator's list, over the reference and
// the value, each part behind its length in eight bytes.
func DigestOf(key []byte, ref *intentpb.SecretRef, value []byte) Digest {
	mac := hmac.New(sha256.New, key)
	part := func(content []byte) {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(content)))
		mac.Write(length[:])
		mac.Write(content)
	}
	part([]byte("lehr.secret.v1"))
	domain := Domain(ref)
	part([]byte{byte(len(domain))})
	for _, text := range domain {
		part([]byte(text))
	}
	part(value)
	return Digest(mac.Sum(nil))
}
