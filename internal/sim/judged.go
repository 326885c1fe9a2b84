package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/world"
)

// In runs that are judged a plugin of checks is asked of each push, before and while it
// runs, and of some after it.

// Disturbances of runs that are judged.
const (
	JudgeTurns  Kind = "a plugin of checks goes wrong"
	JudgeDuring Kind = "a plugin of checks turns while a push runs"
	JudgeAfter  Kind = "a plugin of checks turns after a push"
	JudgeEdited Kind = "protections are edited"
)

var judgedKinds = []weighed{{JudgeTurns, 25}, {JudgeDuring, 45}, {JudgeAfter, 25}, {JudgeEdited, 6}}

// What becomes of questions.
const (
	judgeHangs    = "hangs"
	judgeDies     = "dies"
	judgeLate     = "answers late"
	judgeBlocks   = "blocks"
	judgeWavers   = "changes its mind"
	judgeBriefly  = "passes briefly"
	judgeMisasked = "cannot be asked so"
	judgeRefuses  = "refuses who asks"
	judgeOther    = "answers for other content"
	judgePlan     = "answers for another plan"
	judgeGarbage  = "answers neither yes nor no"
)

var judgeTroubles = []string{
	judgeHangs, judgeDies, judgeLate, judgeBlocks, judgeBlocks, judgeWavers, judgeWavers, judgeBriefly, judgeMisasked, judgeRefuses,
	judgeOther, judgePlan, judgePlan, judgeGarbage,
}

// Judged reports whether runs of a seed have a plugin of checks.
func Judged(seed uint64) bool { return seed%27 == 9 }

// judged reports whether this run has one.
func (l *Lab) judged() bool { return l.options.Definition == "" && Judged(l.options.Seed) }

// protections are the checks of a run that is judged.
func protections(r *rand.Rand) string {
	place := []string{"", `, where: type == "Balancer"`}[r.IntN(2)]
	return fmt.Sprintf("  judged: {plugin: judge, for: %ds, during: %s, every: 5s}\n", 15+r.IntN(25), []string{"block", "fail"}[r.IntN(2)]) +
		fmt.Sprintf("  proven: {plugin: judge, for: 30s, every: 5s, after: {delay: %ds, duration: %ds}%s}\n", 5+r.IntN(20), 1+r.IntN(40), place)
}

// judgeEdited has other protections from now on, or one of them.
func (l *Lab) judgeEdited(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	lines := strings.SplitAfter(protections(r), "\n")
	next.Protections = strings.Join(lines[r.IntN(2):1+r.IntN(2)+len(lines)-2], "")
	l.note(d.Kind, "sources")
	l.save(d.Number, next, "other protections:"+strings.TrimRight(next.Protections, "\n"))
}

// judgeTrouble is what becomes of questions about an asset, in a phase; empty: of all.
type judgeTrouble struct {
	kind, phase string
	asset       intent.AssetID
	until       time.Time
}

// judge is a plugin of checks as a replica has it: a child that answers in time, or does
// not.
type judge struct{ replica *Replica }

// Judge implements plugin.Judge.
func (j judge) Judge(ctx context.Context, request *pluginpb.JudgeRequest) (*pluginpb.JudgeResponse, error) {
	const timeout = 4 * time.Second // The usual one.
	l, r := j.replica.lab, j.replica.lab.stream("judge")
	start := l.Now()
	kind := l.judges(request)
	if kind != "" {
		l.mark("judge: " + request.Phase + ": " + kind)
	}
	takes := time.Duration(r.Int64N(int64(100 * time.Millisecond)))
	switch kind {
	case judgeHangs:
		takes = timeout
	case judgeLate:
		takes = timeout - takes - time.Millisecond
	}
	if err := j.replica.Wait(ctx, takes, nil); err != nil {
		return nil, err
	}
	says := &pluginpb.JudgeResponse{Content: request.Content, PlanDigest: request.PlanDigest, Judgement: pluginpb.JudgeResponse_JUDGEMENT_PASS}
	told := monitor.Judgement{
		Check: request.Protection, Phase: request.Phase, Asset: intent.AssetID(request.Asset), Content: request.Content, Plan: request.PlanDigest,
		Push: intent.PushID(request.Push), By: j.replica.Name(), Asked: start, Passes: true,
	}
	switch kind {
	case judgeHangs:
		return nil, fault.New(fault.Unavailable, "there was no answer within %s", timeout)
	case judgeDies:
		return nil, fault.New(fault.Unavailable, "it did not answer: it died")
	case judgeMisasked, judgeRefuses:
		told.Passes = false
		l.Monitor.Judged(told)
		if kind == judgeRefuses {
			return nil, fault.New(fault.Denied, "it refuses: nobody knows you")
		}
		return nil, fault.New(fault.Invalid, "it says that it cannot be asked so: there is no such thing")
	case judgeOther:
		says.Content = intent.Sum("another", []byte(request.Content)).String()
		return says, remote.CheckJudgement(request, says)
	case judgePlan:
		says.PlanDigest = intent.Sum("another", []byte(request.PlanDigest)).String()
		return says, remote.CheckJudgement(request, says)
	case judgeGarbage:
		says.Judgement = 7
		told.Passes = false
	case judgeWavers, judgeBlocks:
		if kind == judgeBlocks || r.IntN(2) == 0 {
			says.Judgement, says.Reason = pluginpb.JudgeResponse_JUDGEMENT_BLOCKING, "as the simulator has it"
			told.Passes = false
		}
	case judgeBriefly:
		told.Until = l.Now().Add(time.Duration(1+r.IntN(6)) * time.Second)
		says.Until = timestamppb.New(told.Until)
	}
	l.Monitor.Judged(told)
	return says, remote.CheckJudgement(request, says)
}

