package server

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// deadlineAfter is the end of a period from now; an unset one never ends.
func (s *Server) deadlineAfter(period *durationpb.Duration) (time.Time, error) {
	if period == nil {
		return time.Time{}, nil
	}
	if period.CheckValid() != nil || period.AsDuration() <= 0 {
		return time.Time{}, fault.New(fault.Invalid, "the period must be longer than nothing")
	}
	return s.runtime.Now().Add(period.AsDuration()), nil
}

// loosened is the reason for what releases or loosens something: whoever finds
// it loose will ask.
func loosened(subject, reason string) (string, error) {
	if reason = strings.TrimSpace(reason); reason == "" {
		return "", fault.New(fault.Invalid, "%s needs a reason, for the audit", subject).WithHint("say why: in a command, add --reason \"why\"")
	}
	return reason, nil
}

// because is the reason for anything else.
func because(reason string) string { return cmp.Or(strings.TrimSpace(reason), "none given") }

func (s *Server) SetPin(ctx context.Context, request *apipb.SetPinRequest) (*apipb.SetPinResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	incarnation, err := intent.ParseIncarnationID(request.Incarnation)
	if err != nil {
		return nil, err
	}
	if incarnation.Partition != partition.ID {
		return nil, fault.New(fault.Invalid, "asset %s of partition %s cannot be pinned to %s, which is of another partition", asset, partition.ID, incarnation)
	}
	end, err := s.deadlineAfter(request.Period)
	if err != nil {
		return nil, err
	}
	pin, err := s.store.SetPin(ctx, intent.Pin{
		Asset: asset, Incarnation: incarnation, Rank: intent.RankPerson, Holder: actorOf(ctx),
		Reason: because(request.Reason), Created: s.runtime.Now(), Until: end,
	})
	if err != nil {
		return nil, err
	}
	return &apipb.SetPinResponse{Pin: toPin(pin, s.runtime.Now())}, nil
}

func (s *Server) RemovePin(ctx context.Context, request *apipb.RemovePinRequest) (*apipb.RemovePinResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	reason, err := loosened(fmt.Sprintf("unpinning %s of partition %s", asset, partition.ID), request.Reason)
	if err != nil {
		return nil, err
	}
	return &apipb.RemovePinResponse{}, s.store.Unpin(ctx, partition.ID, asset, intent.RankPerson, reason, actorOf(ctx))
}

func (s *Server) ListPins(ctx context.Context, request *apipb.ListPinsRequest) (*apipb.ListPinsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	pins, err := s.store.Pins(ctx, partition.ID)
	now := s.runtime.Now()
	return &apipb.ListPinsResponse{Pins: convertEach(pins, func(p intent.Pin) *apipb.Pin { return toPin(p, now) })}, err
}

// SetHold needs no report and no membership: an asset may be held before it
// is published.
func (s *Server) SetHold(ctx context.Context, request *apipb.SetHoldRequest) (*apipb.SetHoldResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	end, err := s.deadlineAfter(request.Period)
	if err != nil {
		return nil, err
	}
	hold := intent.Hold{Asset: asset, Owner: actorOf(ctx), Reason: because(request.Reason), Created: s.runtime.Now(), Until: end}
	if err := s.store.SetHold(ctx, partition.ID, hold); err != nil {
		return nil, err
	}
	return &apipb.SetHoldResponse{Hold: toHold(partition.ID, hold, s.runtime.Now())}, nil
}

func (s *Server) RemoveHold(ctx context.Context, request *apipb.RemoveHoldRequest) (*apipb.RemoveHoldResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	reason, err := loosened(fmt.Sprintf("ending the hold of %s of partition %s", asset, partition.ID), request.Reason)
	if err != nil {
		return nil, err
	}
	return &apipb.RemoveHoldResponse{}, s.store.Unhold(ctx, partition.ID, asset, reason, actorOf(ctx))
}

func (s *Server) ListHolds(ctx context.Context, request *apipb.ListHoldsRequest) (*apipb.ListHoldsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	holds, err := s.store.Holds(ctx, partition.ID)
	now := s.runtime.Now()
	return &apipb.ListHoldsResponse{Holds: convertEach(holds, func(h intent.Hold) *apipb.Hold { return toHold(partition.ID, h, now) })}, err
}

