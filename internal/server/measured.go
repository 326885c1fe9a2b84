package server

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"lehr.dev/internal/ground/measure"
)

// measured counts calls by what they are and how they ended. It is the outermost,
// so that it sees what the caller is told.
type measured struct {
	api *measure.API
	now func() time.Time
}

func (m measured) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		startedAt := m.now()
		response, err := next(ctx, request)
		m.record(request.Spec(), startedAt, err)
		return response, err
	}
}

func (m measured) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		startedAt := m.now()
		m.api.Streams.Add(1)
		err := next(ctx, conn)
		m.api.Streams.Add(-1)
		m.record(conn.Spec(), startedAt, err)
		return err
	}
}

func (measured) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (m measured) record(call connect.Spec, startedAt time.Time, err error) {
	code := "ok"
	if err != nil {
		code = connect.CodeOf(err).String()
	}
	m.api.Calls.Of(call.Procedure).Of(code).Took(m.now().Sub(startedAt))
}
