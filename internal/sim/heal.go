package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// patience is how long it may take, once nothing is wrong any more, until all
// is in sync (L1): sweeps, the longest pause after failures, and removals that
// wait for each other.
const patience = 30 * time.Minute

// heal ends all that is wrong, and brings the first intent back. Somebody
// stays who approves what is asked for.
func (l *Lab) heal() {
	l.healing = true
	l.tell("all is healed")
	l.armed, l.store, l.judging = nil, storeTrouble{}, nil
	l.mendStore()
	l.World.Heal()
	l.Sources.Fail(nil)
	l.pulls.away, l.pulls.omitted = false, 0
	l.Sources.Torn(false)
	if l.tornUntil.After(l.Now()) {
		l.tornUntil = l.Now().Add(tornGrace)
	}
	l.Sources.Serve(-1)
	if l.underCommon() {
		l.writeCommon("observe", -1) // Which holds nothing.
	}
	l.goBack()
	l.moveClock()
	for i, r := range l.replicas {
		r.Correct()
		r.Resume()
		r.cut = cut{}
		if !l.fleet() && r.Alive() && i < len(l.replicas)-1 {
			r.Kill("only one is to stay")
		}
	}
	l.receivers()
	l.assist()
}

// goBack brings the first intent back. An id that is something else now must
// go before it can be what it was (S22).
func (l *Lab) goBack() {
	between := l.first.clone()
	for _, m := range l.headMembers() {
		between.Things = slices.DeleteFunc(between.Things, func(t Thing) bool {
			return t.ID == string(m.Asset) && typeOf(t.Kind) != m.Type
		})
	}
	if len(between.Things) == len(l.first.Things) {
		l.save(-1, l.first.clone(), "back to the first intent")
		return
	}
	l.save(-1, between, "what is something else now is left out")
	l.people.Go("go back", func() {
		// Guards may hold it until somebody lets it through.
		for l.people.Wait(l.ctx, time.Minute, nil) == nil {
			if !slices.ContainsFunc(l.members(), func(id intent.AssetID) bool {
				return l.first.find(string(id)) != nil && between.find(string(id)) == nil
			}) {
				l.save(-1, l.first.clone(), "back to the first intent")
				return
			}
		}
	})
}

// typeOf a kind of thing.
func typeOf(kind string) intent.TypeName {
	return map[string]intent.TypeName{
		"job": "lehr.process.v1.Job", "balancer": "lehr.caddy.v1.Balancer",
		"schema": "lehr.sqlschema.v1.Schema", "command": "lehr.command.v1.Command", "login": "sim.v1.Login", "safe": "sim.v1.Safe", "bucket": bucketType, "pool": poolType, "leaf": leafType, "note": noteType,
	}[kind]
}

// assist lets helpful people help from now on: seldom, once there should be nothing
// to do.
func (l *Lab) assist() {
	l.helping = true
	l.people.Go("helpful people", func() {
		pause := 20 * time.Second
		for l.people.Wait(l.ctx, pause, nil) == nil && l.helping {
			if r := l.anyone(); r != nil && r.Client != nil {
				l.help(l.named(r, somebody, Disturbance{Number: -1, Kind: PersonApprove}, l.stream("help")))
			}
			if l.resting {
				pause = 2 * time.Minute
			}
		}
	})
}

// help takes all brakes off, and as many approve what waits as are asked for.
// Errors are tried again.
func (l *Lab) help(p person) {
	for _, act := range []func() error{p.resume, p.unhold, p.unpin, p.accept, p.disownWaitedFor, p.withdraw, p.approveTogether, p.goOnWithRollouts, p.keepKnobs, p.keepVersions, p.keepCourse, p.keepDevices, p.keepDocuments} {
		if err := act(); err != nil {
			l.tell("helping: %v", err)
		}
	}
}

// asksForApproval reports whether an approval lets what a report tells of go.
func asksForApproval(report *apipb.Report) bool {
	return slices.ContainsFunc(report.Waiting, func(w *apipb.WaitingOn) bool { return w.Approve })
}

// settles waits until production is as intent asks, and Lehr knows it (L1).
func (l *Lab) settles(when string, most time.Duration) bool {
	const look = 5 * time.Second
	end := l.Now().Add(most)
	for !l.failed() && l.ctx.Err() == nil {
		l.run(l.Now().Add(look))
		open := l.unsettled()
		switch {
		case len(open) == 0:
			l.tell("all is in sync")
			return !l.failed()
		case l.Now().After(end):
			l.wrong("L1", "%s, %s did not suffice to bring all in sync: %s", when, most, strings.Join(open, "; "))
			return false
		}
	}
	return false
}

