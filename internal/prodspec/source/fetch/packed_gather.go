package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

// gather fetches what a version has, or takes it from what is kept, and verifies that
// it has its digest and the signatures that it must have.
func (p *packed) gather(ctx context.Context, now found, keys []trusted) (gotten, error) {
	got := gotten{bodies: map[string][]byte{}, published: now.published, urls: []string{now.url}}
	var err error
	if p.remote.InRegistry {
		err = p.gatherFromRegistry(ctx, now, keys, &got)
	} else {
		err = p.gatherFromIndex(ctx, now, keys, &got)
	}
	if err != nil || p.remote.Chart == "" {
		return got, err
	}
	return got, p.addDependencies(ctx, now, &got)
}

func (p *packed) gatherFromIndex(ctx context.Context, now found, keys []trusted, got *gotten) error {
	body, err := p.archive(ctx, now)
	if err != nil {
		return err
	}
	got.add(artifact.Piece{Digest: now.digest, Size: int64(len(body)), Kind: artifact.PackedChart}, body)
	for _, key := range keys {
		q := p.from(now.url + ".prov")
		q.most = artifact.MostProvenance
		answer, err := p.guard.get(ctx, q)
		if notThere(err) {
			return artifact.NoSignature(p.subject(now), errUnsigned)
		}
		if err != nil {
			return err
		}
		if err := p.verifyChart(now, key, now.digest, answer.body, got); err != nil {
			return err
		}
	}
	return nil
}

// archive is the chart that an index names.
func (p *packed) archive(ctx context.Context, now found) ([]byte, error) {
	if body, ok := p.cache.get(now.digest, p.limits.PackedBytes); ok {
		return body, nil
	}
	answer, err := p.guard.get(ctx, p.from(now.url))
	if err != nil {
		return nil, err
	}
	if err := artifact.Verify(p.subject(now), now.digest, answer.body); err != nil {
		return nil, p.missingDigest(now, err)
	}
	return answer.body, nil
}

// from is a request for what an index names. It may lie on another host, which is
// shown no secret.
func (p *packed) from(address string) request {
	q := request{url: address, most: p.limits.PackedBytes, elsewhere: true}
	base, err := url.Parse(p.remote.Address)
	target, err2 := url.Parse(address)
	if err == nil && err2 == nil && base.Scheme == target.Scheme && base.Host == target.Host {
		q.login = p.remote.Login
	}
	return q
}

func (g *gotten) add(piece artifact.Piece, body []byte) {
	g.pieces = append(g.pieces, piece)
	g.bodies[piece.Digest] = body
}

func (p *packed) gatherFromRegistry(ctx context.Context, now found, keys []trusted, got *gotten) error {
	registry, err := newOCIRepository(p.guard, p.remote.Address, p.remote.Login)
	if err != nil {
		return err
	}
	text, _, err := registry.manifest(ctx, now.digest, imageTypes)
	if err != nil {
		return p.missingDigest(now, err)
	}
	subject := p.subject(now)
	manifest, err := artifact.ParseManifest(subject, text, p.limits)
	if err != nil {
		return err
	}
	got.published = manifest.Time()
	var provenance *artifact.Layer
	var pieces []artifact.Piece
	if p.remote.Chart != "" {
		var chart artifact.Layer
		if chart, provenance, err = manifest.Chart(subject); err == nil {
			pieces = []artifact.Piece{{Digest: chart.Digest, Size: chart.Size, Kind: artifact.PackedChart}}
		}
	} else {
		pieces, err = manifest.Pieces(subject)
	}
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !key.IsPGP() {
			err = p.verifySignature(ctx, registry, now, key, got)
		} else {
			err = p.verifyLayer(ctx, registry, now, key, pieces[0].Digest, provenance, got)
		}
		if err != nil {
			return err
		}
	}
	for _, piece := range pieces {
		body, ok := p.cache.get(piece.Digest, piece.Size)
		if !ok {
			if body, err = registry.blob(ctx, piece.Digest, piece.Size); err != nil {
				return err
			}
		}
		got.add(piece, body)
	}
	return nil
}

// verifyLayer verifies a chart by the provenance that lies beside it in a registry.
func (p *packed) verifyLayer(ctx context.Context, registry *ociRepository, now found, key trusted, chart string, provenance *artifact.Layer, got *gotten) error {
	if provenance == nil {
		return artifact.NoSignature(p.subject(now), errUnsigned)
	}
	if provenance.Size > artifact.MostProvenance {
		return tooLargeBy("the provenance of "+p.subject(now), provenance.Size, artifact.MostProvenance)
	}
	body, err := registry.blob(ctx, provenance.Digest, provenance.Size)
	if err != nil {
		return err
	}
	return p.verifyChart(now, key, chart, body, got)
}

