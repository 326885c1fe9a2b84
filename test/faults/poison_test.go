package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"lehr.dev/test/building"
)

var poisonable struct {
	once   sync.Once
	folder string
	err    error
}

// poisonablePrograms are the programs, of which lehr has the defects of
// internal/prodspec/poison_on.go.
func poisonablePrograms(t *testing.T) string {
	t.Helper()
	programs := binaries(t)
	poisonable.once.Do(func() {
		poisonable.folder = filepath.Join(programs, "poisonable")
		if poisonable.err = os.Mkdir(poisonable.folder, 0o755); poisonable.err != nil {
			return
		}
		for _, same := range []string{"lehr-command", "production"} {
			if poisonable.err = os.Symlink(filepath.Join(programs, same), filepath.Join(poisonable.folder, same)); poisonable.err != nil {
				return
			}
		}
		lehr := building.Program{Of: "../../cmd/lehr", Flags: []string{"-tags", "lehr_poison"}}
		poisonable.err = lehr.At(filepath.Join(poisonable.folder, "lehr"))
	})
	if poisonable.err != nil {
		t.Fatal(poisonable.err)
	}
	return poisonable.folder
}

// An input that ends the server ends one life of it, and no second one (S12).
// The other tenant is served in every later life; the poisoned one is told, and
// released by a change or by a person.
func TestPoisonEndsOneLife(t *testing.T) {
	const definition, file = "# poison-%s.\n", "poison-%s.yaml"
	for name, c := range map[string]struct {
		how        string
		definition bool
		// survives: only an actor ends, and is started again.
		survives bool
		told     string
	}{
		"exit in a definition":   {how: "exit", definition: true, told: `exit status 7`},
		"exit in a source":       {how: "exit", told: `exit status 7`},
		"panic in a source":      {how: "panic", survives: true, told: `nil pointer`},
		"stack in a definition":  {how: "stack", definition: true, told: `stack`},
		"memory in a source":     {how: "memory", told: `out of memory|cannot allocate|failed to allocate`},
		"only the server itself": {how: "server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			programs := poisonablePrograms(t)
			h := &attack{world: newWorld(t, partition{name: "good"}), tenant: t.TempDir()}
			h.programs = programs
			serve := func() {
				h.serve("-p", h.at("lehr.yaml"))
				// The machine's memory is not the test's.
				most := uint64(600 << 20)
				if building.RaceFlags() != nil {
					most *= 4 // The race detector takes several times as much.
				}
				h.must(unix.Prlimit(h.server.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil))
			}
			h.fresh()
			h.wantBoth()
			serve()
			h.converges(values{"a": h.value, "t": h.mine})
			if c.definition {
				h.put("lehr.yaml", tenantDefinition+fmt.Sprintf(definition, c.how))
			} else {
				h.put("source/"+fmt.Sprintf(file, c.how), "a: 1")
			}
			lives := 1
			if !c.survives {
				<-h.server.ended
				t.Logf("the first life ended: %v", h.server.err)
				h.server = nil
				lives++
			}
			switch {
			case c.how == "server":
				h.start("-p", h.at("lehr.yaml")) // It may end before anybody could ask it.
			case !c.survives:
				serve()
			}
			if c.how == "server" {
				// The child lives, so the server tries once more, and then later
				// and later: its lives end, but not in a circle.
				<-h.server.ended
				h.server = nil
				h.put("source/service.yaml", "values: {}")
				h.must(os.Remove(h.at("source/poison-server.yaml")))
				h.wantIn(h.tenant, values{"t": h.mine + 1})
				serve()
				h.converges(values{"t": h.mine + 1})
				return
			}
			// quarantined: it is told, and the good partition goes on.
			quarantined := func() (told string) {
				h.await("the tenant is told", func() string {
					told = h.why("resource/t", "-p", "tenant")
					return unmatched(told, `quarantined`, `these sources end the process`, c.told, `lehr approve --candidate`)
				})
				h.besides(name)
				return told
			}
			t.Log(last(quarantined(), 900))
			for range 2 {
				h.kill()
				serve()
				lives++
				quarantined()
			}
			told, err := h.lehr("get", "candidates", "-p", "tenant")
			if missing := unmatched(told, `held`, `quarantined since`); missing != "" || err != nil {
				t.Error(missing, err)
			}
			plainText(t, "lehr get candidates", told)
			// Another poisoned change is tried in a child, and ends no life.
			pid := h.server.Process.Pid
			h.mine++
			h.wantIn(h.tenant, values{"t": h.mine})
			quarantined()
			h.mend()
			if h.server.Process.Pid != pid {
				t.Errorf("the server is process %d, and was %d", h.server.Process.Pid, pid)
			}
			t.Logf("%d lives, of which the poison ended at most one", lives)
		})
	}
}

// A person lets quarantined sources through, which ends the server once more,
// and is audited.
func TestPoisonIsLetThrough(t *testing.T) {
	t.Parallel()
	programs := poisonablePrograms(t)
	h := newWorld(t, partition{name: "let"})
	h.programs = programs
	h.want(values{"a": 1})
	h.serve()
	h.converges(values{"a": 1})
	h.write(h.definition, mustRead(t, h.definition)+"# poison-exit.\n")
	<-h.server.ended
	h.server = nil
	h.serve()
	told := h.awaitTold("resource/a", `quarantined`, `lehr approve --candidate`)
	candidate := newestCandidate(t, h, "let")
	if _, err := h.lehr("approve", "--candidate", candidate, "--reason", "the release notes say that it is mended"); err != nil {
		t.Fatal(err, told)
	}
	<-h.server.ended
	h.server = nil
	h.serve()
	h.await("it is quarantined again, so that the acknowledgement does not count for ever", func() string {
		if newestCandidate(t, h, "let") == candidate {
			return "the candidate is still " + candidate
		}
		return unmatched(h.why("resource/a"), `quarantined`)
	})
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// newestCandidate is the first digits of its digest.
func newestCandidate(t *testing.T, w *world, partition string) string {
	t.Helper()
	told, err := w.lehr("get", "candidates", "-p", partition)
	digest := regexp.MustCompile(`@~([0-9a-f]{8,})`).FindStringSubmatch(told)
	if err != nil || digest == nil {
		t.Fatalf("no candidate in %s %v", told, err)
	}
	return digest[1]
}
