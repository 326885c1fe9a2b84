package web

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// releaseActs are what people may ask about a release, by their kind.
var releaseActs = map[string]act{
	intent.ActHoldRelease:   {title: "Hold", button: "Hold it", undo: intent.ActResumeRelease, effect: "No environment takes the release, nor a later train of its applications, until somebody resumes it. An immediate release passes it by."},
	intent.ActResumeRelease: {title: "Resume", button: "Resume it", loosens: true, undo: intent.ActHoldRelease, effect: "The release goes on where it was held or skipped."},
	intent.ActSkipRelease:   {title: "Skip", button: "Skip it", undo: intent.ActResumeRelease, effect: "Environments that do not have the release never take it, and go on with the next one. Those that have it keep it."},
	intent.ActAbortRelease:  {title: "Abort", button: "Abort it", effect: "No environment takes the release any more, and those that have its versions go back to what was good there before. To try again, make another release."},
}

// releasesView is a line of releases: each with how it stands in every environment.
type releasesView struct {
	Line, Link string
	// New leads to the form that makes one.
	New     actButton
	Columns []string
	Rows    []releaseRow
	pager
}

type releaseRow struct {
	*apipb.Release
	Link string
	Acts []actButton
}

// Estimate is when an environment can have the release at the earliest, where that is not now; unset: it is.
func (r releaseRow) Estimate(cell *apipb.ReleaseCell) *timestamppb.Timestamp {
	if cell.Earliest == nil || time.Until(cell.Earliest.AsTime()) < time.Minute {
		return nil
	}
	return cell.Earliest
}

// Done is a word for what a person asked.
func (r releaseRow) Done(mark *apipb.ReleaseMark) string {
	return map[string]string{intent.ActHoldRelease: "held", intent.ActSkipRelease: "skipped", intent.ActAbortRelease: "aborted"}[mark.Kind]
}

// Mode says how environments take the release.
func (r releaseRow) Mode() string {
	if r.Immediate {
		return "immediate"
	}
	return "train"
}

// Brings are its versions, in words.
func (r releaseRow) Brings() string {
	var words []string
	for _, v := range r.Versions {
		_, name, _ := strings.Cut(v.Application, "/")
		words = append(words, name+" "+v.Version.GetName())
	}
	return strings.Join(words, ", ")
}

func releaseAddress(partition, kind, name, line string, more ...string) string {
	at := address{kind: kind, partition: partition, name: name, query: url.Values{}}
	at.query.Set("line", line)
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			at.query.Set(more[i], more[i+1])
		}
	}
	return at.String()
}

func viewRelease(partition string, release *apipb.Release) releaseRow {
	number := strconv.Itoa(int(release.Number))
	row := releaseRow{Release: release, Link: releaseAddress(partition, "release", number, release.Line)}
	add := func(kind, environment string) {
		row.Acts = append(row.Acts, actButton{
			Text: releaseActs[kind].button, Loosens: releaseActs[kind].loosens, Link: releaseAddress(partition, "act", kind, release.Line, "release", number, "environment", environment),
		})
	}
	if release.State == "aborted" {
		return row
	}
	if slices.ContainsFunc(release.Marks, func(m *apipb.ReleaseMark) bool { return m.Environment == "" }) {
		add(intent.ActResumeRelease, "")
	} else {
		add(intent.ActHoldRelease, "")
		add(intent.ActSkipRelease, "")
	}
	add(intent.ActAbortRelease, "")
	return row
}

func viewReleases(partition string, response *apipb.ListReleasesResponse) releasesView {
	view := releasesView{Line: response.Line, Columns: response.Environments, Link: releaseAddress(partition, "releases", "", response.Line), New: newActButton(partition, newRelease, response.Line)}
	view.New.Text = "Make a release"
	for _, release := range response.Releases {
		view.Rows = append(view.Rows, viewRelease(partition, release))
	}
	return view
}

// releasesOnTheWay are those of each line of a partition that are not done, for the page of its delivery.
func (r *reader) releasesOnTheWay(ctx context.Context, at address) (parts []part, err error) {
	first, err := r.Releases.ListReleases(ctx, &apipb.ListReleasesRequest{Partition: at.partition})
	if fault.Is(err, fault.NotFound) {
		return nil, nil // It has no line.
	}
	if err != nil {
		return nil, err
	}
	for _, line := range first.Lines {
		response := first
		if first.Line != line {
			if response, err = r.Releases.ListReleases(ctx, &apipb.ListReleasesRequest{Partition: at.partition, Line: line}); err != nil {
				return parts, err
			}
		}
		parts = append(parts, makePart("releases:"+line, "releases", viewReleases(at.partition, response)))
	}
	return parts, nil
}

