package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/store"
)

// classes are the types of the simulator's own partition, the plugin that
// serves each, and what its targets compare.
var classes = []struct {
	kind  intent.TypeName
	run   string
	class plugin.Guarantee
}{
	{"lehr.process.v1.Job", "sim-n", plugin.Unguarded},
	{"lehr.caddy.v1.Balancer", "sim-c", plugin.CompareAndSet},
	{"lehr.sqlschema.v1.Schema", "sim-c", plugin.CompareAndSet},
	{"lehr.command.v1.Command", "sim-f", plugin.Fenced},
}

// Intent is what the sources of the simulator's own partition say.
type Intent struct {
	Things []Thing `yaml:"things"`
	// Broken is text that a file begins with, so that it cannot be read: that
	// of the records if Records, that of the service otherwise.
	Broken  string `yaml:"-"`
	Records bool   `yaml:"-"`
	// Slip says why this is not to be served; empty: it may be.
	Slip string `yaml:"-"`
	// Sealed: some things name a secret.
	Sealed bool `yaml:"-"`
	// Mode of the partition; Budget of pushes in flight in a cluster.
	Mode   string `yaml:"-"`
	Budget int    `yaml:"-"`
	// Rate of pushes of an asset within ratePeriod, and of twice as many in a
	// cluster; 0: as many as there are.
	Rate int `yaml:"-"`
	// Loose has a guard that lets most go; Over is the period of both.
	Loose bool          `yaml:"-"`
	Over  time.Duration `yaml:"-"`
	// Quorum of approvals, and whether checks may be overridden.
	Quorum int  `yaml:"-"`
	Lifts  bool `yaml:"-"`
	// Course of what rollouts govern; nil: nothing is governed.
	Course *Course `yaml:"-"`
	// Unhealthy is how many of a cluster may be unhealthy or pushed; 0: any.
	Unhealthy int `yaml:"-"`
	// Declares: some records have the addon Health.
	Declares bool `yaml:"-"`
	// Notices say when people are notified, and that there are secrets; empty: never.
	Notices string `yaml:"-"`
	// Hours are a calendar that says when a push may begin; empty: always.
	Hours string `yaml:"-"`
	// Protections are checks that a plugin is asked for.
	Protections string `yaml:"-"`
	// Delivers: an application is delivered.
	Delivers bool `yaml:"-"`
	// Across: the application that is delivered is another partition's.
	Across bool `yaml:"-"`
	// Previews: pull requests have previews.
	Previews bool `yaml:"-"`
	// Released: there is a line of releases, with applications of its own.
	Released bool `yaml:"-"`
	// Relaxed: what its trains bring to an environment is shown for some minutes, and not enforced.
	Relaxed bool `yaml:"-"`
	// Tasked: there is an application with tasks.
	Tasked bool `yaml:"-"`
	// Advised: a constraint of staging asks.
	Advised bool `yaml:"-"`
	// Ungranted is the environment whose field it may not set; empty: it may set all.
	Ungranted string `yaml:"-"`
	// Releases: a workflow runs.
	Releases bool `yaml:"-"`
	// Upgrades: devices take firmware.
	Upgrades bool `yaml:"-"`
	// Buckets: some things tell outputs, and others ask for them.
	Buckets bool `yaml:"-"`
	// Bindings of types that not always have a plugin; nil: there are none.
	Bindings *bindings `yaml:"-"`
	// Kept is how many older generations of a setting are; 0: no rule says so.
	Kept int `yaml:"-"`
	// merged: of a user's partition, what it is after its edit.
	merged bool
}

// Thing is one asset.
type Thing struct {
	ID string `yaml:"id"`
	// Kind is job, balancer, schema or command.
	Kind string `yaml:"kind"`
	// Name is the identity of the real thing; it stays under a rename.
	Name      string   `yaml:"name"`
	Scope     string   `yaml:"scope"`
	Text      string   `yaml:"text"`
	Count     int      `yaml:"count"`
	After     []string `yaml:"after"`
	Reads     []string `yaml:"reads"`
	Needs     string   `yaml:"needs"`
	Turndown  bool     `yaml:"turndown"`
	Mode      string   `yaml:"mode"`
	Approval  bool     `yaml:"approval"`
	Quorum    int      `yaml:"quorum"`
	Unmanaged bool     `yaml:"unmanaged"`
	// Asks is the bucket whose address a pool asks for; empty: none's.
	Asks string `yaml:"asks"`
	// Image of a job: another one replaces it.
	Image string `yaml:"image"`
}

