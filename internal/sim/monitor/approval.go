package monitor

import (
	"fmt"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// countVote counts a person's vote on a stage, as the audit has it. A stage that enough people have approved, while nobody
// rejected it, may begin from then on.
func (m *Monitor) countVote(r record) {
	approves := r.Verb == "rollout-approve"
	if !approves && r.Verb != "rollout-reject" {
		return
	}
	at := stageRun{runOf: runOf{name: r.Subject}}
	before, stage, ok := strings.Cut(r.Detail, ", stage ")
	if _, err := fmt.Sscanf(before, "run %d", &at.run); err != nil || !ok {
		return // The rollout tells that it took the vote up.
	}
	at.stage = stage
	if m.rolling.votes[at] == nil {
		m.rolling.votes[at] = map[string]bool{}
	}
	m.rolling.votes[at][r.By.Name] = approves
	if quorum, ok := m.quorum(m.rolling.runs[at.name], stage); ok && m.hasApproved(at) >= quorum {
		m.rolling.approved[at] = true
	}
}

// hasApproved counts the people who approve a stage now; -1: somebody rejects it.
func (m *Monitor) hasApproved(at stageRun) (people int) {
	for _, approves := range m.rolling.votes[at] {
		if !approves {
			return -1
		}
		people++
	}
	return people
}

// quorum is the least that any policy since what a run brings asks of people for a stage. Not ok: one asks nobody.
func (m *Monitor) quorum(run intent.Rollout, stage string) (least int, ok bool) {
	for sequence := run.To.Sequence; sequence <= m.head; sequence++ {
		spec := approvalOf(m.rolloutAt(sequence, run.Name), stage)
		if spec == nil {
			return 0, false
		}
		if quorum := max(1, int(spec.GetQuorum())); !ok || quorum < least {
			least, ok = quorum, true
		}
	}
	return least, ok
}

func approvalOf(rollout *intentpb.Rollout, stage string) *intentpb.Judgement {
	for _, s := range rollout.GetStages() {
		if s.GetName() == stage {
			return s.GetApproval()
		}
	}
	return nil
}

// peopleApproved: a stage that asks people lets nothing go on before enough of them approved it in this run,
// unless an operator passed over it (S19).
func (m *Monitor) peopleApproved(run intent.Rollout, stage int) {
	rollout := m.rolloutAt(m.head, run.Name)
	if stage < 0 {
		return
	}
	at := stageRun{runOf{run.Name, run.Run}, rollout.GetStages()[stage].GetName()}
	quorum, ok := m.quorum(run, at.stage)
	for _, skipped := range run.Skipped {
		ok = ok && skipped != at.stage
	}
	m.hold(!ok || m.rolling.approved[at] || m.hasApproved(at) >= quorum, "S19", "run %d of %s lets stage %s begin, and %d people have approved it, not %d", run.Run, run.Name, at.stage, m.hasApproved(at), quorum)
}
