package nemesis

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// fault is something that goes wrong for a while.
type fault struct {
	name   string
	strike func(w *world)
	// possible: the machine lets us; nil: always.
	possible func(w *world) bool
}

// deck of faults: each comes once, in an order by the seed, before any comes
// again.
var deck = []fault{
	{"kill -9 of a replica", func(w *world) { w.failOver("kill -9", (*replica).kill, w.revive) }, nil},
	{"pause of a replica", func(w *world) {
		w.failOver("pause", func(r *replica) { r.pause(false) }, (*replica).wake)
	}, nil},
	{"pause of a replica and its plugins", func(w *world) {
		w.failOver("pause with plugins", func(r *replica) { r.pause(true) }, (*replica).wake)
	}, nil},
	{"cut from the database", func(w *world) { w.failOver("cut", cutting(up, down), cutting()) }, nil},
	{"cut on the way to the database", func(w *world) { w.failOver("cut one way (up)", cutting(up), cutting()) }, nil},
	{"cut on the way from the database", func(w *world) { w.failOver("cut one way (down)", cutting(down), cutting()) }, nil},
	{"clean stop", func(w *world) { w.handOver(w.victim()) }, nil},
	{"rolling restart", (*world).roll, nil},
	{"short pause", func(w *world) {
		r := w.someone()
		r.pause(w.random.IntN(2) == 0)
		w.wait(w.upTo(leasePeriod))
		r.wake()
	}, nil},
	{"kill -9 of plugins", func(w *world) {
		for _, r := range w.replicas {
			for _, pid := range r.plugins() {
				if w.random.IntN(2) == 0 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		}
		w.wait(w.upTo(leasePeriod))
	}, nil},
	{"pause of a plugin", func(w *world) {
		plugins := w.someone().plugins()
		if len(plugins) == 0 {
			return
		}
		pid := plugins[w.random.IntN(len(plugins))]
		_ = unix.Kill(pid, unix.SIGSTOP)
		w.wait(w.upTo(3 * leasePeriod))
		_ = unix.Kill(pid, unix.SIGCONT)
	}, nil},
	{"slow network", func(w *world) {
		const slow = 600 * time.Millisecond
		for _, r := range w.replicas {
			r.database.set(w.upTo(slow))
		}
		w.wait(w.upTo(2 * leasePeriod))
		for _, r := range w.replicas {
			r.database.set(0)
		}
	}, nil},
	{"reset connections", func(w *world) {
		for range 5 {
			w.someone().database.reset()
			w.wait(w.upTo(time.Second))
		}
	}, nil},
	{"kill -9 of the database", func(w *world) { w.database.crash() }, nil},
	{"promotion of the standby", func(w *world) { w.database.promote() }, nil},
	{"full disk of the database", func(w *world) { w.database.fill(w.upTo(leasePeriod)) }, func(w *world) bool { return w.database.disks[w.database.primary] != nil }},
	{"full disk of a replica", func(w *world) {
		r := w.someone()
		if err := r.disk.fill(); err != nil {
			w.Fatal(err)
		}
		for _, pid := range r.plugins() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		w.wait(w.upTo(2 * leasePeriod))
		if err := r.disk.free(); err != nil {
			w.Fatal(err)
		}
	}, func(w *world) bool { return w.replicas[0].disk != nil }},
}

func cutting(ways ...direction) func(*replica) {
	return func(r *replica) { r.database.set(0, ways...) }
}

// upTo is at least a quarter of a period.
func upTo(random *rand.Rand, period time.Duration) time.Duration {
	return period/4 + time.Duration(random.Int64N(int64(period*3/4)))
}

func (w *world) upTo(period time.Duration) time.Duration { return upTo(w.random, period) }

func (w *world) someone() *replica { return w.replicas[w.random.IntN(len(w.replicas))] }

// rage lets faults come until the time is over.
func (w *world) rage(period time.Duration) {
	began := w.now()
	for {
		for _, n := range w.random.Perm(len(deck)) {
			f := deck[n]
			if chosen, err := regexp.MatchString(*only, f.name); err != nil || !chosen {
				continue
			}
			if w.now()-began > period || w.Failed() {
				return
			}
			if f.possible != nil && !f.possible(w) {
				w.tally.count("not possible here: " + f.name)
				continue
			}
			w.tally.strike(f.name)
			w.Logf("%s %s", (w.now() - began).Round(time.Millisecond), f.name)
			f.strike(w)
			w.wait(w.upTo(leasePeriod / 3))
		}
	}
}

// steady waits until all replicas act, each partition is acted for, and the
// store is trusted. After a promotion nothing is pushed until every replica has
// found its own commits again, and a replica that is cut off before that keeps
// all others waiting: that is promised, and is no slow failover.
func (w *world) steady() {
	w.Helper()
	w.await("all replicas act", patience, func() string {
		if stop, err := w.distrust(); err != nil {
			return err.Error()
		} else if stop != "" {
			return "the store is not trusted: " + stop
		}
		lives, _, err := w.holders()
		if err != nil {
			return err.Error()
		}
		acting := map[*life]bool{}
		for partition, l := range lives {
			if l == nil || !slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.life == l }) {
				return partition + " is nobody's"
			}
			acting[l] = true
		}
		if len(acting) < len(w.replicas) {
			return fmt.Sprintf("only %d replicas act", len(acting))
		}
		return ""
	})
}