// firstIntent is a service in two clusters: jobs behind balancers, over a
// schema, with a record that comes last.
func firstIntent() Intent {
	i := Intent{Mode: "enforce", Budget: 1, Over: guardPeriod, Quorum: 1, Lifts: true}
	i.Things = append(i.Things, Thing{ID: "schema/main", Kind: "schema", Name: "main", Text: "v1", Count: 2})
	for _, scope := range []string{"a", "b"} {
		i.Things = append(i.Things,
			Thing{ID: "job/" + scope, Kind: "job", Name: "job/" + scope, Scope: scope, Text: "v1", Count: 3, Needs: "v1"},
			Thing{ID: "balancer/" + scope, Kind: "balancer", Name: "balancer-" + scope, Scope: scope, Text: "t", Count: 3})
	}
	i.Things = append(i.Things,
		Thing{ID: "record/www", Kind: "command", Name: "www", Text: "a,b", After: []string{"balancer/a", "balancer/b"}, Reads: []string{"balancer/a"}},
		Thing{ID: "record/mail", Kind: "command", Name: "mail", Text: "m1", Approval: true})
	return i
}

func (i Intent) clone() Intent {
	i.Things = slices.Clone(i.Things)
	for at := range i.Things {
		i.Things[at].After = slices.Clone(i.Things[at].After)
		i.Things[at].Reads = slices.Clone(i.Things[at].Reads)
	}
	return i
}

// files are what a person has written, in the partition's folder.
func (i Intent) files() map[string]string {
	files := map[string]string{"/sim/lehr.yaml": i.definition(), "/sim/all.star": program, "/sim/records.star": recordProgram, "/sim/types/reads.proto": readsType}
	if i.Notices != "" {
		files["/sim/types/login.proto"] = loginType
		files["/sim/all.star"] += loginMaker
	}
	if i.Sealed {
		files["/sim/types/safe.proto"] = safeType
		files["/sim/all.star"] += safeMaker
	}
	if i.Buckets {
		files["/sim/types/bucket.proto"] = bucketTypes
		files["/sim/all.star"] += bucketMaker
	}
	if i.Delivers {
		files["/sim/web.star"], files["/sim/goods.star"] = deliveredProgram, goodsProgram
	}
	if i.Tasked {
		files["/sim/cart.star"] = cartProgram
	}
	if i.Previews {
		files["/sim/review.star"] = previewProgram
	}
	if i.Releases {
		files["/sim/course.star"], files["/sim/release.yaml"] = courseProgram, releaseWorkflow
	}
	if i.Upgrades {
		files["/sim/devices.star"] = upgradeProgram
	}
	if i.Bindings != nil {
		files["/sim/types/leaf.proto"] = leafTypes
		files["/sim/all.star"] += leafMaker
	}
	if i.Course != nil && i.Course.Fields {
		files["/sim/knobs.star"] = knobProgram
	}
	parts := map[string]Intent{serviceFile: {}, recordFiles[0]: {}, recordFiles[1]: {}}
	for _, t := range i.Things {
		name := t.file()
		parts[name] = Intent{Things: append(parts[name].Things, t)}
	}
	for name, part := range parts {
		text, err := yaml.Marshal(part)
		if err != nil {
			panic(err) // It is made of strings and numbers.
		}
		files[name] = string(text)
	}
	broken := serviceFile
	if i.Records {
		broken = recordFiles[0]
	}
	files[broken] = i.Broken + files[broken]
	return files
}

// The files of the service, and of the records, which are a source and a
// generator of their own.
const serviceFile = "/sim/intent.yaml"

var recordFiles = [2]string{"/sim/records/a.yaml", "/sim/records/b.yaml"}

// file that says the thing.
func (t Thing) file() string {
	switch {
	case t.Kind != "command":
		return serviceFile
	case t.ID < "record/n":
		return recordFiles[0]
	}
	return recordFiles[1]
}

// parts are the ids that each file says, as a word each. Files are read one
// after the other, so each is as it was at some time.
func (i Intent) parts() []string {
	ids := map[string][]string{}
	for _, t := range i.Things {
		ids[t.file()] = append(ids[t.file()], t.ID)
	}
	return words(ids)
}

