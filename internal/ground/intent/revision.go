package intent

import "strings"

// ShortRevision is enough of a source's revision for people: the first 12 characters,
// of a commit or a digest without its algorithm, and of a version with a digest (1.4.2@sha256:…) the version
// and so much of the digest.
func ShortRevision(revision string) string {
	const (
		most        = 12
		mostVersion = 40
		algorithm   = "@sha256:"
	)
	version, digest, ok := strings.Cut(revision, algorithm)
	if bare, ok := strings.CutPrefix(revision, algorithm[1:]); ok {
		return bare[:min(len(bare), most)]
	}
	if !ok {
		return revision[:min(len(revision), most)]
	}
	digest, beside, found := strings.Cut(digest, "+")
	short := version[:min(len(version), mostVersion)] + "@" + digest[:min(len(digest), most)]
	if found {
		short += "+" + beside
	}
	return short
}
