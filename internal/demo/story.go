package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// scene is one part of the story: what happens, and the check that it did.
type scene struct {
	title string
	play  func(context.Context) error
}

// play plays the story to its end, or to the first thing that is not so.
func (s *stage) play(ctx context.Context) error {
	scenes := []scene{
		{"From nothing to serving", s.fromNothing},
		{"A new version, one process at a time, under load", s.newVersion},
		{"A process is killed, another replaced by hand", s.repair},
		{"A broken manifest", s.brokenManifest},
		{"An empty manifest", s.emptyManifest},
		{"Stop, edit, resume", s.stopAndResume},
		{"Observe mode", s.observe},
		{"Half of a cluster, then all of it", s.halveAndDouble},
		{"A new version that needs a new column", s.schemaFirst},
		{"An autoscaler owns the number of replicas", s.autoscaler},
		{"A cluster is left out of the manifest", s.leftOut},
		{"The cluster is turned down", s.turndown},
		{"A balancer is changed by hand, again and again", s.handwork},
		{"A version goes through test and staging, waits for a person, and comes through a canary", s.delivery},
		{"A canary finds a bad version", s.badVersion},
	}
	start := time.Now()
	for i, scene := range scenes {
		s.say("\n(%c) %s", 'a'+i, scene.title)
		if err := scene.play(ctx); err != nil {
			s.say("    NOT SO: %v", err)
			return fmt.Errorf("scene (%c), %s, did not go as told", 'a'+i, strings.ToLower(scene.title))
		}
	}
	s.say("\nAll of it was so, in %s.", time.Since(start).Round(time.Second))
	return nil
}

// so tells of a check that passed.
func (s *stage) so(format string, arguments ...any) { s.say("    ✓ "+format, arguments...) }

// patience is how long the story waits for something to become so.
const patience = 60 * time.Second

// calm is how long the story watches that nothing happens: longer than the
// server takes between two looks.
const calm = 4 * time.Second

// untouched watches for a while that exactly these processes run.
func (s *stage) untouched(ctx context.Context, want []int) error {
	for end := time.Now().Add(calm); time.Now().Before(end); {
		if got := s.pids(); !slices.Equal(got, want) {
			return fmt.Errorf("the processes were to stay %v, and are %v", want, got)
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

func (s *stage) fromNothing(ctx context.Context) error {
	start := time.Now()
	if err := s.until(ctx, patience, "both clusters serve v1", s.serves("v1")); err != nil {
		return err
	}
	s.so("%d processes answer as v1, and the global balancer spreads requests over both clusters, after %s",
		2*replicas, time.Since(start).Round(100*time.Millisecond))
	if err := s.until(ctx, patience, "the reader is v1 everywhere", s.reads("v1", readerPlaces...)); err != nil {
		return err
	}
	s.so("the reader answers as v1 in test, staging and production, after %s; the first version came through a canary, too", time.Since(start).Round(100*time.Millisecond))
	return nil
}

func (s *stage) newVersion(ctx context.Context) error {
	previous := s.frontends()
	load := s.startLoad(ctx)
	defer load.stop()
	if err := s.edit("version: v2", func(m *manifest) { m.version = "v2" }); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "both clusters serve v2", s.serves("v2")); err != nil {
		return err
	}
	failure := s.end(load)
	after := s.frontends()
	for _, pid := range previous {
		if slices.Contains(after, pid) {
			return fmt.Errorf("process %d was not replaced", pid)
		}
	}
	s.so("every process changed: %v is now %v", previous, after)
	if load.worst > 1 {
		return fmt.Errorf("%d tasks of one cluster were down at once", load.worst)
	}
	s.so("never more than one task of a cluster was down at once")
	return failure
}

func (s *stage) repair(ctx context.Context) error {
	a := s.clusters[0]
	victim := s.tasks(a.job(s))[1]
	s.say("    $ kill -9 %d   # task 1 of cluster a", victim.pid)
	if err := syscall.Kill(victim.pid, syscall.SIGKILL); err != nil {
		return err
	}
	start := time.Now()
	if err := s.until(ctx, patience, "the killed task is back", s.serves("v2")); err != nil {
		return err
	}
	s.so("task 1 of cluster a is back as process %d after %s", s.tasks(a.job(s))[1].pid, time.Since(start).Round(100*time.Millisecond))
	return s.repairHandwork(ctx, a)
}

// repairHandwork replaces a task by a process of the same identity and other
// arguments, under a hold so that the story does not race with the repair.
func (s *stage) repairHandwork(ctx context.Context, a cluster) error {
	if _, err := s.lehr(ctx, "hold", a.asset(), "--reason", "trying something"); err != nil {
		return err
	}
	original := s.tasks(a.job(s))[0]
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", original.pid))
	if err != nil {
		return err
	}
	if err := syscall.Kill(original.pid, syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the original has ended", func(context.Context) string {
		if alive(original.pid) {
			return "it lives"
		}
		return ""
	}); err != nil {
		return err
	}
	handmade := exec.Command(s.release("v1"), "--port="+strconv.Itoa(a.port), "--version=by-hand")
	handmade.Env = strings.Split(strings.TrimRight(string(environment), "\x00"), "\x00")
	handmade.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := handmade.Start(); err != nil {
		return err
	}
	go func() { _ = handmade.Wait() }()
	s.say("    replace task 0 of cluster a by hand: process %d, --version=by-hand, same identity", handmade.Process.Pid)
	if err := s.until(ctx, patience, "the handmade task answers", func(ctx context.Context) string {
		if got, err := ask(ctx, a.port); err != nil || got.Version != "by-hand" {
			return fmt.Sprintf("%+v %v", got, err)
		}
		return ""
	}); err != nil {
		return err
	}
	if err := s.untouched(ctx, s.pids()); err != nil {
		return err
	}
	s.so("under the hold it is left alone")
	if _, err := s.lehr(ctx, "unhold", a.asset(), "--reason", "we have looked"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the handmade task is replaced", s.serves("v2")); err != nil {
		return err
	}
	if alive(handmade.Process.Pid) {
		return fmt.Errorf("the handmade process %d still runs", handmade.Process.Pid)
	}
	s.so("without the hold it is replaced by what the manifest says")
	return nil
}

func (s *stage) brokenManifest(ctx context.Context) error {
	previous := s.pids()
	broken := strings.Replace(s.text(s.manifest), "replicas: 4", "replicas: four", 1)
	line := strings.Count(broken[:strings.Index(broken, "four")], "\n") + 1
	if err := s.scribble("replicas: four", broken); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the finding names file, line and field", s.tells("candidates",
		"rejected", "service.yaml", strconv.Itoa(line), "clusters[0].replicas")); err != nil {
		return err
	}
	if err := s.print(ctx, "why", s.clusters[0].asset()); err != nil {
		return err
	}
	if err := s.untouched(ctx, previous); err != nil {
		return err
	}
	s.so("nothing changed; the finding names service.yaml, line %d, clusters[0].replicas", line)
	victim := s.frontends()[0]
	s.say("    $ kill -9 %d", victim)
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the previous incarnation is enforced", s.serves("v2")); err != nil {
		return err
	}
	s.so("the previous incarnation goes on being enforced: the killed process is back")
	return s.mend()
}

