package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim"
	"lehr.dev/internal/sim/world"
)

// verb carries out a line; the words after the verb's own.
type verb func(p *player, list []string) error

var verbs map[string]verb

func init() { // It refers to itself, by the message about verbs that are not known.
	verbs = map[string]verb{
		"start": (*player).start, "restart": (*player).restart, "takeover": (*player).takeover, "kill": (*player).kill,
		"crash": (*player).crash, "pause": (*player).pause, "delay": (*player).delay, "clock": (*player).clock,
		"store": (*player).troubleStore, "sources": (*player).troubleSources, "write": (*player).write, "remove": (*player).remove,
		"tick": (*player).tick, "until": (*player).until, "quiet": (*player).quiet,
		"drift": (*player).drift, "vanish": (*player).vanish, "writer": (*player).writer, "sick": (*player).sick,
		"break": (*player).trouble, "heal": (*player).heal,
		"effects": (*player).listEffects, "production": (*player).production, "accept": (*player).accept,
		"validation": (*player).validation, "lehr": (*player).lehr,
	}
	for _, name := range people {
		verbs[name] = func(p *player, list []string) error { return p.lehr(append([]string{name}, list...)) }
	}
}

func (p *player) do(list []string) error {
	do, ok := verbs[list[0]]
	if !ok {
		var names []string
		for name := range verbs {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("there is no verb %q; there are: %s", list[0], strings.Join(names, ", "))
	}
	return do(p, list[1:])
}

// usage says how a verb is written.
func usage(text string) error { return fmt.Errorf("write: %s", text) }

// duration of a word.
func duration(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration, such as 90s or 5m", word)
	}
	return d, nil
}

// option takes "name value" out of a list.
func option(list []string, name string) (rest []string, value string) {
	for at := range list {
		if list[at] == name && at+1 < len(list) {
			return slices.Delete(slices.Clone(list), at, at+2), list[at+1]
		}
	}
	return list, ""
}

// start starts a process and waits until it serves.
func (p *player) start([]string) error {
	if len(p.Living()) > 0 {
		return refuse("%s runs already", p.Living()[0].Name())
	}
	p.Begin()
	return p.serves()
}

func (p *player) serves() error {
	return p.await(time.Minute, "a process serves", func() (bool, string) { return p.Serving(), "none does" })
}

// takeover starts another process while the one before goes on.
func (p *player) takeover([]string) error {
	p.Begin()
	return p.serves()
}

// restart ends the process in order, and starts another.
func (p *player) restart([]string) error {
	if len(p.Living()) == 0 {
		return refuse("no process runs")
	}
	p.Living()[0].Stop()
	if err := p.await(10*time.Minute, "it ends", func() (bool, string) { return len(p.Living()) == 0, "it still runs" }); err != nil {
		return err
	}
	return p.start(nil)
}

// one is the process of a name, or the newest.
func (p *player) one(list []string) (*sim.Replica, error) {
	living := p.Living()
	if len(list) == 0 && len(living) > 0 {
		return living[len(living)-1], nil
	}
	for _, r := range living {
		if len(list) > 0 && r.Name() == list[0] {
			return r, nil
		}
	}
	return nil, refuse("there is no such process")
}

func (p *player) kill(list []string) error {
	r, err := p.one(list)
	if err != nil {
		return err
	}
	r.Kill("the script says so")
	p.Pass(time.Second)
	return nil
}

// crash kills at a point to come, a process of Lehr or of a plugin.
func (p *player) crash(list []string) error {
	return p.arm(sim.KillAtPoint, list, `crash [plugin] at "POINT" [skip N]`)
}

func (p *player) delay(list []string) error {
	return p.arm(sim.DelayAtPoint, list, `delay [plugin] at "POINT" [skip N] for 10s`)
}

// pause stops a process for a while: now, or at a point.
func (p *player) pause(list []string) error {
	const how = `pause 10s, or: pause [plugin] at "POINT" [skip N] for 10s`
	if len(list) > 1 {
		return p.arm(sim.PauseAtPoint, list, how)
	}
	if len(list) == 0 {
		return usage(how)
	}
	d, err := duration(list[0])
	if err != nil {
		return err
	}
	r, err := p.one(nil)
	if err != nil {
		return err
	}
	r.Pause(d)
	return nil
}

