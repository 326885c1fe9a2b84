// Package conformance holds a plugin to the protocol: over the real wire, with
// real effects on one example resource that the author gives. It measures, and
// believes nothing that the plugin says of itself, its guarantee class least.
// It speaks the wire itself, and so can say what no Lehr says. It removes the
// example in the end, if the plugin can; else it leaves it in place. Package plugintest runs it
// from a test, the command "lehr plugin test" outside of one.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
)

// Target is a plugin to be checked, and an example of what it looks after.
type Target struct {
	// Run is the program and its arguments. Empty: Socket or Dial is used.
	Run []string
	// Socket is the path of a unix socket on which a plugin serves that
	// somebody else started. What needs to start and end it is skipped.
	Socket string
	// Dial is where a plugin server that somebody else started is reached, and
	// perhaps where another process of it is that looks after the same real
	// things: with two the class is measured.
	Dial []remote.Address
	// First and Second are two intents for one and the same resource. They
	// differ in a field that the plugin can change in place. The resource
	// does not exist when the checks begin.
	First, Second proto.Message
	// Production describes the real thing without the plugin, if it can be:
	// looking must not change it. May be nil.
	Production func(ctx context.Context) (string, error)
	// Secret that the example names; nil: none is taken away and rotated.
	Secret *Secret
	// Patience is how long one step may take, and what is pending may last; default 1 min.
	Patience time.Duration
	// Tell is told each result as soon as there is one. May be nil.
	Tell func(Result)
	// Only are the rules that are tried after the first; empty: all.
	Only []string
}

// Outcome of a rule.
type Outcome string

const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// Skipped: it could not be measured, and Detail says why.
	Skipped Outcome = "skipped"
)

// Result is how a plugin fared with one rule.
type Result struct {
	Name    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	// Detail says why it failed or was skipped, or what was found.
	Detail string `json:"detail,omitempty"`
}

// Report is what was found.
type Report struct {
	Plugin  string          `json:"plugin"`
	Version string          `json:"version"`
	Type    intent.TypeName `json:"type"`
	Results []Result        `json:"results"`
	// Declared is the guarantee class that the plugin claims, Measured the one
	// that was found; empty: it could not be measured.
	Declared plugin.Guarantee `json:"declared"`
	Measured plugin.Guarantee `json:"measured"`
	// Left: the example may still be there.
	Left bool `json:"left"`
}

// Failed reports whether any rule was.
func (r Report) Failed() bool {
	for _, result := range r.Results {
		if result.Outcome == Failed {
			return true
		}
	}
	return false
}

// Rule is one rule of the protocol.
type Rule struct {
	Name string
	// Says is the rule in a sentence.
	Says string
	// run returns an error if the plugin breaks the rule, a skipped if that
	// could not be measured, and a remark about how it keeps it.
	run func(*suite, context.Context) error
}