func words(ids map[string][]string) (list []string) {
	for _, file := range []string{serviceFile, recordFiles[0], recordFiles[1]} {
		slices.Sort(ids[file])
		list = append(list, file+nothing+strings.Join(ids[file], " "))
	}
	return list
}

// nothing follows a file's name, and is all that does when it has no assets.
const nothing = ": "

func (i Intent) definition() string {
	share, floor := 30, 1
	if i.Loose {
		share, floor = 70, 4
	}
	text := fmt.Sprintf(definition, i.Mode, share, floor, i.Over, i.Budget, i.Quorum)
	if i.Rate > 0 {
		text += fmt.Sprintf("  often: {at_most: %d, per: %s, by: asset}\n  together: {at_most: %d, per: %s, scope: cluster}\n", i.Rate, ratePeriod, 2*i.Rate, ratePeriod)
	}
	if i.Lifts {
		text += "  overrides: {allow: [order, capacity, version], longest: 1h}\n"
	}
	if i.Unhealthy > 0 {
		text = strings.Replace(text, "budget: {scope: cluster, ", fmt.Sprintf("budget: {scope: cluster, unhealthy: %d, ", i.Unhealthy), 1)
	}
	if i.Declares {
		text = declaresAddon(text)
	}
	text += i.Hours + i.Protections + i.generationRule()
	if i.Notices != "" {
		text = strings.Replace(text, "plugins:\n", "plugins:\n  Login: {run: [sim-login, sim.v1.Login]}\n", 1) + i.Notices
	}
	if i.Sealed {
		text = strings.Replace(text, "plugins:\n", "plugins:\n  Safe: {run: [sim-safe, sim.v1.Safe]}\n", 1)
	}
	if i.Buckets {
		text = bindsBuckets(text)
	}
	if i.Delivers {
		text = deliver(text, i.Across, i.Ungranted)
		if i.Advised {
			text = addAdviser(text)
		}
		if i.Released {
			text = addReleases(text)
		}
		if i.Relaxed {
			text = addTrainCheck(text)
		}
		if i.Tasked {
			text = addTasks(text)
		}
	}
	if i.Previews {
		text = addPreviews(text)
	}
	if i.Releases {
		text = addWorkflow(text)
	}
	if i.Upgrades {
		text = addUpgrades(text)
	}
	if i.Bindings != nil {
		text = i.Bindings.definition(text)
	}
	switch {
	case i.Course != nil && i.Course.Fields:
		return i.Course.setsFields(text)
	case i.Course != nil:
		return text + i.Course.definition()
	}
	return text
}

// ratePeriod is that of rate limits: long enough for restarts within it.
const ratePeriod = time.Minute

// guardPeriod is the period of guards: less than the collector keeps, or they
// could not tell. In some runs both are short, so that much is collected.
const guardPeriod, briefPeriod = 20 * time.Minute, time.Minute

// brief reports whether it is so in this run.
func (l *Lab) brief() bool { return l.options.Definition == "" && l.options.Seed%4 == 3 }

// collecting is what the collector keeps in this run.
func (l *Lab) collecting() app.Collecting {
	keep := store.Retention{Incarnations: 3, Period: guardPeriod + time.Minute, History: 30 * time.Minute}
	if l.brief() {
		keep.Period = briefPeriod + 30*time.Second
		return app.Collecting{Every: time.Minute, Keep: keep}
	}
	return app.Collecting{Every: 10 * time.Minute, Keep: keep}
}

// readsType is an addon that names what its asset's plugin reads as well.
const readsType = `edition = "2023";
package sim.v1;
import "lehr/intent/v1/options.proto";
message Reads { repeated string of = 1 [(lehr.intent.v1.reference) = {read: true}]; }
`

// reads tells the monitor what assets read; of another partition it cannot.
func (l *Lab) reads() func(intent.Asset) []intent.AssetID {
	if l.options.Definition != "" {
		return nil
	}
	return reads
}

// reads lists what the addon says, by its bytes alone.
func reads(asset intent.Asset) (list []intent.AssetID) {
	addon, _ := asset.Addon("sim.v1.Reads")
	for rest := addon.Bytes; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		_, _, tag := protowire.ConsumeTag(rest)
		if n < 0 || tag < 0 {
			return list
		}
		if other, size := protowire.ConsumeBytes(rest[tag:]); size > 0 {
			list = append(list, intent.AssetID(other))
		}
		rest = rest[n:]
	}
	return list
}

