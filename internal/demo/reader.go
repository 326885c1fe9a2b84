package demo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/examples/shakespeare"
)

// The reader is a second service of the demo: one task in test, one in staging and four in production, of which one is
// the canary. Delivery decides which version is where.
const (
	readerTest       = "test"
	readerStaging    = "staging"
	readerCanary     = "production/canary"
	readerOthers     = "production/others"
	readerOtherTasks = 3
)

// readerPlaces in the order of their ports.
var readerPlaces = []string{readerTest, readerStaging, readerCanary, readerOthers}

// setReader writes the reader's files into the folder, and joins its definition with the example's.
func (s *stage) setReader() error {
	files, err := fs.Sub(shakespeare.Reader, "reader")
	if err != nil {
		return err
	}
	program, err := fs.ReadFile(files, "reader.star")
	if err != nil {
		return err
	}
	if err := s.write("reader.star", string(program)); err != nil {
		return err
	}
	if err := s.write("reader.yaml", s.readerText()); err != nil {
		return err
	}
	if err := s.write(checksFile, fmt.Sprintf("external-checks: v1\nnetworks: [127.0.0.0/8]\nmonitoring:\n  - {name: probes, kind: metrics, url: %q, partitions: [\"*\"]}\n", s.prober.url())); err != nil {
		return err
	}
	definition, err := os.ReadFile(filepath.Join(s.directory, "lehr.yaml"))
	if err != nil {
		return err
	}
	more, err := fs.ReadFile(files, "lehr.yaml")
	if err != nil {
		return err
	}
	return s.write("lehr.yaml", joinDefinitions(string(definition), string(more)))
}

// checksFile lists the monitoring that the canary's searches are read from.
const checksFile = "external-checks.yaml"

// readerText is the reader's file as a person would write it.
func (s *stage) readerText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Where the reader runs. Its versions are not here: the document \"stages\" has them.\nservice: %s\nbinary: %s\ntasks:\n", s.service, s.release("{version}"))
	for i, place := range readerPlaces {
		replicas := 1
		if place == readerOthers {
			replicas = readerOtherTasks
		}
		fmt.Fprintf(&b, "  %s: {port: %d, replicas: %d}\n", place, s.reader+i, replicas)
	}
	return b.String()
}

// joinDefinitions adds the sections of a definition to those of another one, but for lines that these have already. The
// header of the first counts.
func joinDefinitions(definition, more string) string {
	first, section := definition, ""
	for line := range strings.Lines(more) {
		key, value, isKey := strings.Cut(line, ":")
		switch isTop := isKey && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "#"); {
		case isTop && strings.TrimSpace(value) != "":
			section = "" // A line of the header.
		case isTop:
			section = key + ":\n"
			if !strings.Contains("\n"+definition, "\n"+section) {
				definition += section
			}
		case section != "" && !strings.Contains(first, "\n"+line):
			at := endOfSection(definition, section)
			definition = definition[:at] + line + definition[at:]
		}
	}
	return definition
}

// endOfSection is where the lines of a section end.
func endOfSection(definition, section string) int {
	at := strings.Index("\n"+definition, "\n"+section) + len(section)
	for line := range strings.Lines(definition[at:]) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		at += len(line)
	}
	return at
}