// Rules in the order in which they are tried; each starts from what the one
// before left.
var Rules = []Rule{
	{"describe", "It says within 10 s what it serves: protocol 1, the types, the class and longest effect of each.", (*suite).describe},
	{"looking changes nothing", "Two diffs in a row say the same, and leave production as it was.", (*suite).looking},
	{"answers are about what was asked", "Each asset of a batch is answered once, and none that was not asked about.", (*suite).answersOnce},
	{"a call that waits holds up no other", "While the content of one asset is awaited, another call is answered.", (*suite).independent},
	{"garbage is survived", "Intent that cannot be read makes that asset unknown, and no other.", (*suite).garbage},
	{"stale plan is refused", "A push of another plan than the one found now ends as stale and changes nothing.", (*suite).stalePlan},
	{"moved base asks for a permit", "A push whose base moved names the new one, and does nothing without a permit for it.", (*suite).movedBase},
	{"no effect without a permit", "A push under a permit that has run out begins no effect.", (*suite).expiredPermit},
	{"create from nothing", "A push of what does not exist makes it, shows it, and names its resource key.", (*suite).create},
	{"push is idempotent", "A push of what is in sync changes nothing.", (*suite).idempotent},
	{"update in place", "A push of another intent ends in sync with that.", (*suite).update},
	{"repair ends as create did", "The state reached from another one is the state that creation led to.", (*suite).repair},
	{"outputs stay the same", "What it tells others of the example in sync is within the limits, and the same at each look.", (*suite).outputs},
	{"the stream of hints beats", "If it hints what may have changed, it sends a message at least each 5 s.", (*suite).beats},
	{"hints name what was asked about", "If it hints what may have changed, it names only assets that the connection asked about.", (*suite).hintsNamed},
	{"a push delivered twice has one effect", "The same push id, delivered again at once or later, changes nothing more.", (*suite).redelivery},
	{"absence deletes nothing", "An asset that an incarnation does not have is unknown there, and its real thing stays.", (*suite).absence},
	{"withdrawn permit stops a push", "A push whose permit is refused under way ends, and begins nothing more.", (*suite).withdrawnPermit},
	{"a push ends with its permit", "A push whose permit is not renewed ends within D + E, and begins nothing more.", (*suite).silentPermit},
	{"a lost memo is survived", "While a change is under way of which a memo tells, a diff without the memo says pending or unknown, and a push without it begins nothing.", (*suite).lostMemo},
	{"an answer tells its age", "An answer is not of the future, nor older than its type's cadence; what shows production as it was before a change says that it is older than the change.", (*suite).ages},
	{"a fact of now is read now", "When production was changed past the process that is asked, a question for a fact of now is answered by the change, or pending until it is.", (*suite).readsNow},
	{"a secret that cannot be read is unknown", "While a secret that the example names is missing or cannot be read, the difference is unknown and names the reference, and a push changes nothing.", (*suite).secretUnreadable},
	{"a rotated secret is another plan", "A secret with another value is a difference, by another plan for each value; a push of a plan from before is stale.", (*suite).secretRotated},
	{"nonsense on the wire is survived", "Messages that no Lehr sends break nothing.", (*suite).nonsense},
	{"killed in the middle, the next push completes", "After kill -9 in the middle of a push the next diff tells the truth, and the next push completes.", (*suite).killed},
	{"guarantee class", "What it declares is what was measured: a lower token (F) or an old base (C) is refused by the target itself.", (*suite).guarantee},
	{"turndown", "An asset with the addon Turndown is deleted, then in sync with nothing there, and can be created again; or it is unknown, with a reason.", (*suite).turndown},
	{"pending says what, and ends", "What is pending says what is under way and what ends it, keeps the time since when, begins no push meanwhile, and ends when nothing goes on.", (*suite).pending},
	{"a secret is never shown", "The value of a secret is in no answer, plan, progress, memo or reason, and in nothing that the plugin writes.", (*suite).secretHidden},
	{"too busy says until when", "A pause that it asked for in any of its answers is one to come.", (*suite).busy},
	{"ends with its parent", "It ends when its standard input does.", (*suite).endsWithParent},
}

// skipped says why something could not be measured.
type skipped string

func (s skipped) Error() string { return string(s) }

// remark says how a rule is kept.
type remark string

func (r remark) Error() string { return string(r) }

// Check tries all rules. When the plugin does not come up, the others are
// skipped.
func Check(ctx context.Context, target Target) Report {
	if target.Patience == 0 {
		target.Patience = time.Minute
	}
	s := &suite{target: target, shared: &shared{contents: newContents()}, token: uint64(time.Now().UnixMicro())}
	defer s.disconnect()
	defer s.restoreSecret()
	isDown := false
	for i, rule := range Rules {
		if i > 0 && len(target.Only) > 0 && !slices.Contains(target.Only, rule.Name) {
			continue
		}
		result := Result{Name: rule.Name, Outcome: Skipped, Detail: "the plugin did not come up"}
		if !isDown {
			result = s.try(ctx, rule)
			isDown = i == 0 && result.Outcome == Failed
		}
		s.report.Results = append(s.report.Results, result)
		if target.Tell != nil {
			target.Tell(result)
		}
	}
	s.report.Left = !isDown && !s.clean(ctx)
	return s.report
}

func (s *suite) try(ctx context.Context, rule Rule) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, s.target.Patience, fmt.Errorf("not done within %s", s.target.Patience))
	defer cancel()
	err := s.connect(ctx)
	if err == nil {
		err = rule.run(s, ctx)
	}
	if err == nil {
		return Result{Name: rule.Name, Outcome: Passed}
	}
	if skip, ok := errors.AsType[skipped](err); ok {
		return Result{Name: rule.Name, Outcome: Skipped, Detail: skip.Error()}
	}
	if note, ok := errors.AsType[remark](err); ok {
		return Result{Name: rule.Name, Outcome: Passed, Detail: note.Error()}
	}
	return Result{Name: rule.Name, Outcome: Failed, Detail: err.Error()}
}
