package remote

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// diffLink is one life of the stream of diffs.
type diffLink struct {
	session *session
	scope   *scope
	changes *changeFeed
	queue   chan *pluginpb.DiffRequest
	dead    chan struct{}
	cause   error
	// lifeSigns counts signs of life: results, and questions.
	lifeSigns atomic.Int64

	mutex sync.Mutex
	last  uint64
	open  map[uint64]*batch
}

// batch is one call of Diff.
type batch struct {
	number      uint64
	incarnation intent.IncarnationID
	// at is when it was sent, since the earliest that production may have begun to be
	// read for an answer (zero: the cadence of the type says).
	at, since time.Time
	places    map[intent.AssetID]int
	// mutex guards what results fill in.
	mutex       sync.Mutex
	differences []intent.Difference
	answered    []bool
	missing     int
	// bytes of the answers, about.
	bytes int
	done  chan struct{}
}

func newDiffLink(s *session) *diffLink {
	return &diffLink{
		session: s, scope: s.answers.newScope(), changes: newChangeFeed(s.answers.contents),
		queue: make(chan *pluginpb.DiffRequest, queueLength), dead: make(chan struct{}),
		open: map[uint64]*batch{},
	}
}

// end fails what is open, once.
func (l *diffLink) end(cause error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cause == nil {
		l.cause = cause
		close(l.dead)
	}
}

func (s *session) diff(ctx context.Context, wanted plugin.DiffRequest) ([]intent.Difference, error) {
	if first, rest, ok := splitByMemos(wanted); ok {
		differences, err := s.diff(ctx, first)
		if err != nil {
			return nil, err
		}
		others, err := s.diff(ctx, rest)
		return append(differences, others...), err
	}
	link := s.diffs.Load()
	incarnation, assets := wanted.Incarnation, wanted.Assets
	call, cancel := context.WithTimeout(ctx, s.options.DiffTimeout)
	defer cancel()
	b, err := link.begin(wanted)
	if err != nil {
		return nil, err
	}
	defer link.finish(b)
	s.asked.add(incarnation.Partition, assets)
	request := &pluginpb.DiffBatch{Batch: b.number, Partition: string(incarnation.Partition), Incarnation: incarnation.String(), Assets: make([]string, len(assets))}
	for i, asset := range assets {
		request.Assets[i] = string(asset)
		request.Memos = append(request.Memos, encodeMemos(asset, wanted.Memos[asset])...)
	}
	if !wanted.Since.IsZero() {
		request.MaxAge = durationpb.New(max(0, b.at.Sub(wanted.Since)))
	}
	link.changes.sendWith(call, incarnation, func(changes *pluginpb.Changes) {
		request.Changes = changes
		select {
		case link.queue <- &pluginpb.DiffRequest{Message: &pluginpb.DiffRequest_Batch{Batch: request}}:
		case <-link.dead:
		case <-call.Done():
		}
	})
	select {
	case <-b.done:
		return b.differences, nil
	case <-link.dead:
		return nil, link.cause
	case <-call.Done():
	}
	if ctx.Err() != nil {
		return nil, fault.New(fault.Unavailable, "diff of %d assets by plugin %s: %w", len(assets), s.options.Name, ctx.Err())
	}
	return link.late(b)
}

// late takes what a plugin that did not answer in time has answered so far.
// One that has answered nothing is watched.
func (l *diffLink) late(b *batch) ([]intent.Difference, error) {
	options := l.session.options
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.missing == 0 {
		return b.differences, nil
	}
	if b.missing == len(b.places) {
		lifeSigns := l.lifeSigns.Load()
		time.AfterFunc(options.HangGrace, func() { l.judgeHung(lifeSigns) })
		return nil, fault.New(fault.Unavailable, "plugin %s did not answer a diff of %d assets within %s", options.Name, len(b.places), options.DiffTimeout).
			WithHint("it is ended, or dialled anew, if it stays silent for another %s", options.HangGrace)
	}
	for i := range b.differences {
		if !b.answered[i] {
			b.differences[i].Reason = "plugin " + options.Name + " did not answer within " + options.DiffTimeout.String()
		}
	}
	// What comes later finds a batch that takes nothing any more.
	b.places = nil
	return b.differences, nil
}

