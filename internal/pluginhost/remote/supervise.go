package remote

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"lehr.dev/internal/ground/fault"
)

// supervise begins one life of the plugin after the other until ctx ends.
func (c *caller) supervise(ctx context.Context, live func(context.Context) error) {
	defer close(c.done)
	failures := 0
	for {
		startedAt := time.Now()
		err := live(ctx)
		if ctx.Err() != nil {
			c.setSession(nil, fault.New(fault.Unavailable, "plugin %s was left when lehr ended", c.options.Name))
			return
		}
		if time.Since(startedAt) > c.options.MaxBackoff {
			failures = 0
		}
		delay := backoff(failures, c.options.MinBackoff, c.options.MaxBackoff, rand.Float64())
		failures++
		c.setSession(nil, err)
		c.options.Log.Warn("plugin is down", "plugin", c.options.Name, "error", err, "again_in", delay)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// backoff doubles from least to most, less up to a half by random (0 to 1).
func backoff(failures int, least, most time.Duration, random float64) time.Duration {
	delay := most
	if failures < 30 {
		delay = min(most, least<<failures)
	}
	return delay - time.Duration(random*float64(delay)/2)
}

// live is one life of the child. It returns why it ended.
func (c *Child) live(ctx context.Context) error {
	process, err := c.start(ctx)
	if err != nil {
		return err
	}
	s, err := c.connect(ctx, process, func(ctx context.Context) (net.Conn, error) { return dial(ctx, process) })
	if err != nil {
		err = c.explain(process, err)
		process.kill()
		<-process.terminated
		return err
	}
	c.options.Log.Info("plugin is up", "plugin", c.options.Name, "pid", process.pid, "version", s.description.Version)
	c.setSession(s, nil)
	s.run(ctx)
	c.setSession(nil, fault.New(fault.Unavailable, "plugin %s is restarting", c.options.Name))
	if ctx.Err() != nil {
		process.stop()
	} else {
		process.kill()
		<-process.terminated
	}
	s.close()
	return s.endCause()
}
