package server

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"lehr.dev/access"
	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// authority asks of every call whether its caller may make it, as the call's
// annotation in the contract says. What changes something is asked again in the
// transaction that changes it (S24).
type authority struct{ server *Server }

// lookAgain is how often the caller of a stream is asked for again.
const lookAgain = 500 * time.Millisecond

func (a authority) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := request.Spec().Procedure
		call, ctx, err := a.enter(ctx, procedure)
		if err == nil {
			err = a.check(ctx, call, request.Any())
		}
		if err != nil {
			return nil, a.tell(ctx, procedure, err)
		}
		response, err := next(ctx, request)
		return response, a.tell(ctx, procedure, err)
	}
}

// WrapStreamingHandler asks when the request has come, and again while the
// stream goes on: it ends soon after its caller may not read it any more.
func (a authority) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		procedure := conn.Spec().Procedure
		call, ctx, err := a.enter(ctx, procedure)
		if err != nil {
			return a.tell(ctx, procedure, err)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		err = next(ctx, &asked{StreamingHandlerConn: conn, ctx: ctx, cancel: cancel, call: call, authority: a})
		if denied := context.Cause(ctx); fault.Is(denied, fault.Denied) {
			err = denied
		}
		return a.tell(ctx, procedure, err)
	}
}

func (authority) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// enter finds out who calls what. A call that does not say who may make it is
// nobody's.
func (a authority) enter(ctx context.Context, procedure string) (access.Call, context.Context, error) {
	call, known := access.CallOf(procedure)
	if !known {
		return call, ctx, fault.New(fault.Denied, "%s does not say who may call it, so nobody may", procedure)
	}
	caller, err := a.server.identify(ctx)
	if err != nil {
		return call, ctx, err
	}
	return call, store.WithCaller(ctx, caller), nil
}

func (a authority) check(ctx context.Context, call access.Call, request any) error {
	caller, _ := store.CallerOf(ctx)
	message, ok := request.(proto.Message)
	switch {
	case caller.Local || call.Scope == apipb.Scope_SCOPE_PUBLIC:
		return nil
	case !ok:
		return fault.New(fault.Internal, "%s was sent %T, which is no message", call.Name(), request)
	case call.Scope != apipb.Scope_SCOPE_OWN:
		return a.server.store.Authorize(ctx, call.Role, call.Partition(message))
	}
	holds, err := a.server.store.Authority(ctx)
	if err != nil {
		return err
	}
	return holds.Valid()
}

// tell leaves word of what was denied. The audit has only what was done: who
// has any token at all could fill it with what was not.
func (a authority) tell(ctx context.Context, procedure string, err error) error {
	if fault.Is(err, fault.Denied) {
		caller, _ := store.CallerOf(ctx)
		a.server.log.Warn("denied", "call", procedure, "who", caller.Actor.Name, "token", caller.Token, "from", caller.From, "why", err)
	}
	return err
}

// asked is a stream whose caller is asked for.
type asked struct {
	connect.StreamingHandlerConn
	ctx       context.Context
	cancel    context.CancelCauseFunc
	call      access.Call
	authority authority
}

func (s *asked) Receive(message any) error {
	if err := s.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	if err := s.authority.check(s.ctx, s.call, message); err != nil {
		s.cancel(err)
		return err
	}
	if caller, _ := store.CallerOf(s.ctx); !caller.Local {
		go s.keepAsking(message)
	}
	return nil
}

// keepAsking ends the stream when its caller is denied. What cannot be read is
// no reason: it is asked again.
func (s *asked) keepAsking(message any) {
	for s.authority.server.runtime.Wait(s.ctx, lookAgain, nil) == nil {
		if err := s.authority.check(s.ctx, s.call, message); fault.Is(err, fault.Denied) {
			s.cancel(err)
			return
		}
	}
}

// by is who calls.
func by(ctx context.Context) intent.Actor {
	caller, _ := store.CallerOf(ctx)
	return caller.Actor
}

// visible tells which partitions the caller may read.
func (s *Server) visible(ctx context.Context) (func(intent.PartitionID) bool, error) {
	if caller, _ := store.CallerOf(ctx); caller.Local {
		return func(intent.PartitionID) bool { return true }, nil
	}
	holds, err := s.store.Authority(ctx)
	return func(partition intent.PartitionID) bool { return holds.May(intent.Viewer, partition) }, err
}