// Select implements plugin.Judge.
func (judge) Select(context.Context, *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error) {
	return nil, fault.New(fault.Invalid, "it selects nothing")
}

// Measure is asked of nobody here: validations are assessed otherwise.
func (judge) Measure(context.Context, *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
	return nil, fault.New(fault.Invalid, "it measures nothing")
}

// judges is what becomes of a question; empty: it is answered with yes.
func (l *Lab) judges(request *pluginpb.JudgeRequest) string {
	l.judging = slices.DeleteFunc(l.judging, func(t judgeTrouble) bool { return !t.until.After(l.Now()) })
	for _, t := range l.judging {
		if (t.phase == "" || t.phase == request.Phase) && (t.asset == "" || t.asset == intent.AssetID(request.Asset)) {
			return t.kind
		}
	}
	return ""
}

// judgeIs lets something become of questions for a while.
func (l *Lab) judgeIs(d Disturbance, t judgeTrouble, period time.Duration) {
	l.note(d.Kind, "judge")
	l.tell("%s: it %s, phase %q, asset %q, for %s", d, t.kind, t.phase, t.asset, period)
	t.until = l.Now().Add(period)
	l.judging = append(l.judging, t)
}

// judgeTurns lets it go wrong for a while, of one asset or of all.
func (l *Lab) judgeTurns(d Disturbance, r *rand.Rand) {
	t := judgeTrouble{kind: judgeTroubles[r.IntN(len(judgeTroubles))], phase: []string{"", "", "before", "during", "after"}[r.IntN(5)]}
	next := l.good.clone()
	changed := next.wanting(r, "job", "balancer", "command")
	if r.IntN(2) == 0 && changed != nil {
		t.asset = intent.AssetID(changed.ID)
	}
	l.judgeIs(d, t, min(d.Length+10*time.Second, 4*time.Minute))
	if changed != nil && r.IntN(3) > 0 {
		l.save(d.Number, next, changed.alter(r))
		l.soonApproved(d)
	}
}

// turning is what it does at a moment.
var turning = []string{judgeBlocks, judgeBlocks, judgeWavers, judgeHangs, judgeDies, judgeMisasked, judgePlan, judgeGarbage}

// judgeDuring has it turn while a push hangs, before its first effect or between two.
func (l *Lab) judgeDuring(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "job", "balancer", "command")
	if t == nil {
		return
	}
	id := intent.AssetID(t.ID)
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, id)
	// An even seed: the plugin goes on asking for permits.
	l.World.Trouble(world.Trouble{Kind: []world.TroubleKind{world.PushHang, world.PushHang, world.PushSlow}[r.IntN(3)], Asset: id, For: time.Duration(6+r.IntN(25)) * time.Second, Seed: d.Seed &^ 1})
	l.save(d.Number, next, t.alter(r))
	l.soonApproved(d)
	l.whilePushed(id, func() {
		_ = l.people.Wait(l.ctx, time.Duration(r.Int64N(int64(4*time.Second))), nil)
		if !l.healing {
			l.mark("judge: turns while a push runs")
			l.judgeIs(d, judgeTrouble{kind: turning[r.IntN(len(turning))], phase: "during", asset: id}, time.Duration(10+r.IntN(60))*time.Second)
		}
	})
}

// judgeAfter has it turn after a push, and at times the process end then, while what
// comes after the asset is changed too.
func (l *Lab) judgeAfter(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "balancer")
	if t == nil {
		return
	}
	id, action := intent.AssetID(t.ID), t.alter(r)
	for at := range next.Things {
		if slices.Contains(next.Things[at].After, t.ID) {
			action += "; " + next.Things[at].alter(r)
		}
	}
	l.note(d.Kind, "production")
	l.save(d.Number, next, action)
	l.soonApproved(d)
	if kind := turning[r.IntN(len(turning))]; r.IntN(4) > 0 {
		l.judgeIs(d, judgeTrouble{kind: kind, phase: "after", asset: id}, time.Duration(20+r.IntN(100))*time.Second)
	}
	if r.IntN(2) == 0 {
		l.whilePushed(id, func() {
			_ = l.people.Wait(l.ctx, time.Duration(r.Int64N(int64(90*time.Second))), nil)
			if !l.healing {
				l.mark("judge: restart after a push")
				l.restart(Disturbance{Number: d.Number, Kind: Restart, Seed: d.Seed}, r)
			}
		})
	}
}

// protected marks what protections did to a push that ended so.
func (l *Lab) protected(ending, reason string) {
	if l.judged() && strings.Contains(reason, "check judged") {
		l.mark("a protection had a push " + ending)
	}
}

// toldAfter marks what is told of an asset after its push.
func (l *Lab) toldAfter(h intent.Health) {
	if l.judged() && h.IsAfterPush() {
		l.mark("after a push: " + string(h.State))
	}
}

// judgeOf is the plugin of checks of a replica.
func (r *Replica) judgeOf(string) plugin.Judge { return judge{r} }