// unsettled says what is not as it should be.
func (l *Lab) unsettled() (open []string) {
	partition, err := l.reading.Partition(l.ctx, l.partition)
	if err != nil {
		return []string{err.Error()}
	}
	if problem := l.behind(partition); problem != "" {
		open = append(open, problem)
	}
	for _, m := range l.headMembers() {
		report, err := l.reading.Report(l.ctx, l.partition, m.Asset)
		if err != nil {
			open = append(open, fmt.Sprintf("%s has no report", m.Asset))
			continue
		}
		if report.State.IsUncompared() || report.State == intent.StateOff || l.observed(report) {
			continue
		}
		if ok, how := l.World.Matches(l.ctx, partition.Head, m.Asset); !ok {
			open = append(open, fmt.Sprintf("%s: production: %s; reported %s %s", m.Asset, how, report.State, reasons(report)))
		} else if report.State != intent.StateInSync {
			open = append(open, fmt.Sprintf("%s is in sync, and reported %s %s", m.Asset, report.State, reasons(report)))
		}
	}
	open = append(open, l.outputsMissing(partition.Head)...)
	pushes, err := l.reading.OpenPushes(l.ctx, l.partition)
	for _, push := range pushes {
		open = append(open, fmt.Sprintf("push %s of %s is open", push.Push, push.Asset))
	}
	if err != nil {
		open = append(open, err.Error())
	}
	// One that waits for a person may yet bring what head has changed back from.
	runs, err := l.reading.Rollouts(l.ctx, l.partition, store.RolloutFilter{Open: true})
	for _, run := range runs {
		open = append(open, fmt.Sprintf("rollout %s, run %d, is %s: %s", run.Name, run.Run, run.State, run.Progress.Waits))
	}
	if err != nil {
		open = append(open, err.Error())
	}
	return open
}

func reasons(report intent.Report) string {
	var texts []string
	for _, waiting := range report.Waiting {
		texts = append(texts, fmt.Sprintf("(%s: %s)", waiting.Kind, waiting.Reason))
	}
	return strings.Join(texts, " ")
}

// behind says in what head is not what the sources say.
func (l *Lab) behind(partition store.Partition) string {
	if partition.Head.IsZero() {
		return "nothing is served yet"
	}
	if l.options.Definition != "" || !l.healing && !l.changed.IsZero() {
		return ""
	}
	members := l.headMembers()
	want := map[intent.AssetID]bool{}
	for _, t := range l.intent.Things {
		want[intent.AssetID(t.ID)] = true
	}
	for _, m := range members {
		if m.Asset != intent.PolicyAsset && !want[m.Asset] && !l.ofKnobs(m.Asset) && !l.isDelivered(m.Asset) && !l.isOfCourse(m.Asset) && !l.isDevice(m.Asset) {
			return fmt.Sprintf("%s still has %s", partition.Head, m.Asset)
		}
		delete(want, m.Asset)
	}
	for _, t := range l.intent.Things {
		if want[intent.AssetID(t.ID)] {
			return fmt.Sprintf("%s lacks %s", partition.Head, t.ID)
		}
	}
	incarnation, err := l.reading.Incarnation(l.ctx, partition.Head)
	switch {
	case err != nil:
		return err.Error()
	case l.root.IsZero():
		l.root = incarnation.Digest
	case l.healing && incarnation.Digest != l.root && !l.sets() && !l.delivers() && !l.releases() && !l.upgrades() && !l.asksOutputs() && !l.previews(): // Documents are as people, rollouts and plugins left them.
		return fmt.Sprintf("%s is not the first intent's content", partition.Head)
	}
	if l.healing {
		return l.openRun()
	}
	return ""
}

// headMembers are those of head; none when they cannot be read.
func (l *Lab) headMembers() []intent.Member {
	partition, err := l.reading.Partition(l.ctx, l.partition)
	if err != nil || partition.Head.IsZero() {
		return nil
	}
	members, err := l.reading.Members(l.ctx, partition.Head, store.AssetFilter{})
	if err != nil {
		return nil
	}
	return members
}

// staysQuiet lets time pass at the fixed point: nothing may happen (L10), and
// all stays in sync (L1).
func (l *Lab) staysQuiet() {
	if l.failed() {
		return
	}
	l.resting = true
	l.run(l.Now().Add(12 * time.Minute)) // What is remembered of fights fades.
	effects, before := l.effects, l.Monitor.Quiet()
	l.run(l.Now().Add(15 * time.Minute))
	if l.failed() {
		return
	}
	if l.effects != effects {
		l.wrong("L10", "%d effects at a fixed point", l.effects-effects)
	}
	if after := l.Monitor.Quiet(); !slices.Equal(before, after) {
		l.wrong("L10", "rows were written at a fixed point: before %q, after %q", without(before, after), without(after, before))
	}
	if open := l.unsettled(); len(open) > 0 {
		l.wrong("L1", "it did not stay in sync: %s", strings.Join(open, "; "))
	}
	l.verifyAudit()
}

// verifyAudit holds the whole record to the rules that it tells of, as whoever
// has only the record would (S25).
func (l *Lab) verifyAudit() {
	report, err := audit.VerifyStore(l.ctx, l.reading, nil, func(intent.PartitionID) bool { return true })
	if err != nil {
		l.wrong("S25", "the audit cannot be verified: %v", err)
	}
	for _, problem := range report.Problems {
		l.wrong("S25", "%s", problem.Message)
	}
}

// without returns what is in one list and not in the other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(line string) bool { return slices.Contains(other, line) })
}
