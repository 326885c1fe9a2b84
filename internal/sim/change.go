package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// edit is one thing that people do to sources. It returns what it did, or
// nothing when there was nothing to do it to.
type edit func(i *Intent, r *rand.Rand) string

// touches are edits of content alone, which lead to pushes.
var touches = edits[:touching]

const touching = 7

// of is an edit of one thing of a kind; of any kind when it is empty.
func of(kind string, do func(t *Thing, r *rand.Rand) string) edit {
	return func(i *Intent, r *rand.Rand) string {
		if t := i.any(r, kind); t != nil {
			return do(t, r)
		}
		return ""
	}
}

// edits of every field there is, sensible ones and slips.
var edits = []edit{
	of("job", func(t *Thing, r *rand.Rand) string {
		t.Count = 1 + r.IntN(5)
		return fmt.Sprintf("%s has %d replicas", t.ID, t.Count)
	}),
	of("balancer", func(t *Thing, r *rand.Rand) string {
		t.Count = 1 + r.IntN(5)
		return fmt.Sprintf("%s has %d upstreams", t.ID, t.Count)
	}),
	func(i *Intent, r *rand.Rand) string { // Both, as an autoscaling person does.
		job, balancer := i.find("job/a"), i.find("balancer/a")
		if job == nil || balancer == nil {
			return ""
		}
		job.Count = 1 + r.IntN(5)
		balancer.Count = job.Count
		return fmt.Sprintf("cluster a has size %d", job.Count)
	},
	of("job", func(t *Thing, r *rand.Rand) string {
		t.Text = fmt.Sprintf("v%d", 1+r.IntN(9))
		return fmt.Sprintf("%s runs %s", t.ID, t.Text)
	}),
	func(i *Intent, r *rand.Rand) string { // A version that needs a schema.
		t, schema := i.any(r, "job"), i.find("schema/main")
		if t == nil || schema == nil {
			return ""
		}
		t.Needs = fmt.Sprintf("v%d", 1+r.IntN(12))
		if r.IntN(3) > 0 {
			schema.Text, schema.Count = t.Needs, 1+r.IntN(5)
		}
		return fmt.Sprintf("%s needs schema %s, which is %s", t.ID, t.Needs, schema.Text)
	},
	of("command", func(t *Thing, r *rand.Rand) string {
		t.Text = fmt.Sprintf("text %d", r.IntN(5))
		return fmt.Sprintf("%s says %q", t.ID, t.Text)
	}),
	func(i *Intent, r *rand.Rand) string {
		t := i.any(r, "command")
		if t == nil {
			return ""
		}
		t.After = nil
		for _, other := range i.Things {
			if other.Kind != "command" && r.IntN(3) == 0 {
				t.After = append(t.After, other.ID)
			}
		}
		return fmt.Sprintf("%s comes after %s", t.ID, strings.Join(t.After, ", "))
	},
	func(i *Intent, r *rand.Rand) string {
		t := i.any(r, "")
		if t == nil || len(i.Things) < 4 {
			return ""
		}
		id := t.ID
		i.Things = slices.DeleteFunc(i.Things, func(other Thing) bool { return other.ID == id })
		i.forget(id)
		return id + " is left out"
	},
	of("", func(t *Thing, _ *rand.Rand) string {
		t.Turndown = !t.Turndown
		return fmt.Sprintf("turndown of %s: %t", t.ID, t.Turndown)
	}),
	func(i *Intent, r *rand.Rand) string { // A rename: another id for the same thing.
		t := i.any(r, []string{"job", "command", "command", "balancer", ""}[r.IntN(5)])
		if t == nil {
			return ""
		}
		return i.rename(t, fmt.Sprintf("%s-%d", strings.SplitN(t.ID, "-", 2)[0], r.IntN(3)))
	},
	func(i *Intent, r *rand.Rand) string { // Two assets for one thing.
		t := i.any(r, []string{"job", "balancer"}[r.IntN(2)])
		if t == nil || len(i.Things) > 12 {
			return ""
		}
		twin := *t
		twin.ID, twin.After, twin.Reads = fmt.Sprintf("twin/%d", r.IntN(3)), nil, nil
		if i.count(twin.ID) > 0 {
			return ""
		}
		i.Things = append(i.Things, twin)
		return fmt.Sprintf("%s names the same thing as %s", twin.ID, t.ID)
	},
	func(i *Intent, r *rand.Rand) string {
		if len(i.Things) > 12 {
			return ""
		}
		t := Thing{ID: fmt.Sprintf("record/new%d", r.IntN(4)), Kind: "command", Text: "new"}
		t.Name = t.ID
		if i.count(t.ID) > 0 {
			return ""
		}
		i.Things = append(i.Things, t)
		return t.ID + " is new"
	},
	of("", func(t *Thing, r *rand.Rand) string {
		t.Mode = []string{"", "", "", "observe", "off"}[r.IntN(5)]
		return fmt.Sprintf("mode of %s: %q", t.ID, t.Mode)
	}),
	of("", func(t *Thing, _ *rand.Rand) string {
		t.Approval = !t.Approval
		return fmt.Sprintf("approval of %s: %t", t.ID, t.Approval)
	}),
	of("", func(t *Thing, r *rand.Rand) string {
		t.Quorum = r.IntN(3)
		return fmt.Sprintf("%s asks for %d people, where it asks for any", t.ID, t.Quorum)
	}),
	func(i *Intent, _ *rand.Rand) string {
		i.Quorum = 3 - i.Quorum
		return fmt.Sprintf("%d must approve", i.Quorum)
	},
	func(i *Intent, _ *rand.Rand) string {
		i.Lifts = !i.Lifts
		return fmt.Sprintf("checks may be overridden: %t", i.Lifts)
	},
	of("job", func(t *Thing, _ *rand.Rand) string {
		t.Unmanaged = !t.Unmanaged
		return fmt.Sprintf("replicas of %s are the autoscaler's: %t", t.ID, t.Unmanaged)
	}),
	of("job", func(t *Thing, r *rand.Rand) string {
		t.Image = []string{"", "-next", "-old"}[r.IntN(3)]
		return fmt.Sprintf("%s runs the image serve%s", t.ID, t.Image)
	}),
	func(i *Intent, r *rand.Rand) string {
		i.Budget = 1 + r.IntN(3)
		return fmt.Sprintf("budget %d", i.Budget)
	},
	func(i *Intent, r *rand.Rand) string {
		i.Rate = []int{0, 1, 2, 3}[r.IntN(4)]
		return fmt.Sprintf("at most %d pushes within %s", i.Rate, ratePeriod)
	},
	func(i *Intent, r *rand.Rand) string {
		i.Mode = []string{"enforce", "enforce", "enforce", "observe"}[r.IntN(4)]
		return "the partition's mode is " + i.Mode
	},
	func(i *Intent, r *rand.Rand) string {
		i.Loose = !i.Loose
		return fmt.Sprintf("without a guard: %t", i.Loose)
	},
}

