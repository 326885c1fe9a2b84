package fetch

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

// signers are the keys by which versions must be signed, and that of an attestation; nil: none.
func (v *versions) signers() (keys []trusted, attestation *trusted, err error) {
	inRegistry := v.remote.Registry != "" || v.remote.InRegistry
	if v.remote.Debian != "" {
		if v.remote.Verify == "" {
			return nil, nil, nil
		}
		key, err := v.guard.key(v.remote.Verify)
		if err == nil && !key.IsPGP() {
			err = fault.New(fault.Invalid, "the key %s is of cosign, and indexes of Debian packages are signed by PGP", key.name).WithHint("name a keyring of PGP")
		}
		return []trusted{key}, nil, err
	}
	if !inRegistry {
		return nil, nil, nil
	}
	packed := packedOf(v.remote)
	if keys, err = v.guard.keys(packed); err != nil {
		return nil, nil, err
	}
	// Charts that are signed by PGP are verified when they are fetched, by their provenance.
	keys = slices.DeleteFunc(keys, func(k trusted) bool { return k.IsPGP() && k.name != v.remote.Verify })
	for _, key := range keys {
		if key.IsPGP() {
			return nil, nil, fault.New(fault.Invalid, "the key %s is of PGP, and versions in a registry are verified by cosign", key.name).WithHint("name a key of cosign")
		}
	}
	if v.remote.Attested != "" {
		key, err := v.guard.key(v.remote.Attested)
		if err == nil && key.IsPGP() {
			err = fault.New(fault.Invalid, "the key %s is of PGP, and attestations are signed by keys of cosign", key.name).WithHint("name a key of cosign")
		}
		if err != nil {
			return nil, nil, err
		}
		attestation = &key
	}
	return keys, attestation, nil
}

// registryAddress is the repository of a registry that is listed.
func (v *versions) registryAddress() string { return cmp.Or(v.remote.Registry, v.remote.Charts) }

// packedOf is what is listed, as those who look up keys know it.
func packedOf(v source.Versions) source.Packed {
	return source.Packed{Address: cmp.Or(v.Registry, v.Charts), Chart: v.Chart, InRegistry: true, Verify: v.Verify}
}

// verify verifies the signatures and the attestation of a version. Refused: it lacks one, and
// cause and reason say which. An error says that this cannot be known now.
func (l *look) verify(ctx context.Context, registry *ociRepository, digest string) (signedBy []string, cause versionlist.Cause, refused error, err error) {
	for _, key := range l.keys {
		refused, err = l.verifySignature(ctx, registry, key, digest)
		if err != nil || refused != nil {
			return nil, versionlist.Unsigned, refused, err
		}
		signedBy = append(signedBy, key.name)
	}
	if l.attestation == nil {
		return signedBy, "", nil, nil
	}
	refused, err = l.verifyAttestation(ctx, registry, *l.attestation, digest)
	return append(signedBy, l.attestation.name), versionlist.Unattested, refused, err
}

// signatureLayers are those that cosign put beside a manifest under a tag; none: it has no such tag.
func (l *look) signatureLayers(ctx context.Context, registry *ociRepository, tag string, take func(artifact.Manifest) []artifact.Layer) ([]artifact.Layer, error) {
	text, _, err := registry.manifest(ctx, tag, imageTypes)
	if notThere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	manifest, err := artifact.ParseManifest(tag+" of "+registry.address, text, artifact.DefaultLimits())
	if err != nil {
		return nil, nil //nolint:nilerr // What is no list of signatures is none.
	}
	return take(manifest), nil
}

func (l *look) verifySignature(ctx context.Context, registry *ociRepository, key trusted, digest string) (refused, err error) {
	layers, err := l.signatureLayers(ctx, registry, artifact.SignatureTag(digest), artifact.Manifest.Signatures)
	if err != nil {
		return nil, err
	}
	refused = errUnsigned
	for _, layer := range layers {
		if layer.Size > artifact.MostPayload {
			refused = errors.New("what is signed is too large")
			continue
		}
		payload, err := registry.blob(ctx, layer.Digest, layer.Size)
		if err != nil {
			return nil, err
		}
		if refused = key.VerifyPayload(layer, payload, digest); refused == nil {
			return nil, nil
		}
	}
	return named("it is not signed by the key "+key.name, refused), nil
}

func (l *look) verifyAttestation(ctx context.Context, registry *ociRepository, key trusted, digest string) (refused, err error) {
	layers, err := l.signatureLayers(ctx, registry, artifact.AttestationTag(digest), artifact.Manifest.Attestations)
	if err != nil {
		return nil, err
	}
	refused = errUnsigned
	for _, layer := range layers {
		if layer.Size > artifact.MostEnvelope {
			refused = errors.New("what is attested is too large")
			continue
		}
		envelope, err := registry.blob(ctx, layer.Digest, layer.Size)
		if err != nil {
			return nil, err
		}
		if refused = key.VerifyAttestation(envelope, digest, l.remote.Predicate); refused == nil {
			return nil, nil
		}
	}
	return named("it has no attestation "+l.remote.Predicate+" by the key "+key.name, refused), nil
}

// named says of a refusal what was asked for.
func named(what string, err error) error { return errors.New(what + ": " + err.Error()) }
