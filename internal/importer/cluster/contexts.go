package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// mostSilence is how long a cluster may take to say its version, before it counts as dead.
const mostSilence = 15 * time.Second

// several reads the clusters of all contexts of a kubeconfig, at once. One that cannot be read
// is told, and keeps no other from being imported.
func several(ctx context.Context, path string, options surveyOptions) (importer.Import, error) {
	c, err := readKubeconfig(path)
	if err != nil {
		return importer.Import{}, err
	}
	results := make([]importer.Import, len(c.Contexts))
	names, errs := make([]string, len(c.Contexts)), make([]error, len(c.Contexts))
	var group sync.WaitGroup
	for i, named := range c.Contexts {
		group.Go(func() { results[i], names[i], errs[i] = one(ctx, path, named.Name, options) })
	}
	group.Wait()
	if ctx.Err() != nil {
		return importer.Import{}, ctx.Err()
	}
	all := importer.Import{Files: map[string][]byte{}}
	var sources, generators strings.Builder
	seen := map[string]string{}
	for i, named := range c.Contexts {
		name := names[i]
		switch first, isTwice := seen[name]; {
		case errs[i] != nil:
			all.LeftOut = append(all.LeftOut, importer.LeftOut{What: "context " + named.Name, Why: errs[i].Error(), Wrong: true})
			continue
		case isTwice:
			all.LeftOut = append(all.LeftOut, importer.LeftOut{What: "context " + named.Name, Why: "it leads to the cluster " + name + ", as the context " + first + " does"})
			continue
		}
		seen[name] = named.Name
		for file, text := range results[i].Files {
			all.Files["manifests/"+name+strings.TrimPrefix(file, "manifests")] = text
		}
		fmt.Fprintf(&sources, "  manifests-%s: {dir: manifests/%s, files: [\"**/*.yaml\"]}\n", name, name)
		fmt.Fprintf(&generators, "  %s: {render: kubernetes, from: [manifests-%s]%s}\n", name, name, results[i].Definition)
		for _, line := range results[i].Read {
			all.Read = append(all.Read, named.Name+": "+line)
		}
		for _, left := range results[i].LeftOut {
			left.What = named.Name + ": " + left.What
			all.LeftOut = append(all.LeftOut, left)
		}
		for _, hint := range results[i].Hints {
			if !slices.Contains(all.Hints, hint) {
				all.Hints = append(all.Hints, hint)
			}
		}
	}
	if len(seen) == 0 {
		why := "it has no contexts"
		if len(all.LeftOut) > 0 {
			why = all.LeftOut[0].What + ": " + all.LeftOut[0].Why
		}
		return importer.Import{}, fault.New(fault.Unavailable, "no cluster of %s can be read: %s", path, why).WithHint("kubectl --kubeconfig %s config get-contexts lists them", path)
	}
	all.Read = append([]string{fmt.Sprintf("%d clusters: %s", len(seen), strings.Join(slices.Sorted(maps.Keys(seen)), ", "))}, all.Read...)
	all.Definition = "sources:\n" + sources.String() + "\ngenerate:\n" + generators.String()
	return all, nil
}

// one reads the cluster of a context. The definition of the result is only what its generator
// says in with.
func one(ctx context.Context, path, name string, options surveyOptions) (importer.Import, string, error) {
	server, err := connect(ctx, path, name, true)
	if err != nil {
		return importer.Import{}, "", err
	}
	defer server.client.CloseIdleConnections()
	soon, cancel := context.WithTimeout(ctx, mostSilence)
	defer cancel()
	// Whoever may not ask that learns at least that somebody answers.
	if err := server.get(soon, "/version", nil, "", &struct{}{}); err != nil && !fault.Is(err, fault.Denied) && !fault.Is(err, fault.NotFound) {
		if soon.Err() != nil && ctx.Err() == nil {
			err = fault.New(fault.Unavailable, "the cluster does not answer within %s", mostSilence).WithHint("is it reachable from here, as the kubeconfig says?")
		}
		return importer.Import{}, "", err
	}
	s := survey{server: server, surveyOptions: options, omissions: map[string]int{}}
	if err := s.read(ctx); err != nil {
		return importer.Import{}, "", err
	}
	result, err := s.write()
	result.Definition = s.with()
	return result, server.name, err
}
