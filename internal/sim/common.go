package sim

import (
	"fmt"
	"math/rand/v2"
	"path"
	"time"

	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/prodspec"
)

// In runs under a common policy the server has one, beside the partition's own. It comes to let no
// push begin, for minutes, or only observes that; its file does not parse now and then, also
// while nothing may begin.

// Disturbances of runs under a common policy.
const (
	CommonChanged Kind = "the common policy changes"
	CommonBroken  Kind = "the common policy does not parse"
)

var commonKinds = []weighed{{CommonChanged, 50}, {CommonBroken, 30}}

// UnderCommon reports whether runs of a seed have a common policy.
func UnderCommon(seed uint64) bool { return seed%27 == 14 }

// underCommon reports whether this run has one.
func (l *Lab) underCommon() bool { return l.options.Definition == "" && UnderCommon(l.options.Seed) }

// commonPlace is where the common policy lies.
func (l *Lab) commonPlace() string { return path.Join(path.Dir(l.definition), "lehr-policy.yaml") }

// commonText is a common policy with a rule that lets no push begin, also none that goes back.
// Number makes it another than those before.
func commonText(mode string, number int) string {
	return fmt.Sprintf(`lehr: v1
rules:
  closed:
    owner: platform
    reason: number %d
    mode: %s
    for: all
    checks:
      frozen: {zone: UTC, rollbacks: true, freezes: [{from: 1990-01-01, until: 2199-01-01, reason: nobody is here}]}
`, number, mode)
}

// writeCommon makes the file of the common policy say something, and remembers that it may come
// to count.
func (l *Lab) writeCommon(mode string, number int) {
	text := commonText(mode, number)
	common, findings := prodspec.ParsePolicy(l.commonPlace(), []byte(text))
	_, digest, err := commonpolicy.Encode(common.Policy)
	if len(findings) > 0 || err != nil {
		l.wrong("simulator", "its common policy does not parse: %v, %v", findings, err)
		return
	}
	if l.commons == nil {
		l.commons = map[string]bool{}
	}
	l.commons[digest.Short()] = mode == "require"
	l.Sources.Write(map[string]string{l.commonPlace(): text})
}

// common reports whether a common policy of a digest lets pushes begin, and whether it is any
// that was written.
func (l *Lab) common(digest string) (closed, ok bool) {
	closed, ok = l.commons[digest]
	return closed, ok
}

// changesCommon has nothing begin from now on, for a while, or only observes that; things change
// meanwhile.
func (l *Lab) changesCommon(d Disturbance, r *rand.Rand) {
	mode := []string{"observe", "require", "require"}[r.IntN(3)]
	l.note(d.Kind, "common policy")
	l.mark("common: " + mode)
	l.tell("%s: %s", d, mode)
	l.writeCommon(mode, d.Number)
	l.change(d.Number, r, 1+r.IntN(2), edits)
	if mode == "observe" {
		return
	}
	l.people.Go("the common policy lets go", func() {
		if l.people.Wait(l.ctx, 5*time.Second+time.Duration(r.Int64N(int64(4*time.Minute))), nil) != nil || l.healing {
			return
		}
		l.writeCommon("observe", d.Number+100_000)
	})
}

// breaksCommon leaves a file that does not parse, or says half of what it said; somebody mends it
// later.
func (l *Lab) breaksCommon(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "common policy")
	l.tell("%s", d)
	texts := []string{"", "lehr: v1\nrules: {", "lehr: v1\nrules:\n  closed: {owner: platform, for: all, chekcs: {}}\n", "\x00", "lehr: v1\nrules:\n  closed:\n    owner: platform\n"}
	l.Sources.Write(map[string]string{l.commonPlace(): texts[r.IntN(len(texts))]})
	l.mark("common: does not parse")
	l.people.Go("the common policy is mended", func() {
		if l.people.Wait(l.ctx, 5*time.Second+time.Duration(r.Int64N(int64(2*time.Minute))), nil) != nil || l.healing {
			return
		}
		l.writeCommon("observe", d.Number+200_000)
	})
}