// showReleases are all of a line, the newest first.
func showReleases(ctx context.Context, r *reader, at address) (page, error) {
	line := at.query.Get("line")
	pageData, err := partitionPage(ctx, r, at, "Releases of "+line)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"delivery of " + at.partition, address{kind: "delivery", partition: at.partition}.String()}
	before, err := at.number("before")
	if err != nil {
		return page{}, err
	}
	response, err := r.Releases.ListReleases(ctx, &apipb.ListReleasesRequest{Partition: at.partition, Line: line, All: true, Before: int32(min(before, 1<<30))})
	if err != nil {
		return page{}, err
	}
	view := viewReleases(at.partition, response)
	if response.Next > 0 {
		view.Next = at.withValue("before", strconv.Itoa(int(response.Next)))
	}
	if before > 0 {
		view.First = view.Link
	}
	pageData.Parts = []part{makePart("releases", "releases", view)}
	return pageData, nil
}

// releaseView is a release, and what each of its versions waits for.
type releaseView struct {
	releaseRow
	Cells []releaseCell
}

type releaseCell struct {
	*apipb.ReleaseCell
	Standings []releaseStanding
	Acts      []actButton
}

type releaseStanding struct {
	*apipb.ReleaseStanding
	// Link is to the version's page, in the partition of the application.
	Link string
}

// showRelease is one, in each environment.
func showRelease(ctx context.Context, r *reader, at address) (page, error) {
	line := at.query.Get("line")
	pageData, err := partitionPage(ctx, r, at, "Release "+at.name+" of "+line)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"releases of " + line, releaseAddress(at.partition, "releases", "", line)}
	number, err := releaseNumber(at.name)
	if err != nil {
		return page{}, err
	}
	response, err := r.Releases.ListReleases(ctx, &apipb.ListReleasesRequest{Partition: at.partition, Line: line, Number: number})
	if err != nil {
		return page{}, err
	}
	view := releaseView{releaseRow: viewRelease(at.partition, response.Releases[0])}
	for _, cell := range view.Release.Cells {
		if len(cell.Standings) == 0 {
			continue
		}
		one := releaseCell{ReleaseCell: cell}
		for _, standing := range cell.Standings {
			partition, application, _ := strings.Cut(standing.Application, "/")
			one.Standings = append(one.Standings, releaseStanding{standing, versionLink(partition, application, standing.Version)})
		}
		kind := intent.ActSkipRelease
		if slices.ContainsFunc(view.Marks, func(m *apipb.ReleaseMark) bool { return m.Environment == cell.Environment }) {
			kind = intent.ActResumeRelease
		}
		if view.State != "aborted" && (kind == intent.ActResumeRelease || slices.Contains([]string{"pending", "approved", "partly"}, cell.State)) {
			one.Acts = []actButton{{
				Text: releaseActs[kind].button + " in " + cell.Environment, Loosens: releaseActs[kind].loosens, Link: releaseAddress(at.partition, "act", kind, line, "release", at.name, "environment", cell.Environment),
			}}
		}
		view.Cells = append(view.Cells, one)
	}
	pageData.Parts = []part{makePart("release", "release", view)}
	return pageData, nil
}

func releaseNumber(text string) (int32, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 {
		return 0, fault.New(fault.Invalid, "%.40q is no number of a release", text).WithHint("the page of delivery lists them")
	}
	return int32(number), nil
}

// registerReleaseActs adds the acts on releases to those that there are.
func registerReleaseActs() {
	for kind, action := range releaseActs {
		action.subject, action.call = "release", apipbconnect.ReleaseServiceActOnReleaseProcedure
		action.about, action.back = aboutRelease, func(at address) crumb {
			number := at.query.Get("release")
			return crumb{"release " + number, releaseAddress(at.partition, "release", number, at.query.Get("line"))}
		}
		ask := func(ctx context.Context, r *reader, at address, reason string, dry bool) (*apipb.ActOnReleaseResponse, error) {
			number, err := releaseNumber(at.query.Get("release"))
			if err != nil {
				return nil, err
			}
			return r.Releases.ActOnRelease(ctx, &apipb.ActOnReleaseRequest{
				Partition: at.partition, Line: at.query.Get("line"), Number: number, Kind: kind, Environment: at.query.Get("environment"), Reason: reason, DryRun: dry,
			})
		}
		action.show = func(ctx context.Context, r *reader, at address, form *actForm) error {
			response, err := ask(ctx, r, at, "to see what it would change", true)
			if err != nil {
				form.Refused = err
				return nil
			}
			form.parts = append(form.parts, makePart("effects", "release-effects", response))
			return nil
		}
		action.do = func(ctx context.Context, r *reader, request actRequest) (string, error) {
			at := address{kind: "act", partition: request.partition, query: request.query}
			if _, err := ask(ctx, r, at, request.reason, false); err != nil {
				return "", err
			}
			return action.title + " " + aboutRelease(at) + ". It is carried out within seconds.", nil
		}
		acts[kind] = action
	}
}

// aboutRelease is what an act on a release is about, as a title has it.
func aboutRelease(at address) string {
	text := "release " + at.query.Get("release") + " of " + at.query.Get("line")
	if environment := at.query.Get("environment"); environment != "" {
		text += " in " + environment
	}
	return text
}
