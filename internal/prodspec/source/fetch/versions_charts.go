package fetch

import (
	"context"

	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source/artifact"
)

// listCharts lists the versions of a chart in an index. Two entries of one version with different
// digests are two artifacts of one name.
func (l *look) listCharts(ctx context.Context) error {
	index := l.remote.Charts + "/index.yaml"
	got, err := l.guard.get(ctx, request{url: index, login: l.remote.Login, most: mostIndex})
	if err != nil {
		return err
	}
	releases, err := artifact.ParseIndex(index, got.body, l.remote.Chart)
	if err != nil {
		return err
	}
	for _, release := range releases {
		version, ok := l.matches(release.Version)
		if !ok {
			continue
		}
		v := versionlist.Version{Version: version, Name: release.Version, Digest: release.Digest, Created: release.Time()}
		if len(v.Digest) == 64 {
			v.Digest = "sha256:" + v.Digest
		}
		for label, field := range ociFields {
			if text := release.Annotations[label]; text != "" {
				set(&v, field, text)
			}
		}
		l.apply(&v, func(place string) string { return release.Annotations[place] })
		if !artifact.IsDigest(v.Digest) {
			l.refuse(v, versionlist.Unreadable, "the index does not say its SHA-256: run helm repo index again")
			continue
		}
		l.add(v)
	}
	return nil
}