// guard is what the first of them says.
func (l *Lab) guard() monitor.Guard {
	if l.options.Definition != "" {
		return monitor.Guard{}
	}
	return monitor.Guard{Share: 0.30, Floor: 1, Period: l.first.Over}
}

const definition = `lehr: v1
partition: sim
owner: sim@example.com
mode: %s
types: {dir: types, files: ["*.proto"]}
sources:
  intent: {dir: ., files: [intent.yaml]}
  records: {dir: records, files: ["*.yaml"]}
generate:
  all: {starlark: all.star, from: [intent]}
  more: {starlark: records.star, from: [records]}
  order:
    derive: Dependencies
    where: type == "Job"
    edges:
      - {rule: capacity, on: '"balancer/" + scope', serves: tasks, expects: upstreams}
      - {rule: version, on: '"schema/main"', at_least: labels.needs, when: '"needs" in labels'}
  tasks:
    derive: Capacity
    where: type == "Job"
    dimensions: {tasks: payload.replicas}
  upstreams:
    derive: Capacity
    where: type == "Balancer"
    dimensions: {upstreams: payload.upstreams.size()}
  versions:
    derive: Version
    where: type == "Schema"
    expression: payload.version
validate:
  shrink: {max: %d%%, floor: %d, over: %s}
plugins:
  Job: {run: sim-n}
  Balancer: {run: sim-c}
  Schema: {run: sim-c}
  Command: {run: sim-f}
checks:
  budget: {scope: cluster, in_flight: %d}
  approval: {quorum: %d, expires: 30m}
`

const program = `
def generate(ctx):
    return [made(thing) for thing in yaml("intent.yaml")["things"]]
` + makers

// recordProgram takes whatever files there are.
const recordProgram = `
def generate(ctx):
    return [made(thing) for name in ctx.files for thing in yaml(name)["things"]]
` + makers

const makers = `
def made(t):
    return asset(t["id"], makers[t["kind"]](t), addons = addons(t))

def job(t):
    return lehr.process.v1.Job(name = t["name"], replicas = t["count"], binary = "/bin/serve" + t["image"], version = t["text"])

def balancer(t):
    return lehr.caddy.v1.Balancer(admin = "localhost:2019", name = t["name"], listen = [":80"], upstreams = {
        str(i): lehr.caddy.v1.Upstream(address = "%s%d:80" % (t["text"], i), weight = 1)
        for i in range(t["count"])
    })

def schema(t):
    return lehr.sqlschema.v1.Schema(database = "sqlite:/" + t["name"], sql = "tables %d" % t["count"], version = t["text"])

def command(t):
    return lehr.command.v1.Command(diff = ["true"], push = ["true"], input = t["text"])

makers = {"job": job, "balancer": balancer, "schema": schema, "command": command}

modes = {"observe": "ENFORCEMENT_MODE_OBSERVE", "off": "ENFORCEMENT_MODE_OFF"}

def addons(t):
    list = []
    if t["scope"]:
        list.append(lehr.intent.v1.ImpactedScope(scopes = {"cluster": t["scope"]}))
    if t["after"]:
        list.append(lehr.intent.v1.Dependencies(dependencies = [
            lehr.intent.v1.Dependency(on = on, rule = "RULE_ORDER")
            for on in t["after"]
        ]))
    if t["reads"]:
        list.append(sim.v1.Reads(of = t["reads"]))
    if t["needs"]:
        list.append(lehr.intent.v1.Labels(labels = {"needs": t["needs"]}))
    if t["turndown"]:
        list.append(lehr.intent.v1.Turndown(reason = "not needed any more"))
    if t["mode"]:
        list.append(lehr.intent.v1.Mode(mode = modes[t["mode"]]))
    if t["approval"]:
        list.append(lehr.intent.v1.Approval(reason = "mail is precious", quorum = t["quorum"]))
    if t["unmanaged"]:
        list.append(lehr.intent.v1.Unmanaged(fields = [lehr.intent.v1.UnmanagedField(path = "replicas", reason = "the autoscaler's")]))
    return list
`