func (p *player) arm(kind sim.Kind, list []string, how string) (err error) {
	d := sim.Disturbance{Kind: kind}
	list, skip := option(list, "skip")
	if d.Skip, err = strconv.Atoi("0" + skip); err != nil {
		return usage(how)
	}
	list, length := option(list, "for")
	if length != "" {
		if d.Length, err = duration(length); err != nil {
			return err
		}
	}
	list, d.Point = option(list, "at")
	if len(list) > 0 && list[0] == "plugin" {
		d.Plugins, list = true, list[1:]
	}
	if len(list) > 0 || d.Point == "" || (kind != sim.KillAtPoint) != (d.Length > 0) {
		return usage(how)
	}
	p.Arm(d)
	return nil
}

// clock sets the clock of the process that serves wrong, or right.
func (p *player) clock(list []string) error {
	r, err := p.one(nil)
	if err != nil {
		return err
	}
	p.Monitor.ClockMoved()
	switch strings.Join(list[:min(1, len(list))], "") {
	case "jump":
		if len(list) == 2 {
			d, err := duration(list[1])
			r.Jump(d)
			return err
		}
	case "rate":
		if len(list) == 2 {
			rate, err := strconv.ParseFloat(list[1], 64)
			r.Rate(rate)
			return err
		}
	case "stand":
		r.Rate(0)
		return nil
	case "right":
		r.Correct()
		return nil
	}
	return usage("clock jump -1h, clock rate 1.02, clock stand, or clock right")
}

// troubleStore lets calls to the store fail.
func (p *player) troubleStore(list []string) error {
	const how = "store refuse CALL N, store lose CALL N, or store full 30s"
	if len(list) == 2 && list[0] == "full" {
		d, err := duration(list[1])
		p.FillStore(d)
		return err
	}
	if len(list) != 3 {
		return usage(how)
	}
	count, err := strconv.Atoi(list[2])
	if err != nil || count < 1 {
		return usage(how)
	}
	switch list[0] {
	case "refuse":
		p.RefuseCalls(list[1], count)
	case "lose":
		p.LoseReplies(list[1], count)
	default:
		return usage(how)
	}
	return nil
}

// troubleSources lets readers see the sources as they are not.
func (p *player) troubleSources(list []string) error {
	switch strings.Join(list, " ") {
	case "fail":
		p.Sources.Fail(fault.New(fault.Unavailable, "the share is not mounted"))
	case "torn":
		p.Sources.Torn(true)
	case "old":
		p.Sources.Serve(max(p.Sources.Version()-1, 0))
	case "ok":
		p.Sources.Fail(nil)
		p.Sources.Torn(false)
		p.Sources.Serve(-1)
	default:
		return usage("sources fail, torn, old, or ok")
	}
	return nil
}

// write gives files the content of others.
func (p *player) write(list []string) error {
	if len(list) == 0 || len(list)%2 != 0 {
		return usage("write FILE FROM [FILE FROM...]")
	}
	files := map[string]string{}
	for pair := range slices.Chunk(list, 2) {
		content, ok := p.files[pair[1]]
		if !ok {
			return fmt.Errorf("the script has no file %s", pair[1])
		}
		files[pair[0]] = content
	}
	p.WriteFiles(files)
	return nil
}

func (p *player) remove(list []string) error {
	if len(list) != 1 {
		return usage("remove FILE")
	}
	p.RemoveFile(list[0])
	return nil
}

func (p *player) tick(list []string) error {
	if len(list) != 1 {
		return usage("tick 5m")
	}
	d, err := duration(list[0])
	p.Pass(d)
	return err
}

// trouble lets the plugin of an asset go wrong.
func (p *player) trouble(list []string) error {
	const how = "break ASSET TROUBLE [N] [for 10s] [seed N]"
	list, length := option(list, "for")
	list, seed := option(list, "seed")
	if len(list) != 2 && len(list) != 3 {
		return usage(how)
	}
	t := world.Trouble{Asset: intent.AssetID(list[0]), Kind: world.TroubleKind(list[1]), Count: 1, Seed: 1}
	if !slices.Contains(world.Kinds(), t.Kind) {
		return fmt.Errorf("there is no trouble %q; there are: %v", list[1], world.Kinds())
	}
	var err error
	if seed != "" {
		if t.Seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return usage(how)
		}
	}
	if length != "" {
		if t.For, err = duration(length); err != nil {
			return err
		}
	}
	if len(list) == 3 {
		if t.Count, err = strconv.Atoi(list[2]); err != nil {
			return usage(how)
		}
	}
	p.World.Trouble(t)
	return nil
}

// validation lets all validations say so from now on.
func (p *player) validation(list []string) error {
	if len(list) != 1 || !slices.Contains(sim.Verdicts, list[0]) {
		return usage("validation " + strings.Join(sim.Verdicts, "|"))
	}
	p.Judge(list[0])
	return nil
}

func (p *player) heal([]string) error {
	p.Mend()
	return nil
}
