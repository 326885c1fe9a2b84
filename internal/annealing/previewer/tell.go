package previewer

import (
	"context"
	"maps"
	"slices"

	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
)

// tell the rule's git host where its previews stand: a status at the commit of each, which shows on
// the pull request. What the host does not take is tried later, and delays nothing else.
func (p *Previewer) tell(ctx context.Context, rule branchpreview.Rule, state *ruleState, entries branchpreview.Entries, standings map[string]Standing) {
	now := p.Runtime.Now()
	if rule.GetHost() == "" || now.Before(state.tell) {
		return
	}
	wanted := map[string]githost.Status{}
	for name := range state.memory.Posted {
		wanted[name] = p.endedStatus(rule, name, state.memory.Posted[name].Commit)
	}
	for name, entry := range entries {
		wanted[name] = p.statusOf(rule, name, entry, standings[name])
	}
	host, hostErr := p.Places.Host(p.Partition, rule.GetHost())
	posts := 0
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		status := wanted[name]
		next := Posted{status.Commit, string(status.State), status.Description}
		if state.memory.Posted[name] == next {
			continue
		}
		if posts++; posts > mostPosts {
			return
		}
		err := hostErr
		if err == nil {
			p.Runtime.Point("post a status")
			_, err = host.PostStatus(ctx, status)
		}
		if err != nil && ctx.Err() != nil {
			return
		}
		isUnknown := fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid)
		if err != nil && !isUnknown {
			state.refusals++
			state.tell = now.Add(again.After(state.refusals))
			p.Log.Warn("the status of a preview was not posted, and is tried again", "partition", p.Partition, "rule", rule.GetName(), "preview", name, "error", err)
			return
		}
		if isUnknown {
			p.Log.Warn("a git host does not take the status of a preview", "partition", p.Partition, "rule", rule.GetName(), "preview", name, "error", err)
		}
		state.refusals = 0
		if state.memory.Posted[name] = next; !isOf(entries, name) {
			delete(state.memory.Posted, name)
		}
	}
}

func isOf(entries branchpreview.Entries, name string) bool {
	_, ok := entries[name]
	return ok
}

// statusOf a preview at its commit. Its link is where the preview is seen, or else the page of Lehr.
func (p *Previewer) statusOf(rule branchpreview.Rule, name string, entry branchpreview.Entry, standing Standing) githost.Status {
	link := entry.URL
	if link == "" && p.Link != nil {
		link = p.Link()
	}
	state, description := githost.Running, "the preview "+name+" is being made"
	switch {
	case entry.Ending != nil:
		description = "the preview " + name + " ends: " + entry.Ending.Cause.Text()
	case standing.IsReady():
		state, description = githost.Success, "the preview "+name+" is ready, until "+entry.Expires.UTC().Format("2006-01-02 15:04 MST")
	}
	return githost.StatusOf(string(p.Partition), "previews", rule.GetName(), entry.Commit, state, description, link)
}

// endedStatus is that of a preview that is not there any more.
func (p *Previewer) endedStatus(rule branchpreview.Rule, name, commit string) githost.Status {
	return githost.StatusOf(string(p.Partition), "previews", rule.GetName(), commit, githost.Success, "the preview "+name+" has ended", "")
}
