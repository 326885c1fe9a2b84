package tfplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// Digester returns the keyed digest of a sensitive value, by its place in the module.
type Digester func(place string, value []byte) (secret.Digest, error)

// Outside is the writer of a value that Terraform did not write.
const Outside = "outside of Terraform"

// Show makes of Terraform's plan the one that Lehr knows; without changes there is nothing to
// apply. isTurndown: the plan is one that destroys. Equal plans of two replicas have one digest,
// which covers what is done to which resource, each value, and the keyed digest of each that is
// sensitive. An error says that a sensitive value has no digest.
func (p *Plan) Show(digest Digester, isTurndown bool) (serve.Plan, error) {
	s := &showing{digest: digest, drift: map[string]Change{}, own: secret.NewRedactor()}
	for _, drift := range p.ResourceDrift {
		s.drift[drift.Address] = drift.Change
	}
	// What is sensitive anywhere is shown nowhere, so all of it is known before anything is shown.
	if err := s.learn(p); err != nil {
		return serve.Plan{}, err
	}
	onlyCreates := true
	for _, change := range p.ResourceChanges {
		if change.Mode != "managed" {
			continue
		}
		if count := len(s.changes); s.resource(change) && len(s.changes) > count {
			onlyCreates = onlyCreates && kindOf(change.Change.Actions) == created
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.OutputChanges)) {
		if change := p.OutputChanges[name]; change != nil && kindOf(change.Actions) != unchanged {
			s.values("output."+name, "", *change, false)
		}
	}
	plan := serve.Plan{Changes: s.changes}
	switch {
	case s.err != nil:
		return serve.Plan{}, s.err
	case len(s.changes) == 0:
		return plan, nil
	case isTurndown:
		plan.Action = serve.ActionDelete
		for i := range plan.Changes {
			plan.Changes[i].Destructive = true
		}
	case p.Resources() == 0 && onlyCreates:
		plan.Action = serve.ActionCreate
	default:
		plan.Action = serve.ActionUpdate
	}
	slices.SortStableFunc(plan.Changes, func(a, b serve.FieldChange) int { return strings.Compare(a.Path, b.Path) })
	plan = serve.Bound(plan)
	for i := range plan.Changes {
		c := &plan.Changes[i]
		c.Path, c.Current, c.Target, c.Reason = s.redact(c.Path), s.redact(c.Current), s.redact(c.Target), s.redact(c.Reason)
	}
	return plan, nil
}

// kind of what is done to a resource.
type kind int

const (
	unchanged kind = iota
	created
	updated
	replaced
	deleted
	forgotten
)

func kindOf(actions []string) kind {
	includes := func(action string) bool { return slices.Contains(actions, action) }
	switch {
	case includes("delete") && includes("create"):
		return replaced
	case includes("forget"):
		return forgotten
	case includes("delete"):
		return deleted
	case includes("create"):
		return created
	case includes("update"):
		return updated
	}
	return unchanged // no-op and read.
}

// showing collects what changes.
type showing struct {
	digest Digester
	// own knows what is sensitive in this plan.
	own     *secret.Redactor
	drift   map[string]Change
	changes []serve.FieldChange
	err     error
}

// redact replaces first what is sensitive in this plan, in words that follow from the plan alone,
// and then what else this process has read. What other modules have, and which was read first,
// must not change a digest that somebody approved.
func (s *showing) redact(text string) string { return secret.Redact(s.own.Redact(text)) }

// learn takes the digest of all that is sensitive before anything is shown.
func (s *showing) learn(p *Plan) error {
	take := func(address string, c Change) error {
		for _, side := range [][]leaf{flatten(c.Before, nil, c.BeforeSensitive), flatten(c.After, c.AfterUnknown, c.AfterSensitive)} {
			for _, l := range side {
				if !l.isSensitive {
					continue
				}
				where, value := place(address, l.path), sensitiveBytes(l)
				digest, err := s.digest(where, value)
				if err != nil {
					return fmt.Errorf("%s is sensitive: %w", where, err)
				}
				s.own.Know(where, value, digest)
			}
		}
		return nil
	}
	for _, change := range p.ResourceChanges {
		if err := take(change.Address, change.Change); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.OutputChanges)) {
		change := p.OutputChanges[name]
		if change == nil {
			continue
		}
		if err := take("output."+name, *change); err != nil {
			return err
		}
	}
	return nil
}

// sensitiveBytes is a value without the quotes of JSON: so it is found again where it is
// shown plainly.
func sensitiveBytes(l leaf) []byte {
	if text, ok := decode([]byte(l.text)).(string); ok {
		return []byte(text)
	}
	return []byte(l.text)
}

