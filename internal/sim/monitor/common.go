package monitor

import "strings"

// askedInCommon takes up a record of a common policy that came to count: it is one that somebody
// wrote, so that no file which cannot be read is taken for one that asks nothing (S6).
func (m *Monitor) askedInCommon(r record) {
	digest, _, isChange := strings.Cut(r.Detail, " in place of ")
	if r.Verb != "common-policy" || !isChange || m.options.Common == nil {
		return
	}
	closed, ok := m.options.Common(digest)
	m.hold(ok, "S6", "the common policy %s counts, which nobody wrote", digest)
	m.closed = closed
}
