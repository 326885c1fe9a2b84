package nemesis

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/canary"
)

// patience bounds every wait for something that is to come. It is long for
// slow machines; what is promised sooner is judged apart.
const patience = 90 * time.Second

// world is production, three replicas, their database, and people.
type world struct {
	*testing.T
	seed   uint64
	random *rand.Rand
	// programs holds the binaries, records what is kept of a run that failed.
	programs, folder, records, socket string
	mutants                           string
	// shifts: processes may have clocks that count from elsewhere.
	shifts bool

	target     *target
	database   *database
	partitions []*partition
	replicas   []*replica
	vigil      *vigil
	scribe     *scribe
	people     *people

	// secrets are planted in the replicas' environment, and in a file beside what
	// they read. They show nowhere (S13).
	secrets             canary.Canaries
	environment, hidden []string

	// lived are all lives by their process ids.
	lived   map[int]*life
	history *history
	tally   tally
	// calm is held by who measures: meanwhile nobody stops partitions, nor
	// breaks anything else.
	calm sync.RWMutex
}

// partition of one class of things.
type partition struct {
	id     string
	class  plugin.Guarantee
	folder string

	mutex sync.Mutex
	// serial is the newest value.
	serial int
	wishes map[string]*wish
}

// wish is what the source says of a thing.
type wish struct {
	Value    string `json:"value"`
	Disk     string `json:"disk"`
	Site     string `json:"site"`
	Turndown bool   `json:"turndown"`
	// dropped: the source does not speak of it.
	dropped bool
}

const (
	thingsEach = 8
	inFlight   = 2
	// pulses are things that nobody brakes and every edit changes: there is
	// always something to do for a partition.
	pulses = 2
)

func thing(n int) string { return fmt.Sprint("thing/", n) }

func pulse(n int) string { return fmt.Sprint("pulse/", n) }

func (p *partition) definition() string { return filepath.Join(p.folder, "lehr.yaml") }

const program = `
def generate(ctx):
    things = yaml("source/things.yaml")
    return [make(name, things[name]) for name in things]

def text(value):
    return google.protobuf.Value(string_value = value)

def make(name, thing):
    addons = [lehr.intent.v1.ImpactedScope(scopes = {"site": thing["site"]})]
    if thing["turndown"]:
        addons.append(lehr.intent.v1.Turndown(reason = "no longer needed"))
    return asset(
        name,
        google.protobuf.Struct(fields = {"value": text(thing["value"]), "disk": text(thing["disk"]), "site": text(thing["site"])}),
        addons = addons,
    )
`

// newPartition writes a definition.
func (w *world) newPartition(id string, class plugin.Guarantee) *partition {
	p := &partition{id: id, class: class, folder: filepath.Join(w.folder, "sources", id), serial: 1, wishes: map[string]*wish{}}
	for n := range thingsEach {
		p.wishes[thing(n)] = &wish{Value: "1", Disk: "10", Site: []string{"east", "west"}[n%2]}
	}
	for n := range pulses {
		p.wishes[pulse(n)] = &wish{Value: "1", Disk: "10", Site: fmt.Sprint("pulse-", n)}
	}
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(p.folder, "source"), 0o755); err != nil {
		w.Fatal(err)
	}
	for name, text := range map[string]string{
		"things.star": program,
		"lehr.yaml": fmt.Sprintf(`lehr: v1
partition: %s
mode: enforce
sources:
  things: {dir: source, files: [things.yaml]}
generate:
  assets: {starlark: things.star, from: [things]}
validate:
  shrink: {max: 100%%, floor: 100}
plugins:
  google.protobuf.Struct: {run: [%s, %s, %q]}
checks:
  budget: {scope: site, in_flight: %d}
`, id, self, pluginArgument, class, inFlight),
	} {
		if err := os.WriteFile(filepath.Join(p.folder, name), []byte(text), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	p.edit(w, func() {})
	return p
}

// edit changes wishes and writes the source, at once, as editors do.
func (p *partition) edit(w *world, change func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	change()
	said := maps.Clone(p.wishes)
	maps.DeleteFunc(said, func(_ string, wish *wish) bool { return wish.dropped })
	text, err := json.Marshal(said)
	path := filepath.Join(p.folder, "source", "things.yaml")
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		w.Error(err)
	}
}

// value is one never used before.
func (p *partition) value() string {
	p.serial++
	return strconv.Itoa(p.serial)
}

// newWorld is one in which nothing is yet. It is to be closed.
func newWorld(t *testing.T, programs string, seed uint64, mutants string) *world {
	return &world{
		T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), programs: programs, mutants: mutants,
		lived: map[int]*life{}, vigil: newVigil(), tally: newTally(),
	}
}

