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
	domain := Domain(ref)
	parts := [][]byte{[]byte("lehr.secret.v1"), {byte(len(domain))}}
	for _, text := range domain {
		parts = append(parts, []byte(text))
	}
	return keyed(key, append(parts, value))
}

// DigestOfFound is the same of a value that no reference names: that a plugin found, for example
// in the state of a Terraform module. The place tells where, so that equal values of two places
// have two digests.
func DigestOfFound(key []byte, place string, value []byte) Digest {
	return keyed(key, [][]byte{[]byte("lehr.secret.found.v1"), []byte(place), value})
}

func keyed(key []byte, parts [][]byte) Digest {
	mac := hmac.New(sha256.New, key)
	for _, content := range parts {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(content)))
		mac.Write(length[:])
		mac.Write(content)
	}
	return Digest(mac.Sum(nil))
}
