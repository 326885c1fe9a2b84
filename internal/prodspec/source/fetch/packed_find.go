package fetch

import (
	"context"
	"errors"
	"net/url"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source/artifact"
)

// mostIndex is how many bytes an index of charts has at most.
const mostIndex = 20 << 20

// find finds the version that is wanted, and its digest.
func (p *packed) find(ctx context.Context, last *State) (found, error) {
	if !p.remote.InRegistry {
		return p.findInIndex(ctx, last)
	}
	if p.remote.Chart == "" && p.remote.Tag == "" {
		return found{digest: p.remote.Digest}, nil
	}
	registry, err := newOCIRepository(p.guard, p.remote.Address, p.remote.Login)
	if err != nil {
		return found{}, err
	}
	tag, version := p.remote.Tag, p.remote.Tag
	if p.remote.Chart != "" {
		if version, err = p.newest(ctx, registry); err != nil {
			return found{}, err
		}
		tag = artifact.TagOf(version)
	}
	digest, err := registry.resolve(ctx, tag, imageTypes)
	if err == nil && digest == "" {
		_, digest, err = registry.manifest(ctx, tag, imageTypes)
	}
	if err != nil {
		return found{}, err
	}
	return p.pinned(found{version: version, digest: digest}), nil
}

// pinned has the digest count that the definition names, whatever the version has.
func (p *packed) pinned(f found) found {
	if p.remote.Digest != "" && p.remote.Digest != f.digest {
		f.elsewhere, f.digest = f.digest, p.remote.Digest
	}
	return f
}

// newest is the newest version of a chart in a registry that is wanted.
func (p *packed) newest(ctx context.Context, registry *ociRepository) (string, error) {
	wanted, err := artifact.ParseRange(p.remote.Version)
	if err != nil || wanted.Exact() {
		return p.remote.Version, err
	}
	tags, err := registry.tags(ctx, p.limits.FileBytes)
	if err != nil {
		return "", err
	}
	versions := make([]string, len(tags))
	for i, tag := range tags {
		versions[i] = artifact.VersionOfTag(tag)
	}
	version, ok := wanted.Newest(versions)
	if !ok {
		return "", artifact.NoVersion(p.remote.String(), p.remote.Chart, wanted)
	}
	return version, nil
}

func (p *packed) findInIndex(ctx context.Context, last *State) (found, error) {
	wanted, err := artifact.ParseRange(p.remote.Version)
	if err != nil {
		return found{}, err
	}
	index := p.remote.Address + "/index.yaml"
	q := request{url: index, login: p.remote.Login, most: mostIndex, marks: map[string]string{}}
	if last != nil {
		q.marks = last.Marks
	}
	got, err := p.guard.get(ctx, q)
	if err != nil {
		return found{}, err
	}
	if got.unchanged {
		return found{unchanged: true}, nil
	}
	releases, err := artifact.ParseIndex(index, got.body, p.remote.Chart)
	if err != nil {
		return found{}, err
	}
	release, err := artifact.Choose(index, p.remote.Chart, releases, wanted)
	if err != nil {
		return found{}, err
	}
	f := found{version: release.Version, digest: release.Digest, published: release.Time(), marks: got.marks}
	if f.digest == "" && p.remote.Digest == "" {
		return f, fault.New(fault.Invalid, "%s does not say the digest of %s %s", index, p.remote.Chart, release.Version).
			WithHint("run helm repo index again, or write digest: sha256:… of the archive")
	}
	if f.digest == "" {
		f.digest = p.remote.Digest
	}
	if f.url, err = resolveURL(index, release.URLs[0]); err != nil {
		return f, err
	}
	return p.pinned(f), nil
}

// resolveURL is where an index says that an archive lies, relative to itself or not.
func resolveURL(index, text string) (string, error) {
	base, err := url.Parse(index)
	if err != nil {
		return "", fault.New(fault.Invalid, "%s is no URL", quoted(index))
	}
	target, err := base.Parse(text)
	if err != nil || target.User != nil || target.Host == "" || target.Scheme != "https" && target.Scheme != base.Scheme {
		return "", fault.New(fault.Invalid, "%s says that an archive lies at %s, which is not read", index, quoted(text)).WithHint("name it by a path relative to the index, or by https")
	}
	return target.String(), nil
}

// missingDigest says of content that a registry does not have what the definition pins.
func (p *packed) missingDigest(now found, err error) error {
	if now.elsewhere == "" {
		return err
	}
	return fault.New(fault.Invalid, "%s has the digest %s, and the definition pins %s, which cannot be had: %w", p.subject(now), now.elsewhere, now.digest, err).
		WithHint("find out who changed it, or write the digest that it has")
}

// errUnsigned is the cause of what has no signature at all.
var errUnsigned = errors.New("it has none")
