package modules

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/plugins/terraform/tfcommand"
	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// maxKey is the longest key of a resource.
const maxKey = 512

func redact(text string) string { return secret.Redact(text) }

// look lays the module out, and plans. It changes nothing but the plugin's folder. What fails
// with an init that was taken over from other files is tried with one of its own.
func (m *Modules) look(ctx context.Context, s subject) (*look, error) {
	run, err := m.prepareRun(ctx, s)
	if err != nil {
		return nil, err
	}
	l, err := m.lookOnce(ctx, s, run)
	if err != nil && ctx.Err() == nil && m.commands.ForgetCopiedInit(run) {
		l, err = m.lookOnce(ctx, s, run)
	}
	return l, err
}

func (m *Modules) lookOnce(ctx context.Context, s subject, run tfcommand.Run) (*look, error) {
	l := &look{subject: s, run: run}
	if err := m.commands.CheckVersion(ctx, s.engine); err != nil {
		return nil, err
	}
	if err := m.commands.Init(ctx, l.run); err != nil {
		return nil, err
	}
	backend, err := l.run.Content.ReadBackend()
	if err != nil {
		return nil, err
	}
	place, err := backend.Place(s.module.Workspace, s.module)
	if err != nil {
		return nil, err
	}
	l.key = keyOf(place)
	if err := tfcommand.CheckWriter(ctx, l.run, backend); err != nil {
		return nil, err
	}
	if err := m.commands.CheckWorkspace(ctx, l.run); err != nil {
		return nil, err
	}
	left, err := s.folder.Errored()
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		state, _, err := m.commands.PullState(ctx, l.run)
		if err != nil {
			return nil, err
		}
		return l, l.recover(left[0], state)
	}
	if err := m.plan(ctx, l); err != nil {
		l.forget()
		return nil, err
	}
	return l, nil
}

// plan plans, and shows the plan: but for one that changes nothing of what was found so before.
func (m *Modules) plan(ctx context.Context, l *look) error {
	planned, err := m.commands.Plan(ctx, l.run, l.asset.TurnedDown())
	if err != nil {
		return err
	}
	l.file, l.stateDigest, l.stateSize = planned.File, planned.State.Digest, planned.State.Size
	if planned.IsEmpty && !planned.HasConditions && planned.Refreshed != "" {
		l.fingerprint = l.fingerprintOf(planned.Refreshed)
	}
	if known := m.settled.find(l); known != nil {
		l.known = known
		return nil
	}
	if l.plan, err = m.commands.Show(ctx, l.run, l.file); err != nil {
		return err
	}
	l.base = "none"
	if planned.HasState {
		sum := sha256.Sum256([]byte(l.plan.State()))
		l.base = fmt.Sprintf("%s %d %x", planned.State.Lineage, planned.State.Serial, sum[:8])
	}
	place := string(l.key)
	l.shown, err = l.plan.Show(func(where string, value []byte) (secret.Digest, error) {
		return m.Secrets.DigestOfFound(place+" "+where, value)
	}, l.asset.TurnedDown())
	if err != nil {
		return err
	}
	current := workfolder.Current{Content: l.run.Content, Engine: l.module.Engine, Workspace: l.module.Workspace, Root: l.module.Root}
	if err := l.folder.SaveCurrent(current); err != nil {
		return err
	}
	l.folder.Collect(l.run.Content)
	return nil
}

