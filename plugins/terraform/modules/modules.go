// Package modules serves lehr.terraform.v1.Module: it has Terraform plan root modules in the
// background, tells what would change, and has a saved plan applied when that is what was
// admitted. State stays where the module's backend keeps it; what the package keeps is only the
// record of applies on this machine. Only the program lehr-terraform calls it, through
// sdk/serve.
package modules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/plugins/terraform/applykeeper"
	"lehr.dev/plugins/terraform/enginelist"
	"lehr.dev/plugins/terraform/tfcommand"
	"lehr.dev/plugins/terraform/tfplan"
	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// longestEffect is the start of a keeper, and what its Terraform does after its interruption
// while it holds the plugin's lock.
const longestEffect = keeper.BeginWithin + applykeeper.EndsWithin

// Options of Modules.
type Options struct {
	// Folder is the plugin's own, absolute: files of modules, providers, records of applies.
	Folder string
	// Host is the name of this machine: unique, and the same for as long as its folder lives.
	Host string
	// Program is this program, which is called as the keeper of an apply.
	Program string
	// Every is the pause between two plans of a module that nothing has changed.
	Every time.Duration
	// PlansAtOnce and AppliesAtOnce are how many are under way.
	PlansAtOnce, AppliesAtOnce int
	// Engines is the operator's list, Secrets reads what references name.
	Engines *allowlist.List[enginelist.Engine]
	Secrets *resolver.Resolver
	// Lock is the plugin's; nil: it has none.
	Lock *os.File
}

// Modules is the kind.
type Modules struct {
	Options
	commands *tfcommand.Commands
	blobs    workfolder.Blobs
	applies  chan struct{}
	ends     *ends
	kept     *keptPlans
	settled  *settled
}

var (
	_ serve.Kind     = (*Modules)(nil)
	_ serve.Watcher  = (*Modules)(nil)
	_ serve.Preparer = (*Modules)(nil)
)

// New serves modules, which are planned in the background. Saved plans that an earlier process
// left are removed.
func New(options Options) serve.Kind {
	tfcommand.SweepPlans(options.Folder)
	return serve.InBackground(newModules(options), serve.Background{Limit: options.Every, AtOnce: options.PlansAtOnce})
}

// NewReader returns Modules that only read outputs.
func NewReader(options Options) *Modules { return newModules(options) }

func newModules(options Options) *Modules {
	return &Modules{
		Options: options, commands: tfcommand.New(options.Lock), blobs: workfolder.Blobs{Path: options.Folder + "/blobs"},
		applies: make(chan struct{}, options.AppliesAtOnce), ends: newEnds(), kept: newKeptPlans(), settled: newSettled(),
	}
}

// Served is of class C where each engine's backends lock: Terraform refuses a saved plan under
// that lock when the state's serial has moved.
func (m *Modules) Served() serve.Served {
	served := serve.Served{Type: "lehr.terraform.v1.Module", Guarantee: serve.Unguarded, LongestEffect: longestEffect, Cadence: 2 * m.Every}
	engines, err := m.Engines.Entries()
	isLocked := err == nil && len(engines) > 0
	for _, engine := range engines {
		isLocked = isLocked && engine.LockedBackends
	}
	if isLocked {
		served.Guarantee = serve.CompareAndSet
	}
	return served
}

// Watch hints modules whose apply has ended that no push waited for. When it ends, so does the
// plugin, and saved plans are removed.
func (m *Modules) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	defer m.kept.dropAll()
	return m.ends.Watch(ctx, hint)
}

// subject is an asset, and what the operator's list says of it.
type subject struct {
	asset  serve.Intent
	module *terraformpb.Module
	engine enginelist.Engine
	// limit of one apply.
	limit  time.Duration
	folder workfolder.Asset
	found  applykeeper.Found
	memo   *memo
}

