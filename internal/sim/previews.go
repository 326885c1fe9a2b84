package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/previewer"
	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/store"
)

// In some generational runs there are pull requests, each with a preview. At times somebody else makes what a preview
// is to make.

// Disturbances of these runs.
const (
	PullOpened Kind = "a pull request is opened"
	PullPushed Kind = "a pull request has another commit"
	PullClosed Kind = "a pull request is closed"
	HostAway   Kind = "the git host does not answer"
	HostOmits  Kind = "the git host's list lacks a pull request"
)

var previewKinds = []weighed{{PullOpened, 120}, {PullPushed, 60}, {PullClosed, 110}, {HostAway, 40}, {HostOmits, 50}, {GenerationNew, 20}}

// Previews reports whether there are pull requests with previews in runs of a seed.
func Previews(seed uint64) bool { return seed%27 == 26 && seed/27%16 == 13 }

// previews reports whether there are any in this run.
func (l *Lab) previews() bool { return l.generational() && Previews(l.options.Seed) }

// previewProgram makes one thing for each preview, and something that comes after it.
const previewProgram = `
def generate(ctx):
    at = "review-" + ctx.key + "/"
    return [
        asset(at + "front", lehr.caddy.v1.Balancer(admin = "localhost:2019", name = "review-" + ctx.key, listen = [":80"],
              upstreams = {"0": lehr.caddy.v1.Upstream(address = ctx.value["commit"] + ":80", weight = 1)})),
        asset(at + "note", lehr.command.v1.Command(diff = ["true"], push = ["true"], input = ctx.value["commit"]), addons = [
              lehr.intent.v1.Dependencies(dependencies = [lehr.intent.v1.Dependency(on = at + "front", rule = "RULE_ORDER")])]),
    ]
`

// addPreviews adds the rule to a definition.
func addPreviews(text string) string {
	text = strings.Replace(text, "generate:\n", "  reviews: {document: previews-review}\ngenerate:\n  review: {starlark: review.star, from: [reviews], for_each: key}\n", 1)
	return text + "previews:\n  review: {pull_requests: hub, assets: \"" + monitor.PreviewPrefix + "{preview}/*\", generator: review, expires: 30d, at_most: 6}\n"
}

// pulls are the pull requests at the git host, by number.
type pulls struct {
	requests map[int]*pull
	away     bool
	// omitted is a request that lists lack, which are read in pages; 0: none is.
	omitted int
}

type pull struct {
	commit int
	closed bool
}

// previewOf is what the preview of a pull request is called, and frontOf the real thing of it.
func previewOf(number int) string { return fmt.Sprintf("pr-%d", number) }

func frontOf(number int) intent.ResourceKey {
	return intent.ResourceKey("sim:Balancer/" + monitor.PreviewPrefix + previewOf(number))
}

// isClosed reports whether the pull request of a preview is closed.
func (l *Lab) isClosed(preview string) bool {
	for number, p := range l.pulls.requests {
		if previewOf(number) == preview {
			return p.closed
		}
	}
	return false
}

// previewClosed is isClosed, where there are previews.
func (l *Lab) previewClosed() func(preview string) bool {
	if !l.previews() {
		return nil
	}
	return l.isClosed
}

func (l *Lab) openPulls() (numbers []int) {
	for _, number := range slices.Sorted(maps.Keys(l.pulls.requests)) {
		if !l.pulls.requests[number].closed {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// pullOpened opens one. At times somebody makes what its preview is to make, before it or a moment later.
func (l *Lab) pullOpened(d Disturbance, r *rand.Rand) {
	number := len(l.pulls.requests) + 1
	l.note(d.Kind, "sources")
	l.tell("%s: number %d", d, number)
	switch r.IntN(4) {
	case 0:
		l.foreignFront(number)
	case 1:
		l.after(within(r, 90*time.Second), func() { l.foreignFront(number) })
	}
	l.pulls.requests[number] = &pull{commit: 1}
	if r.IntN(2) == 0 {
		l.after(within(r, 10*time.Minute), func() { l.closePull(number) })
	}
}

// foreignFront has somebody else make what the preview of a pull request is to make, unless it is there.
func (l *Lab) foreignFront(number int) {
	if l.World.Place(frontOf(number)) {
		l.mark("previews: somebody else makes what a preview is to make")
		l.tell("somebody else makes %s", frontOf(number))
	}
}

func (l *Lab) pullPushed(d Disturbance, r *rand.Rand) {
	if open := l.openPulls(); len(open) > 0 {
		l.note(d.Kind, "sources")
		l.pulls.requests[open[r.IntN(len(open))]].commit++
	}
}

func (l *Lab) pullClosed(d Disturbance, r *rand.Rand) {
	if open := l.openPulls(); len(open) > 0 {
		l.note(d.Kind, "sources")
		l.closePull(open[r.IntN(len(open))])
	}
}

func (l *Lab) closePull(number int) {
	l.tell("pull request %d is closed", number)
	l.pulls.requests[number].closed = true
	l.mark("previews: a pull request is closed")
}

// hostAway has the git host answer nothing for some minutes.
func (l *Lab) hostAway(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "sources")
	l.tell("%s", d)
	l.pulls.away = true
	l.after(within(r, 10*time.Minute), func() { l.pulls.away = false })
}

// hostOmits has lists lack a pull request that is open, for some minutes.
func (l *Lab) hostOmits(d Disturbance, r *rand.Rand) {
	open := l.openPulls()
	if len(open) == 0 {
		return
	}
	l.note(d.Kind, "sources")
	l.pulls.omitted = open[r.IntN(len(open))]
	l.tell("%s: number %d", d, l.pulls.omitted)
	l.mark("previews: a list lacks a pull request")
	l.after(within(r, 10*time.Minute), func() { l.pulls.omitted = 0 })
}

// pullHost is the git host as a replica asks it.
type pullHost struct{ *Lab }

var (
	_ previewer.Places = pullHost{}
	_ previewer.Host   = pullHost{}
)

// Branches implements previewer.Places.
func (pullHost) Branches(context.Context, store.Partition, string, string) ([]branchpreview.Branch, error) {
	return nil, fault.New(fault.NotFound, "there are pull requests alone")
}

// Host implements previewer.Places.
func (h pullHost) Host(intent.PartitionID, string) (previewer.Host, error) { return h, nil }

func (h pullHost) answers() error {
	if h.pulls.away {
		return fault.New(fault.Unavailable, "the git host does not answer")
	}
	return nil
}

// ListOpen implements previewer.Host.
func (h pullHost) ListOpen(context.Context) (list []githost.Listed, err error) {
	for _, number := range h.openPulls() {
		if number == h.pulls.omitted {
			continue
		}
		list = append(list, githost.Listed{Request: githost.Request{Number: number}, Branch: fmt.Sprintf("feature-%d", number), Commit: fmt.Sprintf("%040x", number<<16|h.pulls.requests[number].commit)})
	}
	return list, h.answers()
}

// FollowRequest implements previewer.Host.
func (h pullHost) FollowRequest(_ context.Context, number int) (githost.Request, error) {
	request := githost.Request{Number: number, Progress: githost.Open}
	if h.isClosed(previewOf(number)) {
		request.Progress = githost.Closed
	}
	return request, h.answers()
}

// PostStatus implements previewer.Host.
func (h pullHost) PostStatus(context.Context, githost.Status) (bool, error) { return true, h.answers() }
