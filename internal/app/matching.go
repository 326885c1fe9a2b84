package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/store"
)

// registerMatching registers the partitions of definitions that match the patterns of the common
// policy and are not registered. Nothing is removed where a file is gone: its partition
// stays, and says that its definition cannot be read.
func (a *App) registerMatching(ctx context.Context) {
	stored, err := a.store.CommonPolicy(ctx)
	if err != nil {
		return
	}
	policy, err := commonpolicy.Decode(stored.Body)
	if err != nil || len(policy.GetRegister()) == 0 {
		return
	}
	registered, err := a.store.ListPartitions(ctx)
	if err != nil {
		return
	}
	if a.refusedMatches == nil {
		a.refusedMatches = map[string]string{}
	}
	for _, entry := range policy.GetRegister() {
		for _, path := range matchingFiles(a.options.CommonPolicy, entry.Definitions) {
			if slices.ContainsFunc(registered, func(p store.Partition) bool { return p.Definition == path }) {
				continue
			}
			reason := a.registerOne(ctx, path, entry.Line, policy.File, &registered)
			if reason != "" && a.refusedMatches[path] != reason {
				a.log.Warn("a definition matches the common policy and is not registered", "file", path, "reason", reason)
			}
			a.refusedMatches[path] = reason
		}
	}
}

// matchingFiles lists the files that a pattern matches. A relative one is relative to the folder
// of the policy's own file. That of a policy in a repository matches nothing: who may edit
// there need not be who may have the server read this machine's files.
func matchingFiles(place, pattern string) []string {
	parsed, err := source.ParseDefinition(place)
	if err != nil || parsed.Git != nil {
		return nil
	}
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(parsed.Path), pattern)
	}
	paths, _ := filepath.Glob(pattern)
	slices.Sort(paths)
	return paths
}

// registerOne returns why a definition is not registered; empty: it is.
func (a *App) registerOne(ctx context.Context, path string, line uint32, file string, registered *[]store.Partition) string {
	content, err := files.Read(path, definition.MaxBytes)
	if err != nil {
		return err.Error()
	}
	id := definition.PartitionOf(filepath.Base(path), content)
	if id == "" {
		return "it names no partition"
	}
	for _, p := range *registered {
		if p.ID == id {
			return fmt.Sprintf("its partition %s is registered as %s already", id, p.Definition)
		}
	}
	actor := intent.Actor{Name: a.holder, Origin: intent.ServerOrigin}
	if err := a.store.AddPartition(ctx, id, path, fmt.Sprintf("it matches line %d of %s", line, file), actor); err != nil {
		return strings.TrimSpace(err.Error())
	}
	a.log.Info("a partition was registered by the common policy", "partition", id, "file", path)
	*registered = append(*registered, store.Partition{ID: id, Definition: path})
	return ""
}
