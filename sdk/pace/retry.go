package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"lehr.dev/sdk/serve"
)

const (
	// Attempts is how often a call is made that meets faults which may pass.
	Attempts = 4
	// Within is how long a call may take with all its attempts, where ctx has no deadline
	// that is earlier: Lehr waits for 10 s for the answer to a diff.
	Within = 8 * time.Second

	// The pause before the second attempt is a random one of up to firstPause, and of up to
	// twice as long before each further one.
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
)

// Call is what is asked of a target.
type Call struct {
	// Target names whose limits count, such as "api.example.com:443".
	Target string
	// Idempotent says that to do it twice is to do it once: each read is. What is not is
	// never repeated, for a request that got no answer may have been carried out.
	Idempotent bool
	// Each bounds an attempt, so that one that gets no answer leaves time for another. 0: all
	// the time that there is.
	Each time.Duration
}

// Do makes a call, within the target's limits. A call that is idempotent is made again
// while its errors are transient, or are serve.Busy and the pause is over in time. An error
// of serve.Busy pauses the target for all. What is still too busy at the end is serve.Busy with the
// last pause. Each attempt gets a context that ends in time, and has to obey it.
func (p *Pacer) Do(ctx context.Context, call Call, send func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Within, fmt.Errorf("%s did not answer within %v", call.Target, Within))
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := p.once(ctx, call, send)
		if err == nil {
			return nil
		}
		pause, busy := serve.BusyPause(err)
		if busy {
			p.Pause(call.Target, pause)
		}
		if ctx.Err() != nil || !call.Idempotent || !busy && !IsTransient(err) {
			return err
		}
		if attempt >= Attempts {
			return fmt.Errorf("%w, after %d attempts", err, attempt)
		}
		if !busy {
			pause = rand.N(min(firstPause<<(attempt-1), mostPause))
		} else {
			// Not all at the same moment who were told the same.
			pause += rand.N(pause/10 + time.Millisecond)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Now().Add(pause).After(deadline) {
			return err
		}
		if failure := sleep(ctx, pause); failure != nil {
			return fmt.Errorf("%w (%w)", failure, err)
		}
	}
}

func (p *Pacer) once(ctx context.Context, call Call, send func(ctx context.Context) error) error {
	leave, err := p.Enter(ctx, call.Target)
	if err != nil {
		return err
	}
	defer leave()
	if call.Each > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, call.Each, Transient(fmt.Errorf("%s did not answer within %v", call.Target, call.Each)))
		defer cancel()
	}
	err = send(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// Transient marks an error of a fault that may pass by itself.
func Transient(err error) error { return transient{err} }

type transient struct{ error }

func (t transient) Unwrap() error { return t.error }

// IsTransient reports whether an error is marked, or is one of a connection that was
// refused, broke, was cut in the middle or took too long.
func IsTransient(err error) bool {
	if _, ok := errors.AsType[transient](err); ok {
		return true
	}
	if failed, ok := errors.AsType[net.Error](err); ok && failed.Timeout() {
		return true
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return lookup.IsTemporary
	}
	for _, fault := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
