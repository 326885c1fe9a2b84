package validate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// AcknowledgedLabel marks an incarnation whose guards a person let through.
// Guards count from there.
const AcknowledgedLabel = "lehr/acknowledged"

// DefaultShrink guards a partition whose policy does not say: a fifth may go
// in a day, and three always may, unless nothing remains. Changes are not
// limited, for enforcement itself takes them a few at a time.
func DefaultShrink() *intentpb.ShrinkGuard {
	return &intentpb.ShrinkGuard{MaxRemovedPercent: 20, MaxChangedPercent: 100, Floor: 3, Period: durationpb.New(24 * time.Hour)}
}

// A partition may not grow to growthFactor times its size within the period, counted
// as growthFrom assets where it has fewer: more likely a generator ran wild.
const (
	growthFrom   = 100
	growthFactor = 10
)

// limits are the numbers of a shrink guard.
type limits struct {
	removedPercent, changedPercent, floor int
	period                                time.Duration
}

func limitsOf(policy *intentpb.Policy) limits {
	guard := policy.GetShrink()
	if guard == nil {
		guard = DefaultShrink()
	}
	period := guard.GetPeriod().AsDuration()
	if period <= 0 {
		period = DefaultShrink().GetPeriod().AsDuration()
	}
	return limits{
		removedPercent: int(guard.GetMaxRemovedPercent()),
		changedPercent: int(guard.GetMaxChangedPercent()),
		floor:          int(guard.GetFloor()),
		period:         period,
	}
}

// stricter keeps the tighter of each limit: no commit disarms its own guard
// (S23).
func stricter(a, b limits) limits {
	return limits{
		removedPercent: min(a.removedPercent, b.removedPercent),
		changedPercent: min(a.changedPercent, b.changedPercent),
		floor:          min(a.floor, b.floor),
		period:         max(a.period, b.period),
	}
}

// StricterShrink is a guard with the tighter of each limit of two.
func StricterShrink(a, b *intentpb.ShrinkGuard) *intentpb.ShrinkGuard {
	l := stricter(limitsOf(&intentpb.Policy{Shrink: a}), limitsOf(&intentpb.Policy{Shrink: b}))
	return &intentpb.ShrinkGuard{
		MaxRemovedPercent: uint32(l.removedPercent), MaxChangedPercent: uint32(l.changedPercent), Floor: uint32(l.floor), Period: durationpb.New(l.period),
	}
}

// periodText is the period as people write it: 24h, not 24h0m0s.
func (l limits) periodText() string {
	text := l.period.String()
	if whole, ok := strings.CutSuffix(text, "m0s"); ok {
		text = whole + "m"
	}
	if whole, ok := strings.CutSuffix(text, "h0m"); ok {
		text = whole + "h"
	}
	return text
}

// measure is how much of a set of assets went, or changed, in the period.
type measure struct {
	// total is how many there were: "the 12 enforced assets".
	total       int
	description string
	// affected are those of them that the change touched, sorted.
	affected []intent.AssetID
}

// exceeds reports whether the part is larger than the limits allow.
func (m measure) exceeds(percent int, l limits, whole bool) bool {
	count := len(m.affected)
	if count == 0 {
		return false
	}
	if whole && count >= m.total {
		return true
	}
	return count > l.floor && count*100 > percent*m.total
}

// message tells the numbers, the limits and the first assets.
func (m measure) message(verb string, percent int, l limits, whole bool) string {
	text := fmt.Sprintf("%d of %s %s within %s (%.1f %%); at most %d %% may be, and up to %d always",
		len(m.affected), m.description, verb, l.periodText(), 100*float64(len(m.affected))/float64(max(m.total, 1)), percent, l.floor)
	if whole && len(m.affected) >= m.total {
		text = fmt.Sprintf("all of %s %s within %s, nothing remains", m.description, verb, l.periodText())
	}
	const mostShown = 5
	var names []string
	for _, asset := range m.affected[:min(len(m.affected), mostShown)] {
		names = append(names, string(asset))
	}
	if more := len(m.affected) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return text + ": " + strings.Join(names, ", ")
}