// distrust returns why the store keeps all partitions stopped; "" if it does not.
func (w *world) distrust() (reason string, err error) {
	err = w.database.ask(`SELECT suspect, split_part(place, '/', 2), substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
		FROM history WHERE generation = (SELECT max(generation) FROM history)`, func(scan func(...any) error) error {
		var accepted, now string
		err := scan(&reason, &accepted, &now)
		if reason == "" && accepted != now {
			reason = fmt.Sprintf("the replicas have accepted timeline %s, the database is on %s", accepted, now)
		}
		return err
	})
	return reason, err
}

// victim is a replica that acts, while all do.
func (w *world) victim() *replica {
	w.steady()
	return w.someone()
}

// has are the epochs of what a replica acts for.
func (w *world) has(l *life) map[string]uint64 {
	lives, epochs, err := w.holders()
	if err != nil {
		w.Fatal(err)
	}
	had := map[string]uint64{}
	for partition, holder := range lives {
		if holder == l {
			had[partition] = epochs[partition]
		}
	}
	return had
}

// failOver breaks a replica, measures at the targets until when others act for
// what it had, and heals it between that and three leases after the fault.
func (w *world) failOver(name string, strike, heal func(*replica)) {
	w.calm.Lock()
	defer w.calm.Unlock()
	r := w.victim()
	had := w.has(r.life)
	from := len(w.target.since(0))
	others := w.others(r)
	at, before := w.now(), starved(others)
	strike(r)
	acted, stalled := map[string]time.Duration{}, map[string]time.Duration{}
	w.await("others act for what "+r.name+" had", patience, func() string {
		effects := w.target.since(from)
		from += len(effects)
		for _, e := range effects {
			if epoch, wanted := had[e.Partition]; wanted && e.Token > epoch && acted[e.Partition] == 0 && e.Refused == "" {
				acted[e.Partition] = e.At
				stalled[e.Partition] = max(w.vigil.between(at, e.At), starvedSince(before, others))
			}
		}
		if len(acted) < len(had) {
			return fmt.Sprintf("of %v only %v", had, acted)
		}
		return ""
	})
	for partition, when := range acted {
		w.took(takeover{Fault: name, Partition: partition, At: at, Took: when - at, Stalled: stalled[partition], Promised: failover})
	}
	if left := at + w.upTo(3*leasePeriod) - w.now(); left > 0 {
		w.wait(left)
	}
	heal(r)
}

// others are the processes of all replicas but one.
func (w *world) others(r *replica) (pids []int) {
	for _, other := range w.replicas {
		if other != r && other.life != nil {
			pids = append(pids, other.life.Process.Pid)
		}
	}
	return pids
}

func (w *world) took(t takeover) {
	w.history.Takeovers = append(w.history.Takeovers, t)
	w.tally.took(t)
}

// revive starts a replica that is gone, perhaps as another build, and with
// clocks of its own.
func (w *world) revive(r *replica) {
	if r.life != nil {
		return
	}
	const day, wrong = 24 * time.Hour, 7 * time.Minute
	monotonic := time.Duration(w.random.IntN(3)) * day
	wall := time.Duration(w.random.IntN(3)-1) * wrong
	binary := w.binary()
	if binary == builds[0] {
		wall = 0 // Its clock cannot be set.
	}
	w.tally.count(fmt.Sprintf("start of %s, clocks ahead by %s and %s", binary, monotonic, wall))
	r.start(binary, monotonic, wall)
	r.answers()
}

