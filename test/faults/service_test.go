package faults

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/examples/shakespeare"
	"lehr.dev/test/freeport"
)

// service is a world with the partition of the example in it: clusters of real
// processes, each behind a balancer of its own, a balancer before all of them,
// and a database.
type service struct {
	*world
	// port of the balancer before all clusters; its admin endpoint is the next.
	port     int
	manifest manifest
}

// manifest is what service.yaml says, and whether the schema's file has the
// column that v3 needs.
type manifest struct {
	version  string
	column   bool
	clusters []cluster
}

type cluster struct {
	name string
	// port of its first task.
	port     int
	replicas int
	turndown bool
}

// full is how many tasks a cluster has when nothing is halved, and row how
// many ports in a row it has: its tasks', its balancer's, and the admin's.
const (
	full = 4
	row  = full + 2
)

func (c cluster) balancer() int { return c.port + full }

func (c cluster) admin() int { return c.port + full + 1 }

func (c cluster) parts() []string {
	return []string{"balancer/" + c.name, "frontend/" + c.name, "proxy/" + c.name}
}

func (m manifest) clone() manifest {
	m.clusters = slices.Clone(m.clusters)
	return m
}

func (m manifest) cluster(name string) *cluster {
	return &m.clusters[slices.IndexFunc(m.clusters, func(c cluster) bool { return c.name == name })]
}

var services atomic.Int32

// newService writes the example's partition, for two clusters. Its server is
// not started.
func newService(t *testing.T) *service {
	t.Helper()
	example(t)
	s := &service{world: newWorld(t, partition{name: "shakespeare"})}
	s.identity = fmt.Sprintf("shakespeare-%d-%d", os.Getpid(), services.Add(1))
	s.port = freeport.Row(t, row)
	s.manifest = manifest{version: "v1"}
	for _, name := range []string{"a", "b"} {
		s.manifest.clusters = append(s.manifest.clusters, cluster{name: name, port: freeport.Row(t, row), replicas: full})
	}
	for _, remains := range []string{"web.star", "lehr.yaml"} {
		if err := os.Remove(filepath.Join(s.folder, remains)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.WalkDir(shakespeare.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := shakespeare.Files.ReadFile(path)
		s.write(filepath.Join(s.folder, path), string(content))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// A database is made by who runs the machine; what is in it, by Lehr.
	s.write(s.database(), "")
	s.say(s.manifest)
	return s
}

func (s *service) database() string { return filepath.Join(s.production, "searches.db") }

// job is the name of a cluster's processes on this machine.
func (s *service) job(cluster, part string) string { return s.identity + "/" + cluster + "/" + part }

// say writes a manifest, schema first: a service.yaml that needs more than the
// schema declares is a candidate that is refused.
func (s *service) say(next manifest) {
	s.Helper()
	schema, err := shakespeare.Files.ReadFile("schema/searches.sql")
	if err != nil {
		s.Fatal(err)
	}
	text := strings.Replace(string(schema), "sqlite:/var/lib/shakespeare/searches.db", "sqlite:"+s.database(), 1)
	needs := "1"
	if next.column {
		needs = "2"
		text = strings.Replace(text, "-- lehr: version 1", "-- lehr: version 2", 1)
		text = strings.Replace(text, "words TEXT NOT NULL\n", "words TEXT NOT NULL,\n    cluster TEXT\n", 1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "service: %s\nbinary: %s\n", s.identity, filepath.Join(s.programs, "releases", "{version}", "frontend"))
	fmt.Fprintf(&b, "args: [\"--port={port}\", \"--version={version}\", \"--searches=%s\", \"--cluster={cluster}\"]\n", s.database())
	fmt.Fprintf(&b, "version: %s\nneeds_schema: %q\n", next.version, needs)
	fmt.Fprintf(&b, "balancing: {binary: %s, port: %d, admin_port: %d}\nclusters:\n", filepath.Join(s.programs, "lehr-caddy"), s.port, s.port+1)
	for _, c := range next.clusters {
		fmt.Fprintf(&b, "  - {name: %s, replicas: %d, base_port: %d, balancer_port: %d, admin_port: %d, turndown: %t}\n",
			c.name, c.replicas, c.port, c.balancer(), c.admin(), c.turndown)
	}
	s.write(filepath.Join(s.folder, "schema", "searches.sql"), text)
	s.write(filepath.Join(s.folder, "service.yaml"), b.String())
	s.manifest = next
}

// change alters the manifest.
func (s *service) change(alter func(m manifest) manifest) {
	s.Helper()
	s.say(alter(s.manifest.clone()))
}

// resize asks for a number of tasks in a cluster.
func (s *service) resize(cluster string, replicas int) {
	s.Helper()
	s.change(func(m manifest) manifest {
		m.cluster(cluster).replicas = replicas
		return m
	})
}