// guards holds a candidate that, with what was published in the period before
// it, removes or changes too much (S5, S23). A candidate that adds nothing to
// what is already published is not held for it (L3), nor is the first one.
func (j *judging) guards(ctx context.Context) error {
	if j.Base.IsZero() {
		return nil
	}
	l := limitsOf(j.CandidatePolicy)
	if j.HeadPolicy != nil {
		l = stricter(l, limitsOf(j.HeadPolicy))
	}
	period, err := j.period(ctx, l)
	if err != nil {
		return err
	}
	if period.removes {
		if err := j.guardRemovals(ctx, l, period); err != nil {
			return err
		}
	}
	if period.changes {
		m := period.measure(period.changed)
		if m.exceeds(l.changedPercent, l, false) {
			j.guard(intent.Finding{Rule: "change", Message: m.message("changed", l.changedPercent, l, false)})
		}
	}
	if most := growthFactor * max(period.start, growthFrom); period.adds && period.grown >= most {
		j.guard(intent.Finding{Rule: "growth", Message: fmt.Sprintf("the partition grows from %d assets to %d within %s; %d or more are held, for a generator may have gone wild", period.start, period.grown, l.periodText(), most)})
	}
	return nil
}

// guardRemovals compares with the heads of the period and, if anything was
// enforced, with what was: assets that no plugin serves neither water down
// the one nor escape the other.
func (j *judging) guardRemovals(ctx context.Context, l limits, period *period) error {
	heads := period.measure(period.removed)
	if err := j.leaveTurnedDown(ctx, &heads); err != nil {
		return err
	}
	if err := j.leaveReplaced(ctx, period, &heads); err != nil {
		return err
	}
	enforced, err := j.enforced(ctx, l, heads.affected)
	if err != nil {
		return err
	}
	for _, m := range []measure{enforced, heads} {
		if m.exceeds(l.removedPercent, l, true) {
			j.guard(intent.Finding{Rule: "shrink", Message: m.message("removed", l.removedPercent, l, true)})
			return nil
		}
	}
	return nil
}

// leaveTurnedDown takes assets out of the measure that were turned down: of
// these nothing is left to lose.
func (j *judging) leaveTurnedDown(ctx context.Context, m *measure) error {
	var affected []intent.AssetID
	for _, asset := range m.affected {
		record, err := j.record(ctx, asset)
		if err != nil {
			return err
		}
		if record.Absent {
			m.total--
			continue
		}
		affected = append(affected, asset)
	}
	m.affected = affected
	return nil
}

// record is an asset's enforced record; without one it is empty.
func (j *judging) record(ctx context.Context, asset intent.AssetID) (store.Enforced, error) {
	if err := ctx.Err(); err != nil {
		return store.Enforced{}, err
	}
	page, err := j.History.EnforcedPage(ctx, j.Base.Partition, asset.JustBefore(), 1)
	if err != nil || len(page) == 0 || page[0].Asset != asset {
		return store.Enforced{}, err
	}
	return page[0], nil
}

// enforced measures those of the assets that have an enforced record against
// all of the candidate that have one. An old record of an asset that left
// before the period does not count.
func (j *judging) enforced(ctx context.Context, l limits, removed []intent.AssetID) (m measure, _ error) {
	first, err := j.History.EnforcedPage(ctx, j.Base.Partition, "", 1)
	if err != nil || len(first) == 0 {
		return measure{}, err
	}
	for _, asset := range removed {
		record, err := j.record(ctx, asset)
		if err != nil {
			return measure{}, err
		}
		if record.Asset == asset {
			m.affected = append(m.affected, asset)
		}
	}
	if len(m.affected) == 0 {
		return measure{}, nil
	}
	remaining, err := j.countRemaining(ctx, enough(len(m.affected), l))
	m.total = len(m.affected) + remaining
	m.description = fmt.Sprintf("the %d enforced assets", m.total)
	return m, err
}

// enough is how many enforced assets must be left for the removals to pass:
// counting goes no further, so it costs what the removals are.
func enough(removed int, l limits) int {
	switch {
	case removed <= l.floor:
		return 1
	case l.removedPercent == 0:
		return math.MaxInt // never; the finding tells how many there are
	}
	return max(1, (removed*100+l.removedPercent-1)/l.removedPercent-removed)
}

// countRemaining counts enforced assets of the candidate, up to a number.
func (j *judging) countRemaining(ctx context.Context, most int) (count int, _ error) {
	var cursor intent.AssetID
	for count < most {
		page, err := j.History.EnforcedPage(ctx, j.Base.Partition, cursor, 1000)
		if err != nil || len(page) == 0 {
			return count, err
		}
		for _, record := range page {
			cursor = record.Asset
			member, err := j.member(ctx, record.Asset)
			if err != nil {
				return 0, err
			}
			if !member.Digest.IsZero() && !record.Absent {
				count++
			}
			if count == most {
				break
			}
		}
	}
	return count, nil
}

func sortedKeys(set map[intent.AssetID]bool) []intent.AssetID {
	keys := make([]intent.AssetID, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
