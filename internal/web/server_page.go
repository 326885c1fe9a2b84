package web

import (
	"cmp"
	"context"
	"maps"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// serverKind is the page of the server, its store and its replicas, and its link.
const serverKind = "server"

// replicaView is a replica with the partitions that it acts for.
type replicaView struct {
	Name       string
	Partitions partitionNames
	Count      int
}

// replicasView is which replica acts for which partitions.
type replicasView struct {
	Replicas []replicaView
	// Alone: one server has the store for itself.
	Alone bool
	// Idle are partitions that nobody acts for.
	Idle []*apipb.PartitionHealth
	// Waiting are those whose builds wait for their turn.
	Waiting []*apipb.PartitionHealth
}

// showServer shows what the server is, where its store is, who acts for which partitions, and what does not work.
func showServer(ctx context.Context, r *reader, _ address) (page, error) {
	server, err := r.readServer(ctx)
	if err != nil {
		return page{}, err
	}
	partitions, err := r.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return page{}, err
	}
	pageData := page{Title: "Server", Back: crumb{"home", home}}
	pageData.Parts = []part{
		serverPart(r, server),
		makePart("replicas", "replicas", newReplicasView(server, partitions.Partitions)),
		makePart("diagnosis", "server-commands", []string{r.command("", "get", "partitions"), r.command("", "audit", "verify"), r.command("", "debug", "bundle")}),
	}
	return pageData, nil
}

// newReplicasView puts partitions together by the replicas that act for them.
func newReplicasView(server *apipb.GetServerResponse, partitions []*apipb.Partition) (view replicasView) {
	names := map[string][]string{}
	isIdle := map[string]bool{}
	for _, health := range server.Partitions {
		if health.Problem != "" {
			isIdle[health.Partition] = true
			view.Idle = append(view.Idle, health)
		}
		if health.Waiting != "" {
			view.Waiting = append(view.Waiting, health)
		}
	}
	for _, p := range partitions {
		if p.Replica != "" || !isIdle[p.Id] {
			names[p.Replica] = append(names[p.Replica], p.Id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		view.Replicas = append(view.Replicas, replicaView{cmp.Or(name, "this server"), newPartitionNames(names[name]), len(names[name])})
	}
	view.Alone = len(names) == 1 && len(names[""]) > 0
	return view
}
