package nemesis

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
)

// target is production: things with a value and a disk, each of a class. It
// outlives every fault, writes down each effect as it happens, and knows
// nothing of Lehr but what plugins tell it.
type target struct {
	listener net.Listener
	records  *os.File

	mutex   sync.Mutex
	states  map[string]state
	effects []effect
	version uint64
	failed  error
	group   sync.WaitGroup
}

// request of a plugin: to read, or to change.
type request struct {
	Reads  []string `json:",omitempty"`
	Effect *effect  `json:",omitempty"`
	// Base is the version that a target of class C compares.
	Base uint64
	// Permitted is when the plugin held its permit.
	Permitted time.Duration
}

type response struct {
	States  []state `json:",omitempty"`
	Refused string  `json:",omitempty"`
	Version uint64
}

// newTarget serves at a socket, and records into a file.
func newTarget(socket, records string) (*target, error) {
	file, err := os.Create(records)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	t := &target{listener: listener, records: file, states: map[string]state{}}
	t.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.group.Go(func() {
				defer conn.Close()
				var asked request
				if json.NewDecoder(conn).Decode(&asked) == nil {
					_ = json.NewEncoder(conn).Encode(t.answer(asked)) // Who asked may be gone.
				}
			})
		}
	})
	return t, nil
}

func (t *target) answer(asked request) (answer response) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, name := range asked.Reads {
		answer.States = append(answer.States, t.read(name))
	}
	if asked.Effect != nil {
		answer.Refused, answer.Version = t.land(*asked.Effect, asked)
	}
	return answer
}

// read returns what is there; nothing was ever there at first.
func (t *target) read(name string) state {
	if s, ok := t.states[name]; ok {
		return s
	}
	return state{Gone: true}
}

// land brings an effect about, if the thing's class lets it.
func (t *target) land(e effect, asked request) (refused string, version uint64) {
	e.At = sinceBoot()
	e.Late = e.At - asked.Permitted
	now := t.read(e.name())
	e.Before = now
	switch {
	case e.Class == plugin.Fenced && e.Token < now.Token:
		e.Refused = fmt.Sprintf("a higher token was seen: %d", now.Token)
	case e.Class == plugin.CompareAndSet && asked.Base != now.Version:
		e.Refused = fmt.Sprintf("it is at version %d, not at %d", now.Version, asked.Base)
	}
	if e.Refused == "" {
		t.version++
		next := e.After
		if !e.Last {
			next = now // The work has begun; what there is of it does not show yet.
		}
		next.Version, next.Token = t.version, max(now.Token, e.Token)
		e.After = next
		t.states[e.name()] = next
	} else {
		e.After = now
	}
	t.effects = append(t.effects, e)
	if line, err := json.Marshal(e); err != nil {
		t.failed = err
	} else if _, err := t.records.Write(append(line, '\n')); err != nil {
		t.failed = err
	}
	return e.Refused, t.version
}

// since returns the effects from the nth on.
func (t *target) since(n int) []effect {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return slices.Clone(t.effects[n:])
}

// has returns what is there.
func (t *target) has(name string) state {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.read(name)
}

func (t *target) close() error {
	t.listener.Close()
	t.group.Wait()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.records.Close(); err != nil {
		return err
	}
	return t.failed
}
