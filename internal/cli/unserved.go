package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unserved counts the assets that no plugin serves, by their type.
type unserved struct {
	assets int
	byType map[string]int
}

func (u *unserved) add(typeName string) {
	if u.byType == nil {
		u.byType = map[string]int{}
	}
	u.assets++
	u.byType[typeName]++
}

// exit returns what a command ends with that is to tell whether all is as it should be.
func (u unserved) exit() error {
	if u.assets > 0 {
		return exit{exitDiffers}
	}
	return nil
}

// printNotLookedAt tells of assets that were compared with nothing: those that no plugin
// serves, and those whose mode is off.
func (s *session) printNotLookedAt(u unserved, offCount int) {
	if u.assets > 0 {
		var types []string
		for _, name := range slices.Sorted(maps.Keys(u.byType)) {
			types = append(types, fmt.Sprintf("%d of type %s", u.byType[name], plain(name)))
		}
		fmt.Fprintf(s.Out, "Not looked at, for no plugin serves their type: %s (%s).\n", count(u.assets, "asset"), strings.Join(types, ", "))
		fmt.Fprintln(s.Out, "Bind their types under plugins in lehr.yaml; or, where they are only to be read, list them under models.")
	}
	if offCount > 0 {
		fmt.Fprintf(s.Out, "Not looked at, for their mode is off: %s.\n", count(offCount, "asset"))
	}
}
