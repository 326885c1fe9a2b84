package web

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

const (
	// servicesShown are a page of services, and instancesShown of one of these.
	servicesShown, instancesShown = 50, 10
)

// groupView is a group with its members by state.
type groupView struct {
	Partition, Name, State string
	Members                int64
	// Unhealthy are members in sync that are unhealthy.
	Unhealthy int64
	Shares    []share
	// Instances of a service, what needs a person most first, as far as they are
	// shown, and how many there are.
	Instances []groupView
	Count     int
}

// Open: what is in the way is seen without a click.
func (g groupView) Open() bool {
	return g.Unhealthy > 0 || g.State == string(intent.StateWaiting) || g.State == string(intent.StatePushing)
}

// More instances than are shown.
func (g groupView) More() int { return g.Count - len(g.Instances) }

// Last part of an instance's name, which stands below its service's.
func (g groupView) Last(service string) string { return strings.TrimPrefix(g.Name, service+"/") }

func toGroupView(partition, name string, states map[string]int64, unhealthy int64) groupView {
	g := groupView{Partition: partition, Name: name, State: worst(states), Unhealthy: unhealthy, Shares: shares(states, address{kind: "group", partition: partition, name: name})}
	for _, n := range states {
		g.Members += n
	}
	return g
}

// worst of the states that are counted.
func worst(counts map[string]int64) string {
	for _, state := range intent.States() {
		if counts[string(state)] > 0 {
			return string(state)
		}
	}
	return ""
}

// services are the services of instances that stand in the order of their names.
func services(partition string, groups []*apipb.Group) []groupView {
	var list []groupView
	for len(groups) > 0 {
		end := slices.IndexFunc(groups, func(g *apipb.Group) bool { return g.Service != groups[0].Service })
		if end < 0 {
			end = len(groups)
		}
		list = append(list, service(partition, groups[:end]))
		groups = groups[end:]
	}
	return list
}

// service adds up the instances of one service.
func service(partition string, groups []*apipb.Group) groupView {
	states, unhealthy := map[string]int64{}, int64(0)
	var instances []groupView
	for _, g := range groups {
		for state, n := range g.States {
			states[state] += n
		}
		unhealthy += g.Unhealthy
		if g.Instance != "" {
			instances = append(instances, toGroupView(partition, g.Name, g.States, g.Unhealthy))
		}
	}
	slices.SortStableFunc(instances, func(a, b groupView) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), -cmp.Compare(a.Unhealthy, b.Unhealthy))
	})
	g := toGroupView(partition, groups[0].Service, states, unhealthy)
	g.Count, g.Instances = len(instances), instances
	return g
}

// rank of a state: 0 needs a person most.
func rank(state string) int { return slices.Index(intent.States(), intent.State(state)) }

// showGroups lists services, each with its instances below it.
func showGroups(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Groups of "+at.partition)
	if err != nil {
		return page{}, err
	}
	response, err := r.Reports.ListGroups(ctx, &apipb.ListGroupsRequest{
		Partition: at.partition, After: at.query.Get("after"), Limit: servicesShown,
	})
	if err != nil {
		return page{}, err
	}
	var rows []part
	for _, g := range services(at.partition, response.Groups) {
		g.Instances = g.Instances[:min(len(g.Instances), instancesShown)]
		rows = append(rows, makeItem(g.Name, "service", g))
	}
	pageData.Parts = []part{makeList("groups", "groups", at.pager("after", len(rows), response.Next), rows)}
	return pageData, nil
}

// showGroup is one service, or one instance of it: why it is as it is first.
func showGroup(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Group "+at.name)
	if err != nil {
		return page{}, err
	}
	offset, err := at.number("from")
	if err != nil {
		return page{}, err
	}
	response, err := r.Reports.ListGroups(ctx, &apipb.ListGroupsRequest{Partition: at.partition, Group: at.name})
	if err != nil {
		return page{}, err
	}
	whole := service(at.partition, response.Groups)
	pageData.Back = crumb{"groups", link(at.partition, "groups", "")}
	if whole.Name != at.name {
		pageData.Back = crumb{"group " + whole.Name, link(at.partition, "group", whole.Name)}
		whole = toGroupView(at.partition, at.name, response.Groups[0].States, response.Groups[0].Unhealthy)
	}
	explanation, err := r.readCauses(ctx, at.partition, aboutGroup, at.name)
	if err != nil {
		pageData.Parts = append(pageData.Parts, problem("causes", err))
	} else {
		pageData.Parts = append(pageData.Parts, firstCauses(at.partition, at.name, explanation.Causes, explanation), makePart("why", "group-why", explanation))
	}
	pageData.Parts = append(pageData.Parts, makePart("counts", "counts", whole), makePart("graph", "graph-link", link(at.partition, "graph", at.name)))
	if whole.Count > 0 {
		instances, next := slice(whole.Instances, offset, rowsShown)
		data := instancesView{Service: whole.Name, Count: whole.Count, Instances: instances, pager: at.pager("from", len(instances), next)}
		pageData.Parts = append(pageData.Parts, makePart("instances", "instances", data))
	}
	members, err := r.members(ctx, at)
	if err != nil {
		members = problem("assets", err)
	}
	pageData.Parts = append(pageData.Parts, members)
	return pageData, nil
}

type instancesView struct {
	Service   string
	Count     int
	Instances []groupView
	pager
}

// members is a page of a group's assets, of one state if the address names one.
func (r *reader) members(ctx context.Context, at address) (part, error) {
	p, err := r.readPartition(ctx, at.partition)
	if err != nil {
		return part{}, err
	}
	state := at.query.Get("state")
	response, err := r.Reports.ListReports(ctx, &apipb.ListReportsRequest{
		Partition: p.Id, Group: at.name, State: state, After: at.query.Get("after"), Limit: rowsShown,
	})
	if err != nil {
		return part{}, err
	}
	var rows []part
	for _, report := range response.Reports {
		row := toRow(p, &apipb.Asset{Id: report.Asset, Type: report.Type, Current: true}, report)
		rows = append(rows, makeRow(row.ID, "asset-row", row))
	}
	data := membersView{assetsView: assetsView{Count: len(rows), Filtered: state != ""}, State: state, All: address{kind: at.kind, partition: at.partition, name: at.name}.String()}
	if response.Next != "" {
		data.Next = at.withValue("after", response.Next)
	}
	if at.query.Get("after") != "" {
		data.First = at.withValue("after", "")
	}
	return makeList("assets", "members", data, rows), nil
}

type membersView struct {
	assetsView
	// State that is shown alone, and All the address without it.
	State, All string
}
