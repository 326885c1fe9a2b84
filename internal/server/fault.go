package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflow"
)

// codes is the one place where kinds of fault become RPC codes.
var codes = map[fault.Kind]connect.Code{
	fault.Internal:    connect.CodeInternal,
	fault.NotFound:    connect.CodeNotFound,
	fault.Invalid:     connect.CodeInvalidArgument,
	fault.Conflict:    connect.CodeFailedPrecondition,
	fault.Unavailable: connect.CodeUnavailable,
	fault.Denied:      connect.CodePermissionDenied,
	fault.Exhausted:   connect.CodeResourceExhausted,
}

// What is told of an error at most, in bytes: it may quote what it was given.
const (
	mostMessage = 4 << 10
	mostHint    = 1 << 10
)

// clipped is the beginning of a text.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// faults turns errors of the handlers into Connect's.
type faults struct{}

func (faults) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		return response, toConnect(err)
	}
}

func (faults) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return toConnect(next(ctx, conn))
	}
}

func (faults) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func toConnect(err error) error {
	if err == nil {
		return nil
	}
	if already, ok := errors.AsType[*connect.Error](err); ok {
		return already
	}
	switch {
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	faultErr, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return connect.NewError(connect.CodeInternal, errors.New(clipped(err.Error(), mostMessage)))
	}
	message := err.Error()
	if err == error(faultErr) {
		message = faultErr.Message // The hint travels as a detail.
	}
	result := connect.NewError(codes[faultErr.Kind], errors.New(clipped(message, mostMessage)))
	errorDetail := &apipb.ErrorDetail{Hint: clipped(faultErr.Hint, mostHint)}
	if faultErr.RetryAfter > 0 {
		errorDetail.RetryAfterSeconds = uint32(math.Ceil(faultErr.RetryAfter.Seconds()))
		result.Meta().Set("Retry-After", strconv.FormatUint(uint64(errorDetail.RetryAfterSeconds), 10))
	}
	if conflict, ok := errors.AsType[*document.Conflict](err); ok {
		errorDetail.Conflict = &apipb.DocumentConflict{Revision: conflict.Revision, Changed: conflict.Changed, Conflicting: conflict.Conflicting, More: conflict.More}
	}
	if ignored, ok := errors.AsType[*workflow.Ignored](err); ok {
		errorDetail.WorkflowIgnored = strings.ReplaceAll(string(ignored.Reason), " ", "-")
	}
	if errorDetail.Hint == "" && errorDetail.Conflict == nil && errorDetail.RetryAfterSeconds == 0 && errorDetail.WorkflowIgnored == "" {
		return result
	}
	if detail, err := connect.NewErrorDetail(errorDetail); err == nil {
		result.AddDetail(detail)
	}
	return result
}
