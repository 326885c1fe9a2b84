package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

const (
	// causesRead partitions in trouble are asked for their root causes on the first page, the
	// worst first, and homeCauses of all of these are shown.
	causesRead, homeCauses = 200, 30
	// causesAtOnce partitions are read at a time.
	causesAtOnce = 4
	// heldShown partitions that one cause holds up are named.
	heldShown = 8
)

// homeWrong has root causes, and counts them.
type homeWrong struct {
	Causes []*homeCause
	// Roots are how many there are in the partitions that were read, Assets how many assets
	// they hold up in how many Partitions, and Unread how many partitions with trouble were not read.
	Roots      int
	Assets     int64
	Partitions int
	Unread     int
	// Problems say of each partition that could not be read why not.
	Problems []string
}

// homeCause is one cause, as its first partition tells it, and all that it holds up.
type homeCause struct {
	causeView
	Held []homeHeld
	// Assets in all partitions.
	Assets int64
}

// homeHeld is what a cause holds up in a partition.
type homeHeld struct {
	Partition string
	// Assets; 0: all.
	Assets int64
	// WaitsFor is the partition of the cause that it waits for; empty: the cause is its own.
	WaitsFor string
	All      string
}

// Named are the partitions that are told by name, and Others counts the rest.
func (c *homeCause) Named() []homeHeld { return c.Held[:min(len(c.Held), heldShown)] }

// Others are not named.
func (c *homeCause) Others() int { return len(c.Held) - len(c.Named()) }

// hold adds a partition to those that the cause holds up.
func (c *homeCause) hold(partition string, assets int64, waitsFor string) {
	c.Assets += assets
	at := slices.IndexFunc(c.Held, func(held homeHeld) bool { return held.Partition == partition })
	if at < 0 {
		c.Held = append(c.Held, homeHeld{Partition: partition, Assets: assets, WaitsFor: waitsFor, All: link(partition, "causes", "")})
	} else if c.Held[at].Assets > 0 {
		c.Held[at].Assets += assets
	}
}

// More root causes than are shown.
func (w homeWrong) More() int { return w.Roots - len(w.Causes) }

// toldCauses are the root causes that a partition tells.
type toldCauses struct {
	partition string
	causes    []*apipb.Cause
}

// readWrong reads the root causes of the partitions in trouble, or of the chosen service in them, and counts what holds
// up several of them once. A partition that cannot be read hides no other.
func (r *reader) readWrong(ctx context.Context, partitions []*apipb.Partition, overviews map[string]*apipb.PartitionOverview, choice homeChoice) part {
	trouble := func(p *apipb.Partition) int64 {
		n := p.States["waiting"]
		if choice.Service != "" {
			n = overviews[p.Id].GetStates()["waiting"]
		}
		if p.Stop != nil || p.BlockedBy != nil || r.problem(p.Id) != "" {
			n += 1 << 40 // All of it is in trouble.
		}
		return n
	}
	ill := slices.DeleteFunc(slices.Clone(partitions), func(p *apipb.Partition) bool { return trouble(p) == 0 })
	slices.SortStableFunc(ill, func(a, b *apipb.Partition) int { return -cmp.Compare(trouble(a), trouble(b)) })
	read := ill[:min(len(ill), causesRead)]
	explanations, failed := make([]*apipb.WhyResponse, len(read)), make([]error, len(read))
	startedAt := time.Now()
	var group errgroup.Group
	group.SetLimit(causesAtOnce)
	for i, p := range read {
		group.Go(func() error {
			explanations[i], failed[i] = r.recallCauses(ctx, p, choice.Service)
			return nil
		})
	}
	_ = group.Wait()
	r.apart += time.Since(startedAt)
	var told []toldCauses
	var problems []string
	for i, p := range read {
		if failed[i] != nil {
			problems = append(problems, p.Id+": "+failed[i].Error())
			continue
		}
		told = append(told, toldCauses{p.Id, explanations[i].Causes})
	}
	view := countCauses(told)
	view.Unread, view.Problems = len(ill)-len(read), problems
	return makePart("wrong", "home-wrong", view)
}

// recallCauses reads the root causes of a partition, or of a service in it, unless a page that is loaded knows them of
// one before.
func (r *reader) recallCauses(ctx context.Context, p *apipb.Partition, service string) (*apipb.WhyResponse, error) {
	subject := aboutPartition
	if service != "" {
		subject = aboutGroup
	}
	if r.memory == nil {
		return r.readCausesAmong(ctx, p.Id, subject, service)
	}
	key, moment, now := causeKey{r.viewer.Key, p.Id, service}, momentOf(p, r.problem(p.Id)), time.Now()
	if known, ok := r.memory.recall(key, moment, now); ok {
		return known, nil
	}
	explanation, err := r.readWhy(ctx, p.Id, subject, service)
	if err == nil {
		r.memory.keep(key, moment, explanation, now)
	}
	return explanation, err
}

// countCauses puts the causes of several partitions together that are one. What waits for another partition is a
// symptom of the first cause of that, where it tells one.
func countCauses(told []toldCauses) homeWrong {
	var roots []*homeCause
	byShared, firstOf := map[string]*homeCause{}, map[string]*homeCause{}
	tells := map[string]bool{} // Whether a partition tells a cause that is not in another one.
	for _, t := range told {
		tells[t.partition] = slices.ContainsFunc(t.causes, func(c *apipb.Cause) bool { return !waitsForPartition(c) })
	}
	for _, t := range told {
		for _, c := range t.causes {
			if waitsForPartition(c) && tells[c.Root.Partition] {
				continue
			}
			cause := byShared[c.Shared]
			if cause == nil {
				cause = &homeCause{causeView: causeView{c, t.partition}}
				roots = append(roots, cause)
			}
			if c.Shared != "" {
				byShared[c.Shared] = cause
			}
			if firstOf[t.partition] == nil {
				firstOf[t.partition] = cause
			}
			cause.hold(t.partition, c.Assets, "")
		}
	}
	for _, t := range told {
		for _, c := range t.causes {
			if waitsForPartition(c) && tells[c.Root.Partition] {
				firstOf[c.Root.Partition].hold(t.partition, c.Assets, c.Root.Partition)
			}
		}
	}
	return sumCauses(roots)
}

// waitsForPartition: the root lies in another partition.
func waitsForPartition(c *apipb.Cause) bool {
	return c.Root.GetKind() == string(intent.WaitPartition) && c.Root.Partition != ""
}

// sumCauses orders causes: what holds up whole partitions first, then what holds up the most.
func sumCauses(roots []*homeCause) homeWrong {
	view := homeWrong{Roots: len(roots)}
	held := map[string]bool{}
	for _, cause := range roots {
		view.Assets += cause.Assets
		for _, h := range cause.Held {
			held[h.Partition] = true
		}
	}
	view.Partitions = len(held)
	isWhole := func(c *homeCause) int {
		if slices.ContainsFunc(c.Held, func(h homeHeld) bool { return h.Assets == 0 }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(roots, func(a, b *homeCause) int {
		return cmp.Or(cmp.Compare(isWhole(a), isWhole(b)), -cmp.Compare(len(a.Held), len(b.Held)), -cmp.Compare(a.Assets, b.Assets))
	})
	view.Causes = roots[:min(len(roots), homeCauses)]
	return view
}
