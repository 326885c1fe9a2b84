package serve

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxChanges is how many field changes a plan lists; the rest is one more
// change that carries their digest.
const maxChanges = 1000

// compare lists the fields in which two messages of one type differ, sorted
// by path. An invalid (nil) current lists everything that is set in target.
func compare(current, target protoreflect.Message) []FieldChange {
	d := &differ{}
	d.messages("", current, target)
	slices.SortFunc(d.changes, func(a, b FieldChange) int { return cmp.Compare(a.Path, b.Path) })
	return d.changes
}

// writtenOtherwise tells two values apart that hold one secret in two forms.
const writtenOtherwise = " (written otherwise)"

type differ struct{ changes []FieldChange }

func (d *differ) add(path, current, target string) {
	if current != target {
		d.changes = append(d.changes, FieldChange{Path: path, Current: current, Target: target})
	}
}

func (d *differ) messages(path string, current, target protoreflect.Message) {
	fields := target.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		hasCurrent, hasTarget := current.IsValid() && current.Has(field), target.IsValid() && target.Has(field)
		if hasCurrent || hasTarget {
			fieldPath := string(field.Name())
			if path != "" {
				fieldPath = path + "." + fieldPath
			}
			d.field(fieldPath, field, current, target, hasCurrent, hasTarget)
		}
	}
}

func (d *differ) field(path string, field protoreflect.FieldDescriptor, current, target protoreflect.Message, hasCurrent, hasTarget bool) {
	var currentValue, targetValue protoreflect.Value
	if current.IsValid() {
		currentValue = current.Get(field)
	}
	if target.IsValid() {
		targetValue = target.Get(field)
	}
	switch {
	case isRedacted(field):
		if hasCurrent != hasTarget || !currentValue.Equal(targetValue) {
			d.redacted(path, hasCurrent, hasTarget)
		}
	case field.IsMap():
		d.maps(path, field.MapValue(), currentValue, targetValue, hasCurrent, hasTarget)
	case field.IsList():
		d.lists(path, field, currentValue, targetValue, hasCurrent, hasTarget)
	case !current.IsValid():
		d.values(path, field, protoreflect.Value{}, targetValue)
	case !hasTarget && field.HasPresence():
		d.values(path, field, currentValue, protoreflect.Value{})
	case !hasCurrent && field.HasPresence():
		d.values(path, field, protoreflect.Value{}, targetValue)
	case !target.IsValid():
		d.values(path, field, currentValue, protoreflect.Value{})
	default:
		d.values(path, field, currentValue, targetValue)
	}
}

// redacted says that a secret differs, and nothing of what it is.
func (d *differ) redacted(path string, hasCurrent, hasTarget bool) {
	change := FieldChange{Path: path}
	if hasCurrent {
		change.Current = redactedValue
	}
	if hasTarget {
		change.Target = redactedValue
	}
	d.changes = append(d.changes, change)
}

// values compares two single values, either of which may be absent.
func (d *differ) values(path string, field protoreflect.FieldDescriptor, currentValue, targetValue protoreflect.Value) {
	if field.Message() == nil {
		render := func(v protoreflect.Value) string {
			if !v.IsValid() {
				return ""
			}
			return renderScalar(field, v)
		}
		if !currentValue.IsValid() || !targetValue.IsValid() || !currentValue.Equal(targetValue) {
			currentText, targetText := render(currentValue), render(targetValue)
			if currentText == targetText {
				targetText += writtenOtherwise
			}
			d.add(path, currentText, targetText)
		}
		return
	}
	// A typed nil stands for the absent one.
	present := targetValue
	if !present.IsValid() {
		present = currentValue
	}
	absent := present.Message().Type().Zero()
	current, target := absent, absent
	if currentValue.IsValid() {
		current = currentValue.Message()
	}
	if targetValue.IsValid() {
		target = targetValue.Message()
	}
	currentWhole, ok := renderWhole(current)
	targetWhole, isWholeToo := renderWhole(target)
	if ok || isWholeToo {
		d.add(path, currentWhole, targetWhole)
		return
	}
	count := len(d.changes)
	d.messages(path, current, target)
	if len(d.changes) > count {
		return
	}
	// Nothing within differs that has a name: presence alone, or fields that
	// this build does not know.
	switch {
	case !current.IsValid() && target.IsValid():
		d.add(path, "", "{}")
	case current.IsValid() && !target.IsValid():
		d.add(path, "{}", "")
	case !bytes.Equal(current.GetUnknown(), target.GetUnknown()):
		d.add(path, "{unknown fields "+short(current.GetUnknown())+"}", "{unknown fields "+short(target.GetUnknown())+"}")
	}
}

func (d *differ) lists(path string, field protoreflect.FieldDescriptor, currentValue, targetValue protoreflect.Value, hasCurrent, hasTarget bool) {
	count := 0
	if hasCurrent {
		count = currentValue.List().Len()
	}
	if hasTarget {
		count = max(count, targetValue.List().Len())
	}
	at := func(list protoreflect.Value, isSet bool, i int) protoreflect.Value {
		if !isSet || i >= list.List().Len() {
			return protoreflect.Value{}
		}
		return list.List().Get(i)
	}
	for i := range count {
		d.values(path+"["+strconv.Itoa(i)+"]", field, at(currentValue, hasCurrent, i), at(targetValue, hasTarget, i))
	}
}

func (d *differ) maps(path string, field protoreflect.FieldDescriptor, currentValue, targetValue protoreflect.Value, hasCurrent, hasTarget bool) {
	visit := func(key protoreflect.MapKey) {
		var current, target protoreflect.Value
		if hasCurrent {
			current = currentValue.Map().Get(key)
		}
		if hasTarget {
			target = targetValue.Map().Get(key)
		}
		d.values(path+renderKey(key), field, current, target)
	}
	if hasTarget {
		targetValue.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			visit(key)
			return true
		})
	}
	if hasCurrent {
		currentValue.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			if !hasTarget || !targetValue.Map().Has(key) {
				visit(key)
			}
			return true
		})
	}
}

// bound folds the changes beyond the limit into one that bears their digest.
func bound(plan Plan) Plan {
	if len(plan.Changes) <= maxChanges {
		return plan
	}
	rest := Plan{Action: plan.Action, Changes: plan.Changes[maxChanges-1:]}
	digest := rest.Digest()
	folded := FieldChange{
		Path:        fmt.Sprintf("(%d more fields)", len(rest.Changes)),
		Target:      "sha256 " + digest.Short(),
		Destructive: slices.ContainsFunc(rest.Changes, func(c FieldChange) bool { return c.Destructive }),
	}
	plan.Changes = append(slices.Clone(plan.Changes[:maxChanges-1]), folded)
	return plan
}

func short(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:6])
}

// Bound folds a plan's changes beyond the protocol's limit into one that bears their
// digest. A Kind with a differ of its own calls it.
func Bound(plan Plan) Plan { return bound(plan) }
