// Package scenario plays scripts against the simulator: what happens to a
// partition, what people do, and what must come of it, in the verbs of the
// domain (docs/design/simulator.md). It tells each as a story in virtual time. What
// is not so ends the script, as does any breach that the monitors see. It
// knows no command line: commands of Lehr are handed in. "lehr sim" and tests
// call it.
package scenario

import (
	"context"
	"embed"
	"fmt"
	"io"
	"strings"
	"time"

	"lehr.dev/internal/sim"
	"lehr.dev/internal/sim/world"
	"lehr.dev/sdk/client"
)

// own is the partition that scripts start from; their files replace its.
//
//go:embed own
var own embed.FS

// Command runs a command of Lehr against a server, at a time, and returns its
// exit code.
type Command func(ctx context.Context, c *client.Client, now func() time.Time, w io.Writer, args []string) int

// player plays one script.
type player struct {
	*sim.Lab
	files   map[string]string
	command Command
	out     io.Writer
	// told is how much of the lab's story was printed.
	told    int
	output  string
	matched int
	effects []world.Effect
}

// Play plays a script and tells its story. An error says what is not as the
// script says, with its line.
func Play(ctx context.Context, text string, w io.Writer, command Command) error {
	a := parseArchive(text)
	files, err := withOwn(a.files)
	if err != nil {
		return err
	}
	scene := sim.Scene{Files: files, ClocksGoWrong: mentions(a.script, "clock")}
	if mentions(a.script, "takeover") {
		scene.Seed = apart
	}
	lab, err := sim.Open(ctx, scene)
	if err != nil {
		return err
	}
	defer lab.Close()
	p := &player{Lab: lab, files: files, command: command, out: w, told: len(lab.Story(0))}
	lab.OnEffect(func(e world.Effect) {
		if e.Refused == "" {
			p.effects = append(p.effects, e)
		}
	})
	for number, line := range a.script {
		if err := p.line(line); err != nil {
			p.story()
			return fmt.Errorf("line %d: %s: %w", number+1, line, err)
		}
	}
	return p.end()
}

// apart is a seed with which each process runs on a machine of its own, as it
// must to be taken over from while it lives.
const apart = 5

// withOwn adds to a script's files those of the scripts' own partition.
func withOwn(files map[string]string) (map[string]string, error) {
	for _, name := range []string{"lehr.yaml", "all.star", "intent.yaml"} {
		if _, ok := files[name]; ok {
			continue
		}
		content, err := own.ReadFile("own/" + name)
		if err != nil {
			return nil, err
		}
		files[name] = string(content)
	}
	return files, nil
}

// mentions reports whether a verb occurs in a script.
func mentions(script []string, verb string) bool {
	for _, line := range script {
		if list := words(line); len(list) > 0 && list[0] == verb {
			return true
		}
	}
	return false
}

func (p *player) line(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		fmt.Fprintln(p.out, line)
		return nil
	}
	if expected, ok := strings.CutPrefix(line, ">"); ok {
		return p.expect(strings.TrimSpace(expected))
	}
	list := words(line)
	fails := len(list) > 0 && list[0] == "!"
	if fails {
		list = list[1:]
	}
	if len(list) == 0 {
		return fmt.Errorf("there is no verb")
	}
	if list[0] == "stdout" {
		return p.stdout(list[1:], fails)
	}
	fmt.Fprintf(p.out, "%10s  %s\n", clock(p.Age()), line)
	p.output, p.matched = "", 0
	err := p.do(list)
	p.story()
	p.print()
	if found := p.Violations(); len(found) > 0 {
		return fmt.Errorf("broken: %s at %s: %s", found[0].Property, clock(found[0].At.Sub(p.Now())+p.Age()), found[0].What)
	}
	switch _, refused := err.(refusal); {
	case fails && err == nil:
		return fmt.Errorf("it should have failed")
	case fails && refused:
		return nil
	}
	return err
}

// refusal is a failure that a script may expect.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

func refuse(format string, arguments ...any) error {
	return refusal{fmt.Sprintf(format, arguments...)}
}

// story prints what happened since the last time.
func (p *player) story() {
	lines := p.Story(p.told)
	p.told += len(lines)
	for _, line := range lines {
		at, what, dated := strings.Cut(strings.TrimSpace(line), "  ")
		if !dated { // It happened at once.
			at, what = "0s", at
		}
		fmt.Fprintf(p.out, "%10s    %s\n", at, what)
	}
}

// print prints the output of a verb.
func (p *player) print() {
	for line := range strings.Lines(p.output) {
		fmt.Fprintf(p.out, "%10s  | %s\n", "", strings.TrimRight(line, "\n"))
	}
}

// end asks what must hold whenever a script ends.
func (p *player) end() error {
	if len(p.Unsettled()) == 0 {
		p.Monitor.End(context.Background())
	}
	if found := p.Violations(); len(found) > 0 {
		return fmt.Errorf("at the end: broken: %s: %s", found[0].Property, found[0].What)
	}
	if p.Armed() > 0 {
		return fmt.Errorf("at the end: something was to happen at a point that never came")
	}
	return nil
}

func clock(d time.Duration) string { return d.Round(time.Millisecond).String() }
