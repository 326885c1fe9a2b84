package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// candidatePlanView is what pushes of a candidate would do in production, as its plugins say now.
type candidatePlanView struct {
	*apipb.PlanCandidateResponse
	Partition string
	// Assets that would be pushed, or of which nobody can tell; what destroys something comes first. More are not
	// shown.
	Assets []*apipb.Report
	More   int
	// Change, Same and Unknown count assets, and Destructive those whose pushes destroy something.
	Change, Same, Unknown, Destructive int
	// Old says that it changes an incarnation that is not head any more.
	Old bool
	// Dead says that nothing of it is pushed, whatever happens.
	Dead bool
	// Command says the same in a terminal.
	Command string
}

// formPlanTime bounds how long the form that lets a candidate through waits for plugins to look at production.
const formPlanTime = 10 * time.Second

// candidatePlanLink is the address of what pushes of a candidate would do.
func candidatePlanLink(partition, digest string) string {
	return address{kind: "candidate", partition: partition, name: digest, query: url.Values{"plan": {"1"}}}.String()
}

// showCandidatePlan has plugins look at production. It is not followed: that would ask them again and again.
func showCandidatePlan(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "What candidate "+short(at.name)+" would do")
	if err != nil {
		return page{}, err
	}
	pageData.Fixed = true
	pageData.Back = crumb{"candidate " + short(at.name), link(at.partition, "candidate", at.name)}
	response, err := r.Candidates.GetCandidate(ctx, &apipb.GetCandidateRequest{Partition: at.partition, Digest: at.name})
	if err != nil {
		return page{}, err
	}
	var acts []actButton
	if response.Candidate.State == string(intent.CandidateHeld) && !response.Candidate.Acknowledged {
		acts = []actButton{newActButton(at.partition, "acknowledge", response.Candidate.Digest)}
	}
	pageData.Parts = []part{r.planCandidate(ctx, at.partition, response.Candidate.Digest), makePart("acts", "act-links", acts)}
	return pageData, nil
}

// planCandidate is the part that says what pushes of a candidate would do, or why nobody can tell.
func (r *reader) planCandidate(ctx context.Context, partition, digest string) part {
	const id = "planned"
	response, err := r.Reports.PlanCandidate(ctx, &apipb.PlanCandidateRequest{Partition: partition, Candidate: digest})
	if err != nil {
		return problem(id, err)
	}
	view := candidatePlanView{PlanCandidateResponse: response, Partition: partition, Command: r.command(partition, "plan", "--candidate", short(digest))}
	view.count()
	return makePart(id, "candidate-plan", view)
}

func (v *candidatePlanView) count() {
	for _, report := range v.Reports {
		switch {
		case report.Plan != nil:
			v.Change++
			if report.Plan.Destructive {
				v.Destructive++
			}
		case report.State == string(intent.StateInSync):
			v.Same++
			continue
		case report.State == string(intent.StateWaiting), report.State == string(intent.StateUnserved):
			v.Unknown++
		default:
			continue
		}
		v.Assets = append(v.Assets, report)
	}
	slices.SortStableFunc(v.Assets, func(a, b *apipb.Report) int {
		rank := func(report *apipb.Report) int {
			switch {
			case report.Plan.GetDestructive():
				return 0
			case report.Plan == nil:
				return 1
			}
			return 2
		}
		return cmp.Compare(rank(a), rank(b))
	})
	if v.More = int(v.PlanCandidateResponse.More); len(v.Assets) > rowsShown {
		v.More += len(v.Assets) - rowsShown
		v.Assets = v.Assets[:rowsShown]
	}
	v.Dead = v.State == string(intent.CandidateRejected) || v.State == string(intent.CandidateSuperseded)
	v.Old = !v.Dead && v.Base != v.Head
}
