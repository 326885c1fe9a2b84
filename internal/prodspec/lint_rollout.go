package prodspec

import (
	"fmt"
	"slices"

	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/selection"
)

// staged is a rollout, and which of its stages have assets.
type staged struct {
	*course.Course
	// hasAssets is by list and stage, groups are those of the stages that follow each other by one.
	hasAssets map[string]bool
	groups    map[string]map[string]bool
	// fields are the pointers that it sets, each with the first asset and its stage.
	fields map[string]pointed
	// shared is what one field would bring to two stages at once; nil: nothing.
	shared *[2]pointed
	any    bool
}

type pointed struct {
	asset intent.AssetID
	stage string
	field string
}

// newStaged has seen no asset. What cannot be read was refused before.
func (l *linter) newStaged() (list []*staged, err error) {
	all, err := course.All(rule.New(l.set), l.definition.Policy)
	for _, c := range all {
		list = append(list, &staged{Course: c, hasAssets: map[string]bool{}, groups: map[string]map[string]bool{}, fields: map[string]pointed{}})
	}
	return list, err
}

// stagesOf a list of the rollout's: "stages", "emergency" or "rollback".
func (s *staged) stagesOf(list string) []selection.Stage {
	if list == "rollback" {
		return s.Back().Stages
	}
	return s.Policy(list == "emergency").Stages
}

// see an asset.
func (s *staged) see(asset intent.Asset) error {
	selects, err := s.Selects(asset)
	if err != nil || !selects {
		return nil // A finding tells of the error.
	}
	target, err := s.Target(asset)
	if err != nil {
		return err
	}
	s.any = true
	for list, name := range map[string]string{"stages": target.Stage, "emergency": target.Emergency, "rollback": target.Rollback} {
		s.hasAssets[list+" "+name] = true
		stages := s.stagesOf(list)
		if at := slices.IndexFunc(stages, func(stage selection.Stage) bool { return stage.Name == name }); at >= 0 && stages[at].By != nil {
			if s.groups[list+" "+name] == nil {
				s.groups[list+" "+name] = map[string]bool{}
			}
			s.groups[list+" "+name][stages[at].By(target)] = true
		}
	}
	if s.ByPins() {
		return nil
	}
	field, err := s.Pointer(asset)
	if err != nil {
		return nil // A finding tells of it.
	}
	now := pointed{asset.ID, target.Stage, field}
	if first, ok := s.fields[field]; !ok {
		s.fields[field] = now
	} else if first.stage != now.stage && s.shared == nil {
		s.shared = &[2]pointed{first, now}
	}
	return nil
}

// rollouts warns of stages that no asset belongs to, or none of a group, of fields that bring to a later
// stage what an earlier one is to try, and of validations that nothing uses.
func (l *linter) rollouts() {
	used := map[string]bool{}
	for i, s := range l.staged {
		for _, name := range s.Spec().Validate {
			used[name] = true
		}
		places, at := l.definition.RolloutPlaces[i], "rollouts."+s.Name()
		if !s.any {
			continue // A finding tells of it already.
		}
		lists := []string{"stages"}
		if len(s.Spec().Emergency) > 0 {
			lists = append(lists, "emergency")
		}
		if len(s.Spec().Rollback) > 0 {
			lists = append(lists, "rollback")
		}
		for _, list := range lists {
			for j, stage := range s.stagesOf(list) {
				field, groups := fmt.Sprintf("%s[%d]", list, j), s.groups[list+" "+stage.Name]
				subject := fmt.Sprintf("the stage %s of the rollout %s", stage.Name, s.Name())
				missing := slices.IndexFunc(stage.Order, func(name string) bool { return !groups[name] })
				switch {
				case !s.hasAssets[list+" "+stage.Name]:
					l.add(places[field].Line, at+"."+field, "no asset belongs to "+subject, "look whether its scopes and where say what is meant, and whether a stage before it has them all")
				case len(groups) == 1 && groups[""]:
					l.add(places[field].Line, at+"."+field, fmt.Sprintf("no asset of %s has what its by names, so all of them are one group", subject), "name a scope, or a label, that its assets have")
				case stage.By != nil && missing >= 0:
					l.add(places[field].Line, at+"."+field, fmt.Sprintf("no asset of %s is in the group %s, which its order names", subject, stage.Order[missing]), "write the group as its assets have it, or leave it out")
				}
			}
		}
		if s.shared != nil {
			first, second := s.shared[0], s.shared[1]
			l.add(places["by.field"].Line, at+".by.field", fmt.Sprintf("the field %s is that of %s in the stage %s and of %s in the stage %s, so both change at once", first.field, first.asset, first.stage, second.asset, second.stage),
				"put into the pointer what tells them apart, as /clusters/{scope.cluster}/version")
		}
	}
	for _, v := range l.definition.Policy.GetValidations() {
		if !used[v.GetName()] {
			l.add(l.definition.Lines["validations"], "validations."+v.GetName(), fmt.Sprintf("no rollout uses the validation %s", v.GetName()), "name it in the validate of one, or remove it")
		}
	}
}
