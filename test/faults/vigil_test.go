package faults

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// vigil reads production all the time, and keeps what must never be so.
//
// What a kill itself does is no violation: a proxy that was killed comes back
// empty, so its cluster's share is too large until its balancer is rebuilt. It
// is excused from just before the kill until a look that began after it finds
// the share served again. Everything else has no excuse.
type vigil struct {
	*service
	done, ended chan struct{}
	stopOnce    sync.Once

	mutex sync.Mutex
	// excused clusters, and since when their proxy is dead; zero: it is being
	// killed.
	excused map[string]time.Time
	// spans of excuses: requests may fail in them.
	spans []span
	// rolling: a version was asked for that not every task has been seen to
	// have, so one task of each cluster may be away.
	rolling  bool
	problems []string
	looks    int
	writers  map[string][]writer
	started  map[int]task
	// firstSeen of each push's effect.
	firstSeen map[string]time.Time
}

// writer is a push as production names it.
type writer struct {
	push string
	at   time.Time
}

// keepVigil begins to watch, and stops with the test.
func keepVigil(s *service) *vigil {
	v := &vigil{
		service: s, done: make(chan struct{}), ended: make(chan struct{}),
		excused: map[string]time.Time{}, writers: map[string][]writer{},
		started: map[int]task{}, firstSeen: map[string]time.Time{},
	}
	go v.run(s.manifest.clone().clusters)
	s.Cleanup(v.stop)
	return v
}

// run watches the clusters that there are when it begins: the manifest is the test's.
func (v *vigil) run(clusters []cluster) {
	defer close(v.ended)
	const pause = 10 * time.Millisecond
	for began := time.Now(); ; {
		select {
		case <-v.done:
			return
		case <-time.After(rest(began, pause)):
			began = time.Now()
			v.once(clusters)
		}
	}
}

func (v *vigil) stop() {
	v.stopOnce.Do(func() { close(v.done) })
	<-v.ended
}

// excuse lets a cluster's proxy be killed.
func (v *vigil) excuse(cluster string, kill func()) {
	v.mutex.Lock()
	v.excused[cluster] = time.Time{}
	v.spans = append(v.spans, span{cluster: cluster, began: time.Now()})
	v.mutex.Unlock()
	kill()
	v.mutex.Lock()
	v.excused[cluster] = time.Now()
	v.mutex.Unlock()
}

// pardon ends an excuse when a look that began after the kill finds all well.
func (v *vigil) pardon(cluster string, began time.Time) {
	if since, excused := v.excused[cluster]; !excused || since.IsZero() || began.Before(since) {
		return
	}
	delete(v.excused, cluster)
	for i := range v.spans {
		if v.spans[i].cluster == cluster && v.spans[i].ended.IsZero() {
			v.spans[i].ended = time.Now()
		}
	}
}

// excuses are how many clusters are excused now.
func (v *vigil) excuses() int {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return len(v.excused)
}

// rolls says that versions are about to change, or have all changed.
func (v *vigil) rolls(rolling bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.rolling = rolling
}

// once reads everything, each number before and after what it is compared
// with, so that what moves between two readings is no false alarm.
func (v *vigil) once(clusters []cluster) {
	began := time.Now()
	v.mutex.Lock()
	rolling := v.rolling
	v.mutex.Unlock()
	before, first := v.look(), v.pools(clusters)
	global, globalErr := v.pool(v.port + 1)
	second, after := v.pools(clusters), v.look()
	there, columnErr := v.column()
	last := v.look()

	v.mutex.Lock()
	defer v.mutex.Unlock()
	rolling = rolling || v.rolling
	v.looks++
	for _, c := range clusters {
		one, readBefore := first[c.name]
		two, readAfter := second[c.name]
		if readBefore && readAfter {
			v.judgeTasks(c, min(len(one.weights), len(two.weights)), len(of(before, v.job(c.name, "frontend"))), len(of(after, v.job(c.name, "frontend"))), rolling)
			if globalErr == nil {
				v.judgeShare(c, global.share(c), max(len(one.weights), len(two.weights)), began)
			}
		}
	}
	if globalErr == nil {
		v.record("balancer/global", global.id)
		if len(global.weights) > 0 {
			v.pardon("global", began)
		}
	}
	for _, pools := range []map[string]pool{first, second} {
		for name, p := range pools {
			v.record("balancer/"+name, p.id)
		}
	}
	if columnErr == nil && !there {
		v.judgeColumn(after, last)
	}
	v.recordTasks(slices.Concat(before, after, last))
	if push, err := v.query("SELECT push FROM lehr_schema_versions"); err == nil {
		v.record("schema/searches", push)
	}
}

