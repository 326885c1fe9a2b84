package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/plugins/terraform/applykeeper"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// progressInterval is between two looks at what an apply tells.
const progressInterval = 250 * time.Millisecond

// Push takes the saved plan of a recent look, or plans again, and, when the plan is the admitted
// one, has exactly that saved plan applied.
// It stays until the apply has ended, or its permit has: then the apply begins nothing more.
func (m *Modules) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	select {
	case m.applies <- struct{}{}:
		defer func() { <-m.applies }()
	case <-ctx.Done():
		return stopped(ctx, context.Cause(ctx))
	}
	s, err := m.subject(push.Asset)
	if err == nil {
		err = m.blobs.Fetch(ctx, s.module, push.Asset.Blob)
	}
	if err != nil {
		return failed(ctx, err, true)
	}
	if answer, isAnswered := m.underWay(s); isAnswered {
		return serve.Outcome{Ending: serve.Stale, Reason: answer.Reason}
	}
	l := m.keptLook(ctx, s, push)
	if l == nil {
		if l, err = m.look(ctx, s); err != nil {
			return failed(ctx, fmt.Errorf("planning again: %w", err), true)
		}
	}
	defer l.forget()
	switch digest := l.shown.Digest(); {
	case l.shown.Action == "":
		// What was admitted is no plan any more, as somebody else applied it.
		return serve.Outcome{Ending: serve.Stale, Reason: "already in sync: nothing is to be applied any more"}
	case digest != push.Plan:
		return serve.Outcome{Ending: serve.Stale, Reason: fmt.Sprintf("the plan is now %s (%s, %d fields), admitted was %s", digest.Short(), l.shown.Action, len(l.shown.Changes), push.Plan.Short())}
	case l.base != push.Base:
		if err := permits.Cover(ctx, l.base); err != nil {
			return stopped(ctx, err)
		}
	}
	return m.apply(ctx, l, push, permits)
}

// leastRoom is how many bytes are to be free in the plugin's folder before an apply begins,
// beside four times the state: a state that the backend does not take is written there.
const leastRoom = 16 << 20

func checkRoom(l *look) error {
	room, err := l.folder.Room()
	if need := uint64(leastRoom + 4*l.stateSize); err == nil && room < need {
		err = serve.Errorf(serve.Unavailable, "nothing was applied: the disk of %s has %d MiB left, and a state that cannot be written elsewhere needs up to %d MiB there", l.folder.Path, room>>20, need>>20).
			WithHint("make room on that disk")
	}
	return err
}

// apply has Lehr keep that an apply begins, starts its keeper, and stays with it.
func (m *Modules) apply(ctx context.Context, l *look, push serve.Push, permits serve.Permits) serve.Outcome {
	if l.left == "" {
		if err := checkRoom(l); err != nil {
			return failed(ctx, err, true)
		}
	}
	if err := permits.Effect(ctx); err != nil {
		return stopped(ctx, err)
	}
	startedAt := time.Now()
	kept := memo{Host: m.Host, Push: string(push.ID), Began: startedAt, Until: startedAt.Add(l.limit)}
	if err := save(ctx, push, l.key, &kept); err != nil {
		return failed(ctx, err, true)
	}
	alive, hold, err := os.Pipe()
	if err != nil {
		return failed(ctx, err, true)
	}
	// Its end is the order to begin nothing more, also when this process is killed.
	defer hold.Close()
	if err := permits.Effect(ctx); err != nil {
		alive.Close()
		return stopped(ctx, err)
	}
	spec, err := m.spec(l, push)
	if err != nil {
		alive.Close()
		_ = save(ctx, push, l.key, nil)
		return failed(ctx, fmt.Errorf("nothing was applied: %w", err), true)
	}
	ended, err := applykeeper.Start(m.Program, spec, alive, m.Lock)
	alive.Close()
	if err != nil {
		_ = save(ctx, push, l.key, nil)
		return failed(ctx, fmt.Errorf("nothing was applied: %w", err), true)
	}
	l.file = "" // It is the keeper's now.
	return m.await(ctx, l, push, kept, ended, hold)
}

func (m *Modules) spec(l *look, push serve.Push) (spec applykeeper.Spec, err error) {
	environment := []string{}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+value)
		}
	}
	for name, value := range l.run.Environment() {
		environment = append(environment, name+"="+value)
	}
	spec = applykeeper.Spec{
		Asset: l.folder, Push: string(push.ID), Binary: l.engine.Binary, Directory: l.run.Content.Root, Plan: l.file, Left: l.left, StateDigest: l.stateDigest,
		Environment: environment, Parallelism: l.engine.Parallelism, Limit: l.limit,
	}
	spec.Secrets, err = m.secretsOf(l)
	return spec, err
}

