package web

import (
	"context"
	"strconv"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

// partitionPage begins a page about something in a partition.
func partitionPage(ctx context.Context, r *reader, at address, title string) (page, error) {
	p, err := r.readPartition(ctx, at.partition)
	if err != nil {
		return page{}, err
	}
	return page{
		Title: title, Partition: p.Id,
		Back: crumb{"partition " + p.Id, address{kind: "partition", partition: p.Id}.String()},
	}, nil
}

// pager leads on through a list.
type pager struct {
	Count       int
	First, Next string
}

func (at address) pager(key string, count int, next string) pager {
	p := pager{Count: count}
	if next != "" {
		p.Next = at.withValue(key, next)
	}
	if at.query.Get(key) != "" {
		p.First = at.withValue(key, "")
	}
	return p
}

// showIncarnations is what was served, the newest first.
func showIncarnations(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Incarnations of "+at.partition)
	if err != nil {
		return page{}, err
	}
	cursor, err := strconv.ParseUint("0"+at.query.Get("before"), 10, 64)
	if err != nil {
		return page{}, fault.New(fault.Invalid, "%.40q is not the number of an incarnation", at.query.Get("before"))
	}
	response, err := r.Incarnations.ListIncarnations(ctx, &apipb.ListIncarnationsRequest{
		Partition: at.partition, Before: cursor, Limit: rowsShown,
	})
	if err != nil {
		return page{}, err
	}
	var rows []part
	for _, incarnation := range response.Incarnations {
		rows = append(rows, makeRow(incarnation.Id, "incarnation-row", incarnation))
	}
	next := ""
	if response.Next != 0 {
		next = strconv.FormatUint(response.Next, 10)
	}
	drawing := &graph{}
	if cursor == 0 {
		candidates, err := r.Candidates.ListCandidates(ctx, &apipb.ListCandidatesRequest{Partition: at.partition, Limit: candidatesDrawn})
		if err != nil {
			return page{}, err
		}
		drawing = ancestryGraph(at.partition, response.Incarnations, candidates.Candidates)
	}
	pageData.Parts = []part{makePart("ancestry", "graph", drawing), makeList("incarnations", "incarnations", at.pager("before", len(rows), next), rows)}
	return pageData, nil
}

// comparisonView is a page of what an incarnation changed.
type comparisonView struct {
	Partition   string
	Comparisons []*apipb.Comparison
	// Would: it is a candidate.
	Would bool
	// From is the incarnation that it was compared with, where a person named one.
	From string
	pager
}

// openAtMost is how many changed assets are shown unfolded.
const openAtMost = 5

// Open reports whether fields are shown at once.
func (c comparisonView) Open() bool { return len(c.Comparisons) <= openAtMost }

// About is a change and the partition that it is in.
func (c comparisonView) About(change *apipb.Change) any {
	return struct {
		Partition string
		Change    *apipb.Change
	}{c.Partition, change}
}

// showIncarnation is one incarnation, and what it changed.
func showIncarnation(ctx context.Context, r *reader, at address) (page, error) {
	id := at.partition + "@" + at.name
	pageData, err := partitionPage(ctx, r, at, "Incarnation "+id)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"incarnations of " + at.partition, link(at.partition, "incarnations", "")}
	pageData.Fixed = true
	incarnation, err := r.incarnation(ctx, at)
	if err != nil {
		return page{}, err
	}
	form := compareForm{Action: link(at.partition, "incarnation", at.name), From: at.query.Get("from")}
	from := incarnation.Parent
	if form.From != "" {
		from = namedIncarnation(at.partition, form.From)
		form.Command = r.command(at.partition, "diff", from, id)
	}
	pageData.Parts = append(pageData.Parts, makePart("acts", "act-links", []actButton{newActButton(at.partition, "label", at.name)}), makePart("incarnation", "incarnation-facts", incarnation), makePart("warnings", "warnings", incarnation), makePart("compare", "compare-form", form))
	compared, err := r.Incarnations.CompareIncarnations(ctx, &apipb.CompareIncarnationsRequest{From: from, To: id, After: at.query.Get("after"), Limit: rowsShown})
	if err != nil {
		pageData.Parts = append(pageData.Parts, problem("changes", err))
		return pageData, nil
	}
	view := comparisonView{Partition: at.partition, Comparisons: compared.Comparisons, pager: at.pager("after", len(compared.Comparisons), compared.Next)}
	if form.From != "" {
		view.From = from
	}
	pageData.Parts = append(pageData.Parts, makePart("changes", "comparisons", view))
	return pageData, nil
}

// compareForm asks with which incarnation one is compared.
type compareForm struct{ Action, From, Command string }

// namedIncarnation is an incarnation of a partition by the name that people write: 12, @12 or shop@12.
func namedIncarnation(partition, text string) string {
	if _, sequence, ok := strings.Cut(text, "@"); ok {
		text = sequence
	}
	return partition + "@" + text
}

