package artifact

import (
	"errors"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
)

// Release is one version of a chart in an index of Helm.
type Release struct {
	Version string   `yaml:"version"`
	URLs    []string `yaml:"urls"`
	// Digest of the archive: 64 digits, with or without sha256: before them.
	Digest  string `yaml:"digest"`
	Created string `yaml:"created"`
	// Annotations of its Chart.yaml.
	Annotations map[string]string `yaml:"annotations"`
}

// Time of the release; zero: the index does not say it.
func (r Release) Time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, r.Created)
	if err != nil {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Second)
}

// ParseIndex reads the versions of one chart of an index.yaml.
func ParseIndex(subject string, text []byte, chart string) ([]Release, error) {
	var index struct {
		APIVersion string               `yaml:"apiVersion"`
		Entries    map[string]yaml.Node `yaml:"entries"`
	}
	err := yaml.Unmarshal(text, &index)
	if err == nil && (index.APIVersion == "" || index.Entries == nil) {
		err = errors.New("it has no apiVersion or no entries")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s is no index of charts: %w", subject, err).
			WithHint("name the folder that holds index.yaml, as for helm repo add; what was read last stays in use")
	}
	node, ok := index.Entries[chart]
	if !ok {
		return nil, fault.New(fault.Unavailable, "%s has no chart %s", subject, chart).WithHint("helm search repo lists those that it has; what was read last stays in use")
	}
	var releases []Release
	if err := node.Decode(&releases); err != nil {
		return nil, fault.New(fault.Unavailable, "%s says of the chart %s what cannot be read: %w", subject, chart, err).WithHint("run helm repo index again")
	}
	return releases, nil
}

// Choose finds the newest release that is wanted.
func Choose(subject, chart string, releases []Release, wanted Range) (Release, error) {
	byVersion := map[string]Release{}
	var versions []string
	for _, r := range releases {
		if _, duplicate := byVersion[r.Version]; duplicate && wanted.Has(r.Version) {
			return Release{}, fault.New(fault.Invalid, "%s has %s %.100q twice", subject, chart, r.Version).WithHint("run helm repo index again")
		}
		byVersion[r.Version] = r
		versions = append(versions, r.Version)
	}
	version, ok := wanted.Newest(versions)
	if !ok {
		return Release{}, NoVersion(subject, chart, wanted)
	}
	r := byVersion[version]
	if len(r.Digest) == 64 {
		r.Digest = "sha256:" + r.Digest
	}
	if r.Digest != "" && !IsDigest(r.Digest) {
		return r, fault.New(fault.Invalid, "%s says of %s %s the digest %.100q, which is none of SHA-256", subject, chart, version, r.Digest).WithHint("run helm repo index again")
	}
	if len(r.URLs) == 0 {
		return r, fault.New(fault.Invalid, "%s does not say where %s %s lies", subject, chart, version).WithHint("run helm repo index again")
	}
	return r, nil
}

// NoVersion is the error of a chart without a version that is wanted.
func NoVersion(subject, chart string, wanted Range) error {
	return fault.New(fault.Unavailable, "%s has no version of the chart %s that is %s", subject, chart, wanted).
		WithHint("publish one, or mend version; what was read last stays in use")
}
