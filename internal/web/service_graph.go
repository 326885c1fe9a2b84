package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
)

const (
	// membersDrawn of a group are drawn one by one; a group with more is drawn by instance.
	membersDrawn = 200
	// membersAtOnce are read at a time.
	membersAtOnce = 4
)

// graphView is a drawn group, and the address of the other way to draw it.
type graphView struct {
	*graph
	IsTree bool
	Other  string
	Group  string
	Whole  string
}

// member is an asset of a group.
type member struct {
	report *apipb.Report
	// scope that it impacts, and instance that it is of; empty: none.
	scope, instance string
	references      []*apipb.Reference
}

// showGraph draws the members of a group: by what comes after what, or as a tree.
func showGraph(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Graph of "+at.name)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"group " + at.name, link(at.partition, "group", at.name)}
	listed, err := r.Reports.ListReports(ctx, &apipb.ListReportsRequest{Partition: at.partition, Group: at.name, Limit: membersDrawn})
	if err != nil {
		return page{}, err
	}
	view := graphView{IsTree: at.query.Get("view") == "tree", Group: at.name, Whole: pageData.Back.Link, Other: at.withValue("view", "tree")}
	if view.IsTree {
		view.Other = at.withValue("view", "")
	}
	switch {
	case listed.Next != "":
		view.graph, err = r.instancesGraph(ctx, at)
	case view.IsTree:
		view.graph, err = r.membersGraph(ctx, at, listed.Reports, treeOf)
	default:
		view.graph, err = r.membersGraph(ctx, at, listed.Reports, dependenciesOf)
	}
	if err != nil {
		return page{}, err
	}
	pageData.Parts = []part{makePart("graph", "service-graph", view)}
	return pageData, nil
}

