package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const turndownType TypeName = "lehr.intent.v1.Turndown"

// TurnedDown reports whether the asset asks for the removal of its real thing,
// by its addon Turndown: then Diff compares production with nothing. What is
// there differs by ActionDelete; where nothing is, it is in sync and has no
// current state. A Kind that cannot remove answers CannotTurnDown.
func (i Intent) TurnedDown() bool { return turnedDown(i.Addons) }

// TurnedDown reports whether the asset asks for the removal of its real thing.
func (a Asset[T]) TurnedDown() bool { return turnedDown(a.Addons) }

func turnedDown(addons []Message) bool {
	return slices.ContainsFunc(addons, func(addon Message) bool { return addon.Type == turndownType })
}

// CannotTurnDown is the difference of an asset that asks for its removal, from
// a Kind that cannot remove.
func CannotTurnDown(name TypeName) Difference {
	return unknown(cannotTurnDown(name))
}

func cannotTurnDown(name TypeName) error {
	return fmt.Errorf("this plugin cannot turn down a %s", name)
}

// planTurndown compares the state with nothing. Fields that are left to
// production do not matter: all of it goes.
func (k *resourceKind[T]) planTurndown(asset Asset[T], state State[T]) (Change[T], error) {
	var zero T
	change := Change[T]{Asset: asset, State: state, Progress: func(string) {}, SaveMemo: noPush}
	if _, ok := k.resource.(Remover[T]); !ok {
		return change, cannotTurnDown(k.served.Type)
	}
	change.Target = zero.ProtoReflect().New().Interface().(T)
	if !present(state.Current) {
		return change, nil
	}
	changes := compare(state.Current.ProtoReflect(), zero.ProtoReflect())
	for i := range changes {
		changes[i].Destructive = true
		changes[i].Reason = state.Notes[changes[i].Path]
	}
	hideInPlan(changes)
	change.Plan = bound(Plan{Action: ActionDelete, Changes: changes})
	return change, nil
}

// turnedDownDifference is that of an asset that asks for its removal: it will
// have no capacity, and what is not there is neither healthy nor unhealthy.
func turnedDownDifference(difference Difference, exists bool) Difference {
	difference.Impacts = slices.Clone(difference.Impacts)
	for i := range difference.Impacts {
		difference.Impacts[i].Target = 0
	}
	if !exists {
		difference.Health = Health{}
	}
	return difference
}

// carry brings about what was admitted: a removal when the asset asks for it.
func (k *resourceKind[T]) carry(ctx context.Context, change Change[T], permits Permits) error {
	if !change.Asset.TurnedDown() {
		return protect("Apply", change.Asset.ID, func() error { return k.resource.Apply(ctx, change, permits) })
	}
	return protect("Remove", change.Asset.ID, func() error {
		return k.resource.(Remover[T]).Remove(ctx, change, permits)
	})
}

// heedsTurndown makes unknown what no answer to the asset's intent can be:
// deletion comes from an explicit addon only (S5), and an asset that has it is
// neither created nor changed, nor in sync while something is there.
func heedsTurndown(asset Intent, difference Difference) Difference {
	isTurnedDown, deletes := asset.TurnedDown(), difference.Plan.Action == ActionDelete
	switch {
	case difference.Outcome == Differs && isTurnedDown && !deletes,
		difference.Outcome == InSync && isTurnedDown && len(difference.Current) > 0:
		return CannotTurnDown(asset.Payload.Type)
	case difference.Outcome == Differs && !isTurnedDown && deletes:
		return unknown(errors.New("the plugin would delete what no addon asks to be turned down: a defect of the plugin"))
	}
	return difference
}