// pools are the clusters' balancers that can be read.
func (v *vigil) pools(clusters []cluster) map[string]pool {
	found := map[string]pool{}
	for _, c := range clusters {
		if p, err := v.pool(c.admin()); err == nil {
			found[c.name] = p
		}
	}
	return found
}

func (v *vigil) problem(format string, arguments ...any) {
	const most = 20
	if text := fmt.Sprintf(format, arguments...); len(v.problems) < most {
		v.problems = append(v.problems, fmt.Sprintf("%s (look %d): %s", time.Now().Format("15:04:05.000"), v.looks, text))
	}
}

// judgeTasks: a balancer never has more upstreams than tasks live, but for the
// one that is being replaced.
func (v *vigil) judgeTasks(c cluster, upstreams, before, after int, rolling bool) {
	away := 0
	if rolling {
		away = 1
	}
	if living := max(before, after); upstreams > living+away {
		v.problem("the balancer of cluster %s has %d upstreams, and %d tasks live", c.name, upstreams, living)
	}
}

// judgeShare: the global balancer never expects more than a cluster's own
// sends on, but after a kill of its proxy.
func (v *vigil) judgeShare(c cluster, share, upstreams int, began time.Time) {
	_, excused := v.excused[c.name]
	switch {
	case share <= upstreams && upstreams > 0:
		v.pardon(c.name, began)
	case share > upstreams && !excused:
		v.problem("the global balancer sends %d shares to the %d upstreams of cluster %s", share, upstreams, c.name)
	}
}

// judgeColumn: no task of v3 lived through a moment without its column.
func (v *vigil) judgeColumn(before, after []task) {
	for _, t := range before {
		if slices.Contains(t.arguments, "--version=v3") && slices.ContainsFunc(after, func(o task) bool { return o.pid == t.pid }) {
			v.problem("process %d of v3 lives, and the table has no column for it", t.pid)
		}
	}
}

// record keeps who wrote something last, when it is another than before.
func (v *vigil) record(asset, id string) {
	push, _ := url.PathUnescape(id[strings.LastIndexByte(id, ':')+1:])
	list := v.writers[asset]
	if push == "" || len(list) > 0 && list[len(list)-1].push == push {
		return
	}
	v.writers[asset] = append(list, writer{push, time.Now()})
}

func (v *vigil) recordTasks(tasks []task) {
	for _, t := range tasks {
		if _, ok := v.started[t.pid]; !ok {
			v.started[t.pid] = t
			if _, ok := v.firstSeen[t.push]; !ok {
				v.firstSeen[t.push] = time.Now()
			}
		}
	}
}

// judge says what was seen.
func (v *vigil) judge() {
	v.Helper()
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if len(v.problems) > 0 {
		v.Errorf("seen in production:\n%s", strings.Join(v.problems, "\n"))
	}
	if v.looks == 0 {
		v.Error("nothing was looked at")
	}
	for asset, list := range v.writers {
		seen := map[string]bool{}
		for _, w := range list {
			if seen[w.push] {
				v.Errorf("push %s of %s was carried out twice: %v", w.push, asset, list)
			}
			seen[w.push] = true
		}
	}
	byPush := map[string]task{}
	for _, pid := range slices.Sorted(maps.Keys(v.started)) {
		t := v.started[pid]
		place := fmt.Sprintf("%s %s/%d", t.push, t.job, t.number)
		if before, ok := byPush[place]; ok {
			v.Errorf("push %s started task %d of %s twice: processes %d and %d", t.push, t.number, t.job, before.pid, pid)
		}
		byPush[place] = t
	}
}