// RetryAsset is of what an enforcer looks at: that has a report.
func (s *Server) RetryAsset(ctx context.Context, request *apipb.RetryAssetRequest) (*apipb.RetryAssetResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	attempt := fmt.Sprintf("trying %s of partition %s again", asset, partition.ID)
	reason, err := loosened(attempt, request.Reason)
	if err != nil {
		return nil, err
	}
	if _, err := s.store.Report(ctx, partition.ID, asset); fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.NotFound, "%s: %w", attempt, err).WithHint("lehr get reports lists what is looked at")
	} else if err != nil {
		return nil, err
	}
	return &apipb.RetryAssetResponse{}, s.store.Retry(ctx, partition.ID, asset, reason, actorOf(ctx))
}

// SetStop needs nothing but the store (S18).
func (s *Server) SetStop(ctx context.Context, request *apipb.SetStopRequest) (*apipb.SetStopResponse, error) {
	scope, err := s.scopeSoon(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	stop := intent.Stop{Partition: scope, Owner: actorOf(ctx), Reason: because(request.Reason), Since: s.runtime.Now()}
	if err := s.store.SetStop(ctx, stop); err != nil {
		return nil, err
	}
	// What the store does not have is told without asking it.
	if braked, ok := s.store.(unwritten); ok {
		for _, existing := range braked.Unwritten() {
			if existing.Partition == scope {
				return &apipb.SetStopResponse{Stop: toStop(existing)}, nil
			}
		}
	}
	stops, err := s.store.Stops(ctx)
	if err != nil {
		return nil, err
	}
	for _, existing := range stops {
		if existing.Partition == scope {
			stop = existing
		}
	}
	return &apipb.SetStopResponse{Stop: toStop(stop)}, nil
}

// unwritten tells of the stops that are in force and that the store does not have.
type unwritten interface{ Unwritten() []intent.Stop }

// soon is how long a stop waits to hear whether there is such a partition.
const soon = 300 * time.Millisecond

// scopeSoon is that of a stop, which waits for no store that cannot answer: there it is
// taken at its word.
func (s *Server) scopeSoon(ctx context.Context, partition string) (intent.PartitionID, error) {
	if _, ok := s.store.(unwritten); !ok || partition == "" {
		return s.scope(ctx, partition)
	}
	type answer struct {
		scope intent.PartitionID
		err   error
	}
	answers, answered := make(chan answer, 1), make(chan struct{})
	s.runtime.Go("scope of a stop", func() {
		defer close(answered)
		scope, err := s.scope(ctx, partition)
		answers <- answer{scope, err}
	})
	_ = s.runtime.Wait(ctx, soon, answered)
	select {
	case reply := <-answers:
		if reply.err == nil || fault.Is(reply.err, fault.NotFound) || fault.Is(reply.err, fault.Invalid) || fault.Is(reply.err, fault.Denied) {
			return reply.scope, reply.err
		}
	default:
	}
	return intent.ParsePartitionID(partition)
}

// scope of a stop; empty: all partitions.
func (s *Server) scope(ctx context.Context, partition string) (intent.PartitionID, error) {
	if partition == "" {
		return "", nil
	}
	registered, err := s.registered(ctx, partition)
	return registered.ID, err
}

func (s *Server) Resume(ctx context.Context, request *apipb.ResumeRequest) (*apipb.ResumeResponse, error) {
	scope, err := s.scope(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	reason, err := loosened("ending a stop", request.Reason)
	if err != nil {
		return nil, err
	}
	if err := s.store.Resume(ctx, scope, reason, actorOf(ctx)); err != nil {
		return nil, err
	}
	stops, err := s.store.Stops(ctx)
	if err != nil {
		return nil, err
	}
	response := &apipb.ResumeResponse{}
	for _, stop := range stops {
		if scope == "" || stop.Partition == "" || stop.Partition == scope {
			response.Remaining = append(response.Remaining, toStop(stop))
		}
	}
	return response, nil
}

func (s *Server) ListStops(ctx context.Context, _ *apipb.ListStopsRequest) (*apipb.ListStopsResponse, error) {
	visible, err := s.visible(ctx)
	if err != nil {
		return nil, err
	}
	stops, err := s.visibleStops(ctx, visible)
	return &apipb.ListStopsResponse{Stops: stops}, err
}

// visibleStops are those of partitions that the caller may read, and that of
// all, which everybody may know of.
func (s *Server) visibleStops(ctx context.Context, visible func(intent.PartitionID) bool) (stops []*apipb.Stop, err error) {
	all, err := s.store.Stops(ctx)
	for _, stop := range all {
		if stop.Partition == "" || visible(stop.Partition) {
			stops = append(stops, toStop(stop))
		}
	}
	return stops, err
}