func (m *Modules) subject(asset serve.Intent) (s subject, err error) {
	s = subject{asset: asset, module: &terraformpb.Module{}}
	fail := func(err error) (subject, error) { return s, fmt.Errorf("%s: %w", asset.ID, err) }
	if err := proto.Unmarshal(asset.Payload.Bytes, s.module); err != nil {
		return fail(fmt.Errorf("reading the intent as lehr.terraform.v1.Module: %w", err))
	}
	// What a newer field means would be left out of the plan.
	if len(s.module.ProtoReflect().GetUnknown()) > 0 {
		return fail(errors.New("the intent has fields that this lehr-terraform does not know: run the one that came with Lehr"))
	}
	partition := string(asset.Incarnation.Partition)
	if partition == "" || strings.ContainsAny(partition, "/\x00") || strings.HasPrefix(partition, ".") {
		return fail(fmt.Errorf("the partition %q is no name of a folder", partition))
	}
	if s.engine, err = enginelist.Find(m.Engines, asset.Incarnation.Partition, s.module.Engine, s.module.Root); err != nil {
		return fail(err)
	}
	s.limit = s.engine.Limit()
	if own := s.module.ApplyLimit; own != nil {
		s.limit = own.AsDuration()
		if err := enginelist.CheckApplyLimit(s.limit); err != nil {
			return fail(err)
		}
	}
	s.folder = workfolder.Of(m.Folder, partition, string(asset.ID))
	if s.memo, err = memoOf(asset.Memos); err != nil {
		return fail(err)
	}
	if s.found, err = applykeeper.Load(s.folder); err != nil {
		return fail(err)
	}
	return s, nil
}

// Prepare fetches what is too large for an asset, and answers for modules of which an apply is
// under way.
func (m *Modules) Prepare(ctx context.Context, asset serve.Intent) (answer serve.Difference, isAnswered bool) {
	s, err := m.subject(asset)
	if err == nil {
		err = m.blobs.Fetch(ctx, s.module, asset.Blob)
	}
	if err != nil {
		return unknown(err), true
	}
	if s.found.IsLive {
		m.ends.await(asset, s.folder)
	}
	return m.underWay(s)
}

// underWay is the difference of a module of which an apply is under way, or lost elsewhere.
func (m *Modules) underWay(s subject) (answer serve.Difference, isAnswered bool) {
	switch {
	case s.found.IsLive:
		reason, startedAt := "an apply is under way on "+m.Host, time.Time{}
		if last := s.found.Last; last != nil && last.End == nil {
			startedAt = last.Began
			reason = fmt.Sprintf("an apply is under way on %s since %s, of push %s", m.Host, startedAt.UTC().Format(time.RFC3339), last.Push)
			if last.Process != 0 {
				reason += fmt.Sprintf(", by process %d", last.Process)
			}
			if s.found.Progress != "" {
				reason += ": " + s.found.Progress
			}
		}
		return serve.Difference{Outcome: serve.Pending, Reason: redact(reason), PendingSince: startedAt, PendingEnd: "the end of the apply"}, true
	case s.memo == nil || s.memo.Host == m.Host:
		return answer, false
	case s.memo.StateLeft != "":
		return unknown(fmt.Errorf("the state of what push %s applied could not be written, and lies on %s in %s: let Lehr's plugin run there, or put it in place with terraform state push", s.memo.Push, s.memo.Host, s.memo.StateLeft)), true
	case time.Now().Before(s.memo.Until):
		return serve.Difference{
			Outcome: serve.Pending, PendingSince: s.memo.Began, PendingEnd: "the end of the apply on " + s.memo.Host,
			Reason: fmt.Sprintf("an apply of push %s began on %s at %s, which nobody here sees end; it lasts until %s at most", s.memo.Push, s.memo.Host, s.memo.Began.UTC().Format(time.RFC3339), s.memo.Until.UTC().Format(time.RFC3339)),
		}, true
	}
	return answer, false
}

