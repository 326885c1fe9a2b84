package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifest is what service.yaml says.
type manifest struct {
	version     string
	needsSchema string
	clusters    []wanted
}

// wanted is a cluster as the manifest has it.
type wanted struct {
	cluster
	replicas   int
	autoscaled bool
	turndown   bool
}

// cluster of the wanted name, to be altered.
func (m *manifest) cluster(name string) *wanted {
	at := slices.IndexFunc(m.clusters, func(w wanted) bool { return w.name == name })
	return &m.clusters[at]
}

func (m manifest) clone() manifest {
	m.clusters = slices.Clone(m.clusters)
	return m
}

// text is the manifest as a person would write it.
func (s *stage) text(m manifest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "service: %s\nbinary: %s\n", s.service, s.release("{version}"))
	fmt.Fprintf(&b, "args: [\"--port={port}\", \"--version={version}\", \"--searches=%s\", \"--cluster={cluster}\"]\n", s.database())
	fmt.Fprintf(&b, "version: %s\nneeds_schema: %q\n", m.version, m.needsSchema)
	fmt.Fprintf(&b, "balancing: {binary: %s, port: %d, admin_port: %d}\nclusters:\n", s.beside("lehr-caddy"), s.port, s.port+1)
	for _, c := range m.clusters {
		fmt.Fprintf(&b, "  - name: %s\n    replicas: %d\n    base_port: %d\n    balancer_port: %d\n    admin_port: %d\n",
			c.name, c.replicas, c.port, c.balancer(), c.admin())
		if c.autoscaled {
			b.WriteString("    autoscaled: true\n")
		}
		if c.turndown {
			b.WriteString("    turndown: true\n")
		}
	}
	return b.String()
}

// edit changes the manifest and tells of it.
func (s *stage) edit(what string, alter func(*manifest)) error {
	next := s.manifest.clone()
	alter(&next)
	s.say("    edit service.yaml: %s", what)
	s.manifest = next
	return s.write("service.yaml", s.text(next))
}

// scribble writes a manifest that is not as it should be.
func (s *stage) scribble(what, content string) error {
	s.say("    edit service.yaml: %s", what)
	return s.write("service.yaml", content)
}

// mend writes the manifest as it was before the scribbling.
func (s *stage) mend() error { return s.scribble("as it was", s.text(s.manifest)) }

// write replaces a file at once, as editors do.
func (s *stage) write(name, content string) error {
	path := filepath.Join(s.directory, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// schemaFile is where the example keeps the table of searches.
const schemaFile = "schema/searches.sql"

// schema is the file of the table, with the demo's database in it.
func (s *stage) schema(example string) string {
	return strings.Replace(example, "sqlite:/var/lib/shakespeare/searches.db", "sqlite:"+s.database(), 1)
}

func (s *stage) database() string { return filepath.Join(s.directory, "searches.db") }
