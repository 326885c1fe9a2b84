package web

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

const (
	// eventsRead of each partition, and eventsTold in all, stand on the first page.
	eventsRead, eventsTold = 5, 30
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
// and below these the partitions.
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
		views, problems := r.readInboxes(ctx, response.Partitions)
		pageData.Parts = append(pageData.Parts, problems...)
		pageData.Parts = append(pageData.Parts,
			makePart("needs", "home-needs", listNeeds(views, person)), r.readWrong(ctx, response.Partitions),
			makePart("moves", "home-moves", listMoves(views, response.Partitions)), r.readEvents(ctx, response.Partitions))
	}
	pageData.Parts = append(pageData.Parts, r.partitionsPart(response.Partitions, at))
	return pageData, nil
}

// readInboxes reads what waits and moves in all partitions. Each partition that cannot be read is a problem.
func (r *reader) readInboxes(ctx context.Context, partitions []*apipb.Partition) (views []inboxView, problems []part) {
	views = make([]inboxView, len(partitions))
	failed := make([]error, len(partitions))
	var group errgroup.Group
	group.SetLimit(inboxAtOnce)
	for i, p := range partitions {
		group.Go(func() error {
			views[i], failed[i] = r.inbox(ctx, p)
			return nil
		})
	}
	_ = group.Wait()
	for i, err := range failed {
		if err != nil {
			problems = append(problems, problem("unread:"+partitions[i].Id, err))
		}
	}
	return views, problems
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
func listMoves(views []inboxView, partitions []*apipb.Partition) []homeRow {
	var rows []homeRow
	for _, p := range partitions {
		if n := p.States["pushing"]; n > 0 {
			at := address{kind: "partition", partition: p.Id}
			rows = append(rows, homeRow{Partition: p.Id, What: "pushes", Text: count(n, "asset") + " being pushed", Link: at.withValue("state", "pushing")})
		}
	}
	for _, view := range views {
		for _, item := range view.Moving {
			rows = append(rows, homeRow{Partition: view.Partition, What: item.Sort, Text: item.Text, Link: item.Link, Reason: item.Reason, At: item.Since})
		}
	}
	return rows
}

// readEvents reads what happened lately in all partitions. The browser marks what is new to its person. A partition
// that cannot be read hides no other.
func (r *reader) readEvents(ctx context.Context, partitions []*apipb.Partition) part {
	rows := make([][]homeRow, len(partitions))
	failed := make([]error, len(partitions))
	oldest := time.Now().Add(-happenedWithin)
	var group errgroup.Group
	group.SetLimit(inboxAtOnce)
	for i, p := range partitions {
		group.Go(func() error {
			rows[i], failed[i] = r.readPartitionEvents(ctx, p.Id, oldest)
			return nil
		})
	}
	_ = group.Wait()
	view := homeEvents{}
	for i, err := range failed {
		if err != nil {
			view.Problems = append(view.Problems, partitions[i].Id+": "+err.Error())
		}
	}
	events := slices.Concat(rows...)
	slices.SortStableFunc(events, func(a, b homeRow) int { return b.At.AsTime().Compare(a.At.AsTime()) })
	view.Rows = events[:min(len(events), eventsTold)]
	return makePart("happened", "home-happened", view)
}

// readPartitionEvents reads the newest incarnations and pushes of a partition.
func (r *reader) readPartitionEvents(ctx context.Context, partition string, oldest time.Time) (rows []homeRow, err error) {
	published, err := r.Incarnations.ListIncarnations(ctx, &apipb.ListIncarnationsRequest{Partition: partition, Limit: eventsRead})
	if err != nil {
		return nil, err
	}
	for _, incarnation := range published.Incarnations {
		if incarnation.Created.AsTime().Before(oldest) {
			continue
		}
		var subjects []string
		for _, source := range incarnation.Sources {
			if subject := source.Commit.GetSubject(); subject != "" {
				subjects = append(subjects, subject)
			}
		}
		rows = append(rows, homeRow{Partition: partition, What: "published", Text: incarnation.Id, Link: incarnationLink(incarnation.Id), Reason: strings.Join(subjects, "; "), At: incarnation.Created})
	}
	pushed, err := r.Journal.ListPushes(ctx, &apipb.ListPushesRequest{Partition: partition, Limit: eventsRead})
	if err != nil {
		return nil, err
	}
	for _, push := range pushed.Pushes {
		if push.Ended != nil && push.Ended.AsTime().After(oldest) {
			rows = append(rows, homeRow{Partition: partition, What: push.Ending, Text: push.Asset, Link: link(partition, "push", push.Push), Reason: push.Reason, At: push.Ended})
		}
	}
	return rows, nil
}
