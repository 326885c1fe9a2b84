// Package procedures serves lehr.workflow.v1.Procedure: things that a workflow changes. A look reads
// what production has and compares it with what is wanted; a push runs the definition (package
// flowdrive) and has Lehr keep how far it is (package flowrecord), so the next push goes on where
// one was interrupted. Only the program lehr-workflow calls it, through sdk/serve.
package procedures

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	workflowpb "lehr.dev/gen/lehr/workflow/v1"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/workflow/flowrecord"
	"lehr.dev/sdk/serve"
)

const (
	procedureType serve.TypeName = "lehr.workflow.v1.Procedure"
	// atOnce is how many assets of one batch are read at a time; diffWithin how long the batch may
	// take, because Lehr waits for 10 s.
	atOnce     = 32
	diffWithin = 8 * time.Second
	// effectMargin is for what follows a request's time.
	effectMargin = 500 * time.Millisecond
	// maxKey is the longest key of a resource.
	maxKey = 512
	// maxDefinitions that are kept read.
	maxDefinitions = 100
)

// exploreBounds of a definition, which was explored before, where the asset was made.
var exploreBounds = workflow.Bounds{States: 5000, Effort: 1_000_000}

// API is called by runs, and read by looks.
type API interface {
	// Key names the API for all that may reach it.
	Key() string
	// Do sends one request, as endpoint.Endpoint does.
	Do(ctx context.Context, call endpoint.Call) (endpoint.Answer, error)
}

// APIs are those that the operator lists.
type APIs interface {
	// Find an API by its name, for a partition that may use it.
	Find(name, partition string) (API, error)
}

// Environment is what procedures run in. A simulator has one of its own.
type Environment struct {
	// APIs are those that may be called as the list is now.
	APIs func() APIs
	// LongestCall is the longest that a call may take, as declared when the plugin was started.
	LongestCall time.Duration
	Now         func() time.Time
	// SleepUntil returns at a time, or with an error when the context ends.
	SleepUntil func(ctx context.Context, at time.Time) error
}

// Procedures is the kind.
type Procedures struct {
	environment Environment

	mutex sync.Mutex
	// definitions that were read, by their text.
	definitions map[string]readDefinition
	// openRuns are those of pushes under way in this process.
	openRuns map[serve.ResourceKey]openRun
}

type readDefinition struct {
	definition *workflow.Definition
	err        error
}

// openRun is a run under way.
type openRun struct {
	number int
	start  time.Time
}

var _ serve.Kind = (*Procedures)(nil)

// New serves procedures, by the operator's list.
func New(source *endpoint.Source) *Procedures {
	return NewIn(Environment{
		APIs: func() APIs { return operatorAPIs{source.List()} }, LongestCall: source.LongestEffect(), Now: time.Now, SleepUntil: sleepUntil,
	})
}

// NewIn serves procedures in an environment.
func NewIn(e Environment) *Procedures {
	return &Procedures{environment: e, definitions: map[string]readDefinition{}, openRuns: map[serve.ResourceKey]openRun{}}
}

// operatorAPIs are the APIs of an operator's list.
type operatorAPIs struct{ list *endpoint.List }

func (l operatorAPIs) Find(name, partition string) (API, error) { return l.list.Find(name, partition) }

// Served is of class N: what a late call does, nothing at its target compares.
func (p *Procedures) Served() serve.Served {
	return serve.Served{Type: procedureType, Guarantee: serve.Unguarded, LongestEffect: p.environment.LongestCall + effectMargin}
}

// Diff looks at each asset.
func (p *Procedures) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	ctx, cancel := context.WithTimeoutCause(ctx, diffWithin, fmt.Errorf("all things asked for at once were not read within %v", diffWithin))
	defer cancel()
	differences := make([]serve.Difference, len(assets))
	slots := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i, asset := range assets {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			differences[i] = p.diffOne(ctx, asset)
		})
	}
	group.Wait()
	return differences
}

// diffOne returns the difference of an asset, also when looking at it panics: that is this asset's
// failure only (S12).
func (p *Procedures) diffOne(ctx context.Context, asset serve.Intent) (difference serve.Difference) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(os.Stderr, "panic while looking at %s: %v\n%s", asset.ID, problem, debug.Stack())
			difference = serve.Difference{Outcome: serve.Unknown, Reason: fmt.Sprintf("looking at it panicked: %v (a defect of the plugin; its log has the stack)", problem)}
		}
	}()
	s, err := p.subject(asset)
	if err == nil {
		if run, ok := p.openRunOf(s.key); ok {
			return serve.Difference{
				Outcome: serve.Pending, ResourceKey: s.key, Reason: fmt.Sprintf("run %d is under way", run.number),
				PendingSince: run.start, PendingEnd: "the end of the run",
			}
		}
	}
	if err != nil {
		return unknownDifference(err)
	}
	l, err := p.look(ctx, s)
	if err != nil {
		return unknownDifference(err)
	}
	return l.difference()
}