// secretsOf a run are the engine's and the backend's, with keyed digests.
func (m *Modules) secretsOf(l *look) (found []applykeeper.Secret, err error) {
	add := func(name, value string) {
		var digest secret.Digest
		if value == "" || err != nil {
			return
		}
		if digest, err = m.Secrets.DigestOfFound(string(l.key)+" "+name, []byte(value)); err == nil {
			found = append(found, applykeeper.Secret{Name: name, Value: value, Digest: digest})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.engine.Secrets)) {
		add("variable "+name, l.run.Variables[name])
	}
	for _, name := range slices.Sorted(maps.Keys(l.module.Backend)) {
		if _, isPlain := l.module.Backend[name].GetSource().(*terraformpb.Setting_Value); !isPlain {
			add("backend "+name, l.run.Backend[name])
		}
	}
	return found, err
}

// await tells how far the apply is until it ends. When the permit ends first, the apply is
// interrupted, and given a short while to end.
func (m *Modules) await(ctx context.Context, l *look, push serve.Push, kept memo, ended <-chan struct{}, hold *os.File) serve.Outcome {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	shown := 0
	for isOver := false; !isOver; {
		select {
		case <-ended:
			isOver = true
		case <-ticker.C:
		case <-ctx.Done():
			hold.Close()
			m.ends.await(l.asset, l.folder)
			select {
			case <-ended:
			case <-time.After(applykeeper.EndsWithin / 2):
				return serve.Outcome{Ending: serve.Stopped, Reason: fmt.Sprintf("%v; what is under way of the apply ends, and nothing else begins: the next look waits for it", context.Cause(ctx))}
			}
			isOver = true
		}
		shown = tell(push, l, shown)
	}
	found, err := applykeeper.Load(l.folder)
	if err != nil || found.Last == nil || found.Last.Push != string(push.ID) || found.Last.End == nil {
		return failed(ctx, errors.Join(errors.New("the apply was cut off: its keeper ended and noted no end; the module is planned anew"), err), true)
	}
	end := *found.Last.End
	last := &kept
	if kept.StateLeft = end.StateLeft; end.StateLeft == "" {
		last = nil
	}
	if err := save(ctx, push, l.key, last); err != nil {
		push.Progress(redact(err.Error()))
	}
	return outcomeOf(ctx, end)
}

// tell hands on what the apply has told since, and returns how much that is in all.
func tell(push serve.Push, l *look, shown int) int {
	events := applykeeper.Events(l.folder)
	for _, event := range events[min(shown, len(events)):] {
		if event.IsProgress() {
			push.Progress(redact(event.Message))
		}
	}
	return max(shown, len(events))
}

func outcomeOf(ctx context.Context, end applykeeper.End) serve.Outcome {
	switch {
	case end.IsApplied && end.StateLeft == "":
		return serve.Outcome{Ending: serve.Pushed, Reason: redact(end.Reason)}
	case end.IsStale:
		return serve.Outcome{Ending: serve.Stale, Reason: redact(end.Reason)}
	case end.IsInterrupted && ctx.Err() != nil:
		return stopped(ctx, context.Cause(ctx))
	case end.IsInterrupted:
		return failed(ctx, errors.New("the apply took longer than its limit, and was interrupted: "+end.Reason), true)
	default:
		return failed(ctx, errors.New(end.Reason), true)
	}
}

// save has Lehr keep what is known of the apply; nil: nothing any more.
func save(ctx context.Context, push serve.Push, key serve.ResourceKey, kept *memo) error {
	var text []byte
	if kept != nil {
		var err error
		if text, err = json.Marshal(kept); err != nil {
			return err
		}
	}
	if err := push.SaveMemo(ctx, key, text); err != nil {
		return fmt.Errorf("having Lehr keep that an apply begins: %w", err)
	}
	return nil
}

func failed(ctx context.Context, err error, isRetryable bool) serve.Outcome {
	if ctx.Err() != nil {
		return stopped(ctx, err)
	}
	if errors.Is(err, secret.ErrRotated) {
		return serve.Outcome{Ending: serve.Stale, Reason: redact(err.Error())}
	}
	pause, _ := serve.BusyPause(err)
	return serve.Outcome{Ending: serve.Failed, Reason: redact(err.Error()), Retryable: isRetryable, RetryAfter: pause}
}

func stopped(ctx context.Context, err error) serve.Outcome {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return serve.Outcome{Ending: serve.Stopped, Reason: redact(err.Error())}
}
