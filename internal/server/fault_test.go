package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

// failing is a store whose answer is an error.
type failing struct {
	server.Store
	err error
}

func (f failing) SurveyStandings(context.Context) ([]store.Standing, error) { return nil, f.err }

// A fault crosses the wire with its kind, its message and its hint.
func TestFaultsCrossTheWire(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Internal, fault.NotFound, fault.Invalid, fault.Conflict, fault.Unavailable, fault.Denied} {
		for name, err := range map[string]error{
			"plain":   fault.New(kind, "reading shop failed"),
			"hinted":  fault.New(kind, "reading shop failed").WithHint("try äöü \"quotes\" and\nlines"),
			"wrapped": fmt.Errorf("outer: %w", fault.New(kind, "inner").WithHint("hint")),
		} {
			got := ask(failing{err: err})
			if !fault.Is(got, kind) {
				t.Errorf("%s, %s: arrived as %s", kind, name, fault.KindOf(got))
			}
			known, ok := errors.AsType[*fault.Error](got)
			want, _ := errors.AsType[*fault.Error](err)
			if !ok || known.Hint != want.Hint {
				t.Errorf("%s, %s: hint of %+v", kind, name, known)
			}
			if name != "wrapped" && known.Message != want.Message {
				t.Errorf("%s, %s: message %q", kind, name, known.Message)
			}
		}
	}
	if got := ask(failing{err: errors.New("no fault")}); !fault.Is(got, fault.Internal) {
		t.Errorf("an error without a kind arrived as %v", got)
	}
	if got := ask(failing{err: context.DeadlineExceeded}); !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("a passed deadline arrived as %v", got)
	}
}

func ask(s server.Store) error {
	api := server.New(server.Options{
		Store: s, Schemas: builtin{}, Runtime: loop.Real(),
		Identify: func(context.Context) (store.Caller, error) { return store.Caller{Actor: ann, Local: true}, nil },
	})
	_, err := client.InProcess(api.Handler()).Partitions.ListPartitions(context.Background(), &apipb.ListPartitionsRequest{})
	return err
}