func unknownDifference(err error) serve.Difference {
	difference := serve.Difference{Outcome: serve.Unknown, Reason: err.Error()}
	difference.RetryAfter, _ = serve.BusyPause(err)
	return difference
}

func (p *Procedures) openRunOf(key serve.ResourceKey) (openRun, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	run, ok := p.openRuns[key]
	return run, ok
}

// claim notes that a run of a thing is under way. It reports whether no other one is.
func (p *Procedures) claim(key serve.ResourceKey, number int) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if _, ok := p.openRuns[key]; ok {
		return false
	}
	p.openRuns[key] = openRun{number, p.environment.Now()}
	return true
}

func (p *Procedures) release(key serve.ResourceKey) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.openRuns, key)
}

// subject is an asset, and what it stands for.
type subject struct {
	asset      serve.Intent
	payload    *workflowpb.Procedure
	apis       APIs
	api        API
	definition *workflow.Definition
	inputs     map[string]workflow.Value
	// wanted and healthy are values by their places.
	wanted, healthy []expectation
	key             serve.ResourceKey
	want            flowrecord.Want
	record          *flowrecord.Record
}

// subject reads the asset's payload, and finds what the operator's list says of it.
func (p *Procedures) subject(asset serve.Intent) (s subject, err error) {
	s = subject{asset: asset, payload: &workflowpb.Procedure{}, apis: p.environment.APIs()}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", asset.ID, err)
		}
	}()
	if err := proto.Unmarshal(asset.Payload.Bytes, s.payload); err != nil {
		return s, fmt.Errorf("reading its intent as %s: %w", procedureType, err)
	}
	// What a field of a newer type asks for would not be done.
	if len(s.payload.ProtoReflect().GetUnknown()) > 0 {
		return s, fmt.Errorf("its intent has fields that this lehr-workflow does not know: run the one that came with Lehr")
	}
	if asset.TurnedDown() {
		return s, fmt.Errorf("it cannot be turned down: a workflow changes a thing and does not remove it; take the asset out of the sources, and remove the thing by what made it")
	}
	if s.api, err = s.apis.Find(s.payload.Endpoint, string(asset.Incarnation.Partition)); err != nil {
		return s, err
	}
	if s.definition, err = p.definition(s.payload.Definition); err != nil {
		return s, err
	}
	if s.inputs, err = s.definition.CheckInputs(s.payload.Inputs); err != nil {
		return s, err
	}
	if s.wanted, err = s.expect(s.payload.GetObserve().GetWant()); err != nil {
		return s, err
	}
	if s.healthy, err = s.expect(s.payload.GetObserve().GetHealthy()); err != nil {
		return s, err
	}
	s.key = KeyOf(s.api, s.payload.Path)
	s.want = flowrecord.Want{Content: s.content(), Rerun: s.payload.GetRerun().GetId()}
	s.record, err = flowrecord.FromMemos(asset.Memos, s.key)
	return s, err
}

// definition of a text, which is read and explored once.
func (p *Procedures) definition(text string) (*workflow.Definition, error) {
	p.mutex.Lock()
	known, ok := p.definitions[text]
	p.mutex.Unlock()
	if ok {
		return known.definition, known.err
	}
	known.definition, known.err = explore(text)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.definitions) >= maxDefinitions {
		clear(p.definitions)
	}
	p.definitions[text] = known
	return known.definition, known.err
}

// explore a definition. What is wrong was told where the asset was made, unless something else than
// a generator made it.
func explore(text string) (*workflow.Definition, error) {
	definition, found := workflow.ReadForPush("the definition", []byte(text))
	if definition != nil {
		found = append(found, definition.CheckWithin(exploreBounds).Findings...)
	}
	if wrong := workflow.Errors(found); len(wrong) > 0 {
		return nil, fmt.Errorf("line %d of its definition: %s (%s)", wrong[0].Line, wrong[0].Message, wrong[0].Hint)
	}
	return definition, nil
}

// content is the digest of what a run is for.
func (s subject) content() string {
	text, err := json.Marshal([]any{s.definition.Digest(), s.inputs, s.api.Key(), s.payload.Path, s.payload.GetObserve().GetGet(), s.payload.GetObserve().GetWant()})
	if err != nil { // They are texts.
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// KeyOf a thing of an API, for all that may reach it.
func KeyOf(api API, path string) serve.ResourceKey {
	key := "workflow:" + api.Key() + path
	if len(key) > maxKey {
		key = strings.ToValidUTF8(key[:maxKey-70], "") + fmt.Sprintf("…%x", sha256.Sum256([]byte(key)))
	}
	return serve.ResourceKey(key)
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(max(time.Until(at), 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
