package sim

import (
	"time"

	"lehr.dev/internal/ground/intent"
)

// asks are how often the store refused an asset's admission lately.
type asks struct {
	since time.Time
	count int
}

// refused counts refusals: what is refused waits until something changes, and
// does not ask again and again (L10).
func (l *Lab) refused(asset intent.AssetID) {
	const period, most = time.Minute, 200
	a := l.asked[asset]
	if l.Now().Sub(a.since) > period {
		a = asks{since: l.Now()}
	}
	if a.count++; a.count == most {
		l.wrong("L10", "the store refused to admit a push of %s %d times within %s", asset, most, l.Now().Sub(a.since))
	}
	l.asked[asset] = a
}
