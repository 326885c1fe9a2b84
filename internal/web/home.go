package web

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

const (
	// eventsTold stand on the first page.
	eventsTold = 30
	// happenedWithin is how old an event may be that is told there.
	happenedWithin = 7 * 24 * time.Hour
)

// homeNeeds is what waits for the viewer, in all partitions.
type homeNeeds struct {
	Rows []homeRow
	// Others wait for other people.
	Others int
}

// homeRow is a line of the first page.
type homeRow struct {
	Partition, What, Text, Link, Reason string
	At                                  *timestamppb.Timestamp
	// Ends: at that time something ends; else it began then.
	Ends bool
	Act  *actButton
}

// homeEvents is what happened, the newest first.
type homeEvents struct {
	Rows []homeRow
	// Problems say of each partition that could not be read why not.
	Problems []string
}

// showHome is the first page: what needs the viewer, what is wrong, what moves, what happened,
// and below these the partitions; all of it of one owner, partition, environment or service, if the address names one.
func showHome(ctx context.Context, r *reader, at address) (page, error) {
	server, err := r.readServer(ctx)
	if err != nil {
		return page{}, err
	}
	response, err := r.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return page{}, err
	}
	pageData := page{Title: "Home", Parts: []part{serverPart(r, server)}}
	if len(response.Partitions) > 0 {
		person, err := r.Auth.WhoAmI(ctx, &apipb.WhoAmIRequest{})
		if err != nil {
			return page{}, err
		}
		choice := readHomeChoice(at)
		overviews, environments, err := r.readOverviews(ctx, happenedWithin, choice)
		if err != nil {
			return page{}, err
		}
		choice.offer(response.Partitions, environments)
		shown := choice.choose(response.Partitions, overviews)
		views := listInboxes(shown, overviews)
		pageData.Parts = append(pageData.Parts, makePart("choice", "home-choice", choice),
			makePart("needs", "home-needs", listNeeds(views, person)), r.readWrong(ctx, shown, overviews, choice),
			makePart("moves", "home-moves", listMoves(views, shown, overviews, choice)), makePart("happened", "home-happened", listEvents(shown, overviews)),
			r.partitionsPart(shown, choice.IsMade()))
	} else {
		pageData.Parts = append(pageData.Parts, r.partitionsPart(nil, false))
	}
	return pageData, nil
}

// listNeeds returns what waits for the viewer: what the viewer's role may act on, and the viewer's own brakes that
// end soon.
func listNeeds(views []inboxView, person *apipb.WhoAmIResponse) homeNeeds {
	needs := homeNeeds{}
	for _, view := range views {
		add := func(what string, items []inboxItem) {
			for _, item := range items {
				row := homeRow{Partition: view.Partition, What: what, Text: item.Text, Link: item.Link, Reason: item.Reason, At: item.Since, Act: &item.Act}
				if item.Until != nil {
					row.At, row.Ends = item.Until, true
				}
				needs.Rows = append(needs.Rows, row)
			}
		}
		if view.MayApprove {
			add("approval", view.Approvals)
		} else {
			needs.Others += len(view.Approvals)
		}
		add("delivery", view.Deliveries)
		for _, question := range slices.Concat(view.Stages, view.Questions) {
			if question.Act.Link == "" {
				needs.Others++
				continue
			}
			add(question.Sort, []inboxItem{question})
		}
		add("held by a guard", view.Held)
		add("paused", view.Paused)
		for _, item := range view.Ending {
			// Where nobody logs in there is one person, however the act was named.
			if person.By == "local" || item.Owner == person.Name {
				add("yours ends soon", []inboxItem{item})
			} else {
				needs.Others++
			}
		}
	}
	return needs
}

// listMoves returns the pushes, rollouts and deliveries that are under way.
func listMoves(views []inboxView, partitions []*apipb.Partition, overviews map[string]*apipb.PartitionOverview, choice homeChoice) []homeRow {
	var rows []homeRow
	for _, p := range partitions {
		if n, ok := choice.countInState(p, overviews[p.Id], "pushing"); ok && n > 0 {
			at := address{kind: "partition", partition: p.Id}
			row := homeRow{Partition: p.Id, What: "pushes", Text: count(n, "asset") + " being pushed", Link: at.withValue("state", "pushing")}
			if choice.Service != "" {
				row.Link = link(p.Id, "group", choice.Service)
			}
			rows = append(rows, row)
		}
	}
	for _, view := range views {
		for _, item := range view.Moving {
			rows = append(rows, homeRow{Partition: view.Partition, What: item.Sort, Text: item.Text, Link: item.Link, Reason: item.Reason, At: item.Since})
		}
	}
	return rows
}

// listEvents are what happened lately in all partitions. The browser marks what is new to its person. A partition that
// cannot be read hides no other.
func listEvents(partitions []*apipb.Partition, overviews map[string]*apipb.PartitionOverview) homeEvents {
	view := homeEvents{}
	for _, p := range partitions {
		overview := overviews[p.Id]
		if problem := overview.GetProblem(); problem != "" {
			view.Problems = append(view.Problems, p.Id+": "+problem)
		}
		for _, incarnation := range overview.GetIncarnations() {
			var subjects []string
			for _, source := range incarnation.Sources {
				if subject := source.Commit.GetSubject(); subject != "" {
					subjects = append(subjects, subject)
				}
			}
			view.Rows = append(view.Rows, homeRow{Partition: p.Id, What: "published", Text: incarnation.Id, Link: incarnationLink(incarnation.Id), Reason: strings.Join(subjects, "; "), At: incarnation.Created})
		}
		for _, push := range overview.GetPushes() {
			view.Rows = append(view.Rows, homeRow{Partition: p.Id, What: push.Ending, Text: push.Asset, Link: link(p.Id, "push", push.Push), Reason: push.Reason, At: push.Ended})
		}
	}
	slices.SortStableFunc(view.Rows, func(a, b homeRow) int { return b.At.AsTime().Compare(a.At.AsTime()) })
	view.Rows = view.Rows[:min(len(view.Rows), eventsTold)]
	return view
}