// rename gives a thing another id, unless something has it.
func (i *Intent) rename(t *Thing, id string) string {
	old := t.ID
	if i.count(id) > 0 {
		return ""
	}
	t.ID = id
	for at := range i.Things {
		if i.Things[at].Asks == old {
			i.Things[at].Asks = id
		}
		for _, named := range [][]string{i.Things[at].After, i.Things[at].Reads} {
			for n, other := range named {
				if other == old {
					named[n] = id
				}
			}
		}
	}
	return fmt.Sprintf("%s is called %s", old, id)
}

// any thing of a kind; of all kinds when it is empty.
func (i *Intent) any(r *rand.Rand, kind string) *Thing {
	var found []*Thing
	for at := range i.Things {
		if kind == "" || i.Things[at].Kind == kind {
			found = append(found, &i.Things[at])
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[r.IntN(len(found))]
}

func (i *Intent) find(id string) *Thing {
	for at := range i.Things {
		if i.Things[at].ID == id {
			return &i.Things[at]
		}
	}
	return nil
}

func (i *Intent) count(id string) (n int) {
	for _, t := range i.Things {
		if t.ID == id {
			n++
		}
	}
	return n
}

// forget takes an id out of what others come after, and read.
func (i *Intent) forget(id string) {
	is := func(other string) bool { return other == id }
	for at := range i.Things {
		i.Things[at].After = slices.DeleteFunc(i.Things[at].After, is)
		i.Things[at].Reads = slices.DeleteFunc(i.Things[at].Reads, is)
		if i.Things[at].Asks == id {
			i.Things[at].Asks = ""
		}
	}
}

// write puts the first intent into the sources; of a user's partition, what
// its folder holds.
func (l *Lab) write() error {
	if l.options.Definition != "" {
		return l.copyFolders()
	}
	l.first = firstIntent()
	if l.brief() {
		l.first.Over = briefPeriod
	}
	if l.options.Seed%3 == 1 {
		l.first.Rate = 3
	}
	if l.judged() {
		l.first.Protections = protections(l.stream("protections"))
	}
	if l.tells() {
		l.first.Notices = notices(nil)
		l.first.Things = append(l.first.Things, logins()...)
	}
	if l.rotating() {
		l.first.Sealed = true
		l.first.Things = append(l.first.Things, safes()...)
	}
	if l.asksOutputs() {
		l.first.Buckets = true
		l.first.Things = append(l.first.Things, buckets()...)
	}
	if l.delivers() {
		l.first.Delivers, l.first.Across, l.first.Advised, l.first.Released, l.first.Relaxed, l.first.Tasked = true, l.deliveryHome() != l.partition, l.asksAdviser(), l.hasReleases(), l.hasReleases() && RelaxesTrains(l.options.Seed), l.hasTasks()
		l.delivering = newDelivering()
	}
	l.first.Previews, l.pulls.requests = l.previews(), map[int]*pull{}
	l.first.Releases = l.releases()
	l.first.Upgrades = l.upgrades()
	if l.byHours() {
		l.first.Hours = someHours(l.stream("hours"))
	}
	l.govern()
	l.ail()
	l.pair()
	l.scatter()
	l.set()
	l.intent, l.good, l.said = l.first.clone(), l.first.clone(), map[string]bool{}
	l.says(l.first)
	l.Sources.Write(l.intent.files())
	if home := l.deliveryHome(); home != l.partition {
		l.Sources.Write(releasesFiles(l.partition))
	}
	if l.underCommon() {
		l.writeCommon("observe", 0)
	}
	return nil
}

// hopeful is how long people wait for what they wrote to be served, before
// they begin again from what is.
const hopeful = 15 * time.Second

// change makes edits and saves them.
func (l *Lab) change(number int, r *rand.Rand, count int, from []edit) {
	if l.options.Definition != "" {
		l.saveUser(number, !l.merged)
		return
	}
	next := l.good.clone()
	if sound := l.intent.Slip == "" && l.intent.Broken == ""; sound && (l.Now().Sub(l.changed) < hopeful || r.IntN(4) == 0) {
		next = l.intent.clone()
	}
	if len(next.Things) < 4 {
		next = l.first.clone()
	}
	var done []string
	for range count {
		if action := from[r.IntN(len(from))](&next, r); action != "" {
			done = append(done, action)
		}
	}
	l.save(number, next, strings.Join(done, "; "))
}

// save makes an intent what the sources say.
func (l *Lab) save(number int, next Intent, what string) {
	if l.healing && number >= 0 {
		return // By somebody who waited for an answer until now.
	}
	if l.options.Definition != "" {
		l.saveUser(number, number < 0 || next.merged)
		return
	}
	next.Over = l.first.Over
	l.intent = next
	l.changed = l.Now()
	if next.find(slipped) == nil && next.Broken == "" {
		l.says(next)
	}
	l.tell("#%d edit: %s", number, what)
	l.Sources.Write(next.files())
}

// says remembers what may be served.
func (l *Lab) says(i Intent) {
	for _, part := range i.parts() {
		l.said[part] = true
	}
}