// membersGraph reads what each member refers to and impacts, and draws them.
func (r *reader) membersGraph(ctx context.Context, at address, reports []*apipb.Report, draw func(address, []member) *graph) (*graph, error) {
	members := make([]member, len(reports))
	var group errgroup.Group
	group.SetLimit(membersAtOnce)
	for i, report := range reports {
		group.Go(func() error {
			members[i].report = report
			content, err := r.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: at.partition, Asset: report.Asset})
			if absent(err) {
				return nil // It has a report, and is in head no more.
			}
			members[i].scope, members[i].instance, members[i].references = scopeOf(content), groupOf(content), content.GetReferences()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return draw(at, members), nil
}

// scopeOf is the failure domain that an asset impacts, as "cluster=a, zone=b".
func scopeOf(content *apipb.GetAssetResponse) string {
	name := string((&intentpb.ImpactedScope{}).ProtoReflect().Descriptor().FullName())
	scopes := content.GetAddons()[name].GetFields()["scopes"].GetStructValue().GetFields()
	var list []string
	for _, dimension := range slices.Sorted(maps.Keys(scopes)) {
		list = append(list, dimension+"="+scopes[dimension].GetStringValue())
	}
	return strings.Join(list, ", ")
}

func (m member) node(partition string) *graphNode {
	node := &graphNode{
		ID: m.report.Asset, Text: m.report.Asset, Note: stateWord(m.report.State), Class: stateClass(m.report.State),
		Link: link(partition, "asset", m.report.Asset), Lane: m.scope,
	}
	if m.report.GetHealth().GetState() == "unhealthy" {
		node.Note, node.Class = node.Note+", unhealthy", "failed"
	}
	return node
}

// dependenciesOf draws members beside what they refer to, in lanes by scope.
func dependenciesOf(at address, members []member) *graph {
	g := &graph{ID: "service", Name: "Assets of " + at.name + " by dependency", Edge: "refers to"}
	for _, m := range members {
		g.Nodes = append(g.Nodes, m.node(at.partition))
		for _, reference := range m.references {
			g.Edges = append(g.Edges, graphEdge{From: m.report.Asset, To: reference.To})
		}
	}
	foldAlike(g, at)
	return g.layOut()
}

// foldAlike puts together, beyond what an eye can read, what is of one scope and one state:
// by the beginning of the names at first, and then all.
func foldAlike(g *graph, at address) {
	key := func(n *graphNode) string { return strings.Join([]string{n.Lane, n.Class, n.Note}, "\x00") }
	merge := func(name func(nodes []*graphNode) string) func(string, []*graphNode) *graphNode {
		return func(key string, nodes []*graphNode) *graphNode {
			first := nodes[0]
			return &graphNode{ID: "all:" + key, Text: name(nodes), Note: first.Note, Class: first.Class, Lane: first.Lane, Link: link(at.partition, "group", at.name)}
		}
	}
	all := len(g.Nodes)
	g.fold(func(n *graphNode) string { return key(n) + "\x00" + firstSegment(n.Text) }, merge(func(nodes []*graphNode) string {
		return fmt.Sprintf("%d × %s", len(nodes), firstSegment(nodes[0].Text))
	}))
	if len(g.Nodes) > drawnAtMost {
		g.fold(key, merge(func(nodes []*graphNode) string { return count(len(nodes), "kind") + " of names" }))
		g.Note = fmt.Sprintf("%d are put together into %s, by scope and state.", all, count(len(g.Nodes), "box"))
	}
}

// treeOf draws a group above its instances, these above scopes, and those above assets.
func treeOf(at address, members []member) *graph {
	g := &graph{ID: "service", Name: "Assets of " + at.name + " as a tree", Edge: "has"}
	g.Nodes = []*graphNode{{ID: "group", Text: at.name, Note: count(len(members), "asset"), Class: "state-none", Link: link(at.partition, "group", at.name), Here: true}}
	ids := map[string]bool{}
	branch := func(id, parent, text, note, to string) {
		if !ids[id] {
			ids[id] = true
			g.Nodes = append(g.Nodes, &graphNode{ID: id, Text: text, Note: note, Class: "state-none", Link: to})
			g.Edges = append(g.Edges, graphEdge{From: parent, To: id})
		}
	}
	var leaves []*graphNode
	for _, m := range members {
		parent := "group"
		if m.instance != "" && m.instance != at.name {
			branch("instance:"+m.instance, parent, m.instance, "instance", link(at.partition, "group", m.instance))
			parent = "instance:" + m.instance
		}
		if m.scope != "" {
			id := parent + " scope:" + m.scope
			branch(id, parent, m.scope, "scope", "")
			parent = id
		}
		leaf := m.node(at.partition)
		leaf.Lane = parent // Until it is folded: what has one parent is alike.
		leaves = append(leaves, leaf)
	}
	below := &graph{Nodes: leaves}
	foldAlike(below, at)
	for _, leaf := range below.Nodes {
		g.Edges = append(g.Edges, graphEdge{From: leaf.Lane, To: leaf.ID})
		leaf.Lane = ""
		g.Nodes = append(g.Nodes, leaf)
	}
	g.Note = below.Note
	return g.layOut()
}

// instancesGraph draws a group with more members than can be drawn: by instance.
func (r *reader) instancesGraph(ctx context.Context, at address) (*graph, error) {
	response, err := r.Reports.ListGroups(ctx, &apipb.ListGroupsRequest{Partition: at.partition, Group: at.name})
	if err != nil {
		return nil, err
	}
	g := &graph{ID: "service", Name: "Instances of " + at.name, Edge: "has"}
	whole := service(at.partition, response.Groups)
	boxOf := func(v groupView) *graphNode {
		node := &graphNode{ID: v.Name, Text: v.Name, Note: count(v.Members, "asset") + ", " + stateWord(v.State), Class: stateClass(v.State), Link: link(at.partition, "group", v.Name)}
		if v.Unhealthy > 0 {
			node.Class, node.Note = "failed", count(v.Members, "asset")+fmt.Sprintf(", %d unhealthy", v.Unhealthy)
		}
		return node
	}
	g.Nodes = []*graphNode{boxOf(whole)}
	g.Nodes[0].Here = true
	for _, instance := range whole.Instances {
		if instance.Name != whole.Name {
			g.Nodes = append(g.Nodes, boxOf(instance))
			g.Edges = append(g.Edges, graphEdge{From: whole.Name, To: instance.Name})
		}
	}
	g.fold(func(n *graphNode) string { return n.Class }, func(key string, nodes []*graphNode) *graphNode {
		return &graphNode{ID: "all:" + key, Text: count(len(nodes), "instance"), Note: cmp.Or(strings.TrimPrefix(key, "state-"), "none"), Class: key, Link: link(at.partition, "group", at.name)}
	})
	if g.Note == "" {
		g.Note = fmt.Sprintf("More than %d assets: only instances are drawn. The graph of an instance has its assets.", membersDrawn)
	}
	return g.layOut(), nil
}

const (
	// ancestorsDrawn are the newest incarnations that are drawn, and candidatesDrawn the newest
	// candidates.
	ancestorsDrawn, candidatesDrawn = 12, 10
)

// ancestryGraph draws incarnations behind their parents, and candidates behind their bases.
func ancestryGraph(partition string, incarnations []*apipb.Incarnation, candidates []*apipb.Candidate) *graph {
	g := &graph{ID: "ancestry", Name: "Ancestry of the newest incarnations of " + partition, Edge: "is the parent of"}
	drawn := incarnations[:min(len(incarnations), ancestorsDrawn)]
	for _, incarnation := range slices.Backward(drawn) {
		node := &graphNode{ID: incarnation.Id, Text: incarnation.Id, Note: incarnation.State, Class: "state-none", Link: incarnationLink(incarnation.Id)}
		switch incarnation.State {
		case "enforced":
			node.Class = "state-in-sync"
		case "head":
			node.Class = "state-waiting"
		}
		g.Nodes = append(g.Nodes, node)
		g.Edges = append(g.Edges, graphEdge{From: incarnation.Parent, To: incarnation.Id})
	}
	for _, candidate := range candidates {
		isDrawn := slices.ContainsFunc(drawn, func(i *apipb.Incarnation) bool { return i.Id == candidate.Base })
		if candidate.State == "published" || !isDrawn {
			continue // Its incarnation stands for it.
		}
		node := &graphNode{ID: candidate.Id, Text: "candidate " + short(candidate.Digest), Note: candidate.State, Class: "state-none", Link: link(partition, "candidate", candidate.Digest)}
		switch candidate.State {
		case "held":
			node.Class = "state-waiting"
		case "rejected":
			node.Class = "failed"
		}
		g.Nodes = append(g.Nodes, node)
		g.Edges = append(g.Edges, graphEdge{From: candidate.Base, To: candidate.Id})
	}
	if len(g.Nodes) < 2 {
		return &graph{}
	}
	return g.layOut()
}