func (s *stage) emptyManifest(ctx context.Context) error {
	previous := s.pids()
	if err := s.scribble("(an empty file)", ""); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "an empty file is refused", s.tells("candidates", "rejected", "service.yaml is empty")); err != nil {
		return err
	}
	without, _, _ := strings.Cut(s.text(s.manifest), "clusters:")
	if err := s.scribble("clusters: []", without+"clusters: []\n"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the candidate is held", s.tells("candidates", "held", "shrink")); err != nil {
		return err
	}
	if err := s.print(ctx, "get", "candidates"); err != nil {
		return err
	}
	if err := s.untouched(ctx, previous); err != nil {
		return err
	}
	s.so("the empty file is refused, the empty service held by the shrink guard; no process was touched")
	return s.mend()
}

func (s *stage) stopAndResume(ctx context.Context) error {
	if err := s.print(ctx, "stop", "--reason", "something smells"); err != nil {
		return err
	}
	previous := s.pids()
	if err := s.edit("version: v1", func(m *manifest) { m.version = "v1" }); err != nil {
		return err
	}
	victim := s.frontends()[0]
	s.say("    $ kill -9 %d", victim)
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the killed process has ended", func(context.Context) string {
		if alive(victim) {
			return "it lives"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := s.untouched(ctx, slices.DeleteFunc(previous, func(pid int) bool { return pid == victim })); err != nil {
		return err
	}
	s.so("stopped: the edit is not pushed, the killed process is not started")
	if err := s.print(ctx, "why", s.clusters[0].asset()); err != nil {
		return err
	}
	if err := s.print(ctx, "resume", "--reason", "it was lunch"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "both clusters serve v1", s.serves("v1")); err != nil {
		return err
	}
	s.so("resumed: it caught up, %d processes answer as v1", 2*replicas)
	return nil
}

func (s *stage) observe(ctx context.Context) error {
	definition, err := os.ReadFile(filepath.Join(s.directory, "lehr.yaml"))
	if err != nil {
		return err
	}
	observing := strings.Replace(string(definition), "mode: enforce", "mode: observe", 1)
	s.say("    edit lehr.yaml: mode: observe")
	if err := s.write("lehr.yaml", observing); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the mode is observe", s.tells("partitions", "observe")); err != nil {
		return err
	}
	previous := s.pids()
	if err := s.edit("version: v2", func(m *manifest) { m.version = "v2" }); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the difference is shown", s.tells("reports", `"mode"`, "version", "v2")); err != nil {
		return err
	}
	if err := s.print(ctx, "why", s.clusters[0].asset()); err != nil {
		return err
	}
	if err := s.untouched(ctx, previous); err != nil {
		return err
	}
	s.so("the difference is shown, nothing is pushed")
	s.say("    edit lehr.yaml: mode: enforce")
	if err := s.write("lehr.yaml", string(definition)); err != nil {
		return err
	}
	return s.until(ctx, patience, "both clusters serve v2", s.serves("v2"))
}

// tells is so when the program's list, as JSON, has all of the words.
func (s *stage) tells(kind string, words ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		output, err := s.quietly(ctx, "get", kind, "-o", "json")
		if err != nil {
			return err.Error()
		}
		for _, word := range words {
			if !strings.Contains(output, word) {
				return fmt.Sprintf("lehr get %s does not tell of %q: %.400s …", kind, word, output)
			}
		}
		return ""
	}
}

// print runs the program and shows what it prints.
func (s *stage) print(ctx context.Context, arguments ...string) error {
	output, err := s.lehr(ctx, arguments...)
	for line := range strings.Lines(strings.TrimRight(output, "\n")) {
		s.say("      %s", strings.TrimRight(line, "\n"))
	}
	return err
}
