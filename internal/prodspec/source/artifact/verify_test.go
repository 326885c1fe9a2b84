package artifact

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

func TestProvenanceThatHelmSigned(t *testing.T) {
	shop, err := ParseKeyring(real(t, "shop.gpg"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := ParseKeyring(real(t, "other.asc"))
	if err != nil {
		t.Fatal(err)
	}
	archive, provenance := "web-1.2.3.tgz", real(t, "charts/web-1.2.3.tgz.prov")
	digest := Digest(real(t, "charts/"+archive))
	signature, err := shop.VerifyProvenance("it", archive, digest, provenance)
	if err != nil || !strings.Contains(signature.By, "Shop Charts <charts@example.com> (PGP ") || signature.At.IsZero() {
		t.Fatalf("%+v, %v", signature, err)
	}
	edited := bytes.Replace(provenance, []byte("name: web"), []byte("name: wib"), 1)
	twice := append(append([]byte{}, provenance...), provenance...)
	for says, c := range map[string]struct {
		key             Key
		archive, digest string
		provenance      []byte
	}{
		"is not signed by the key":     {other, archive, digest, provenance},
		"invalid signature":            {shop, archive, digest, edited},
		"is of other content":          {shop, archive, Digest([]byte("other")), provenance},
		`has the digest "" for web-9`:  {shop, "web-9.tgz", digest, provenance},
		"is no text signed by PGP":     {shop, archive, digest, []byte("hello")},
		"it: its provenance is no tex": {shop, archive, digest, twice},
	} {
		if _, err := c.key.VerifyProvenance("it", c.archive, c.digest, c.provenance); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	for _, text := range []string{"", "hello", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"} {
		if _, err := ParseKeyring([]byte(text)); err == nil {
			t.Errorf("%q is a keyring", text)
		}
	}
}

// signed is a layer of cosign's with its payload, for a digest.
func signed(t testing.TB, key crypto.Signer, payload string) Layer {
	t.Helper()
	sum, options := sha256.Sum256([]byte(payload)), crypto.SignerOpts(crypto.SHA256)
	message := sum[:]
	if _, ok := key.(ed25519.PrivateKey); ok {
		message, options = []byte(payload), crypto.Hash(0)
	}
	bytes, err := key.Sign(rand.Reader, message, options)
	if err != nil {
		t.Fatal(err)
	}
	return Layer{MediaType: signingType, Digest: Digest([]byte(payload)), Annotations: map[string]string{signature: base64.StdEncoding.EncodeToString(bytes)}}
}

func payloadOf(digest string) string {
	return fmt.Sprintf(`{"critical":{"identity":{"docker-reference":"registry.example.com/web"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, digest)
}

func public(t testing.TB, key crypto.Signer) Key {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParsePublicKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestPayloadsOfCosign(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	primes, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	digest := Digest([]byte("manifest"))
	payload := payloadOf(digest)
	for _, key := range []crypto.Signer{curve, edwards, primes} {
		layer := signed(t, key, payload)
		if err := public(t, key).VerifyPayload(layer, []byte(payload), digest); err != nil {
			t.Errorf("%T: %v", key, err)
		}
	}
	layer, key := signed(t, curve, payload), public(t, curve)
	image := strings.Replace(payload, "cosign container", "another", 1)
	other := payloadOf(Digest([]byte("other")))
	broken := signed(t, curve, payload)
	broken.Annotations = map[string]string{signature: "?"}
	for says, c := range map[string]struct {
		key     Key
		layer   Layer
		payload string
	}{
		"of another key":                     {public(t, primes), layer, payload},
		"signature is of another key":        {public(t, edwards), layer, payload},
		"is not what its digest says":        {key, layer, payload + " "},
		"what is signed is no artifact":      {key, signed(t, curve, image), image},
		"what is signed is another artifact": {key, signed(t, curve, other), other},
		"is not in base64":                   {key, broken, payload},
	} {
		if err := c.key.VerifyPayload(c.layer, []byte(c.payload), digest); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	for _, text := range []string{"", "hello", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"} {
		if _, err := ParsePublicKey([]byte(text)); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}

func TestSignatureThatCosignMade(t *testing.T) {
	key, err := ParsePublicKey(real(t, "cosign.pub"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest("it", real(t, "web-1.2.3.signature.json"), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	digest := Digest(real(t, "web-1.2.3.manifest.json"))
	layers, payload := m.Signatures(), real(t, "web-1.2.3.payload.json")
	if len(layers) != 1 || SignatureTag(digest) != "sha256-43f473cf09e0d8aa25d1b87783743521b52b141a5e07c53b4d8d9b070ba8153e.sig" {
		t.Fatalf("%+v, %s", layers, digest)
	}
	if err := key.VerifyPayload(layers[0], payload, digest); err != nil {
		t.Error(err)
	}
	if err := key.VerifyPayload(layers[0], payload, Digest([]byte("another"))); err == nil {
		t.Error("it is a signature of another artifact")
	}
}

func TestManifests(t *testing.T) {
	m, err := ParseManifest("it", real(t, "web-1.2.3.manifest.json"), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	chart, provenance, err := m.Chart("it")
	if err != nil || provenance == nil || Verify("it", chart.Digest, real(t, "charts/web-1.2.3.tgz")) != nil || Verify("it", provenance.Digest, real(t, "charts/web-1.2.3.tgz.prov")) != nil || m.Time().IsZero() {
		t.Fatalf("%+v, %+v, %v", chart, provenance, err)
	}
	layer := func(rest string) string {
		return `{"layers": [{"digest": "sha256:` + strings.Repeat("0", 64) + `", ` + rest + `}]}`
	}
	for text, says := range map[string]string{
		`{`:  "unexpected end",
		`{}`: "has no layers",
		`{"mediaType": "application/vnd.oci.image.index.v1+json", "layers": [{}]}`:    "index of several",
		`{"layers": [{"digest": "md5:1"}]}`:                                           `layer with the digest "md5:1"`,
		layer(`"size": -1`):                                                           "and -1 bytes",
		layer(`"size": 100000000`):                                                    "has 100000000 bytes, and at most 20000000 are read",
		layer(`"size": 1, "mediaType": "text/plain"`):                                 "neither an archive of tar nor a file with a title",
		layer(`"size": 1, "annotations": {"org.opencontainers.image.title": "../x"}`): "leads out of it",
	} {
		m, err := ParseManifest("it", []byte(text), DefaultLimits())
		var pieces []Piece
		if err == nil {
			pieces, err = m.Pieces("it")
		}
		if err == nil {
			_, err = Assemble("it", pieces, DefaultLimits(), func(Piece) ([]byte, error) { return []byte("x"), nil })
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