// handOver ends a replica as its operator would, and measures when others have
// what it had.
func (w *world) handOver(r *replica) {
	had, old := w.has(r.life), r.life
	r.end()
	others := w.others(r)
	at, before := w.now(), starved(others)
	for len(had) > 0 {
		lives, _, err := w.holders()
		now := w.now()
		if err != nil {
			w.Fatal(err)
		}
		for partition := range had {
			if lives[partition] != nil && lives[partition] != old || now-at > patience {
				w.took(takeover{Fault: "clean stop", Partition: partition, At: at, Took: now - at, Stalled: max(w.vigil.between(at, now), starvedSince(before, others)), Promised: handover})
				delete(had, partition)
			}
		}
		w.wait(beat)
	}
	w.revive(r)
}

// roll restarts all replicas, one after the other, and measures the longest
// time in which nothing was done for a partition.
func (w *world) roll() {
	w.calm.Lock()
	defer w.calm.Unlock()
	w.steady()
	from, began := len(w.target.since(0)), w.now()
	for _, r := range w.replicas {
		w.steady()
		w.handOver(r)
	}
	last, gap := map[string]time.Duration{}, map[string]time.Duration{}
	for _, p := range w.partitions {
		last[p.id] = began
	}
	for _, e := range w.target.since(from) {
		gap[e.Partition] = max(gap[e.Partition], e.At-last[e.Partition])
		last[e.Partition] = e.At
	}
	for partition, longest := range gap {
		w.took(takeover{Fault: "rolling restart, longest gap", Partition: partition, At: began, Took: longest, Stalled: w.vigil.between(began, w.now()), Promised: failover})
	}
}

// heal ends all faults, edits and brakes, and waits until production is as
// wanted, and a while longer.
func (w *world) heal() {
	w.people.close()
	for _, r := range w.replicas {
		r.wake()
		r.database.set(0)
		w.revive(r)
	}
	random := rand.New(rand.NewPCG(w.seed, 2))
	for _, p := range w.partitions {
		p.edit(w, func() {
			for _, name := range p.names() {
				wish := p.wishes[name]
				wish.dropped, wish.Value = false, p.value()
				w.history.Wanted[p.id+"/"+name] = content{Value: wish.Value, Disk: wish.Disk, Site: wish.Site, Turndown: wish.Turndown}
			}
		})
	}
	w.await("no brake is left", patience, func() string {
		for _, partition := range append(w.partitions, &partition{}) {
			if w.people.stopsThere(partition.id) != 0 {
				w.people.resume(random, partition.id)
			}
			w.people.release(random, partition.id, true)
			w.people.release(random, partition.id, false)
		}
		w.wait(scribePause)
		w.scribe.mutex.Lock()
		defer w.scribe.mutex.Unlock()
		if left := len(w.history.Pins) + len(w.history.Holds); left > 0 {
			return fmt.Sprintf("%d pins and holds", left)
		}
		return ""
	})
	w.history.Healed = w.now()
	const bound, stays = time.Minute, 5 * time.Second
	for w.now()-w.history.Healed-w.vigil.between(w.history.Healed, w.now()) < bound {
		w.people.approve(random)
		if w.asWanted() {
			w.history.Settled = w.now()
			break
		}
		w.wait(scribePause)
	}
	w.steady()
	w.evenShares()
	w.wait(stays)
	w.history.Ended = w.now()
	for name := range w.history.Wanted {
		w.history.Has[name] = w.target.has(name)
	}
	w.history.Effects = w.target.since(0)
}

// asWanted: each thing is as wanted, and nothing is under way.
func (w *world) asWanted() bool {
	for name, want := range w.history.Wanted {
		has := w.target.has(name)
		if has.Gone != want.Turndown || !has.Gone && (has.Value != want.Value || has.Disk != want.Disk) {
			return false
		}
	}
	open := -1
	err := w.database.ask("SELECT count(*) FROM push WHERE open = 1", func(scan func(...any) error) error { return scan(&open) })
	return err == nil && open == 0
}

// evenShares waits until each replica acts for as many partitions.
func (w *world) evenShares() {
	w.await("even shares", patience, func() string {
		lives, _, err := w.holders()
		if err != nil {
			return err.Error()
		}
		share := map[*life]int{}
		for _, l := range lives {
			share[l]++
		}
		for _, r := range w.replicas {
			if share[r.life] != len(w.partitions)/len(w.replicas) {
				return fmt.Sprintf("%s acts for %d of %d partitions", r.name, share[r.life], len(w.partitions))
			}
		}
		return ""
	})
}