// recover plans to write a state that an apply could not: until then nothing is known of what
// that apply made.
func (l *look) recover(left string, state tfcommand.State) error {
	content, err := os.ReadFile(left)
	if err != nil {
		return fmt.Errorf("reading the state that an apply left: %w", err)
	}
	defer clear(content)
	sum := sha256.Sum256(content)
	var version tfcommand.State
	if err := json.Unmarshal(content, &version); err != nil {
		return fmt.Errorf("reading the state that an apply left in %s: %w", left, err)
	}
	l.left, l.stateDigest = left, ""
	if last := l.found.Last; last != nil {
		l.stateDigest = last.StateDigest
	}
	l.base = fmt.Sprintf("left %x, %s %d", sum[:8], state.Lineage, state.Serial)
	l.shown = serve.Plan{Action: serve.ActionUpdate, Changes: []serve.FieldChange{{
		Path: "state", Current: fmt.Sprintf("serial %d", state.Serial), Target: fmt.Sprintf("serial %d, as an apply left it (sha256 %x)", version.Serial, sum[:8]),
		Reason: "an apply could not write the state of what it made; it is written first, and the module planned again",
	}}}
	if l.asset.TurnedDown() {
		l.shown.Action = serve.ActionDelete
		l.shown.Changes[0].Destructive = true
	}
	return nil
}

// prepareRun lays the files out, and reads the secrets.
func (m *Modules) prepareRun(ctx context.Context, s subject) (run tfcommand.Run, err error) {
	run = tfcommand.Run{Engine: s.engine, Module: s.module, Limit: m.Every}
	if run.Variables, err = s.engine.Variables(ctx, m.Secrets, s.asset.SecretRequest()); err != nil {
		return run, err
	}
	if run.Backend, err = m.backendSettings(ctx, s); err != nil {
		return run, err
	}
	key := s.engine.Binary + " " + s.engine.Version
	for _, name := range slices.Sorted(maps.Keys(s.module.Backend)) {
		key += " " + name + "=" + s.module.Backend[name].String()
	}
	if run.Content, err = s.folder.Lay(s.module, m.blobs, key); err != nil {
		return run, err
	}
	for _, name := range s.module.VariableFiles {
		if !filepath.IsLocal(name) {
			return run, fmt.Errorf("variable_files has %q, which is not below the module's folder", name)
		}
	}
	return run, run.Content.CheckBackend()
}

// backendSettings are those of the intent, with their secrets.
func (m *Modules) backendSettings(ctx context.Context, s subject) (map[string]string, error) {
	settings := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.module.Backend)) {
		var ref *intentpb.SecretRef
		switch source := s.module.Backend[name].GetSource().(type) {
		case *terraformpb.Setting_Value:
			settings[name] = source.Value
			continue
		case *terraformpb.Setting_Env:
			ref = &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: source.Env}}
		case *terraformpb.Setting_File:
			ref = &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: source.File}}
		}
		value, err := m.Secrets.Resolve(ctx, s.asset.SecretRequest(), ref)
		if err != nil {
			return nil, fmt.Errorf("the backend's setting %s: %w", name, err)
		}
		settings[name] = strings.TrimRight(string(value.Reveal()), " \t\r\n")
		value.Wipe()
	}
	return settings, nil
}

// keyOf names a state for all that may reach it.
func keyOf(place string) serve.ResourceKey {
	key := "terraform:" + place
	if len(key) > maxKey {
		key = strings.ToValidUTF8(key[:maxKey-70], "") + fmt.Sprintf("…%x", sha256.Sum256([]byte(key)))
	}
	return serve.ResourceKey(key)
}

// memo is what Lehr keeps of an apply: that it began, and where its state lies if that could
// not be written. It is forgotten when the apply has ended.
type memo struct {
	Host  string    `json:"host"`
	Push  string    `json:"push"`
	Began time.Time `json:"began"`
	// Until is when it is over at the latest, but for what it does not end when interrupted.
	Until     time.Time `json:"until"`
	StateLeft string    `json:"state_left,omitempty"`
}

// memoOf is the newest of them; nil: there is none.
func memoOf(memos []serve.Memo) (newest *memo, err error) {
	for _, one := range memos {
		read := &memo{}
		if err := json.Unmarshal(one.Bytes, read); err != nil {
			return nil, fmt.Errorf("reading what Lehr kept of an apply: %w", err)
		}
		if newest == nil || read.Began.After(newest.Began) {
			newest = read
		}
	}
	return newest, nil
}
