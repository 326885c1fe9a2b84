package cli

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/internal/ground/calendar"
	"lehr.dev/internal/ground/fault"
)

// moment reads a time as people write it: a time, a day, or how long ago; nil
// when there is none. Without a zone it is in this machine's.
func (s *session) moment(text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return timestamppb.New(at), nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if wall, err := time.Parse(layout, text); err == nil {
			return timestamppb.New(calendar.Instant(wall, time.Local)), nil
		}
	}
	if ago, ok := howLong(text); ok {
		return timestamppb.New(s.now().Add(-ago)), nil
	}
	return nil, fault.New(fault.Invalid, "%.100q is no time", text).
		WithHint("write 2026-11-21T08:00:00Z, \"2026-11-21 08:00\", or how long ago: 90m, 2h, 3d")
}

// labelled is how a label is written, with or without its value.
var labelled = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*(=.*)?$`)

// asOf names an incarnation by at most one of the three; none: head.
type asOf struct {
	time               *timestamppb.Timestamp
	incarnation, label string
}

// asOf reads which incarnation is meant. --at takes an id, a time or a label,
// tried in that order.
func (s *session) asOf(q query) (asOf, error) {
	if q.at == "" {
		named := asOf{label: q.label}
		if q.incarnation != "" {
			named.incarnation = incarnationID(q.partition, q.incarnation)
		}
		return named, nil
	}
	if q.incarnation != "" || q.label != "" {
		return asOf{}, fault.New(fault.Invalid, "the incarnation is named in several ways").
			WithHint("name it by one of --at, --incarnation and --label")
	}
	_, err := strconv.ParseUint(q.at, 10, 64)
	if err == nil || strings.HasPrefix(q.at, "~") || strings.Contains(q.at, "@") && !strings.Contains(q.at, "=") {
		return asOf{incarnation: incarnationID(q.partition, q.at)}, nil
	}
	if at, err := s.moment(q.at); err == nil {
		return asOf{time: at}, nil
	}
	if labelled.MatchString(q.at) {
		return asOf{label: q.at}, nil
	}
	return asOf{}, fault.New(fault.Invalid, "%.100q is no time, incarnation or label", q.at).
		WithHint("write 2026-11-21T08:00:00Z, \"2026-11-21 08:00\", how long ago as 90m, 2h or 3d, an incarnation as 12, or a label as KEY=VALUE")
}

// howLong reads a duration, in days too.
func howLong(text string) (time.Duration, bool) {
	const day = 24 * time.Hour
	if days, ok := strings.CutSuffix(text, "d"); ok {
		count, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(count) * day, err == nil
	}
	ago, err := time.ParseDuration(text)
	return ago, err == nil && ago >= 0
}
