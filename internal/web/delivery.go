package web

import (
	"context"
	"net/url"
	"slices"
	"strconv"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
)

// versionsShown is how many versions a board has.
const versionsShown = 50

// boardView is an application: its environments, and the newest versions in them.
type boardView struct {
	Partition, Application string
	Environments           []environmentView
	// Selected are the environments that assets select, by the entries of the file.
	Selected []*apipb.SelectedEnvironments
	// Columns are the names of the environments, and Rows versions.
	Columns []string
	Rows    []versionRow
	pager
	Acts []actButton
}

// Changelog leads to what the first environment has and the last has not.
func (b boardView) Changelog() string {
	var from, to string
	if n := len(b.Columns); n > 1 {
		from, to = b.Columns[n-1], b.Columns[0]
	}
	return changelogAddress(b.Partition, b.Application, from, to)
}

// environmentView is an environment, and what can be done about it.
type environmentView struct {
	*apipb.DeliveredEnvironment
	// Link is to the page of what it has and of what comes next.
	Link string
	// HasLink and WantsLink are to the versions' pages.
	HasLink, WantsLink string
	// Pending is the newest version that is not let in yet, where nothing else comes next.
	Pending *versionRow
	Acts    []actButton
}

// versionRow is a version, with where it stands in each of the board's columns.
type versionRow struct {
	*apipb.DeliveredVersion
	Link  string
	Cells []*apipb.VersionStanding
}

// deliveryAddress is a page about an application of a partition.
func deliveryAddress(partition, kind, name, application string, more ...string) string {
	at := address{kind: kind, partition: partition, name: name, query: url.Values{}}
	at.query.Set("application", application)
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			at.query.Set(more[i], more[i+1])
		}
	}
	return at.String()
}

// showDelivery is a board for each application of a partition: which version is where.
func showDelivery(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Delivery of "+at.partition)
	if err != nil {
		return page{}, err
	}
	response, err := r.Deliveries.ListEnvironments(ctx, &apipb.ListEnvironmentsRequest{Partition: at.partition, Application: at.query.Get("application")})
	if err != nil {
		return page{}, err
	}
	byApplication := map[string][]environmentView{}
	var names []string
	for _, e := range response.Environments {
		if _, ok := byApplication[e.Application]; !ok {
			names = append(names, e.Application)
		}
		byApplication[e.Application] = append(byApplication[e.Application], viewEnvironment(at.partition, e))
	}
	selected := map[string][]*apipb.SelectedEnvironments{}
	for _, s := range response.Selected {
		if selected[s.Application] = append(selected[s.Application], s); !slices.Contains(names, s.Application) {
			names = append(names, s.Application) // Nothing is selected, and it has no other environments.
		}
	}
	lines, err := r.releasesOnTheWay(ctx, at)
	if err != nil {
		pageData.Parts = append(pageData.Parts, problem("releases", err))
	}
	pageData.Parts = append(pageData.Parts, lines...)
	for _, name := range names {
		board, err := r.board(ctx, at, name, byApplication[name])
		if err != nil {
			pageData.Parts = append(pageData.Parts, problem("board:"+name, err))
			continue
		}
		board.Selected = selected[name]
		pageData.Parts = append(pageData.Parts, makePart("environments:"+name, "environments", board), makePart("board:"+name, "board", board))
	}
	if len(names) == 0 {
		pageData.Parts = []part{makePart("nothing", "no-delivery", nil)}
	}
	previews, err := r.previewsPart(ctx, at.partition)
	if err != nil {
		previews = []part{problem("previews", err)}
	}
	pageData.Parts = append(pageData.Parts, previews...)
	return pageData, nil
}