// judgeHung ends the life of a plugin that has given no result since a diff timed out.
func (l *diffLink) judgeHung(lifeSigns int64) {
	select {
	case <-l.dead:
		return
	default:
	}
	if l.lifeSigns.Load() == lifeSigns {
		options := l.session.options
		l.session.kill(fault.New(fault.Unavailable, "plugin %s hung: no answer to any diff for %s; %s", options.Name, options.DiffTimeout+options.HangGrace, l.session.peer.cutting()))
	}
}

func (l *diffLink) begin(wanted plugin.DiffRequest) (*batch, error) {
	incarnation, assets := wanted.Incarnation, wanted.Assets
	b := &batch{
		incarnation: incarnation,
		at:          time.Now(),
		since:       wanted.Since,
		places:      make(map[intent.AssetID]int, len(assets)),
		differences: make([]intent.Difference, len(assets)),
		answered:    make([]bool, len(assets)),
		missing:     len(assets),
		done:        make(chan struct{}),
	}
	for i, asset := range assets {
		b.places[asset] = i
		b.differences[i] = intent.Difference{Asset: asset, Incarnation: incarnation, At: b.at, Reason: "the plugin did not answer"}
	}
	if len(b.places) < len(assets) {
		return nil, fault.New(fault.Internal, "diff by plugin %s names an asset twice", l.session.options.Name)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cause != nil {
		return nil, l.cause
	}
	l.last++
	b.number = l.last
	l.open[b.number] = b
	l.scope.open(incarnation, assets...)
	return b, nil
}

func (l *diffLink) finish(b *batch) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.open, b.number)
	for _, difference := range b.differences {
		l.scope.close(b.incarnation, difference.Asset)
	}
}

// handle takes one message of the plugin.
func (l *diffLink) handle(ctx context.Context, response *pluginpb.DiffResponse) {
	switch message := response.Message.(type) {
	case *pluginpb.DiffResponse_Results:
		l.mutex.Lock()
		b, isStarted := l.open[message.Results.Batch], message.Results.Batch <= l.last
		l.mutex.Unlock()
		if !isStarted {
			l.session.ignore("results of a batch that was never begun", "batch", message.Results.Batch)
			return
		}
		// An answer that comes too late is a sign of life all the same.
		l.lifeSigns.Add(1)
		if b != nil {
			b.take(message.Results.Diffs, l.session)
		}
	case *pluginpb.DiffResponse_Need:
		// Whoever asks is not hung: it waits for us.
		l.lifeSigns.Add(1)
		if len(message.Need.GetAssets()) > maxNeed {
			l.session.ignore("a question for too many assets", "assets", len(message.Need.Assets))
			return
		}
		l.scope.answer(ctx, message.Need, func(content *pluginpb.Content) {
			select {
			case l.queue <- &pluginpb.DiffRequest{Message: &pluginpb.DiffRequest_Content{Content: content}}:
			case <-ctx.Done():
			}
		})
	default:
		l.session.ignore("an empty message")
	}
}

// take accepts results: of assets that the call named, and each once.
func (b *batch) take(diffs []*pluginpb.AssetDiff, s *session) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	bogus := len(diffs) == 0
	for _, diff := range diffs {
		place, ok := b.places[intent.AssetID(diff.Asset)]
		if !ok || b.answered[place] {
			bogus = true
			continue
		}
		b.answered[place] = true
		if b.bytes += weight(diff); b.bytes <= maxBatch {
			CheckDifference(diff, &b.differences[place], b.since, s.description.Cadence())
		} else {
			b.differences[place].Reason = fmt.Sprintf("the plugin's answers to one call have more than %d bytes", maxBatch)
		}
		if b.missing--; b.missing == 0 {
			close(b.done)
		}
	}
	if bogus {
		s.ignore("no difference, one of an asset that was not asked for, or a second one")
	}
}