// begin starts everything, and waits until production is there. What it records
// is kept when the test fails.
func (w *world) begin() {
	w.Helper()
	var err error
	if w.records, err = os.MkdirTemp("", "lehr-nemesis-records-"); err != nil {
		w.Fatal(err)
	}
	if w.folder, err = os.MkdirTemp("", "lehr-nemesis-"); err != nil {
		w.Fatal(err)
	}
	// PostgreSQL runs as somebody else.
	if err := os.Chmod(w.folder, 0o755); err != nil {
		w.Fatal(err)
	}
	w.history = &history{
		Audit: map[string][]record{}, Contents: map[string][]version{}, Deaths: map[string]time.Duration{}, Epochs: map[string]uint64{},
		Heads: map[string]uint64{}, Pins: map[string]bool{}, Holds: map[string]bool{}, Wanted: map[string]content{}, Has: map[string]state{}, InFlight: inFlight,
	}
	w.socket = filepath.Join(w.folder, "target")
	if w.target, err = newTarget(w.socket, filepath.Join(w.records, "effects.json")); err != nil {
		w.Fatal(err)
	}
	w.shifts = exec.Command("unshare", "--time", "--boottime", "1000", "true").Run() == nil
	w.newDatabase()
	for _, class := range []plugin.Guarantee{plugin.Fenced, plugin.CompareAndSet, plugin.Unguarded} {
		for n := range 2 {
			w.partitions = append(w.partitions, w.newPartition(fmt.Sprintf("%c%d", class[0]|0x20, n+1), class))
		}
	}
	w.environment = w.secrets.Environment("AWS_SECRET_ACCESS_KEY", "PGPASSWORD")
	for _, p := range w.partitions {
		file := filepath.Join(p.folder, ".env")
		if err := os.WriteFile(file, []byte("PASSWORD="+w.secrets.Plant(file)+"\n"), 0o600); err != nil {
			w.Fatal(err)
		}
		w.hidden = append(w.hidden, file)
	}
	for _, name := range []string{"a", "b", "c"} {
		w.replicas = append(w.replicas, w.newReplica(name))
	}
	w.Logf("networks of their own: %t; clocks from elsewhere: %t; disks that fill: %t", w.replicas[0].alone, w.shifts, w.database.disks[w.database.primary] != nil)
	for _, r := range w.replicas {
		r.start(w.binary(), 0, 0)
		r.answers()
	}
	w.scribe = w.newScribe()
	w.await("production is there", patience, func() string {
		for _, p := range w.partitions {
			for name := range p.wishes {
				if w.target.has(p.id + "/" + name).Gone {
					return p.id + "/" + name
				}
			}
		}
		return ""
	})
	w.people = w.newPeople()
}

// binaries that replicas run: this build, and one that counts as the next.
var builds = []string{"lehr", "lehr-next"}

func (w *world) binary() string { return builds[w.random.IntN(len(builds))] }

// now is the one clock.
func (w *world) now() time.Duration { return sinceBoot() }

// wait lets the world go on for a while.
func (w *world) wait(period time.Duration) { time.Sleep(period) }

// await waits until a condition says nothing more, and reports how long that
// took.
func (w *world) await(what string, most time.Duration, condition func() string) time.Duration {
	w.Helper()
	began := w.now()
	for {
		missing := condition()
		took := w.now() - began
		if missing == "" {
			return took
		}
		if took-w.vigil.between(began, w.now()) > most {
			w.Fatalf("not within %s: %s: %s", most, what, missing)
		}
		time.Sleep(beat)
	}
}

// holders are the replicas' lives that act, by partition, and the epochs.
func (w *world) holders() (map[string]*life, map[string]uint64, error) {
	lives, epochs := map[string]*life{}, map[string]uint64{}
	err := w.database.ask("SELECT id, holder, epoch FROM partitions", func(scan func(...any) error) error {
		var id, holder string
		var epoch uint64
		err := scan(&id, &holder, &epoch)
		lives[id], epochs[id] = w.lifeOf(holder), epoch
		return err
	})
	return lives, epochs, err
}

// lifeOf is the process that a holder's name speaks of.
func (w *world) lifeOf(holder string) *life {
	parts := splitHolder(holder)
	if len(parts) != 3 {
		return nil
	}
	pid, _ := strconv.Atoi(parts[1])
	return w.lived[pid]
}

// close ends everything, whatever is there of it.
func (w *world) close() {
	w.Helper()
	if w.people != nil {
		w.people.close()
	}
	if w.scribe != nil {
		w.scribe.close()
	}
	for _, r := range w.replicas {
		r.close()
	}
	if w.database != nil {
		w.database.close()
	}
	if w.target != nil {
		if err := w.target.close(); err != nil {
			w.Error(err)
		}
	}
	w.vigil.close()
	if w.folder == "" {
		return
	}
	if err := os.RemoveAll(w.folder); err != nil {
		w.Error(err)
	}
	if w.Failed() {
		w.Logf("seed %d; its records are kept in %s", w.seed, w.records)
		return
	}
	if err := os.RemoveAll(w.records); err != nil {
		w.Error(err)
	}
}

// names of all things, in their order.
func (p *partition) names() []string { return slices.Sorted(maps.Keys(p.wishes)) }
