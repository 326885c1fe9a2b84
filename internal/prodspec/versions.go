package prodspec

import (
	"context"
	"encoding/json"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/store"
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
			file, err := versionlist.Parse(content)
			if err != nil || file.Versions == nil {
				continue
			}
			if err := p.saveHistory(ctx, name, file); err != nil {
				return err
			}
			if err := p.options.Store.SaveVersions(ctx, p.lease, name, versionsIn(file)); err != nil {
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

// saveHistory keeps the commits that versions are made of; where a source has none, none are kept.
func (p *Pipeline) saveHistory(ctx context.Context, source string, file versionlist.List) error {
	var text []byte
	if len(file.History) > 0 {
		var err error
		if text, err = json.Marshal(file.History); err != nil {
			return fault.New(fault.Internal, "the history of the source %s cannot be encoded: %w", source, err)
		}
	}
	return p.options.Store.PutBlobs(ctx, p.lease, store.CommitBlobs, map[string][]byte{source: text})
}

// versionsIn a list, as they are stored.
func versionsIn(file versionlist.List) (listed []intent.Version) {
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
		one := intent.Version{
			VersionName: intent.VersionName{Name: name, Digest: v.Digest}, Commit: v.Commit, Build: v.Build, Author: v.Author, Message: v.Message,
			PullRequest: v.PullRequest, BuildURL: v.BuildURL, Repository: v.Repository,
		}
		if !v.Created.IsZero() {
			one.Created = v.Created.UTC()
		}
		listed = append(listed, one)
	}
	return listed
}
