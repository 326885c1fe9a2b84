package artifact

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/fault"
)

const (
	// signature is the annotation of a layer that has it, in base64.
	signature = "dev.cosignproject.cosign/signature"
	// signedType is what a payload says that it is.
	signedType = "cosign container image signature"
	// MostSignatures of one artifact are looked at.
	MostSignatures = 20
	// MostPayload is how many bytes a payload has at most.
	MostPayload = 64 << 10
)

// SignatureTag is the tag under which cosign puts the signatures of what has a digest.
func SignatureTag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// Signatures are the layers of a manifest of signatures.
func (m Manifest) Signatures() (list []Layer) {
	for _, layer := range m.Layers {
		if layer.MediaType == signingType && layer.Annotations[signature] != "" && len(list) < MostSignatures {
			list = append(list, layer)
		}
	}
	return list
}

// NoSignature is the error of what nobody signed whose key is listed.
func NoSignature(subject string, cause error) error {
	return fault.New(fault.Invalid, "%s is not signed by the key that is listed: %w", subject, cause).
		WithHint("sign it: helm package --sign with a key of PGP, or cosign 2: cosign sign --key KEY --tlog-upload=false; what was read last stays in use")
}

// VerifyPayload verifies that a payload of cosign ("simple signing") is signed by a
// key, and that it is of a digest. The name of the repository in it is not compared,
// as cosign does by default: a mirror has another.
func (k Key) VerifyPayload(layer Layer, payload []byte, digest string) error {
	if Digest(payload) != layer.Digest {
		return errors.New("the payload is not what its digest says")
	}
	bytes, err := base64.StdEncoding.DecodeString(layer.Annotations[signature])
	if err != nil {
		return errors.New("the signature is not in base64")
	}
	if err := k.verify(payload, bytes); err != nil {
		return err
	}
	var signed struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &signed); err != nil || signed.Critical.Type != signedType {
		return errors.New("what is signed is no artifact")
	}
	if signed.Critical.Image.Digest != digest {
		return fmt.Errorf("what is signed is another artifact, %.100s", signed.Critical.Image.Digest)
	}
	return nil
}

func (k Key) verify(payload, signature []byte) error {
	sum, ok := sha256.Sum256(payload), false
	switch public := k.public.(type) {
	case *ecdsa.PublicKey:
		ok = ecdsa.VerifyASN1(public, sum[:], signature)
	case ed25519.PublicKey:
		ok = ed25519.Verify(public, payload, signature)
	case *rsa.PublicKey:
		ok = rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}
	if !ok {
		return errors.New("the signature is of another key, or of another content")
	}
	return nil
}

// Name is the key for people.
func (k Key) Name() string {
	der, err := x509.MarshalPKIXPublicKey(k.public)
	if err != nil {
		return "a key of cosign"
	}
	sum := sha256.Sum256(der)
	return fmt.Sprintf("cosign key %X", sum[:8])
}
