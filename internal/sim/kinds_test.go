package sim

import (
	"testing"
)

// Runs of each kind have the disturbances that are made for them, in some seed at least: two
// kinds may share seeds, and one of them be hidden by the other in all.
func TestEachKindOfRunHasItsOwnDisturbances(t *testing.T) {
	kinds := []struct {
		name string
		is   func(seed uint64) bool
		own  Kind
	}{
		{"rollouts", Rolls, RolloutNews}, {"fields", Sets, FieldRun}, {"judged", Judged, JudgeTurns}, {"ailing", Ails, Ailing},
		{"telling", Tells, Receiver}, {"hours", ByHours, HoursEnd}, {"braked", Braked, StopUnwritten}, {"caching", Caches, OldNews},
		{"hinting", Hints, HintsBreak}, {"rotating", Rotates, Rotation}, {"unserved", Unserved, PluginUnbound}, {"generations", Generations, GenerationNew},
		{"sharing", Shares, ManagerTakes}, {"outputs", AsksOutputs, OutputChanged}, {"declared health", DeclaresHealth, Declared}, {"overreaching rules", Overreaches, GenerationPinned}, {"circles", Circles, Circle},
		{"delivering", Delivers, VersionBuilt}, {"workflows", Releases, RunStarted}, {"upgrades", Upgrades, FirmwareNew}, {"under a common policy", UnderCommon, CommonChanged},
	}
	for _, kind := range kinds {
		found := false
		for seed := range uint64(108) {
			l := &Lab{options: Options{Seed: seed}}
			for _, own := range l.ownKinds() {
				found = found || kind.is(seed) && own.kind == kind.own
			}
		}
		if !found {
			t.Errorf("no run of the kind %q has %q", kind.name, kind.own)
		}
	}
}
