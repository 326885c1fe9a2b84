package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/ordering"
	"lehr.dev/internal/prodspec/source"
)

// versions are those of an artifact, as one file, the newest first.
type versions struct {
	inMemory
	remote source.Versions
	guard  guard
	limits source.Limits
	// tags lists those of a repository.
	tags *mirror
}

func (v *versions) close() {
	if v.tags != nil {
		v.tags.close()
	}
}

func newVersions(remote source.Versions, root string, g guard, limits source.Limits) *versions {
	v := &versions{remote: remote, guard: g, limits: limits}
	if remote.Tags != nil {
		v.tags = newMirror(root, *remote.Tags, g)
	}
	return v
}

// version of an artifact.
type version struct {
	Version string `json:"version"`
	// Name by which it is found: a tag, or a file of a repository of packages.
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// mostVersions of one artifact.
const mostVersions = 500

func (v *versions) fetch(ctx context.Context, last *State) (*State, error) {
	var matches []version
	var err error
	location := cmp.Or(v.remote.Registry, v.remote.Debian)
	switch {
	case v.tags != nil:
		location = v.remote.Tags.URL
		matches, err = v.fromTags(ctx)
	case v.remote.Registry != "":
		matches, err = v.fromRegistry(ctx)
	default:
		matches, err = v.fromDebian(ctx)
	}
	if err != nil {
		return nil, err
	}
	if len(matches) == 0 {
		return nil, fault.New(fault.Unavailable, "%s has no version that counts", location).
			WithHint("an empty list is never taken for intent: mend match, or restore the versions; tags count that are like 1.2.3 or v1.2.3")
	}
	order := ordering.CompareSemver
	if v.remote.Debian != "" {
		order = ordering.CompareDebian
	}
	slices.SortStableFunc(matches, func(a, b version) int {
		return cmp.Or(-order(a.Version, b.Version), strings.Compare(a.Name, b.Name))
	})
	content, err := indented(map[string][]version{"versions": matches})
	if err != nil {
		return nil, err
	}
	state := newState(map[string][]byte{v.remote.File: content})
	if last != nil && source.Revision(last.Files) == source.Revision(state.Files) {
		return last, nil
	}
	return state, nil
}

// counts reports whether a tag is a version that was asked for, and which.
func (v *versions) counts(tag string) (string, bool) {
	if matched, _ := path.Match(v.remote.Match, tag); v.remote.Match != "" && !matched {
		return "", false
	}
	text := strings.TrimPrefix(tag, "v")
	return text, ordering.IsSemver(text)
}

func tooMany(location string) error {
	return fault.New(fault.Invalid, "%s has more than %d versions that count", location, mostVersions).WithHint("narrow them with match")
}

func (v *versions) fromTags(ctx context.Context) ([]version, error) {
	m := v.tags
	way, err := m.way(ctx)
	if err != nil {
		return nil, err
	}
	way.arguments, way.bare, way.most = []string{"ls-remote", "--quiet", "--tags", "--upload-pack=git-upload-pack", "--", way.address}, true, v.limits.FileBytes
	output, err := m.git(ctx, way)
	if err != nil {
		return nil, m.explained(err, way.secrets)
	}
	commits := map[string]string{}
	for line := range strings.Lines(string(output)) {
		commit, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name = strings.TrimPrefix(name, "refs/tags/")
		// What an annotated tag names comes after the tag itself.
		commits[strings.TrimSuffix(name, "^{}")] = commit
	}
	var matches []version
	for _, tag := range sorted(commits) {
		text, counts := v.counts(tag)
		if !counts {
			continue
		}
		if matches = append(matches, version{Version: text, Name: tag, Digest: commits[tag]}); len(matches) > mostVersions {
			return nil, tooMany(m.String())
		}
	}
	return matches, nil
}

// imageTypes are what a tag of a registry may name.
const imageTypes = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"

func (v *versions) fromRegistry(ctx context.Context) ([]version, error) {
	registry, err := newOCIRepository(v.guard, v.remote.Registry, v.remote.Login)
	if err != nil {
		return nil, err
	}
	tags, err := registry.tags(ctx, v.limits.FileBytes)
	if err != nil {
		return nil, err
	}
	var matches []version
	for _, tag := range tags {
		text, counts := v.counts(tag)
		if !counts {
			continue
		}
		if len(matches) == mostVersions {
			return nil, tooMany(v.remote.Registry)
		}
		_, digest, err := registry.manifest(ctx, tag, imageTypes)
		if err != nil {
			return nil, err
		}
		matches = append(matches, version{Version: text, Name: tag, Digest: digest})
	}
	return matches, nil
}

func (v *versions) fromDebian(ctx context.Context) ([]version, error) {
	got, err := v.guard.get(ctx, request{url: v.remote.Debian, login: v.remote.Login, most: v.limits.TotalBytes / 2})
	if err != nil {
		return nil, err
	}
	var index io.Reader = bytes.NewReader(got.body)
	switch path.Ext(v.remote.Debian) {
	case ".gz":
		if index, err = gzip.NewReader(index); err != nil {
			return nil, unreadable(v.remote.Debian, errors.New("it is not compressed as its name says"))
		}
	case "":
	default:
		return nil, fault.New(fault.Invalid, "%s is neither Packages nor Packages.gz", quoted(v.remote.Debian)).WithHint("name one of these")
	}
	bounded := &io.LimitedReader{R: index, N: v.limits.TotalBytes}
	var matches []version
	err = stanzas(bounded, func(fields map[string]string) error {
		if fields["Package"] != v.remote.Package {
			return nil
		}
		if fields["Version"] == "" || fields["SHA256"] == "" {
			return errors.New("an entry has no Version or SHA256")
		}
		if matched, _ := path.Match(v.remote.Match, fields["Version"]); v.remote.Match != "" && !matched {
			return nil
		}
		if len(matches) == mostVersions {
			return tooMany(v.remote.Debian)
		}
		matches = append(matches, version{Version: fields["Version"], Name: fields["Filename"], Digest: "sha256:" + fields["SHA256"]})
		return nil
	})
	if bounded.N <= 0 {
		return nil, tooLarge(v.remote.Debian, v.limits.TotalBytes)
	}
	if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok {
		err = unreadable(v.remote.Debian, err)
	}
	return matches, err
}

// stanzas reads an index of packages: paragraphs of "Field: value" (deb822).
func stanzas(index io.Reader, visit func(map[string]string) error) error {
	lines := bufio.NewScanner(index)
	lines.Buffer(nil, 1<<20)
	fields := map[string]string{}
	end := func() error {
		if len(fields) == 0 {
			return nil
		}
		defer clear(fields)
		return visit(fields)
	}
	for lines.Scan() {
		line := lines.Text()
		if strings.TrimSpace(line) == "" {
			if err := end(); err != nil {
				return err
			}
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			continue // The field before goes on; none of those that count does.
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("it has a line that is no field: %s", quoted(line))
		}
		fields[name] = strings.TrimSpace(value)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return end()
}