func (p *packed) verifyChart(now found, key trusted, chart string, provenance []byte, got *gotten) error {
	signature, err := key.VerifyProvenance(p.subject(now), fmt.Sprintf("%s-%s.tgz", p.remote.Chart, now.version), chart, provenance)
	if err == nil {
		got.signature, got.key = signature, key.name
	}
	return err
}

// verifySignature verifies one of the signatures that cosign put beside a manifest.
func (p *packed) verifySignature(ctx context.Context, registry *ociRepository, now found, key trusted, got *gotten) error {
	subject := p.subject(now)
	text, _, err := registry.manifest(ctx, artifact.SignatureTag(now.digest), imageTypes)
	if notThere(err) {
		return artifact.NoSignature(subject, errUnsigned)
	}
	if err != nil {
		return err
	}
	manifest, err := artifact.ParseManifest("the signature of "+subject, text, p.limits)
	if err != nil {
		return err
	}
	refused := errUnsigned
	for _, layer := range manifest.Signatures() {
		if layer.Size > artifact.MostPayload {
			refused = errors.New("what is signed is too large")
			continue
		}
		payload, err := registry.blob(ctx, layer.Digest, layer.Size)
		if err != nil {
			return err
		}
		if refused = key.VerifyPayload(layer, payload, now.digest); refused == nil {
			got.signature, got.key = artifact.Signature{By: key.Key.Name()}, key.name
			return nil
		}
	}
	return artifact.NoSignature(subject, refused)
}

// mostDependencies are fetched for one chart.
const mostDependencies = 50

// addDependencies fetches the charts that a chart's Chart.lock names and that are not
// packed in it, from where it says, and puts them into charts/.
func (p *packed) addDependencies(ctx context.Context, now found, got *gotten) error {
	subject := p.subject(now)
	files, meta, err := artifact.Chart(subject, got.bodies[got.pieces[0].Digest], p.remote.Chart, now.version, p.limits)
	if err != nil {
		return err
	}
	missing, err := artifact.Missing(subject, files, meta)
	if err != nil {
		return err
	}
	if len(missing) > mostDependencies {
		return fault.New(fault.Invalid, "%s lacks %d charts that it depends on, and at most %d are fetched", subject, len(missing), mostDependencies).WithHint("pack them with it: helm package --dependency-update")
	}
	for _, d := range missing {
		if err := p.addDependency(ctx, d, got); err != nil {
			return fault.New(fault.KindOf(err), "%s depends on %s %s, which cannot be had: %w", subject, d.Name, d.Version, err).
				WithHint("pack it with the chart: helm package --dependency-update; what was read last stays in use")
		}
	}
	return nil
}

func (p *packed) addDependency(ctx context.Context, d artifact.Dependency, got *gotten) error {
	remote, err := dependency(d)
	if err != nil {
		return err
	}
	own, err := url.Parse(p.remote.Address)
	target, err2 := url.Parse(remote.Address)
	if err == nil && err2 == nil && own.Scheme == target.Scheme && own.Host == target.Host {
		remote.Login = p.remote.Login
	}
	keys, err := p.guard.keys(remote)
	if err != nil {
		return err
	}
	part := &packed{remote: remote, guard: p.guard, limits: p.limits, cache: p.cache}
	now, err := part.find(ctx, nil)
	if err != nil {
		return err
	}
	some := gotten{bodies: map[string][]byte{}}
	if remote.InRegistry {
		err = part.gatherFromRegistry(ctx, now, keys, &some)
	} else {
		err = part.gatherFromIndex(ctx, now, keys, &some)
	}
	if err != nil {
		return err
	}
	piece := some.pieces[0]
	if _, _, err := artifact.Chart(part.subject(now), some.bodies[piece.Digest], d.Name, d.Version, p.limits); err != nil {
		return err
	}
	body := some.bodies[piece.Digest]
	piece.Kind, piece.Path = artifact.File, fmt.Sprintf("charts/%s-%s.tgz", d.Name, d.Version)
	got.add(piece, body)
	got.urls = append(got.urls, remote.Address, now.url)
	got.dependencies++
	return nil
}

// dependency is where a chart lies that another's Chart.lock names.
func dependency(d artifact.Dependency) (source.Packed, error) {
	address, name := d.Repository, d.Name
	if strings.HasPrefix(address, "oci://") {
		address, name = address+"/"+d.Name, ""
	}
	remote, err := source.ParseChart(address, name)
	if err != nil {
		return remote, err
	}
	remote.Version = d.Version
	if wanted, err := artifact.ParseRange(d.Version); err != nil || !wanted.Exact() {
		return remote, fault.New(fault.Invalid, "Chart.lock names the version %.100q of %.100s, which is no single one", d.Version, d.Name).WithHint("run helm dependency update, and pack it again")
	}
	return remote, source.Remote{Packed: &remote}.Check()
}
