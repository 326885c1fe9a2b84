// Package demo runs the Shakespeare service of the paper on this machine: two
// clusters of four real processes each, enforced by a real lehr server, and
// a story in which people and faults change things. All that it claims is
// checked against the processes and their sockets, never against Lehr's own
// records. It drives the lehr program as a person would; only cmd/lehr calls
// it.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Options of the demo.
type Options struct {
	// Program is the lehr binary; its plugins stand beside it, and two
	// releases of the example service below it in releases/.
	Program string
	// Directory to play in, made if need be; it must have nothing in it. Empty:
	// a temporary one, removed at the end.
	Directory string
	// Exit plays the story unattended and returns. Otherwise the service is
	// shown live until the context ends.
	Exit bool
	Out  io.Writer
}

// Run plays the demo. Every process that it started has ended when it
// returns. With Exit, an error is the first thing that was not so.
func Run(ctx context.Context, options Options) (err error) {
	directory := options.Directory
	if directory == "" {
		if directory, err = os.MkdirTemp("", "lehr-demo-"); err != nil {
			return fmt.Errorf("making a folder for the demo: %w", err)
		}
		defer os.RemoveAll(directory)
	} else if err := empty(directory); err != nil {
		return err
	}
	s, err := newStage(options, directory)
	if err != nil {
		return err
	}
	defer func() {
		failure := s.clear()
		err = errors.Join(err, failure)
		if failure == nil {
			s.say("Every process of the demo has ended.")
		}
	}()
	if err := s.serve(ctx); err != nil {
		return err
	}
	page, err := s.quietly(ctx, "page")
	if err != nil {
		return err
	}
	// First, so that who sees the demo for the first time can open it and follow all else there.
	s.say("Follow the demo at %s   (lets one browser in, within ten minutes)\n", strings.TrimSpace(page))
	s.prologue()
	s.prober.start(ctx, s.readerAssets())
	if err := s.createDocuments(ctx); err != nil {
		return err
	}
	if options.Exit {
		return s.play(ctx)
	}
	return s.show(ctx)
}

// empty makes the folder, or refuses one in which something could be lost.
func empty(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("making a folder for the demo: %w", err)
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return fmt.Errorf("looking into the demo's folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty, and the demo would write over its files; name an empty folder with --dir", directory)
	}
	return nil
}

// show prints what runs, live, until the context ends.
func (s *stage) show(ctx context.Context) error {
	if err := s.until(ctx, 30*time.Second, "both clusters serve", s.serves("v1")); err != nil {
		return err
	}
	s.say("\nBoth clusters serve. Try, in another terminal:")
	s.say("  curl 'http://127.0.0.1:%d/search?q=to+be'", s.clusters[0].port)
	s.say("  $EDITOR %s/service.yaml        # version: v2, or replicas: 2", s.directory)
	s.say("  kill -9 PID                      # of a line below")
	s.say("  %s get reports --store %s", s.options.Program, s.store())
	s.say("  %s why frontend/a --store %s", s.options.Program, s.store())
	s.say("  %s stop --reason 'just trying' --store %s", s.options.Program, s.store())
	s.say("  %s document set builds '/v2={}' --reason 'a new build of the reader' --store %s", s.options.Program, s.store())
	s.say("  %s why production --store %s    # it waits for a person, who approves v2 on the page of delivery", s.options.Program, s.store())
	s.say("Ctrl-C ends the demo and stops every process.\n")
	last := ""
	for ctx.Err() == nil {
		if now := s.picture(ctx); now != last {
			fmt.Fprintf(s.options.Out, "%s\n%s", time.Now().Format(time.TimeOnly), now)
			last = now
		}
		if !sleep(ctx, 500*time.Millisecond) {
			break
		}
	}
	return nil
}

// sleep reports whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
