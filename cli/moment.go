package cli

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/fault"
)

// moment reads a time as people write it: a time, a day, or how long ago; nil
// when there is none. Without a zone it is in this machine's.
func (s *session) moment(text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return timestamppb.New(at), nil
		}
	}
	if ago, ok := howLong(text); ok {
		return timestamppb.New(s.now().Add(-ago)), nil
	}
	return nil, fault.New(fault.Invalid, "%.100q is no time", text).
		WithHint("write 2026-11-21T08:00:00Z, \"2026-11-21 08:00\", or how long ago: 90m, 2h, 3d")
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
