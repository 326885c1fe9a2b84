package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// boardKind is the page of which version is where in all partitions, and its link.
const boardKind = "board"

const (
	// boardEnvironments are what the server tells of a partition at most; boardRows are the applications of a page.
	boardEnvironments, boardRows = 1000, 100
)

// fleetBoard is which version is where, by application.
type fleetBoard struct {
	Rows []fleetRow
	// Environments and Owners can be chosen; IsFiltered: one is, and All is the page without a choice.
	Environments, Owners []option
	IsFiltered           bool
	All                  string
	Problems             []string
	pager
}

// fleetRow is an application.
type fleetRow struct {
	Partition, Application, Link string
	Cells                        []fleetCell
}

// fleetCell is an environment of an application.
type fleetCell struct {
	environmentView
	// Asks: a version waits there for people, and AskedLink leads to it.
	Asks      string
	AskedLink string
}

// showBoard shows the environments of the applications of all partitions that the viewer may see.
func showBoard(ctx context.Context, r *reader, at address) (page, error) {
	partitions, err := r.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return page{}, err
	}
	response, err := r.Partitions.GetOverview(ctx, &apipb.GetOverviewRequest{Limit: 1, EveryEnvironment: true})
	if err != nil {
		return page{}, err
	}
	owners := map[string]string{}
	for _, p := range partitions.Partitions {
		owners[p.Id] = p.Owner
	}
	view := fleetBoard{All: address{kind: boardKind}.String()}
	chosen, owner := at.query.Get("environment"), at.query.Get("owner")
	view.IsFiltered = chosen != "" || owner != ""
	var environments, owning []string
	for _, o := range response.Partitions {
		if len(o.Environments) > 0 {
			owning = append(owning, owners[o.Partition])
		}
		if owner != "" && owners[o.Partition] != owner {
			continue
		}
		if o.Problem != "" {
			view.Problems = append(view.Problems, o.Partition+": "+o.Problem)
		}
		if len(o.Environments) == boardEnvironments {
			view.Problems = append(view.Problems, fmt.Sprintf("%s: only the first %d environments are shown; its page of delivery has all", o.Partition, boardEnvironments))
		}
		for _, e := range o.Environments {
			environments = append(environments, e.Name)
			if chosen == "" || e.Name == chosen {
				view.add(o, e)
			}
		}
	}
	view.Environments, view.Owners = optionsOf(environments, chosen), optionsOf(owning, owner)
	first, err := at.number("from")
	if err != nil {
		return page{}, err
	}
	first = min(first, len(view.Rows))
	end := min(first+boardRows, len(view.Rows))
	if end < len(view.Rows) {
		view.Next = at.withValue("from", strconv.Itoa(end))
	}
	if first > 0 {
		view.First = at.withValue("from", "")
	}
	view.Rows = view.Rows[first:end]
	return page{Title: "Which version is where", Back: crumb{"home", home}, Parts: []part{makePart("board", "fleet-board", view)}}, nil
}

// add an environment to the row of its application.
func (b *fleetBoard) add(o *apipb.PartitionOverview, e *apipb.DeliveredEnvironment) {
	last := len(b.Rows) - 1
	if last < 0 || b.Rows[last].Partition != o.Partition || b.Rows[last].Application != e.Application {
		b.Rows = append(b.Rows, fleetRow{Partition: o.Partition, Application: e.Application, Link: deliveryAddress(o.Partition, "delivery", "", e.Application)})
		last++
	}
	cell := fleetCell{environmentView: viewEnvironment(o.Partition, e)}
	for _, asked := range o.Awaited {
		if asked.Application == e.Application && asked.Environment == e.Name {
			cell.Asks, cell.AskedLink = asked.Version.GetName(), versionLink(o.Partition, e.Application, asked.Version)
		}
	}
	b.Rows[last].Cells = append(b.Rows[last].Cells, cell)
}

// optionsOf offers each name once, by name.
func optionsOf(names []string, chosen string) (options []option) {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" {
			options = append(options, option{Value: name, Text: name, Selected: name == chosen})
		}
	}
	return options
}
