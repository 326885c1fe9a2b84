// Package plugintest checks that a plugin program keeps the protocol: over
// the real wire, with real effects on one example resource that the author
// gives. It measures, and believes nothing that the plugin says of itself. It
// leaves the example resource in place. Authors call Run from a test;
// Check is the same outside of one.
package plugintest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"lehr.dev/plugin/remote"
)

// Target is a plugin to be checked, and an example of what it looks after.
type Target struct {
	// Run is the program and its arguments.
	Run []string
	// First and Second are two intents for one and the same resource. They
	// differ in a field that the plugin can change in place. The resource
	// does not exist when the checks begin.
	First, Second proto.Message
	// Production describes the real thing without the plugin, if it can be:
	// looking must not change it. May be nil.
	Production func(ctx context.Context) (string, error)
	// Log receives what the plugin says; default: nowhere.
	Log *slog.Logger
	// Patience is how long one step may take; default 1 min.
	Patience time.Duration
}

// Outcome of a check.
type Outcome string

const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// Skipped: it could not be measured, and Detail says why.
	Skipped Outcome = "skipped"
)

// Result is the outcome of one check.
type Result struct {
	Name    string
	Outcome Outcome
	Detail  string
}

// step is one check. It returns an error if the plugin fails it, and a
// skipped if it could not be measured.
type step struct {
	name string
	run  func(*suite, context.Context) error
}

// steps are run in order; each starts from what the one before left.
var steps = []step{
	{"describe", (*suite).describe},
	{"looking changes nothing", (*suite).looking},
	{"stale plan is refused", (*suite).stalePlan},
	{"moved base asks for a permit", (*suite).movedBase},
	{"create from nothing", (*suite).create},
	{"push is idempotent", (*suite).idempotent},
	{"update in place", (*suite).update},
	{"repair ends as create did", (*suite).repair},
	{"withdrawn permit stops a push", (*suite).withdrawnPermit},
	{"garbage is survived", (*suite).garbage},
	{"nonsense on the wire is survived", (*suite).nonsense},
	{"ends with its parent", (*suite).endsWithParent},
}

// skipped says why something could not be measured.
type skipped string

func (s skipped) Error() string { return string(s) }

// Check runs all checks and returns their results in order. When the plugin
// does not come up, the others are skipped.
func Check(ctx context.Context, target Target) []Result {
	if target.Log == nil {
		target.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if target.Patience == 0 {
		target.Patience = time.Minute
	}
	s := &suite{target: target, contents: &contents{bodies: map[place][]byte{}}}
	child := remote.Start(ctx, remote.Options{Run: target.Run, Contents: s.contents, Log: target.Log})
	defer child.Close()
	s.child = child
	var results []Result
	for _, step := range steps {
		result := Result{Name: step.name, Outcome: Passed}
		if len(results) > 0 && results[0].Outcome == Failed {
			result.Outcome, result.Detail = Skipped, "the plugin did not come up"
		} else if err := s.step(ctx, step); err != nil {
			result.Outcome, result.Detail = Failed, err.Error()
			if _, ok := err.(skipped); ok {
				result.Outcome = Skipped
			}
		}
		results = append(results, result)
	}
	return results
}

func (s *suite) step(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.target.Patience, fmt.Errorf("not done within %s", s.target.Patience))
	defer cancel()
	return step.run(s, ctx)
}

// Run checks the target as subtests of t.
func Run(t *testing.T, target Target) {
	t.Helper()
	for _, result := range Check(t.Context(), target) {
		t.Run(result.Name, func(t *testing.T) {
			switch result.Outcome {
			case Failed:
				t.Error(result.Detail)
			case Skipped:
				t.Skip(result.Detail)
			}
		})
	}
}