// resource shows what becomes of one; it reports whether anything does.
func (s *showing) resource(r ResourceChange) bool {
	what := kindOf(r.Change.Actions)
	address := r.Address
	if r.Deposed != "" {
		address += " (deposed " + r.Deposed + ")"
	}
	moved := r.PreviousAddress != "" && r.PreviousAddress != r.Address
	if what == unchanged && !moved && r.Change.Importing == nil {
		return false
	}
	whole := serve.FieldChange{Path: clip(address, mostPath), Reason: s.reason(r)}
	switch what {
	case created:
		whole.Target = "created"
	case replaced:
		whole.Current, whole.Target, whole.Destructive = "exists", "replaced: "+orderOf(r.Change.Actions), true
	case deleted:
		whole.Current, whole.Target, whole.Destructive = "exists", "destroyed", true
	case forgotten:
		whole.Current, whole.Target = "exists", "forgotten: it stays, and Terraform manages it no more"
	}
	if moved {
		whole.Current = strings.TrimSuffix("was "+r.PreviousAddress+", "+whole.Current, ", ")
		whole.Target = strings.TrimPrefix(whole.Target+", moved here", ", ")
	}
	if r.Change.Importing != nil {
		whole.Target = strings.TrimPrefix(whole.Target+", imported", ", ")
		if r.Change.Importing.ID != "" {
			whole.Target += " from " + clip(canonical(r.Change.Importing.ID), mostText)
		}
	}
	if what != updated || whole.Target != "" {
		s.changes = append(s.changes, whole)
	}
	if what != forgotten && what != unchanged {
		s.values(address, r.Address, r.Change, what == deleted || what == replaced)
	}
	return true
}

func orderOf(actions []string) string {
	if len(actions) > 0 && actions[0] == "create" {
		return "created anew, then destroyed"
	}
	return "destroyed, then created anew"
}

// values shows each value that changes. Of what is destroyed, too: an approval is of that.
func (s *showing) values(address, driftAddress string, c Change, isDestroyed bool) {
	oldValues, newValues := index(flatten(c.Before, nil, c.BeforeSensitive)), index(flatten(c.After, c.AfterUnknown, c.AfterSensitive))
	var driftBefore, driftAfter map[string]leaf
	if drift, ok := s.drift[driftAddress]; ok && driftAddress != "" {
		driftBefore = index(flatten(drift.Before, nil, drift.BeforeSensitive))
		driftAfter = index(flatten(drift.After, nil, drift.AfterSensitive))
	}
	paths := map[string]bool{}
	for path := range oldValues {
		paths[path] = true
	}
	for path := range newValues {
		paths[path] = true
	}
	for path := range paths {
		current, target := oldValues[path], newValues[path]
		if current == target {
			continue
		}
		change := serve.FieldChange{Path: clip(place(address, path), mostPath), Current: s.text(address, current), Target: s.text(address, target)}
		if driftBefore != nil && driftBefore[path] != driftAfter[path] {
			change.Writer = Outside
			change.Reason = "changed outside of Terraform, and by intent as well"
			if driftBefore[path] == target {
				change.Reason = "changed outside of Terraform; intent has not moved"
			}
		}
		if forces(c.ReplacePaths, path) {
			change.Reason = strings.TrimSuffix("forces replacement; "+change.Reason, "; ")
		}
		change.Destructive = isDestroyed && kindOf(c.Actions) == deleted
		s.changes = append(s.changes, change)
	}
}

// forces reports whether a path is one, or is below one, whose change forces a replacement.
func forces(paths [][]any, path string) bool {
	return slices.ContainsFunc(paths, func(parts []any) bool {
		forced := pathOf(parts)
		rest, isBelow := strings.CutPrefix(path, forced)
		return isBelow && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func index(leaves []leaf) map[string]leaf {
	all := make(map[string]leaf, len(leaves))
	for _, l := range leaves {
		all[l.path] = l
	}
	return all
}

// text of a value for people.
func (s *showing) text(address string, l leaf) string {
	switch {
	case l.isSensitive:
		digest, err := s.digest(place(address, l.path), sensitiveBytes(l))
		if err != nil {
			s.err = err
		}
		return digest.Words()
	case l.isUnknown:
		return unknownText
	}
	return clip(l.text, mostText)
}

// place of a value in the module.
func place(address, path string) string {
	if path == "" || strings.HasPrefix(path, "[") {
		return address + path
	}
	return address + "." + path
}