func (r *reader) board(ctx context.Context, at address, application string, environments []environmentView) (boardView, error) {
	board := boardView{Partition: at.partition, Application: application, Environments: environments}
	offset, err := at.number("from")
	if err != nil {
		return board, err
	}
	response, err := r.Deliveries.ListVersions(ctx, &apipb.ListVersionsRequest{Partition: at.partition, Application: application, Limit: versionsShown, Offset: int32(min(offset, 1<<30))})
	if err != nil {
		return board, err
	}
	board.Columns = response.Environments
	for _, version := range response.Versions {
		row := versionRow{
			DeliveredVersion: version, Cells: make([]*apipb.VersionStanding, len(board.Columns)),
			Link: versionLink(at.partition, application, version.Version),
		}
		for _, standing := range version.Standings {
			if column := slices.Index(board.Columns, standing.Environment); column >= 0 {
				row.Cells[column] = standing
			}
		}
		board.Rows = append(board.Rows, row)
	}
	board.findPending()
	if response.Next > 0 {
		next := at
		next.query = url.Values{"application": {application}}
		board.Next = next.withValue("from", strconv.Itoa(int(response.Next)))
	}
	if offset > 0 {
		board.First = deliveryAddress(at.partition, "delivery", "", application)
	}
	board.Acts = []actButton{deliveryButton(at.partition, intent.ActPause, application)}
	if slices.ContainsFunc(environments, func(e environmentView) bool { return e.PausedBy != "" }) {
		board.Acts = append(board.Acts, deliveryButton(at.partition, intent.ActResume, application))
	}
	return board, nil
}

// findPending finds for each environment that nothing comes to the newest version that waits to be let in. Versions that
// are older than what it has are not asked for.
func (b *boardView) findPending() {
	for i := range b.Environments {
		e := &b.Environments[i]
		column := slices.Index(b.Columns, e.Name)
		if column < 0 || e.Wants != nil || e.Text != "" {
			continue
		}
		for j := range b.Rows {
			state := b.Rows[j].Cells[column].GetState()
			if state == "pending" {
				e.Pending = &b.Rows[j]
			}
			if state == "pending" || state == "current" {
				break
			}
		}
	}
}

func viewEnvironment(partition string, e *apipb.DeliveredEnvironment) environmentView {
	view := environmentView{DeliveredEnvironment: e, Link: deliveryAddress(partition, "environment", e.Name, e.Application)}
	if e.Has != nil {
		view.HasLink = versionLink(partition, e.Application, e.Has)
	}
	if e.Wants != nil {
		view.WantsLink = versionLink(partition, e.Application, e.Wants)
	}
	add := func(kind string, version *apipb.VersionName) {
		button := deliveryButton(partition, kind, e.Application, "environment", e.Name, "version", version.GetName(), "digest", version.GetDigest())
		view.Acts = append(view.Acts, button)
	}
	switch {
	case e.Pinned != nil:
		add(intent.ActUnpin, nil)
	case e.GetTask().GetRepeatable() && e.Has != nil:
		button := deliveryButton(partition, intent.ActRestart, e.Application, "environment", e.Name, "version", e.Has.Name, "digest", e.Has.Digest, "constraint", promotion.RunConstraint)
		button.Text = "Run it again"
		view.Acts = append(view.Acts, button)
	case e.Has != nil && e.Task == nil:
		add(intent.ActPin, e.Has)
	}
	for _, verification := range e.Verify {
		for _, name := range []string{verdictGood, verdictBad} {
			view.Acts = append(view.Acts, verdictButton(partition, name, e.Application, e.Name, e.Has, verification))
		}
	}
	if e.PausedBy != "" || e.Hold == "edit" {
		add(intent.ActResume, nil)
	} else {
		add(intent.ActPause, nil)
	}
	return view
}

func versionLink(partition, application string, version *apipb.VersionName) string {
	return deliveryAddress(partition, "version", version.GetName(), application, "digest", version.GetDigest())
}

// explanationView is what is to say of a version in an environment, and what can be done.
type explanationView struct {
	*apipb.VersionExplanation
	VersionLink, EnvironmentLink string
	Verdicts                     []verdictView
	Acts                         []actButton
}

type verdictView struct {
	*apipb.VersionVerdict
	Acts []actButton
}

