package artifact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	// envelopeType is the media type of a layer with an attestation.
	envelopeType = "application/vnd.dsse.envelope.v1+json"
	// statementPayload is what an envelope says that it holds.
	statementPayload = "application/vnd.in-toto+json"
	// MostEnvelope is how many bytes an envelope has at most.
	MostEnvelope = 4 << 20
)

// AttestationTag is the tag under which cosign puts the attestations of what has a digest.
func AttestationTag(digest string) string {
	return strings.Replace(digest, ":", "-", 1) + ".att"
}

// Attestations are the layers of a manifest of attestations.
func (m Manifest) Attestations() (list []Layer) {
	for _, layer := range m.Layers {
		if layer.MediaType == envelopeType && len(list) < MostSignatures {
			list = append(list, layer)
		}
	}
	return list
}

// VerifyAttestation verifies that an envelope (DSSE v1) is signed by a key, and that it holds a
// statement (in-toto v0.1 or v1) of a type about a digest.
// Formats: github.com/secure-systems-lab/dsse protocol.md; github.com/in-toto/attestation.
func (k Key) VerifyAttestation(text []byte, digest, predicate string) error {
	var envelope struct {
		PayloadType string `json:"payloadType"`
		Payload     string `json:"payload"`
		Signatures  []struct {
			Sig string `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(text, &envelope); err != nil || envelope.PayloadType != statementPayload {
		return errors.New("it is no envelope of in-toto")
	}
	payload, err := decodeBase64(envelope.Payload)
	if err != nil {
		return errors.New("the payload is not in base64")
	}
	// What is signed, in DSSE's words the pre-authentication encoding.
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(envelope.PayloadType), envelope.PayloadType, len(payload))
	signed = append(signed, payload...)
	refused := errors.New("it has no signature")
	for _, s := range envelope.Signatures[:min(len(envelope.Signatures), MostSignatures)] {
		signature, err := decodeBase64(s.Sig)
		if err != nil {
			refused = errors.New("the signature is not in base64")
			continue
		}
		if refused = k.verify(signed, signature); refused == nil {
			break
		}
	}
	if refused != nil {
		return refused
	}
	return checkStatement(payload, digest, predicate)
}

// decodeBase64 reads both alphabets, as DSSE has it.
func decodeBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "-_") {
		return base64.URLEncoding.DecodeString(text)
	}
	return base64.StdEncoding.DecodeString(text)
}

func checkStatement(payload []byte, digest, predicate string) error {
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &statement); err != nil || !strings.HasPrefix(statement.Type, "https://in-toto.io/Statement/") {
		return errors.New("what is signed is no statement of in-toto")
	}
	if statement.PredicateType != predicate {
		return fmt.Errorf("it attests %.100q", statement.PredicateType)
	}
	for _, subject := range statement.Subject {
		if "sha256:"+subject.Digest["sha256"] == digest {
			return nil
		}
	}
	return errors.New("it attests another artifact")
}
