package sim

import (
	"strings"
	"time"

	"lehr.dev/internal/sim/virtual"
)

// Phase is what Lehr is about while a fault strikes.
type Phase string

const (
	Steady   Phase = "steady"
	Changing Phase = "changing"
	Pushing  Phase = "pushing"
	Stopped  Phase = "stopped"
	Failover Phase = "failover"
	Settling Phase = "settling"
)

// phase of now.
func (l *Lab) phase() Phase {
	const recent = time.Minute
	switch {
	case l.healing:
		return Settling
	case l.stopped:
		return Stopped
	case l.Now().Sub(l.failover) < recent/4:
		return Failover
	case len(l.World.Pushing()) > 0:
		return Pushing
	case !l.changed.IsZero() && l.Now().Sub(l.changed) < recent:
		return Changing
	}
	return Steady
}

// armed is a fault that strikes at an await point to come.
type armed struct {
	d Disturbance
	// skip counts down the points that are left alone.
	skip int
}

// at is the scheduler's hook: every point of every process of Lehr and of its
// plugins comes by.
func (l *Lab) at(p *virtual.Process, point string) virtual.Act {
	switch {
	case l.Monitor == nil:
	case point == "store: after a commit":
		l.Monitor.Commit()
	case strings.HasPrefix(point, "store: "):
		l.Monitor.Between()
	}
	for i := range l.armed {
		a := &l.armed[i]
		if !strings.Contains(point, a.d.Point) || a.d.Plugins != strings.Contains(p.Name(), "/") {
			continue
		}
		if a.skip--; a.skip >= 0 {
			continue
		}
		d := a.d
		l.armed = append(l.armed[:i:i], l.armed[i+1:]...)
		return l.act(d, p, point)
	}
	return virtual.Act{}
}

// act makes an armed fault strike.
func (l *Lab) act(d Disturbance, p *virtual.Process, point string) virtual.Act {
	l.note(d.Kind, point)
	l.holdsUp(d.Length)
	if strings.HasSuffix(point, "rollout edit") {
		l.mark("field: before an edit: " + string(d.Kind))
	}
	l.tell("#%d %s of %s at %q", d.Number, d.Kind, p.Name(), point)
	switch d.Kind {
	case KillAtPoint:
		return virtual.Act{Kill: true}
	case PauseAtPoint:
		return virtual.Act{Pause: d.Length}
	case Meanwhile:
		l.people.Go("meanwhile", func() { l.then(d) })
		return virtual.Act{Delay: d.Length}
	default:
		return virtual.Act{Delay: d.Length}
	}
}

// holdsUp notes that a process is held up for so long.
func (l *Lab) holdsUp(period time.Duration) {
	l.heldUp = later(l.heldUp, l.Now().Add(period))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// note counts a fault in its cell.
func (l *Lab) note(kind Kind, point string) {
	l.struck++
	l.cells[Cell{Point: point, Kind: kind, Phase: l.phase()}]++
	l.mark("struck: " + string(kind))
	if len(l.World.Pushing()) > 0 {
		l.mark("while a push runs: " + string(kind))
	}
}
