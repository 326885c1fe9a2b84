package web

import (
	"cmp"
	"context"
	"strings"
	"unicode"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// reasonGraph draws the chain of reasons: from what is asked about to its root causes.
// Without causes below the first reason there is nothing to draw.
func reasonGraph(partition, about, state string, reasons []*apipb.Reason) *graph {
	g := &graph{ID: "why-graph", Name: "Why " + about + " is as it is", Edge: "because of"}
	g.Nodes = []*graphNode{{ID: "asked", Text: about, Note: stateWord(state), Class: stateClass(state), Here: true}}
	ids := map[string]bool{}
	isDeep := false
	var add func(from string, reasons []*apipb.Reason)
	add = func(from string, reasons []*apipb.Reason) {
		for _, reason := range reasons {
			if from == "asked" && reason.Asset == about && len(reason.Causes) > 0 {
				isDeep = true
				add(from, reason.Causes) // What is asked about has its box already.
				continue
			}
			id := strings.Join([]string{reason.Asset, reason.Kind, reason.Text}, "\x00")
			g.Edges = append(g.Edges, graphEdge{From: from, To: id})
			if ids[id] {
				continue
			}
			ids[id] = true
			g.Nodes = append(g.Nodes, reasonNode(partition, id, reason))
			if len(reason.Causes) > 0 {
				isDeep = true
				add(id, reason.Causes)
			}
		}
	}
	add("asked", reasons)
	if !isDeep && len(reasons) < 2 {
		return &graph{}
	}
	g.fold(func(n *graphNode) string { return n.Note }, func(key string, nodes []*graphNode) *graphNode {
		return &graphNode{ID: "all:" + key, Text: count(len(nodes), "asset"), Note: key, Class: nodes[0].Class}
	})
	return g.layOut()
}

func reasonNode(partition, id string, reason *apipb.Reason) *graphNode {
	node := &graphNode{ID: id, Text: cmp.Or(reason.Asset, "partition "+partition), Note: reason.Kind, Class: "state-waiting"}
	if len(reason.Causes) == 0 {
		node.Class = "root"
		node.Note += ", the root cause"
	}
	if reason.Asset != "" {
		node.Link = link(partition, "asset", reason.Asset)
	}
	return node
}

// neighbourGraph draws what an asset refers to and, step by step, what refers to it.
func neighbourGraph(partition string, content *apipb.GetAssetResponse) *graph {
	about := content.Asset.Id
	g := &graph{ID: "references-graph", Name: "References of " + about + " and what refers to it", Edge: "refers to"}
	ids := map[string]bool{about: true}
	g.Nodes = []*graphNode{{ID: about, Text: about, Note: stateWord(content.Asset.State), Class: stateClass(content.Asset.State), Here: true}}
	add := func(id, asset, elsewhere, note string) {
		if !ids[id] {
			ids[id] = true
			g.Nodes = append(g.Nodes, &graphNode{ID: id, Text: asset, Note: note, Class: "state-none", Link: link(cmp.Or(elsewhere, partition), "asset", asset)})
		}
	}
	for _, reference := range content.References {
		add(reference.To, reference.To, "", "by "+shortField(reference.Field))
		g.Edges = append(g.Edges, graphEdge{From: about, To: reference.To})
	}
	if content.Uses == nil {
		for _, reference := range content.ReferencedBy {
			add(reference.From, reference.From, "", "by "+shortField(reference.Field))
			g.Edges = append(g.Edges, graphEdge{From: reference.From, To: about})
		}
	}
	// A use stands behind the one that it comes through, which is one step nearer.
	through := []string{about}
	for _, use := range content.Uses {
		depth := min(max(int(use.Depth), 1), len(through))
		id := use.Asset
		if use.Partition != "" && use.Partition != partition {
			id = use.Partition + ":" + use.Asset
		}
		note := "uses it in " + count(depth, "step")
		if use.Partition != "" {
			note = "partition " + use.Partition
		}
		add(id, use.Asset, use.Partition, note)
		g.Edges = append(g.Edges, graphEdge{From: id, To: through[depth-1]})
		through = append(through[:depth], id)
	}
	if len(g.Nodes) == 1 {
		return &graph{}
	}
	g.fold(func(n *graphNode) string { return n.Note + "\x00" + firstSegment(n.Text) }, func(key string, nodes []*graphNode) *graphNode {
		note, prefix, _ := strings.Cut(key, "\x00")
		at := address{kind: "partition", partition: partition}
		return &graphNode{ID: "all:" + key, Text: count(len(nodes), "asset") + " " + prefix, Note: note, Class: "state-none", Link: at.withValue("prefix", prefix)}
	})
	if len(g.Nodes) > drawnAtMost {
		g.fold(func(n *graphNode) string { return n.Note }, func(key string, nodes []*graphNode) *graphNode {
			return &graphNode{ID: "all:" + key, Text: count(len(nodes), "kind") + " of assets", Note: key, Class: "state-none"}
		})
	}
	if content.MoreUses {
		g.Note = strings.TrimSpace(g.Note + " More assets refer to it than are read.")
	}
	return g.layOut()
}

// shortField is a field without the package of its type.
func shortField(field string) string {
	begins := strings.IndexFunc(field, unicode.IsUpper)
	return field[max(begins, 0):]
}

// firstSegment is the part of an id before its first slash, with it.
func firstSegment(id string) string {
	before, _, ok := strings.Cut(id, "/")
	if !ok {
		return id
	}
	return before + "/"
}

// showReferences is what an asset refers to, and all that refers to it, also through others.
// It reads up to a thousand assets, and so is a page of its own that is not followed.
func showReferences(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "References of "+at.name)
	if err != nil {
		return page{}, err
	}
	pageData.Fixed = true
	pageData.Back = crumb{at.name, link(at.partition, "asset", at.name)}
	content, err := r.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: at.partition, Asset: at.name, Uses: true})
	if err != nil {
		return page{}, err
	}
	drawing := neighbourGraph(at.partition, content)
	if len(drawing.Nodes) == 0 {
		pageData.Parts = []part{makePart("references", "no-references", nil)}
		return pageData, nil
	}
	pageData.Parts = []part{makePart("references", "graph", drawing), makePart("commands", "commands", []advice{{"See it in a terminal", r.command(at.partition, "get", "assets", "--uses", at.name)}})}
	return pageData, nil
}
