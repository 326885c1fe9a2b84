package server

import (
	"context"
	"net"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
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
		call, ctx, leave, err := a.enter(ctx, procedure, false)
		defer leave()
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
		call, ctx, leave, err := a.enter(ctx, procedure, true)
		defer leave()
		if err != nil {
			return a.tell(ctx, procedure, err)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		err = next(ctx, &authorizedStream{StreamingHandlerConn: conn, ctx: ctx, cancel: cancel, call: call, authority: a})
		if denied := context.Cause(ctx); fault.Is(denied, fault.Denied) {
			err = denied
		}
		return a.tell(ctx, procedure, err)
	}
}

func (authority) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// enter finds out who calls what, and whether they have too much under way. A call that
// does not say who may make it is nobody's. What leave gives back is given once it ended.
func (a authority) enter(ctx context.Context, procedure string, stream bool) (call access.Call, callerCtx context.Context, leave func(), err error) {
	leave = func() {}
	call, ok := access.CallOf(procedure)
	if !ok {
		return call, ctx, leave, fault.New(fault.Denied, "%s does not say who may call it, so nobody may", procedure)
	}
	caller, err := a.server.identify(ctx)
	if err != nil {
		return call, ctx, leave, err
	}
	callerCtx = store.WithCaller(ctx, caller)
	if caller.Local {
		return call, callerCtx, leave, nil // Theirs is the machine.
	}
	entered, err := a.server.quotas.Enter(quotaOf(caller), procedure, stream)
	if err != nil {
		return call, callerCtx, leave, err
	}
	return call, callerCtx, entered, nil
}

// quotaOf is by what a caller is known to the quotas: their name, whichever of their
// tokens they bear; who has shown none, where they call from.
func quotaOf(caller store.Caller) string {
	if caller.Token != "" {
		return "user " + caller.Actor.Name
	}
	host, _, err := net.SplitHostPort(caller.From)
	if err != nil {
		host = caller.From
	}
	return "address " + host
}

// mostName is how long a name in a request may be, and a reason or the like: some are
// told and kept.
const (
	mostName   = 1 << 10
	mostReason = 16 << 10
)

// nameFields and wordFields are fields of requests, in messages at any depth.
var (
	nameFields = []protoreflect.Name{"partition", "asset", "id", "name", "owner", "call", "incarnation", "rollout", "check", "label", "key", "scope", "group", "subject", "after", "plan", "run", "document", "revision", "workflow", "signal", "machine", "request"}
	wordFields = []protoreflect.Name{"reason", "description", "comment", "message"}
)

// bounded is Invalid when a name or a reason in a request is too long. Nothing of it is told.
func bounded(message protoreflect.Message) (err error) {
	check := func(field protoreflect.FieldDescriptor, value protoreflect.Value) {
		most := 0
		switch {
		case slices.Contains(nameFields, field.Name()):
			most = mostName
		case slices.Contains(wordFields, field.Name()):
			most = mostReason
		}
		if most > 0 && len(value.String()) > most && err == nil {
			err = fault.New(fault.Invalid, "the field %s of the request has %d bytes, at most %d are taken", field.Name(), len(value.String()), most)
		}
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
		case field.IsList() && field.Kind() == protoreflect.StringKind:
			for i := range value.List().Len() {
				check(field, value.List().Get(i))
			}
		case field.IsList() && field.Message() != nil:
			for i := 0; i < value.List().Len() && err == nil; i++ {
				err = bounded(value.List().Get(i).Message())
			}
		case field.Kind() == protoreflect.StringKind:
			check(field, value)
		case field.Message() != nil && !field.IsList():
			err = bounded(value.Message())
		}
		return err == nil
	})
	return err
}

func (a authority) check(ctx context.Context, call access.Call, request any) error {
	caller, _ := store.CallerOf(ctx)
	message, ok := request.(proto.Message)
	if ok {
		if err := bounded(message.ProtoReflect()); err != nil {
			return err
		}
	}
	switch {
	case caller.Local || call.Scope == apipb.Scope_SCOPE_PUBLIC:
		return nil
	case !ok:
		return fault.New(fault.Internal, "%s was sent %T, which is no message", call.Name(), request)
	case call.Scope != apipb.Scope_SCOPE_OWN:
		if stopping, ok := a.server.store.(authorizesStops); ok && "/"+call.Name() == apipbconnect.BrakeServiceSetStopProcedure {
			return stopping.AuthorizeStop(ctx, call.Role, call.Partition(message))
		}
		return a.server.store.Authorize(ctx, call.Role, call.Partition(message))
	}
	holds, err := a.server.store.Authority(ctx)
	if err != nil {
		return err
	}
	return holds.Valid()
}

// authorizesStops says who may stop while the store cannot say it (S18).
type authorizesStops interface {
	AuthorizeStop(ctx context.Context, role intent.Role, partition intent.PartitionID) error
}

// tell leaves word of what was denied. The audit has only what was done: who
// has any token at all could fill it with what was not.
func (a authority) tell(ctx context.Context, procedure string, err error) error {
	if fault.Is(err, fault.Denied) {
		caller, _ := store.CallerOf(ctx)
		if log, suppressed := a.server.quotas.Denied(quotaOf(caller)); log {
			attributes := []any{"call", procedure, "who", clipped(caller.Actor.Name, mostName), "token", caller.Token, "from", caller.From, "why", clipped(err.Error(), mostMessage)}
			if suppressed > 0 {
				attributes = append(attributes, "not_logged_before", suppressed)
			}
			a.server.log.Warn("denied", attributes...)
		}
	}
	return err
}

// authorizedStream is a stream whose caller is asked for.
type authorizedStream struct {
	connect.StreamingHandlerConn
	ctx       context.Context
	cancel    context.CancelCauseFunc
	call      access.Call
	authority authority
}

func (s *authorizedStream) Receive(message any) error {
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
func (s *authorizedStream) keepAsking(message any) {
	for s.authority.server.runtime.Wait(s.ctx, lookAgain, nil) == nil {
		if err := s.authority.check(s.ctx, s.call, message); fault.Is(err, fault.Denied) {
			s.cancel(err)
			return
		}
	}
}

// actorOf is who calls.
func actorOf(ctx context.Context) intent.Actor {
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
