package modules

import (
	"bytes"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"lehr.dev/plugins/terraform/tfcommand"
	"lehr.dev/plugins/terraform/tfplan"
	"lehr.dev/sdk/serve"
)

// keptFor is how long the saved plan of a look is kept for the push of it. It holds secrets, so
// it is not kept until a person has approved it.
const keptFor = 2 * time.Minute

// keptPlans are the saved plans of the last looks, one for each module, so that a push which
// soon follows needs no plan of its own.
type keptPlans struct {
	mutex sync.Mutex
	// plans by the folder of the asset.
	plans    map[string]*keptPlan
	duration time.Duration
}

type keptPlan struct {
	look  *look
	timer *time.Timer
}

func newKeptPlans() *keptPlans {
	return &keptPlans{plans: map[string]*keptPlan{}, duration: keptFor}
}

// isKept reports whether the plan of a look may be applied without another look. One that
// destroys may not, nor one that undoes what was changed outside of Terraform: production
// moves by itself there, and Terraform compares the state alone.
func (l *look) isKept() bool {
	if l.file == "" || l.shown.Action == "" || l.shown.Destructive() {
		return false
	}
	return !slices.ContainsFunc(l.shown.Changes, func(c serve.FieldChange) bool { return c.Writer == tfplan.Outside })
}

// keep keeps the plan of a look, or removes it. The one that was kept before is removed.
func (k *keptPlans) keep(l *look) {
	path := l.folder.Path
	k.drop(path)
	if !l.isKept() {
		l.forget()
		return
	}
	one := &keptPlan{look: l}
	l.plan = nil // It is large, and no push reads it.
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.plans[path] = one
	one.timer = time.AfterFunc(k.duration, func() {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		if k.plans[path] == one {
			delete(k.plans, path)
			l.forget()
		}
	})
}

// take returns the plan that is kept of a module, which is the caller's then; nil: there is none.
func (k *keptPlans) take(path string) *look {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	one, ok := k.plans[path]
	if !ok {
		return nil
	}
	delete(k.plans, path)
	one.timer.Stop()
	return one.look
}

func (k *keptPlans) drop(path string) {
	if l := k.take(path); l != nil {
		l.forget()
	}
}

// dropAll removes all of them.
func (k *keptPlans) dropAll() {
	k.mutex.Lock()
	paths := slices.Collect(maps.Keys(k.plans))
	k.mutex.Unlock()
	for _, path := range paths {
		k.drop(path)
	}
}

// keptLook returns the look whose plan was admitted, when it is kept and nothing that it was
// made of has changed since; nil: the module is to be planned again. Whether the state has
// moved Terraform says when it applies.
func (m *Modules) keptLook(ctx context.Context, s subject, push serve.Push) *look {
	l := m.kept.take(s.folder.Path)
	if l == nil {
		return nil
	}
	run, err := m.prepareRun(ctx, s)
	if err == nil {
		err = m.commands.CheckVersion(ctx, s.engine)
	}
	left, leftErr := s.folder.Errored()
	isSame := err == nil && leftErr == nil && len(left) == 0 && l.isOf(s, run) && l.shown.Digest() == push.Plan && l.base == push.Base
	if !isSame {
		l.forget()
		return nil
	}
	l.subject, l.run = s, run
	return l
}

// isOf reports whether a look was made of the same.
func (l *look) isOf(s subject, run tfcommand.Run) bool {
	return bytes.Equal(l.asset.Payload.Bytes, s.asset.Payload.Bytes) && l.asset.TurnedDown() == s.asset.TurnedDown() &&
		l.run.Content == run.Content && reflect.DeepEqual(l.engine, s.engine) &&
		maps.Equal(l.run.Variables, run.Variables) && maps.Equal(l.run.Backend, run.Backend)
}
