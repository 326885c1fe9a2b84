package main

import (
	"context"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/importer/cluster"
)

// owners asks the cluster of a kubeconfig.
func owners(ctx context.Context, query cli.OwnerQuery) (owners []cli.LiveObject, err error) {
	found, err := cluster.Owners(ctx, query.Kubeconfig, query.Context, cluster.Subject{Kinds: query.Kinds, Namespace: query.Namespace, Name: query.Name})
	for _, owner := range found {
		owners = append(owners, cli.LiveObject(owner))
	}
	return owners, err
}
