package web

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

// What the name in a request for why means.
const (
	aboutAsset     = "asset"
	aboutGroup     = "group"
	aboutPartition = "partition"
)

const (
	// causesFirst stand above what a page lists, and causesShown are a page of them.
	causesFirst, causesShown = 5, 50
)

// causesView is why assets of a group, or of a partition, are not as intent says.
type causesView struct {
	Partition string
	Causes    []causeView
	// More causes are at All; Followed, as WhyResponse's.
	More     int
	All      string
	Followed int64
	// Targets that notifications do not reach.
	Targets []*apipb.NotificationTarget
	pager
}

type causeView struct {
	*apipb.Cause
	Partition string
}

// Chain of the example, when it says more than the cause does.
func (c causeView) Chain() *chain {
	if len(c.Cause.Chain) == 0 || c.Example == c.Root.GetAsset() {
		return nil
	}
	return &chain{c.Partition, c.Example, c.Cause.Chain}
}

// Subject of the summary, when it begins with it, and Text is the rest.
func (c causeView) Subject() string {
	if asset := c.Root.GetAsset(); asset != "" && strings.HasPrefix(c.Summary, asset+": ") {
		return asset
	}
	return ""
}

// Text is the summary behind its subject.
func (c causeView) Text() string { return strings.TrimPrefix(c.Summary, c.Subject()+": ") }

// Others are those of the named assets that are not the root, and More how many
// there are beyond them.
func (c causeView) Others() []string {
	return slices.DeleteFunc(slices.Clone(c.Names), func(name string) bool { return name == c.Root.GetAsset() })
}

// More assets than are named.
func (c causeView) More() int64 { return max(0, c.Assets-int64(len(c.Names))) }

// inSummary of the others are named before a cause is unfolded.
const inSummary = 3

// InSummary is for the template.
func (causeView) InSummary() int { return inSummary }

// Unnamed are those that are not.
func (c causeView) Unnamed() int64 { return c.More() + int64(max(0, len(c.Others())-inSummary)) }

// Key tells a cause from those beside it, to keep it unfolded while it changes.
func (c causeView) Key() string { return version(c.Root.GetKind(), c.Root.GetAsset(), c.Example) }

// toldApart are the kinds of cause that a partition's page tells of in notices.
var toldApart = []string{"stop", "not-acting", "candidate-held", "candidate-rejected", "source-failing"}

// readCauses asks why a group or the partition is as it is. To follow thousands that
// wait takes longer than all else on a page, which is not to be held up by it: what is
// open is told of new causes at a pace of their own.
func (r *reader) readCauses(ctx context.Context, partition, subject, name string) (*apipb.WhyResponse, error) {
	if r.reread == nil {
		return r.readWhy(ctx, partition, subject, name)
	}
	startedAt := time.Now()
	defer func() { r.apart += time.Since(startedAt) }()
	return r.readCausesAmong(ctx, partition, subject, name)
}

// readCausesAmong is readCauses for one of several goroutines, which together add to apart how long they took.
func (r *reader) readCausesAmong(ctx context.Context, partition, subject, name string) (*apipb.WhyResponse, error) {
	if r.reread == nil {
		return r.readWhy(ctx, partition, subject, name)
	}
	key := partition + "\x00" + subject + "\x00" + name
	cached, ok := r.cached[key]
	if !ok || time.Since(cached.at) >= restful*cached.duration {
		startedAt := time.Now()
		explanation, err := r.readWhy(ctx, partition, subject, name)
		if err != nil {
			return nil, err
		}
		cached = keptCauses{explanation, time.Now(), time.Since(startedAt)}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.reread[key] = cached
	return cached.explanation, nil
}

func (r *reader) readWhy(ctx context.Context, partition, subject, name string) (*apipb.WhyResponse, error) {
	explanation, err := r.Reports.Why(ctx, &apipb.WhyRequest{Partition: partition, Asset: name, Subject: subject})
	if err != nil {
		return nil, err
	}
	for _, cause := range explanation.Causes {
		cause.Summary = agelessReasons([]*apipb.Reason{cause.Root}, cause.Summary)
		agelessReasons(cause.Chain, "")
	}
	return explanation, nil
}

func causesOf(partition string, causes []*apipb.Cause) []causeView {
	var views []causeView
	for _, cause := range causes {
		views = append(views, causeView{cause, partition})
	}
	return views
}

// firstCauses are the most decisive ones, and a link to all.
func firstCauses(partition, group string, causes []*apipb.Cause, explanation *apipb.WhyResponse) part {
	visible := causes[:min(len(causes), causesFirst)]
	at := address{kind: "causes", partition: partition}
	view := causesView{Partition: partition, Causes: causesOf(partition, visible), More: len(causes) - len(visible), All: at.withValue("group", group), Followed: explanation.Followed, Targets: explanation.FailingTargets}
	return makePart("causes", "causes", view)
}

// partitionCauses begin a partition's page. What concerns all of it has a notice.
func (r *reader) partitionCauses(ctx context.Context, partition string) part {
	explanation, err := r.readCauses(ctx, partition, aboutPartition, "")
	if err != nil {
		return problem("causes", err)
	}
	causes := slices.DeleteFunc(slices.Clone(explanation.Causes), func(c *apipb.Cause) bool { return c.Assets == 0 && slices.Contains(toldApart, c.Root.GetKind()) })
	return firstCauses(partition, "", causes, explanation)
}

// showCauses lists all causes, of the partition or of a group.
func showCauses(ctx context.Context, r *reader, at address) (page, error) {
	group := at.query.Get("group")
	subject, label := aboutPartition, "partition "+at.partition
	if group != "" {
		subject, label = aboutGroup, "group "+group
	}
	pageData, err := partitionPage(ctx, r, at, "What is in the way of "+label)
	if err != nil {
		return page{}, err
	}
	if group != "" {
		pageData.Back = crumb{label, link(at.partition, "group", group)}
	}
	offset, err := at.number("from")
	if err != nil {
		return page{}, err
	}
	explanation, err := r.readCauses(ctx, at.partition, subject, group)
	if err != nil {
		return page{}, err
	}
	causes, next := slice(explanation.Causes, offset, causesShown)
	view := causesView{
		Partition: at.partition, Causes: causesOf(at.partition, causes), Followed: explanation.Followed, Targets: explanation.FailingTargets, pager: at.pager("from", len(causes), next),
	}
	pageData.Parts = []part{makePart("causes", "all-causes", view)}
	return pageData, nil
}

// number of an address; none is 0.
func (at address) number(key string) (int, error) {
	n, err := strconv.ParseUint("0"+at.query.Get(key), 10, 31)
	if err != nil {
		return 0, fault.New(fault.Invalid, "%.40q is not a number of %s", at.query.Get(key), key).WithHint("leave %s out of the address", key)
	}
	return int(n), nil
}

// slice is a page of a list that is there as a whole, and where the next begins;
// empty: that was all.
func slice[T any](list []T, offset, size int) (items []T, next string) {
	list = list[min(offset, len(list)):]
	if len(list) > size {
		return list[:size], strconv.Itoa(offset + size)
	}
	return list, ""
}

// soon says within which time something is looked at again. In whole minutes, for
// each look of this page would plan another second.
func soon(r *apipb.Reason) string {
	if r.GetNext() == nil {
		return ""
	}
	minutes := math.Ceil(time.Until(r.Next.AsTime()).Minutes())
	switch {
	case minutes > 120:
		return count(int(math.Ceil(minutes/60)), "hour")
	default:
		return count(int(max(minutes, 1)), "minute")
	}
}
