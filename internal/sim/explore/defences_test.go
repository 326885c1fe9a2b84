package explore

import (
	"errors"
	"strings"
	"testing"
)

// defence is one that is taken out of a world.
type defence struct {
	name   string
	unsafe Unsafe
	world  string
	// small: in the small world of that name; the other is too large then.
	small bool
	// long: it takes more than a moment to be missed.
	long bool
	// wrong is the number of the property that is violated.
	wrong string
	// only judges that property alone, where another would be violated first.
	only bool
	// masked: alone it is not missed in any state of the world, because of the
	// sibling; without both, wrong is violated.
	masked  string
	sibling Unsafe
}

var defences = []defence{
	{name: "epoch at admission", unsafe: NoEpochAtAdmission, world: "unguarded", wrong: "S4"},
	{name: "revision at admission", unsafe: NoRevision, world: "unguarded", wrong: "S2"},
	{name: "valid until", unsafe: NoValidUntil, world: "pin", wrong: "S2"},
	{name: "stop at admission", unsafe: NoStopAtAdmission, world: "stop", wrong: "S18", only: true, masked: "the revision, which a stop moves", sibling: NoRevision},
	{name: "exclusion in the journal", unsafe: NoExclusion, world: "unguarded", wrong: "S3", masked: "the enforcer's own list of open pushes", sibling: NoMemory},
	{name: "the enforcer's list of open pushes", unsafe: NoMemory, world: "unguarded", wrong: "S3", masked: "exclusion in the journal", sibling: NoExclusion},
	{name: "quiet neighbours", unsafe: NoQuiet, world: "torn", wrong: "S1"},
	{name: "taking back what was outrun", unsafe: NoOutrun, world: "torn", wrong: "S1"},
	{name: "groups that take all that waits", unsafe: SmallGroups, world: "torn", wrong: "S1"},
	{name: "rules: order", unsafe: NoRules, world: "order", wrong: "S1"},
	{name: "rules: capacity", unsafe: NoRules, world: "capacity", wrong: "S1"},
	{name: "rules: version", unsafe: NoRules, world: "version", wrong: "S1"},
	{name: "rules: turndown", unsafe: NoRules, world: "turndown", wrong: "S1"},
	{name: "budget", unsafe: NoBudget, world: "budget", wrong: "S8"},
	{name: "budget of what is in doubt", unsafe: BudgetEndsInDoubt, world: "budget", wrong: "S8"},
	{name: "approval is used up", unsafe: ApprovalStays, world: "approval", wrong: "S9"},
	{name: "approval is of a plan", unsafe: ApprovalUnbound, world: "approval", wrong: "S9"},
	{name: "approval is void when the content changes", unsafe: ApprovalOutlives, world: "approval", wrong: "S9"},
	{name: "epoch at permit", unsafe: NoEpochAtPermit, small: true, world: "unguarded", wrong: "S4", masked: "the doubt that a new lease casts", sibling: NoDoubtAtPermit},
	{name: "doubt at permit", unsafe: NoDoubtAtPermit, world: "unguarded", wrong: "S4", masked: "the epoch at permit", sibling: NoEpochAtPermit},
	{name: "stop at permit", unsafe: NoStopAtPermit, world: "stop", wrong: "S18"},
	{name: "target at permit", unsafe: NoTargetAtPermit, world: "unguarded", wrong: "S2"},
	{name: "lock delay", unsafe: NoLockDelay, world: "unguarded", wrong: "S1"},
	{name: "lock delay, two at once", unsafe: NoLockDelay, world: "unguarded", wrong: "S3", only: true},
	{name: "lock delay counts the effect", unsafe: NoEffectDelay, world: "unguarded", wrong: "S3", only: true},
	{name: "lock delay before a fence", unsafe: NoLockDelay, small: true, world: "fenced", wrong: "S4", only: true, masked: "the fence", sibling: NoFence},
	{name: "fence", unsafe: NoFence, world: "fenced", wrong: "S4", only: true, masked: "the lock delay", sibling: NoLockDelay},
	{name: "lock delay before a comparison", unsafe: NoLockDelay, small: true, world: "compared", wrong: "S2", only: true, masked: "the comparison", sibling: NoCompare},
	{name: "comparison", unsafe: NoCompare, world: "compared", wrong: "S1"},
	{name: "a base that is never used again", unsafe: BaseReused, world: "compared", wrong: "S2", only: true, masked: "the lock delay", sibling: NoLockDelay},
	{name: "a permit that names the moved base", unsafe: NoCover, world: "compared", wrong: "S2", only: true, masked: "the lock delay", sibling: NoLockDelay},
	{name: "the plugin plans again", unsafe: NoPlanAgain, world: "compared", wrong: "S1"},
	{name: "a plugin takes a push once", unsafe: RunsTwice, world: "unguarded", wrong: "S3"},
	{name: "a wire delivers nothing after its answer", unsafe: DeliversLate, long: true, world: "unguarded", wrong: "S1", only: true},
	{name: "a start that was held up is looked at again: stop", unsafe: BegunLate, world: "stop", wrong: "S18", only: true},
	{name: "a start that was held up is looked at again: lease", unsafe: BegunLate, world: "unguarded", wrong: "S4", only: true},
	{name: "absence is no Turndown", unsafe: AbsenceDeletes, world: "absence", wrong: "S5"},
	{name: "a plugin's removal is no Turndown", unsafe: AbsencePlansDelete, world: "absence", wrong: "S5", masked: "the rule turndown", sibling: NoRules},
	{name: "a head that only goes forward", unsafe: HeadGoesBack, small: true, world: "unguarded", wrong: "S16"},
	{name: "what is in doubt is settled", unsafe: NeverSettles, small: true, world: "unguarded", wrong: "L1"},
	{name: "what has moved is read", unsafe: NeverReads, small: true, world: "unguarded", wrong: "L1"},
	{name: "an approval that a failed push used is asked for again", unsafe: NeverAsksAgain, small: true, world: "approval", wrong: "L1"},
}

// TestEveryDefenceIsMissed takes out one defence at a time.
func TestEveryDefenceIsMissed(t *testing.T) {
	for _, d := range defences {
		t.Run(d.name, func(t *testing.T) {
			if testing.Short() && (d.long || d.masked != "") {
				t.Skip("looks at every state of a world")
			}
			w := worldNamed(t, d)
			w.Unsafe = d.unsafe
			if d.only {
				w.Only = []string{d.wrong}
			}
			if d.masked != "" {
				graph, err := Explore(New(w), mostStates)
				if err != nil {
					t.Fatalf("it is not masked by %s: %v", d.masked, err)
				}
				t.Logf("masked by %s in %d states", d.masked, graph.States())
				w.Unsafe |= d.sibling
			}
			graph, err := Explore(New(w), mostStates)
			if err == nil {
				err = graph.Rest()
			}
			violation, violated := errors.AsType[*Violation](err)
			if !violated || !strings.HasPrefix(violation.Wrong, d.wrong+":") {
				t.Fatalf("nobody missed it: %v, want %s", err, d.wrong)
			}
			const short = 35
			if len(violation.Trace) > short {
				t.Errorf("the trace has %d steps", len(violation.Trace))
			}
			t.Log(violation)
		})
	}
}

func worldNamed(t *testing.T, d defence) World {
	t.Helper()
	size := Change
	if d.small {
		size = Small
	}
	for _, w := range Worlds(size) {
		if w.Name == d.world {
			return w
		}
	}
	t.Fatalf("there is no world %q", d.world)
	return World{}
}
