package web

import (
	"context"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// partitionView is how one partition is.
type partitionView struct {
	*apipb.Partition
	Problem string
	Shares  []share
	// Resume and Brake are commands.
	Resume, Brake string
	// Acts are what can be done about it now.
	Acts []actButton
}

// share is a state's part of all reports, with its place in a bar that is
// barWidth wide.
type share struct {
	State    string
	Count    int64
	From, To float64
	Link     string
}

// Width of the bar's piece.
func (s share) Width() float64 { return s.To - s.From }

const barWidth = 1000

func (r *reader) view(p *apipb.Partition) partitionView {
	v := partitionView{Partition: p, Problem: r.problem(p.Id), Shares: shares(p.States, address{kind: "partition", partition: p.Id})}
	if p.Stop != nil {
		words := []string{"resume"}
		if p.Stop.Partition != "" {
			words = append(words, p.Id)
			v.Acts = []actButton{newActButton(p.Id, "resume", "")}
		}
		v.Resume = r.command("", append(words, "--reason", "WHY")...)
		if !strings.HasPrefix(p.Stop.Ending, "lehr resume") {
			v.Resume = p.Stop.Ending
		}
	} else {
		v.Brake = r.command("", "stop", p.Id, "--reason", "WHY")
		v.Acts = []actButton{newActButton(p.Id, "stop", "")}
	}
	return v
}

// shares of counted states; each leads to the page at that shows such assets.
func shares(counts map[string]int64, at address) []share {
	var all, preceding int64
	for _, count := range counts {
		all += count
	}
	var result []share
	for _, state := range slices.Concat(states, unseen) {
		count := counts[state.name]
		if count == 0 {
			continue
		}
		start := float64(preceding) / float64(all) * barWidth
		preceding += count
		result = append(result, share{
			State: state.name, Count: count, From: start, To: float64(preceding) / float64(all) * barWidth, Link: at.withValue("state", state.name),
		})
	}
	return result
}

// serverPart is how the server is.
func serverPart(r *reader, server *apipb.GetServerResponse) part {
	var everywhere *apipb.Stop
	for _, stop := range server.Stops {
		if stop.Partition == "" {
			everywhere = stop
		}
	}
	name := "stop-all"
	if everywhere != nil {
		name = "resume-all"
	}
	return makePart("server", "server", struct {
		*apipb.GetServerResponse
		Everywhere    *apipb.Stop
		Resume, Brake string
		Act           actButton
	}{server, everywhere, r.command("", "resume", "--reason", "WHY"), r.command("", "stop", "--reason", "WHY"), newActButton("", name, "")})
}

// partitionsPart lists partitions: all, or those that were chosen.
func (r *reader) partitionsPart(partitions []*apipb.Partition, isChosen bool) part {
	var rows []part
	for _, p := range partitions {
		rows = append(rows, makeRow(p.Id, "partition-row", r.view(p)))
	}
	data := partitionsView{Count: len(rows), IsChosen: isChosen, Add: newActButton("", "partition-add", ""), Adding: r.command("", "partition", "add", "lehr.yaml")}
	return makeList("partitions", "partitions", data, rows)
}

// partitionsView is what stands around the list of partitions.
type partitionsView struct {
	Count    int
	IsChosen bool
	// Add leads to the form that adds one, and Adding is the command for it.
	Add    actButton
	Adding string
}

// showPartition is a page of a partition's assets below how it is.
func showPartition(ctx context.Context, r *reader, at address) (page, error) {
	p, err := r.readPartition(ctx, at.partition)
	if err != nil {
		return page{}, err
	}
	pageData := page{Title: "Partition " + p.Id, Partition: p.Id, Back: crumb{"all partitions", home}}
	pageData.Parts = append(pageData.Parts, makePart("notices", "notices", r.view(p)), makePart("acts", "act-links", r.view(p).Acts))
	// Who searches, or reads on, has seen them.
	if !filtered(at) && at.query.Get("after") == "" {
		pageData.Parts = append(pageData.Parts, r.partitionCauses(ctx, p.Id))
	}
	pageData.Parts = append(pageData.Parts,
		makePart("partition", "partition", r.view(p)),
		makePart("counts", "counts", r.view(p)),
		makePart("filter", "filter", filterView{
			At: at.withValue("after", ""), Prefix: at.query.Get("prefix"), Filter: at.query.Get("filter"), Options: options(at),
			Clear: address{kind: "partition", partition: p.Id}.String(), Filtered: filtered(at),
		}))
	if p.Head == "" && len(p.States) == 0 {
		pageData.Parts = append(pageData.Parts, makePart("assets", "nothing-served", p))
		return pageData, nil
	}
	assets, err := r.listAssets(ctx, p, at)
	if err != nil {
		pageData.Parts = append(pageData.Parts, problem("assets", err))
		return pageData, nil
	}
	var rows []part
	for _, row := range assets.rows {
		rows = append(rows, makeRow(row.ID, "asset-row", row))
	}
	data := assetsView{Count: len(rows), Filtered: filtered(at)}
	if assets.next != "" {
		data.Next = at.withValue("after", assets.next)
	}
	if at.query.Get("after") != "" {
		data.First = at.withValue("after", "")
	}
	pageData.Parts = append(pageData.Parts, makeList("assets", "assets", data, rows), makePart("forget", "act-links", []actButton{newActButton(p.Id, "partition-remove", "")}))
	return pageData, nil
}

// assetsView is what stands around the rows.
type assetsView struct {
	Count       int
	Filtered    bool
	First, Next string
}

type filterView struct {
	At, Prefix, Filter, Clear string
	Filtered                  bool
	Options                   []option
}

type option struct {
	Value, Text string
	Selected    bool
}

func filtered(at address) bool {
	return at.query.Get("prefix") != "" || at.query.Get("state") != "" || at.query.Get("filter") != ""
}

func options(at address) []option {
	chosen := at.query.Get("state")
	list := []option{{Text: "every state", Selected: chosen == ""}}
	for _, state := range states {
		list = append(list, option{state.name, state.label, chosen == state.name})
	}
	return list
}
