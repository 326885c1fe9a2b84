package monitor

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// asksInCommon has a common policy count. What its text says is what the run knows of it: "closed" lets
// no push begin, "open" does, and nobody wrote any other.
func (r *run) asksInCommon(text string) {
	r.Helper()
	r.options.Common = func(digest string) (closed, ok bool) {
		switch digest {
		case intent.Sum("closed").Short():
			return true, true
		case intent.Sum("open").Short():
			return false, true
		}
		return false, false
	}
	r.must(r.SetCommonPolicy(r.Context(), store.CommonPolicy{Body: []byte(text), Digest: intent.Sum(text), Place: "/sim/lehr-policy.yaml"}, ann))
}

var inCommon = []breach{
	{"S23", "and the common policy lets none begin",
		func(r *run) { r.asksInCommon("closed"); r.forces("a") },
		func(r *run) { r.asksInCommon("closed"); r.asksInCommon("open"); r.admit("a") }},
	{"S6", "which nobody wrote",
		func(r *run) { r.asksInCommon("open"); r.asksInCommon("half of it") },
		func(r *run) { r.asksInCommon("open"); r.asksInCommon("closed") }},
}
