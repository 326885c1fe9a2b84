package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

const (
	// watchPatience is how long a watch goes on without an answer from any of
	// several servers.
	watchPatience = 30 * time.Second
	watchAgain    = 100 * time.Millisecond
)

// broken ends a watch for what is no loss of contact.
type broken struct{ error }

// follow watches until the context ends. With several servers it begins anew
// when it was cut off, at one that answers.
func (c *Client) follow(ctx context.Context, watch func() (received bool, err error)) error {
	for last := time.Now(); ; {
		received, err := watch()
		if received {
			last = time.Now()
		}
		if cause, ok := errors.AsType[broken](err); ok {
			return cause.error
		}
		if err = Fault(err); ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || errors.Is(err, context.Canceled) {
			err = fault.New(fault.Unavailable, "the server ended the watch")
		}
		if c.servers == nil || !fault.Is(err, fault.Unavailable) || time.Since(last) > watchPatience {
			return err
		}
		c.servers.current.Add(1) // The one that hung up may not be well.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchAgain):
		}
	}
}

// WatchAssets hands on what is sent until the context ends, each is done, or
// contact is lost; an error of each ends it. With several servers it goes on at
// another after the last incarnation that was complete. Then no change is
// missed or handed on twice: those of an incarnation are handed on when all of
// them have come, and only a list of all, which begins with reset, may begin
// again.
func (c *Client) WatchAssets(ctx context.Context, request *apipb.WatchAssetsRequest, handle func(*apipb.WatchAssetsResponse) error) error {
	request = proto.CloneOf(request)
	resumed := false
	return c.follow(ctx, func() (received bool, err error) {
		stream, err := c.Assets.WatchAssets(ctx, request)
		if err != nil {
			return false, err
		}
		defer stream.Close()
		var waiting []*apipb.WatchAssetsResponse
		resetting := false
		for stream.Receive() {
			m := stream.Msg()
			received = true
			if m.Reset_ {
				resetting, request.After = true, ""
			}
			if resumed && !resetting && m.Incarnation == request.After && len(m.Assets)+len(m.Removed) == 0 {
				continue // It says that nothing changed meanwhile.
			}
			if waiting = append(waiting, m); !resetting && !m.Complete {
				continue
			}
			for _, m := range waiting {
				if err := handle(m); err != nil {
					return true, broken{err}
				}
			}
			if waiting = nil; m.Complete {
				resetting, request.After = false, m.Incarnation
			}
		}
		resumed = true
		return received, stream.Err()
	})
}

// WatchReports hands on what is sent until the context ends, each is done, or
// contact is lost; an error of each ends it. With several servers it begins anew
// at another, and leaves out what it has handed on already.
func (c *Client) WatchReports(ctx context.Context, request *apipb.WatchReportsRequest, handle func(*apipb.WatchReportsResponse) error) error {
	reportedAt := map[string]time.Time{}
	var partition *apipb.Partition
	complete := false
	return c.follow(ctx, func() (received bool, err error) {
		stream, err := c.Reports.WatchReports(ctx, request)
		if err != nil {
			return false, err
		}
		defer stream.Close()
		for stream.Receive() {
			m := stream.Msg()
			received = true
			m.Reports = slices.DeleteFunc(m.Reports, func(r *apipb.Report) bool {
				at, sent := reportedAt[r.Asset]
				reportedAt[r.Asset] = r.At.AsTime()
				return sent && at.Equal(r.At.AsTime())
			})
			if m.Partition != nil && proto.Equal(m.Partition, partition) {
				m.Partition = nil
			} else if m.Partition != nil {
				partition = m.Partition
			}
			m.Complete = m.Complete && !complete
			complete = complete || m.Complete
			if m.Partition == nil && len(m.Reports) == 0 && !m.Complete {
				continue
			}
			if err := handle(m); err != nil {
				return true, broken{err}
			}
		}
		return received, stream.Err()
	})
}

// WatchRollout hands on a rollout, and again whenever it is something else, until
// the context ends, each is done, or contact is lost; an error of each ends it. With
// several servers it goes on at another.
func (c *Client) WatchRollout(ctx context.Context, request *apipb.WatchRolloutRequest, handle func(*apipb.WatchRolloutResponse) error) error {
	var last *apipb.WatchRolloutResponse
	return c.follow(ctx, func() (received bool, err error) {
		stream, err := c.Rollouts.WatchRollout(ctx, request)
		if err != nil {
			return false, err
		}
		defer stream.Close()
		for stream.Receive() {
			received = true
			if m := proto.CloneOf(stream.Msg()); !proto.Equal(m, last) {
				last = m
				if err := handle(m); err != nil {
					return true, broken{err}
				}
			}
		}
		return received, stream.Err()
	})
}
