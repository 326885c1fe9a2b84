// Package remote is Lehr's side of the plugin protocol: it starts a plugin
// program as a child and keeps exactly one alive, or dials a plugin server; it
// asks, answers what is asked for, and checks what is claimed (S26). A child
// dies with Lehr, and proof that one is gone is given to whoever has a push in
// doubt; of a server there is no such proof. It decides nothing about assets
// and stores nothing. The enforcer uses it as a plugin.Plugin; app starts it.
package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// Options say how a plugin is run.
type Options struct {
	// Run is the program and its arguments. A name without a slash is looked
	// up beside the lehr binary, then in PATH.
	Run []string
	// Name is for logs and the lock; default: made from Run. No two children
	// of different programs share one.
	Name     string
	Contents plugin.Contents
	// Log receives what the child writes to stderr, and its comings and
	// goings. Default: slog.Default.
	Log *slog.Logger
	// LockDir holds a locked file for as long as a child lives, so that no
	// two of one name live at once, even across a kill -9 of Lehr. Empty: no
	// lock; for looking only, never for pushing.
	LockDir string
	// StartTimeout is how long a child may take to serve, and a server to be
	// reached; default 10 s.
	StartTimeout time.Duration
	// DiffTimeout is how long a Diff may take; default 10 s.
	DiffTimeout time.Duration
	// HangGrace is how long after a Diff that timed out without any answer
	// the plugin is given, before it is killed or cut off; default 10 s.
	HangGrace time.Duration
	// MinBackoff and MaxBackoff bound the pause before a restart, or before
	// dialling again; default 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
}

// DefaultOptions returns options with everything but Run and Contents set.
func DefaultOptions() Options {
	return Options{
		Log:          slog.Default(),
		StartTimeout: 10 * time.Second,
		DiffTimeout:  10 * time.Second,
		HangGrace:    10 * time.Second,
		MinBackoff:   100 * time.Millisecond,
		MaxBackoff:   30 * time.Second,
	}
}

// withDefaults fills in what is unset.
func (o Options) withDefaults() Options {
	defaults := DefaultOptions()
	if o.Log == nil {
		o.Log = defaults.Log
	}
	for _, setting := range []struct{ have, otherwise *time.Duration }{
		{&o.StartTimeout, &defaults.StartTimeout},
		{&o.DiffTimeout, &defaults.DiffTimeout},
		{&o.HangGrace, &defaults.HangGrace},
		{&o.MinBackoff, &defaults.MinBackoff},
		{&o.MaxBackoff, &defaults.MaxBackoff},
	} {
		if *setting.have <= 0 {
			*setting.have = *setting.otherwise
		}
	}
	if o.Name == "" && len(o.Run) > 0 {
		digest := sha256.Sum256([]byte(strings.Join(o.Run, "\x00")))
		o.Name = filepath.Base(o.Run[0]) + "-" + hex.EncodeToString(digest[:4])
	}
	return o
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case len(o.Run) == 0 || o.Run[0] == "":
		return fault.New(fault.Invalid, "a plugin has no program to run").WithHint("write {run: NAME}")
	case o.Contents == nil:
		return fault.New(fault.Internal, "plugin %s was given no Contents", o.Name)
	case strings.ContainsAny(o.Name, "/\x00") || o.Name == "." || o.Name == "..":
		return fault.New(fault.Invalid, "plugin name %q must not contain a slash", o.Name)
	}
	return nil
}

// Child is a plugin run as a child process.
type Child struct {
	caller
	// alone is closed when no older process can be running.
	alone chan struct{}
}

// caller calls a plugin by whichever session there is.
type caller struct {
	options Options
	answers *answers
	hints   hintHub
	cancel  context.CancelFunc
	// done is closed when the last session has ended for good.
	done chan struct{}

	mutex   sync.Mutex
	session *session
	// outage says why there is no session.
	outage error
}

// Start runs a plugin until ctx ends or it is closed. It returns at once:
// Describe says whether it is up.
func Start(ctx context.Context, options Options) *Child {
	options = options.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	c := &Child{
		caller: caller{options: options, cancel: cancel, done: make(chan struct{}), outage: starting(options)},
		alone:  make(chan struct{}),
	}
	c.begin(ctx, options.Validate(), c.live)
	return c
}

// begin starts the supervision of lives, unless the options are wrong.
func (c *caller) begin(ctx context.Context, invalid error, live func(context.Context) error) {
	if invalid != nil {
		c.outage = invalid
		c.cancel()
		close(c.done)
		return
	}
	c.answers = newAnswers(c.options.Contents)
	go c.supervise(ctx, live)
}

func starting(options Options) error {
	return fault.New(fault.Unavailable, "plugin %s %w", options.Name, plugin.ErrStarting)
}

// Alone is closed when no older process of this plugin can be running, even
// one left by an earlier Lehr: what it had in doubt is settled.
func (c *Child) Alone() <-chan struct{} { return c.alone }

// Close stops the child, or leaves the server, and returns when that is done.
func (c *caller) Close() {
	c.cancel()
	<-c.done
}

// Describe returns what the plugin said when it was reached last.
func (c *caller) Describe() (plugin.Description, error) {
	s, err := c.connected()
	if err != nil {
		return plugin.Description{}, err
	}
	return s.description, nil
}

// connected returns the session with the plugin, or why there is none.
func (c *caller) connected() (*session, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.session, c.outage
}

func (c *caller) setSession(s *session, outage error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session, c.outage = s, outage
}

// Diff asks the plugin to compare assets with production.
func (c *caller) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	if len(request.Assets) > plugin.MaxBatch {
		return nil, fault.New(fault.Internal, "diff of %d assets at once by plugin %s, at most %d are allowed", len(request.Assets), c.options.Name, plugin.MaxBatch)
	}
	if len(request.Assets) == 0 {
		return nil, nil
	}
	s, err := c.connected()
	if err != nil {
		return nil, err
	}
	return s.diff(ctx, request)
}

// Push asks the plugin to carry out an admitted push. It must be called right
// after the admission: the first permit counts from a request that the plugin
// made before the call.
func (c *caller) Push(ctx context.Context, push plugin.Push) plugin.PushResult {
	s, err := c.connected()
	if err != nil {
		return plugin.PushResult{Ending: plugin.Failed, Reason: err.Error(), Retryable: true}
	}
	return s.push(ctx, push)
}