// showVersion is a version: where it is, and what is in its way.
func showVersion(ctx context.Context, r *reader, at address) (page, error) {
	return showExplanations(ctx, r, at, "Version "+at.name, &apipb.ExplainVersionRequest{Version: at.name})
}

// showEnvironment is an environment: what it has, and what comes next.
func showEnvironment(ctx context.Context, r *reader, at address) (page, error) {
	return showExplanations(ctx, r, at, "Environment "+at.name, &apipb.ExplainVersionRequest{Environment: at.name})
}

func showExplanations(ctx context.Context, r *reader, at address, title string, request *apipb.ExplainVersionRequest) (page, error) {
	pageData, err := partitionPage(ctx, r, at, title)
	if err != nil {
		return page{}, err
	}
	application := at.query.Get("application")
	pageData.Back = crumb{"delivery of " + application, deliveryAddress(at.partition, "delivery", "", application)}
	request.Partition, request.Application = at.partition, application
	response, err := r.Deliveries.ExplainVersion(ctx, request)
	if err != nil {
		return page{}, err
	}
	digest := at.query.Get("digest")
	var acts []actButton
	if request.Version != "" {
		for _, kind := range []string{intent.ActMarkBad, intent.ActMarkGood, intent.ActHotfix} {
			acts = append(acts, deliveryButton(at.partition, kind, application, "version", at.name, "digest", digest))
		}
	}
	pageData.Parts = []part{makePart("acts", "act-links", acts)}
	for _, x := range response.Explanations {
		if digest != "" && x.Version.GetDigest() != digest {
			continue // Of one name, it is another.
		}
		id := "in:" + x.Environment + ":" + x.Version.GetName() + ":" + x.Version.GetDigest()
		pageData.Parts = append(pageData.Parts, makePart(id, "explanation", viewExplanation(at.partition, x)))
	}
	return pageData, nil
}

func viewExplanation(partition string, x *apipb.VersionExplanation) explanationView {
	view := explanationView{
		VersionExplanation: x, VersionLink: versionLink(partition, x.Application, x.Version),
		EnvironmentLink: deliveryAddress(partition, "environment", x.Environment, x.Application),
	}
	button := func(kind, constraint string) actButton {
		return deliveryButton(partition, kind, x.Application, "environment", x.Environment, "version", x.Version.GetName(), "digest", x.Version.GetDigest(), "constraint", constraint)
	}
	isOutside := func(constraint string) bool {
		return slices.ContainsFunc(x.Verdicts, func(v *apipb.VersionVerdict) bool { return v.Constraint == constraint && v.Cause == noResult })
	}
	for _, awaited := range x.Awaits {
		if awaited.Environment == x.Environment && isOutside(awaited.Name) {
			for _, name := range []string{verdictGood, verdictBad} {
				view.Acts = append(view.Acts, verdictButton(partition, name, x.Application, x.Environment, x.Version, awaited.Name))
			}
		} else if awaited.Environment == x.Environment {
			view.Acts = append(view.Acts, button(voteApprove, awaited.Name), button(voteReject, awaited.Name))
		}
	}
	switch x.State {
	case "current", "deploying":
		view.Acts = append(view.Acts, button(intent.ActPin, ""))
	case "previous":
		view.Acts = append(view.Acts, button(intent.ActRollBack, ""), button(intent.ActPin, ""))
	case "pending", "approved", "skipped", "superseded", "unordered":
		view.Acts = append(view.Acts, button(intent.ActSkipTo, ""), button(intent.ActPin, ""))
	}
	if x.State == "current" {
		return view // Verdicts are of a version that is to come.
	}
	for _, v := range x.Verdicts {
		verdict := verdictView{VersionVerdict: v}
		if v.Status != "passes" {
			verdict.Acts = []actButton{button(intent.ActForce, v.Constraint), button(intent.ActRestart, v.Constraint)}
		}
		view.Verdicts = append(view.Verdicts, verdict)
	}
	return view
}