// Diff plans each asset: in the background one is asked about at a time.
func (m *Modules) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	differences := make([]serve.Difference, len(assets))
	for i, asset := range assets {
		differences[i] = m.diff(ctx, asset)
	}
	return differences
}

func (m *Modules) diff(ctx context.Context, asset serve.Intent) serve.Difference {
	s, err := m.subject(asset)
	if err != nil {
		return unknown(err)
	}
	if answer, isAnswered := m.underWay(s); isAnswered {
		return answer
	}
	l, err := m.look(ctx, s)
	if err != nil {
		return unknown(fmt.Errorf("%s: %w", asset.ID, err))
	}
	d := l.difference()
	m.settled.note(l, d)
	if d.Outcome != serve.Differs {
		m.kept.drop(s.folder.Path)
		l.forget()
		return d
	}
	m.kept.keep(l)
	return d
}

func unknown(err error) serve.Difference {
	return serve.Difference{Outcome: serve.Unknown, Reason: redact(err.Error())}
}

// look is what a plan found.
type look struct {
	subject
	run  tfcommand.Run
	plan *tfplan.Plan
	// file has the plan as Terraform saved it; empty: there is none.
	file string
	// shown is the plan that Lehr knows.
	shown serve.Plan
	key   serve.ResourceKey
	base  string
	// left is a state that an apply could not write.
	left string
	// stateDigest is of the state that the plan, or what was left, was made of.
	stateDigest string
	// stateSize is in bytes.
	stateSize int
	// fingerprint is of all that an empty plan was made of; empty: it is not known, or tells not all.
	fingerprint fingerprint
	// known is what was found before with the same fingerprint; nil: nothing was. Then there is
	// no plan, nor what is made of one.
	known *serve.Difference
}

// forget removes the saved plan: it holds secrets.
func (l *look) forget() {
	if l.file != "" {
		_ = os.Remove(l.file)
	}
}

// exists reports whether there is anything of the module.
func (l *look) exists() bool { return l.left != "" || l.plan.Resources() > 0 }

// difference is what Lehr is told.
func (l *look) difference() serve.Difference {
	if l.known != nil {
		return *l.known
	}
	d := serve.Difference{Outcome: serve.InSync, ResourceKey: l.key, Base: l.base, Plan: l.shown, Health: l.health()}
	if l.shown.Action != "" {
		d.Outcome = serve.Differs
	}
	var err error
	if isTurnedDown := l.asset.TurnedDown(); l.exists() || d.Outcome == serve.InSync && !isTurnedDown {
		d.Current, err = l.current()
	} else if isTurnedDown {
		d.Health = serve.Health{}
	}
	if err == nil && d.Outcome == serve.InSync && !l.asset.TurnedDown() {
		outputs, _ := l.plan.Outputs()
		d.Outputs, err = serve.EncodeOutputs(outputs)
	}
	if err != nil {
		return unknown(fmt.Errorf("%s: %w", l.asset.ID, err))
	}
	return d
}

// current is what is known of what is there: the state does not tell by which files it was
// made, and files may hold what the provider marks as sensitive.
func (l *look) current() ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&terraformpb.Module{Root: l.module.Root, Workspace: l.module.Workspace, Engine: l.module.Engine})
}

// health is what the module's checks say.
func (l *look) health() serve.Health {
	health := serve.Health{State: serve.HealthUnknown}
	if l.plan == nil || !l.exists() {
		return health
	}
	problems, isChecked := l.plan.Problems()
	switch {
	case len(problems) > 0:
		health.State, health.Reason = serve.Unhealthy, redact(strings.Join(problems, "; "))
	case isChecked:
		health.State = serve.Healthy
	}
	if _, left := l.plan.Outputs(); len(left) > 0 {
		health.Reason = strings.TrimPrefix(health.Reason+"; outputs that are too long or too many to be told: "+strings.Join(left, ", "), "; ")
	}
	return health
}