// createDocuments creates what delivery reads and sets, once the server has the partition.
func (s *stage) createDocuments(ctx context.Context) error {
	for _, d := range []struct{ name, content string }{
		{"builds", "v1: {author: Ann}\n"},
		{"stages", "test: v1\nstaging: v1\nproduction: v1\n"},
	} {
		file := filepath.Join(s.directory, d.name+".first.yaml")
		if err := os.WriteFile(file, []byte(d.content), 0o644); err != nil {
			return err
		}
		if err := s.until(ctx, patience, "the document "+d.name+" can be created", func(ctx context.Context) string {
			_, err := s.quietly(ctx, "document", "create", d.name, "--file", file, "--reason", "as it is")
			if err != nil {
				return err.Error()
			}
			return ""
		}); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// readerPorts of a place, one for each task.
func (s *stage) readerPorts(place string) (ports []int) {
	first := s.reader + slices.Index(readerPlaces, place)
	tasks := 1
	if place == readerOthers {
		tasks = readerOtherTasks
	}
	for i := range tasks {
		ports = append(ports, first+i)
	}
	return ports
}

// reads is met when all tasks of the places answer as the version.
func (s *stage) reads(version string, places ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		for _, place := range places {
			for _, port := range s.readerPorts(place) {
				got, err := ask(ctx, port)
				if err != nil || got.Version != version || !got.Healthy {
					return fmt.Sprintf("reader/%s on port %d answers %+v, %v", place, port, got, err)
				}
			}
		}
		return ""
	}
}

// addBuild adds a version of the reader to those that were built.
func (s *stage) addBuild(ctx context.Context, version, author string) error {
	_, err := s.lehr(ctx, "document", "set", "builds", fmt.Sprintf(`/%s={"author": %q}`, version, author), "--reason", "a new build of the reader")
	return err
}

// approveVersion approves a version for production once it waits for a person.
func (s *stage) approveVersion(ctx context.Context, version string) error {
	if err := s.until(ctx, patience, "production waits for a person", func(ctx context.Context) string {
		explanation, err := s.quietly(ctx, "why", "production")
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(explanation, version+" is not in production: people waits for ") {
			return explanation
		}
		return ""
	}); err != nil {
		return err
	}
	if err := s.print(ctx, "why", "production"); err != nil {
		return err
	}
	return s.print(ctx, "delivery", "approve", "production", version, "--reason", "it works in staging")
}

func (s *stage) delivery(ctx context.Context) error {
	if err := s.addBuild(ctx, "v2", "Ann"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "test and staging have v2", s.reads("v2", readerTest, readerStaging)); err != nil {
		return err
	}
	if reason := s.reads("v1", readerCanary, readerOthers)(ctx); reason != "" {
		return fmt.Errorf("production was to wait for a person: %s", reason)
	}
	s.so("v2 came to test, and then to staging, by itself; production still answers as v1, for it waits for a person")
	vigil := s.watch(ctx, s.beforeCanary("v2"))
	defer vigil.stop()
	if err := s.approveVersion(ctx, "v2"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "production has v2", s.reads("v2", readerCanary, readerOthers)); err != nil {
		return err
	}
	return s.kept(vigil, "the canary came first: the three others had v1 until it answered as v2")
}

// beforeCanary finds a task of production that is ahead of the canary.
func (s *stage) beforeCanary(version string) func(context.Context) string {
	return func(ctx context.Context) string {
		for _, port := range s.readerPorts(readerOthers) {
			other, err := search(ctx, port)
			if err != nil || other.Version != version {
				continue
			}
			if canary, err := search(ctx, s.readerPorts(readerCanary)[0]); err != nil || canary.Version != version {
				return fmt.Sprintf("port %d answers as %s, and the canary as %q", port, version, canary.Version)
			}
		}
		return ""
	}
}

func (s *stage) badVersion(ctx context.Context) error {
	if err := s.addBuild(ctx, "v4", "Bo"); err != nil {
		return err
	}
	vigil := s.watch(ctx, func(ctx context.Context) string {
		for _, port := range s.readerPorts(readerOthers) {
			if got, err := search(ctx, port); err == nil && got.Version == "v4" {
				return fmt.Sprintf("port %d answers as v4", port)
			}
		}
		return ""
	})
	defer vigil.stop()
	if err := s.approveVersion(ctx, "v4"); err != nil {
		return err
	}
	canary := s.readerPorts(readerCanary)[0]
	if err := s.until(ctx, patience, "the canary has v4", func(ctx context.Context) string {
		if got, err := search(ctx, canary); err != nil || got.Version != "v4" {
			return fmt.Sprintf("%+v %v", got, err)
		}
		return ""
	}); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the canary is back at v2", s.reads("v2", readerCanary, readerOthers)); err != nil {
		return err
	}
	if err := s.kept(vigil, "the canary lost a fifth of its searches and went back to v2; no other task of production had v4"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "v4 is vetoed", s.says("vetoed", "get", "versions")); err != nil {
		return err
	}
	if err := s.print(ctx, "rollout", "status", "reader"); err != nil {
		return err
	}
	return s.print(ctx, "get", "versions")
}

// says is met when a command prints the text.
func (s *stage) says(text string, arguments ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		output, err := s.quietly(ctx, arguments...)
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(output, text) {
			return fmt.Sprintf("lehr %s does not say %q: %s", quote(arguments), text, output)
		}
		return ""
	}
}
