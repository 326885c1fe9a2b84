package faults

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/test/faults/production"
	"lehr.dev/test/pgserver"
)

// Two replicas use one plugin server. Whoever acts is killed, stands still, or
// loses the database alone, in the middle of a push that would never end: the
// plugin ends it, for its permit does. Only then does the other replica push,
// through the same plugin, and what the first one had begun comes to nothing, also
// when that one is back.
func TestReplicasShareAPluginServer(t *testing.T) {
	t.Parallel()
	database := pgserver.New(t)
	database.Start()
	d := dialledWorld(t, "shared-plugin", "Command", "lehr-command")
	d.allow("shared-plugin")
	d.want(values{"a": 1})
	url, address := database.Database(), fmt.Sprintf("127.0.0.1:%d", database.Port())
	members := []*member{}
	for _, w := range []*world{d.world, d.replica("second")} {
		m := &member{world: w, way: newRelay(t, address)}
		m.arguments = []string{"--database", strings.Replace(url, address, m.way.Addr().String(), 1), "--plugin-servers", d.list}
		m.serve(m.arguments...)
		members = append(members, m)
	}
	d.converges(values{"a": 1})
	for n, fault := range []struct {
		name       string
		begin, end func(*member)
	}{
		{"it is killed", func(m *member) { m.kill() }, func(m *member) { m.serve(m.arguments...) }},
		{"it stands still", func(m *member) { m.signal(syscall.SIGSTOP) }, func(m *member) { m.signal(syscall.SIGCONT) }},
		{"it loses the database", func(m *member) { m.way.sever(true) }, func(m *member) { m.way.sever(false) }},
	} {
		value := n + 2
		acting := members[0]
		d.await("a replica acts, and will go on", func() string {
			holder, err := database.Query(url, `SELECT coalesce(max(holder), '') FROM partitions WHERE holder = (
				SELECT min(name) FROM replica WHERE ends > extract(epoch FROM clock_timestamp()) * 1000000000 HAVING count(*) = 2)`)
			if err != nil || holder == "" {
				return "it is not settled who acts: " + text(err)
			}
			for _, m := range members {
				if strings.Contains(holder, fmt.Sprintf(":%d:", m.server.Process.Pid)) {
					acting = m
					return ""
				}
			}
			return holder + " acts, which is none of them"
		})
		if err := os.WriteFile(production.HeldPath(d.production, "a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d.want(values{"a": value})
		var old, next production.Effect
		d.await("a push is at work", func() string { return d.begun(value, "", &old) })
		fault.begin(acting)
		d.await("the other replica pushes after "+fault.name, func() string { return d.begun(value, old.Push, &next) })
		for _, p := range d.pushes() {
			if p.pid == old.PID {
				t.Errorf("S4: %s, and its push %s is at work beside that of its successor", fault.name, old.Push)
			}
		}
		fault.end(acting)
		if err := os.Remove(production.HeldPath(d.production, "a")); err != nil {
			t.Fatal(err)
		}
		d.converges(values{"a": value})
	}
	last, over := "", map[string]bool{}
	for _, e := range readEffects(t, d.production) {
		switch {
		case e.Step == "contended":
			t.Errorf("S3: push %+v began while another of the resource was at work", e)
		case over[e.Push]:
			t.Fatalf("S4: push %+v went on after another had begun", e)
		case e.Push != last:
			over[last] = true
			last = e.Push
		}
	}
	if d.process.ProcessState != nil || d.process.Process.Signal(syscall.Signal(0)) != nil {
		t.Error("the plugin did not live through it")
	}
}

// member is a replica with a way of its own to the database.
type member struct {
	*world
	way       *relay
	arguments []string
}

func (m *member) signal(s syscall.Signal) {
	m.Helper()
	if err := m.server.Process.Signal(s); err != nil {
		m.Fatal(err)
	}
}

// begun finds a push of the value to resource a that is at work, and is not the
// one that was there before.
func (d *dialledPlugin) begun(value int, before string, found *production.Effect) string {
	for _, e := range readEffects(d.T, d.production) {
		if e.Step == "start" && e.Value == value && e.Push != before {
			*found = e
			return ""
		}
	}
	return "none began"
}
