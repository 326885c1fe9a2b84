package objects

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"lehr.dev/plugins/http/bodydiff"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/sdk/serve"
)

// maxShown is the longest value of a field that is shown whole; a digest stands for the
// rest, so that two plans with other values differ.
const maxShown = 1000

// planChange is what brings the fields of intent about. What the API cannot do is an
// error: nobody is to try it again and again.
func (l *look) planChange() (serve.Plan, error) {
	resource, thing := l.subject.thing.Resource, l.subject.thing
	var current map[string]any
	if l.found.Exists {
		current = l.found.Body
	}
	fields := bodydiff.Compare(resource, current, l.ours)
	switch {
	case l.found.Exists && len(fields) == 0:
		return serve.Plan{}, nil
	case !l.found.Exists && resource.Create == nil:
		return serve.Plan{}, fmt.Errorf("%s is not there, as far as the API tells, and its profile does not create any: make it, or let the API's user see it", thing)
	case l.found.Exists && resource.Update == nil:
		return serve.Plan{}, fmt.Errorf("%s differs at %s, and its profile has no update: mend one of the two", thing, fields[0].Place)
	}
	plan := serve.Plan{Action: serve.ActionCreate}
	if l.found.Exists {
		plan.Action = serve.ActionUpdate
	}
	for _, field := range fields {
		if l.found.Exists && resource.IsImmutable(field.Place) {
			return serve.Plan{}, fmt.Errorf("%s has %s at %s, intent %s, and the API cannot change that in place: write what is there, or turn the thing down and make it anew",
				thing, l.shown(field.Current, field.HasCurrent), field.Place, l.shown(field.Target, field.HasNew))
		}
		plan.Changes = append(plan.Changes, serve.FieldChange{
			Path: bodydiff.Path(field.Place), Current: l.shown(field.Current, field.HasCurrent), Target: l.shown(field.Target, field.HasNew),
			Destructive: l.found.Exists && resource.IsDestructive(field.Place),
		})
	}
	if len(plan.Changes) == 0 {
		plan.Changes = []serve.FieldChange{{Path: "body", Target: "{}"}}
	}
	return serve.Bound(plan), nil
}

// planTurndown lists what goes; nothing there is a plan without an action.
func (l *look) planTurndown() (serve.Plan, error) {
	if l.subject.thing.Resource.Delete == nil {
		return serve.Plan{}, fmt.Errorf("%s cannot be turned down: its profile does not delete any", l.subject.thing)
	}
	if !l.found.Exists {
		return serve.Plan{}, nil
	}
	plan := serve.Plan{Action: serve.ActionDelete}
	for _, field := range bodydiff.Leaves(nil, l.found.Body) {
		plan.Changes = append(plan.Changes, serve.FieldChange{Path: bodydiff.Path(field.Place), Current: l.shown(field.Current, true), Destructive: true})
	}
	return serve.Bound(plan), nil
}

// shown is a value as people read it.
func (l *look) shown(value any, ok bool) string {
	if !ok {
		return ""
	}
	text := jsonvalue.Canonical(value)
	digest := sha256.Sum256([]byte(text))
	if l.found.Redact != nil {
		text = l.found.Redact(text)
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes, sha256 %x)", len(text), digest)
	}
	return text
}

// isInSync reports whether a look found nothing to do.
func isInSync(l *look, err error) bool { return err == nil && l.plan.Action == "" }

var errNotSeen = errors.New("nothing of it is to be seen")
