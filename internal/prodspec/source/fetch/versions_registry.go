package fetch

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"

	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source/artifact"
)

// imageTypes are what a tag of a registry may name.
const imageTypes = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"

// companion is a tag under which others put what belongs to a digest, as cosign and Docker do: no
// version.
var companion = regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.(sig|att|sbom))?$`)

// mostConfig is how many bytes the configuration of an image has at most.
const mostConfig = 4 << 20

// listRegistry lists the tags of a repository. What a digest leads to never changes, so each is
// read once; each look asks only which digest a tag has.
func (l *look) listRegistry(ctx context.Context) error {
	registry, err := newOCIRepository(l.guard, l.registryAddress(), l.remote.Login)
	if err != nil {
		return err
	}
	tags, err := registry.tags(ctx, l.limits.FileBytes)
	if err != nil {
		return err
	}
	slices.Sort(tags)
	var wanted []versionlist.Version
	for _, tag := range slices.Compact(tags) {
		if companion.MatchString(tag) {
			continue
		}
		version, ok := l.matches(tag)
		if !ok {
			continue
		}
		if l.remote.InRegistry {
			version = artifact.VersionOfTag(version)
		}
		wanted = append(wanted, versionlist.Version{Version: version, Name: tag})
	}
	looked, err := l.worthALook(wanted)
	if err != nil {
		return err
	}
	for _, v := range wanted {
		if !looked[v.Name] {
			l.found.Versions = append(l.found.Versions, v)
			continue
		}
		if err := l.addTag(ctx, registry, v); err != nil {
			return err
		}
	}
	return nil
}

// mostLooks at tags whose names do not say which are the newest.
const mostLooks = 5000

// worthALook tells which versions are asked for their digest. Where names say which are the newest,
// that is twice as many as are listed, for filters may refuse some, and what is kept; else all.
func (l *look) worthALook(wanted []versionlist.Version) (map[string]bool, error) {
	most := 2 * l.rules.Limit
	if l.remote.Order != nil && slices.Contains([]string{"created", "build"}, l.remote.Order.By) {
		if most = mostLooks; len(wanted) > most {
			return nil, tooMany(l.remote.Place(), most)
		}
	}
	rules := versionlist.Rules{Order: l.rules.Order, Limit: most, Keep: l.rules.Keep}
	looked := map[string]bool{}
	// One version may have two names.
	versions := map[string]bool{}
	arranged, _ := versionlist.Arrange(versionlist.Found{Versions: wanted}, rules, versionlist.List{}, l.options.now())
	for _, v := range arranged.Versions {
		versions[v.Version] = true
	}
	for _, a := range arranged.Unordered {
		versions[a.Version.Version] = true
	}
	for _, v := range wanted {
		looked[v.Name] = versions[v.Version]
	}
	return looked, nil
}

// addTag asks for the digest of a tag, and for what it leads to if that is not known.
func (l *look) addTag(ctx context.Context, registry *ociRepository, tag versionlist.Version) error {
	digest, err := registry.resolve(ctx, tag.Name, imageTypes)
	if err == nil && digest == "" {
		_, digest, err = registry.manifest(ctx, tag.Name, imageTypes)
	}
	if notThere(err) {
		return nil // It went since the tags were listed.
	}
	if err != nil {
		return err
	}
	key := tag.Name + "@" + digest
	v, ok := l.described[key]
	if v.Version = tag.Version; !ok {
		v = tag
		v.Digest = digest
		if err := l.describe(ctx, registry, &v); err != nil {
			return err
		}
		l.described[key] = v
	}
	if len(l.keys) == 0 && l.attestation == nil {
		l.add(v)
		return nil
	}
	if v.SignedBy, ok = l.verified[key]; !ok {
		signedBy, cause, refused, err := l.verify(ctx, registry, digest)
		if err != nil {
			return err
		}
		if refused != nil {
			l.refuse(v, cause, refused.Error())
			return nil
		}
		l.verified[key], v.SignedBy = signedBy, signedBy
	}
	l.add(v)
	return nil
}

// ociManifest is what metadata is read of.
type ociManifest struct {
	Annotations map[string]string `json:"annotations"`
	Config      artifact.Layer    `json:"config"`
	Manifests   []struct {
		Digest      string            `json:"digest"`
		Annotations map[string]string `json:"annotations"`
	} `json:"manifests"`
}

// describe reads what the manifest, that of the first platform, and the image's labels say of a
// version. The manifest counts first, then that of the platform, then the labels.
func (l *look) describe(ctx context.Context, registry *ociRepository, v *versionlist.Version) error {
	labels := map[string]string{}
	manifest, err := readManifest(ctx, registry, v.Digest)
	if err != nil {
		return err
	}
	merge(labels, manifest.Annotations)
	for _, platform := range manifest.Manifests {
		if platform.Annotations["vnd.docker.reference.type"] != "" || !artifact.IsDigest(platform.Digest) {
			continue // It attests another, and is no image.
		}
		if manifest, err = readManifest(ctx, registry, platform.Digest); err != nil && !notThere(err) {
			return err
		}
		merge(labels, manifest.Annotations)
		break
	}
	if err := l.describeByConfig(ctx, registry, manifest.Config, labels); err != nil {
		return err
	}
	for label, field := range ociFields {
		if text := labels[label]; text != "" {
			set(v, field, text)
		}
	}
	l.apply(v, func(place string) string { return labels[place] })
	return nil
}

// ociFields are annotations of the OCI image specification, and what they say.
var ociFields = map[string]string{
	"org.opencontainers.image.revision": "commit", "org.opencontainers.image.created": "created",
	"org.opencontainers.image.authors": "author", "org.opencontainers.image.source": "repository",
}

func readManifest(ctx context.Context, registry *ociRepository, digest string) (m ociManifest, err error) {
	text, _, err := registry.manifest(ctx, digest, imageTypes)
	if err != nil {
		return m, err
	}
	_ = json.Unmarshal(text, &m) // What says nothing about itself is a version as well.
	return m, nil
}

// describeByConfig reads the labels of an image, and when it was built.
func (l *look) describeByConfig(ctx context.Context, registry *ociRepository, config artifact.Layer, labels map[string]string) error {
	if !slices.Contains([]string{"application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"}, config.MediaType) ||
		!artifact.IsDigest(config.Digest) || config.Size > mostConfig {
		return nil
	}
	text, err := registry.blob(ctx, config.Digest, config.Size)
	if notThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var image struct {
		Created string `json:"created"`
		Config  struct{ Labels map[string]string }
	}
	if json.Unmarshal(text, &image) != nil {
		return nil
	}
	merge(labels, image.Config.Labels)
	merge(labels, map[string]string{"org.opencontainers.image.created": image.Created})
	return nil
}

// merge adds what is not there.
func merge(into, from map[string]string) {
	for key, value := range from {
		if into[key] == "" {
			into[key] = value
		}
	}
}
