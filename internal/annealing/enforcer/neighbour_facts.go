package enforcer

import (
	"fmt"
	"math"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// neighbourFacts is what one look at an asset tells its neighbours: how much it
// serves and expects, and which version it declares. It is kept only while a
// neighbour asks for it, or while the asset differs.
type neighbourFacts struct {
	// at is when production was seen so; model: nothing is there to be seen.
	at    time.Time
	model bool
	// effective and pinned say of which target.
	effective intent.Digest
	pinned    intent.Sequence
	inSync    bool
	// turndown: the target asks for the removal of the real thing.
	turndown bool
	// empty: nothing is there.
	empty   bool
	amounts map[string]amount
	// impacts are what the plugin reports by itself.
	impacts []intent.Impact
	// declares is the version at the target; moves: a push may lower it.
	declares declared
	moves    bool
	// present is the version that is there, if the plugin shows it.
	present declared
}

// amount of one dimension, or why it is not to be had.
type amount struct {
	check.Amount
	err error
}

// declared is the version that some content declares.
type declared struct {
	text string
	err  error
	// none: it has no Version addon.
	none bool
}

// reported takes over what the plugin reports. It may lie (S26).
func (s *neighbourFacts) reported(id intent.AssetID, d intent.Difference) {
	for _, impact := range d.Impacts {
		quantity := amount{Amount: check.Amount{Current: impact.Current, Target: impact.Target}}
		if !isAmount(impact.Current) || !isAmount(impact.Target) {
			quantity.err = fmt.Errorf("the plugin of %s reports that %s goes from %g to %g, which is no amount", id, impact.Dimension, impact.Current, impact.Target)
		}
		if s.turndown {
			quantity.Target = 0
		}
		s.setAmount(impact.Dimension, quantity)
	}
}

// isAmount reports whether a number that a plugin reports can be an amount.
func isAmount(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }

func (s *neighbourFacts) setAmount(dimension string, quantity amount) {
	if s.amounts == nil {
		s.amounts = map[string]amount{}
	}
	s.amounts[dimension] = quantity
}

// evaluate reads an amount from intent and from what is there, by the same
// expression. What cannot be read is broken, never a guess (S11).
func (s *neighbourFacts) evaluate(rules *ruling, content intent.Asset, dimension, text string, d intent.Difference) (result amount) {
	expression, err := rules.Compile(text, content.Payload.Type)
	if err == nil && !s.turndown {
		result.Target, err = expression.Number(content)
	}
	if err != nil {
		result.err = fmt.Errorf("how much of %s %s has at its target cannot be told by %q: %w", dimension, content.ID, text, err)
		return result
	}
	reported, ok := s.amounts[dimension]
	switch {
	case s.empty:
	case len(d.Current) > 0 && !s.inSync:
		if result.Current, err = expression.Number(presentAsset(content, d)); err != nil {
			result.err = fmt.Errorf("how much of %s %s has now cannot be told by %q: %w", dimension, content.ID, text, err)
		}
	case s.inSync:
		result.Current = result.Target
	case ok && reported.err == nil:
		result.Current = reported.Current
	default:
		result.err = fmt.Errorf("how much of %s %s has now is not known: its plugin shows neither the state that is there nor the amount", dimension, content.ID)
	}
	return result
}

// own is what a check that asks outside looks at of the asset.
func (s *neighbourFacts) own(rules *ruling, content intent.Asset, c *check.Configured, d intent.Difference) (own check.Own) {
	own.Labels, own.Unlabelled = c.LabelsOf(content)
	if c.Sized != nil {
		serves := s.serves(rules, content, *c.Sized, d)
		own.Serves, own.Unsized = serves.Amount, serves.err
	}
	if c.Protection != nil && own.Unlabelled == nil {
		own.Before, own.Unlabelled = c.Ask(check.PhaseBefore, check.Subject{
			Partition: d.Incarnation.Partition, Asset: content, Effective: d.Effective, Plan: d.Plan, Digest: d.Plan.Digest(),
		})
	}
	return own
}

// serves is how much the asset serves, and would, in the words of a check.
func (s *neighbourFacts) serves(rules *ruling, content intent.Asset, size check.Sized, d intent.Difference) amount {
	if size.Expression != "" {
		outcome, err := rules.leave(content, d)
		if err != nil {
			return amount{err: err}
		}
		return s.evaluate(rules, outcome, size.Expression, size.Expression, d)
	}
	quantity, ok := s.amount(size.Dimension)
	if !ok {
		quantity.err = fmt.Errorf("%s has no Capacity in the dimension %s, and its plugin reports none", content.ID, size.Dimension)
	}
	return quantity
}

// presentAsset is the asset as its plugin found it.
func presentAsset(content intent.Asset, d intent.Difference) intent.Asset {
	content.Payload.Bytes = d.Current
	return content
}

// declaredIn reads the version that a content declares.
func declaredIn(rules *ruling, content intent.Asset) declared {
	addon := &intentpb.Version{}
	if ok, err := schema.Addon(content, addon); err != nil || !ok {
		return declared{err: err, none: err == nil}
	}
	expression, err := rules.Compile(addon.Expression, content.Payload.Type)
	if err != nil {
		return declared{err: err}
	}
	text, err := expression.Text(content)
	return declared{text: text, err: err}
}

// versionMoves reports whether a push may lower the declared version: it
// changes it, and is not known to raise it.
func (s *neighbourFacts) versionMoves(rules *ruling, content intent.Asset, enforced *intent.Asset, d intent.Difference) bool {
	previous := declared{none: true}
	if enforced != nil {
		previous = declaredIn(rules, *enforced)
	}
	s.present.none = true
	if s.empty || s.declares.none && previous.none {
		return false
	}
	if len(d.Current) > 0 {
		if now := declaredIn(rules, presentAsset(content, d)); now.err == nil && !now.none {
			previous, s.present = now, now
		}
	}
	if order, ok := s.falls(); ok && order <= 0 {
		return false // It rises, or stays.
	}
	return previous.err != nil || s.declares.err != nil || previous.none != s.declares.none || previous.text != s.declares.text
}

// falls compares the version that is there with the one at the target:
// positive when a push lowers it.
func (s *neighbourFacts) falls() (order int, isKnown bool) {
	if s.empty || s.present.err != nil || s.present.none || s.declares.err != nil || s.declares.none {
		return 0, false
	}
	order, err := check.Compare(s.present.text, s.declares.text)
	return order, err == nil
}

// amount of a dimension, when it is known.
func (s *neighbourFacts) amount(dimension string) (amount, bool) {
	if s.empty && (s.turndown || s.inSync) {
		return amount{}, true
	}
	quantity, ok := s.amounts[dimension]
	return quantity, ok
}

// agrees reports whether an asset that was in sync still is, as it was.
func (s *neighbourFacts) agrees(d intent.Difference) bool {
	return s.inSync && d.Outcome == intent.InSync && len(d.Unmanaged) == 0 && slices.Equal(s.impacts, d.Impacts)
}

// lifts reports whether what others declare to the asset matters to a push of
// it: it is to go, changes its version, comes to expect more, or nobody knows.
func (s *neighbourFacts) lifts() bool {
	// A Capacity addon may list all but what others go by.
	if s.turndown || s.moves || len(s.impacts) == 0 {
		return true
	}
	for _, quantity := range s.amounts {
		if quantity.err != nil || quantity.Rises() {
			return true
		}
	}
	return false
}
