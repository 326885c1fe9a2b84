package prodspec

import (
	"context"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/versionlist"
)

// saveVersions has the store hold what the sources of versions list that applications name, for
// whoever delivers. What cannot be read now is listed as it was.
func (p *Pipeline) saveVersions(ctx context.Context, r *reading) error {
	for _, application := range r.definition.Policy.GetDeliveries() {
		name := application.GetVersions()
		for _, input := range r.inputs.Sources[name] {
			if !strings.HasSuffix(input.Name, ".json") || p.versions[name] == input.Digest {
				continue
			}
			content, err := r.inputs.Open(input)
			if err != nil {
				return err
			}
			listed, ok := parseVersions(content)
			if !ok {
				continue
			}
			if err := p.options.Store.SaveVersions(ctx, p.lease, name, listed); err != nil {
				return err
			}
			if p.versions == nil {
				p.versions = map[string]intent.Digest{}
			}
			p.versions[name] = input.Digest
		}
	}
	return nil
}

// parseVersions reads a list of versions; ok: it is one.
func parseVersions(content []byte) (listed []intent.Version, ok bool) {
	file, err := versionlist.Parse(content)
	if err != nil || file.Versions == nil {
		return nil, false
	}
	seen := map[string]bool{}
	for _, v := range file.Versions {
		name := v.Name
		if strings.TrimPrefix(v.Name, "v") != v.Version && v.Version != "" {
			name = v.Version // The name of a package's version is the file that it is in.
		}
		if name == "" || seen[name] {
			continue // Of one name the first counts: the source lists the newest first.
		}
		seen[name] = true
		one := intent.Version{VersionName: intent.VersionName{Name: name, Digest: v.Digest}, Commit: v.Commit, Build: v.Build}
		if !v.Created.IsZero() {
			one.Created = v.Created.UTC()
		}
		listed = append(listed, one)
	}
	return listed, true
}
