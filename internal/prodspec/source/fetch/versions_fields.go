package fetch

import (
	"strconv"
	"time"

	"lehr.dev/internal/ground/versionlist"
)

// apply sets metadata from where the definition says that it is found.
func (l *look) apply(v *versionlist.Version, value func(place string) string) {
	for field, place := range l.remote.Fields {
		if text := value(place); text != "" {
			set(v, field, text)
		}
	}
}

// set a field of source.MetadataFields. A time or a number that is none is not known.
func set(v *versionlist.Version, field, text string) {
	switch field {
	case "author":
		v.Author = text
	case "branch":
		v.Branch = text
	case "build":
		v.Build, _ = strconv.ParseUint(text, 10, 64)
	case "build_url":
		v.BuildURL = text
	case "commit":
		v.Commit = text
	case "created":
		v.Created = timeOf(text)
	case "digest":
		v.Digest = text
	case "message":
		v.Message = text
	case "name":
		v.Name = text
	case "pull_request":
		v.PullRequest = text
	case "repository":
		v.Repository = text
	case "status":
		v.Status = text
	case "version":
		v.Version = text
	}
}

// timeOf reads a time as programs write it: RFC 3339, RFC 1123, or seconds since 1970; zero: it is
// none.
func timeOf(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, time.RFC1123, time.RFC1123Z, "2006-01-02 15:04", "02-Jan-2006 15:04"} {
		if at, err := time.Parse(layout, text); err == nil && at.Year() > 1 {
			return at.UTC().Truncate(time.Second)
		}
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds > 0 && seconds < 253402300799 {
		return time.Unix(seconds, 0).UTC()
	}
	return time.Time{}
}