// incarnation reads one of a list, which does not look for what it changed.
func (r *reader) incarnation(ctx context.Context, at address) (*apipb.Incarnation, error) {
	id := at.partition + "@" + at.name
	if sequence, err := strconv.ParseUint(at.name, 10, 63); err == nil {
		response, err := r.Incarnations.ListIncarnations(ctx, &apipb.ListIncarnationsRequest{Partition: at.partition, Before: sequence + 1, Limit: 1})
		if err != nil {
			return nil, err
		}
		if found := response.Incarnations; len(found) == 1 && found[0].Id == id {
			return found[0], nil
		}
	}
	response, err := r.Incarnations.GetIncarnation(ctx, &apipb.GetIncarnationRequest{Id: id, Changes: 1})
	return response.GetIncarnation(), err
}

// candidatesShown is how many candidates a list has; older ones are forgotten
// soon anyway.
const candidatesShown = 50

func showCandidates(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Candidates of "+at.partition)
	if err != nil {
		return page{}, err
	}
	response, err := r.Candidates.ListCandidates(ctx, &apipb.ListCandidatesRequest{Partition: at.partition, Limit: candidatesShown})
	if err != nil {
		return page{}, err
	}
	var rows []part
	for _, candidate := range response.Candidates {
		rows = append(rows, makeRow(candidate.Id, "candidate-row", candidateView{Candidate: candidate, Partition: at.partition}))
	}
	pageData.Parts = []part{makeList("candidates", "candidates", len(rows), rows)}
	return pageData, nil
}

// candidateView is a snapshot that is not served, and why.
type candidateView struct {
	*apipb.Candidate
	Partition string
	// Approve is the command that lets it through its guards, and Acts the same here.
	Approve string
	Acts    []actButton
	Changes []*apipb.Change
	More    bool
	// Plan leads to what its pushes would do.
	Plan string
}

func showCandidate(ctx context.Context, r *reader, at address) (page, error) {
	if at.query.Get("plan") != "" {
		return showCandidatePlan(ctx, r, at)
	}
	pageData, err := partitionPage(ctx, r, at, "Candidate "+short(at.name))
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"candidates of " + at.partition, link(at.partition, "candidates", "")}
	response, err := r.Candidates.GetCandidate(ctx, &apipb.GetCandidateRequest{Partition: at.partition, Digest: at.name, Changes: rowsShown})
	if err != nil {
		return page{}, err
	}
	view := candidateView{
		Candidate: response.Candidate, Partition: at.partition, Changes: response.Changes, More: response.MoreChanges,
	}
	if view.State == "held" && !view.Acknowledged {
		view.Approve = r.command(at.partition, "approve", "--candidate", short(view.Digest), "--reason", "WHY")
		view.Acts = []actButton{newActButton(at.partition, "acknowledge", view.Digest)}
	}
	view.Plan = candidatePlanLink(at.partition, view.Digest)
	changes := makePart("changes", "changes", view)
	compared, err := r.Incarnations.CompareIncarnations(ctx, &apipb.CompareIncarnationsRequest{
		From: view.Base, To: at.partition + "@~" + view.Digest, After: at.query.Get("after"), Limit: rowsShown,
	})
	if err == nil { // Else it has no content that can be read.
		changes = makePart("changes", "comparisons", comparisonView{Partition: at.partition, Comparisons: compared.Comparisons, Would: true, pager: at.pager("after", len(compared.Comparisons), compared.Next)})
	}
	pageData.Parts = []part{makePart("acts", "act-links", view.Acts), makePart("candidate", "candidate-facts", view), makePart("findings", "findings-table", view), changes}
	return pageData, nil
}

// orphanView is an orphan, and how it is disowned.
type orphanView struct {
	*apipb.Orphan
	Acts []actButton
}

// showOrphans is what nobody looks after any more.
func showOrphans(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Orphans of "+at.partition)
	if err != nil {
		return page{}, err
	}
	response, err := r.Orphans.ListOrphans(ctx, &apipb.ListOrphansRequest{
		Partition: at.partition, After: at.query.Get("after"), Limit: rowsShown,
	})
	if err != nil {
		return page{}, err
	}
	var rows []part
	for _, orphan := range response.Orphans {
		rows = append(rows, makeRow(orphan.Asset, "orphan-row", orphanView{orphan, []actButton{newActButton(at.partition, "turndown", orphan.Asset), newActButton(at.partition, "disown", orphan.Asset)}}))
	}
	pageData.Parts = []part{makeList("orphans", "orphans", struct {
		pager
		Disown string
	}{at.pager("after", len(rows), response.Next), r.command(at.partition, "disown", "ASSET", "--reason", "WHY")}, rows)}
	return pageData, nil
}
