package world

import (
	"context"
	"time"

	"lehr.dev/internal/sim/virtual"
)

// mailbox carries messages to a process, in order and each after a while.
type mailbox struct {
	world   *World
	to      *virtual.Process
	letters []letter
	pumping bool
}

type letter struct {
	due  time.Time
	read func()
}

// send has the process do something that does not wait.
func (m *mailbox) send(read func()) {
	m.letters = append(m.letters, letter{m.world.now().Add(m.world.latency()), read})
	if !m.pumping {
		m.pumping = true
		m.to.Go("messages", m.pump)
	}
}

func (m *mailbox) pump() {
	for len(m.letters) > 0 {
		next := m.letters[0]
		_ = m.to.Wait(context.Background(), max(0, next.due.Sub(m.world.now())), nil)
		m.letters = m.letters[1:]
		next.read()
	}
	m.pumping = false
}

// late sends something out of order, after that long.
func (m *mailbox) late(delay time.Duration, read func()) {
	m.to.Go("late message", func() {
		_ = m.to.Wait(context.Background(), delay, nil)
		read()
	})
}

// notify wakes whoever waits, or will.
func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
