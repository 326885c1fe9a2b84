package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/store"
)

// In runs that deliver, an application moves from test by staging to production. Versions are
// built, some of them bad; names are moved to other digests; people vote and act; programs that
// verify lie, hang and die, and go on when who began them is gone.

// Disturbances of runs that deliver.
const (
	VersionBuilt    Kind = "a version is built"
	VersionVoted    Kind = "people vote on a version"
	DeliveryAct     Kind = "somebody acts on delivery"
	DeliveryEdited  Kind = "somebody edits what delivery sets, or what is beside it"
	DeliveryProgram Kind = "a program that verifies goes wrong"
	DeliveryMoment  Kind = "a version is built, and something happens around a step of delivery"
)

var deliveryKinds = []weighed{{VersionBuilt, 34}, {VersionVoted, 50}, {DeliveryAct, 30}, {DeliveryEdited, 16}, {DeliveryProgram, 14}, {DeliveryMoment, 16}, {DeliveryStory, 160}}

const (
	// application is delivered, as its fields document says, in versions of another document.
	application, fieldsDocument, buildsDocument = "web", "fields", "builds"
	// deliveredPrefix is how its assets are called.
	deliveredPrefix = "web-"
)

// deliveredEnvironments in the order in which versions come to them.
var deliveredEnvironments = []string{"test", "staging", "production"}

// firstRelease is what all environments have first.
var firstRelease = monitor.Release{Name: "1.0.0", Digest: "sha256:0"}

// deliveredProgram makes an asset for each environment, of all that its field says.
const deliveredProgram = `
def generate(ctx):
    return [asset("web-" + name, lehr.command.v1.Command(diff = ["true"], push = ["true"],
                  input = " ".join([field["version"], field["digest"], field["knob"]])))
            for name, field in json("fields/fields.json").items()]
`

// deliveredDefinition has production let in two versions an hour or so, which two people approve.
const deliveredDefinition = `delivery:
  web:
    versions: builds
    environments:
      test:
        set: {document: fields, field: /test/version, digest: /test/digest}
        assets: id == "web-test"
        verify: {smoke: {command: [/bin/smoke], timeout: 1m}}
        retry: 5m
      staging:
        set: {document: fields, field: /staging/version, digest: /staging/digest}
        assets: id == "web-staging"
        verify: {smoke: {command: [/bin/smoke], timeout: 1m}}
        retry: 5m
        constraints:
          tested: {depends_on: [test], stable: 1m}
      production:
        set: {document: fields, field: /production/version, digest: /production/digest}
        assets: id == "web-production"
        retry: 5m
        constraints:
          staged: {depends_on: [staging]}
          soaked: {soak: 2m, in: [staging], hotfixes: false}
          people: {judgement: 2, expires: 30m}
          office: {zone: UTC, open: [%s], at_most: 2}
`

// Delivers reports whether an application is delivered in runs of a seed.
func Delivers(seed uint64) bool { return seed%27 == 16 }

// delivers reports whether one is in this run.
func (l *Lab) delivers() bool { return l.options.Definition == "" && Delivers(l.options.Seed) }

// delivering is what is known of the application beside Lehr.
type delivering struct {
	// built are all versions, the oldest first, bad those that do not work.
	built []monitor.Release
	bad   map[monitor.Release]bool
	next  int
	// troubles of the programs that are begun next.
	troubles []string
	// storyUntil is when the story that is told is over.
	storyUntil time.Time
	// paused: the helpful people have ended delivery.
	paused bool
	// wares are how many versions were built for releases.
	wares int
}

// isDelivered reports whether an asset is an application's, or a preview's.
func (l *Lab) isDelivered(asset intent.AssetID) bool {
	if l.previews() {
		return strings.HasPrefix(string(asset), monitor.PreviewPrefix)
	}
	return l.delivers() && (strings.HasPrefix(string(asset), deliveredPrefix) || strings.HasPrefix(string(asset), goodsPrefix))
}

// deliver adds the application to a definition, or what its home needs there.
func deliver(text string, across bool, ungranted string) string {
	generator := "generate:\n  web: {starlark: web.star, from: [fields]}\n"
	if across {
		return strings.Replace(text, "generate:\n", "  fields: {document: fields}\n"+generator, 1) + grants(ungranted)
	}
	return strings.Replace(text, "generate:\n", "  fields: {document: fields}\n  builds: {pushed: builds, file: builds.json}\n"+generator, 1) + applicationText()
}

// applicationText is the section delivery of a definition.
func applicationText() string {
	var windows []string
	for _, w := range monitor.DeliveryWindows() {
		windows = append(windows, fmt.Sprintf("%q", w))
	}
	return fmt.Sprintf(deliveredDefinition, strings.Join(windows, ", "))
}

// newDelivering is what there is before anything is built.
func newDelivering() delivering { return delivering{bad: map[monitor.Release]bool{}} }

// deliveryWatch is what the monitor is to know of delivery; nil: there is none in this run.
func (l *Lab) deliveryWatch() *monitor.Delivered {
	if !l.delivers() {
		return nil
	}
	return &monitor.Delivered{Home: l.deliveryHome(), Application: application, Document: fieldsDocument, Prefix: deliveredPrefix, Advised: l.asksAdviser(), Released: l.hasReleases(), Relaxed: RelaxesTrains(l.options.Seed), Tasked: l.hasTasks()}
}

// keepVersions makes the documents where there are none, and ends delivery once all is healed.
func (p person) keepVersions() error {
	if !p.delivers() {
		return nil
	}
	fields := map[string]map[string]string{}
	for _, name := range deliveredEnvironments {
		fields[name] = map[string]string{"version": firstRelease.Name, "digest": firstRelease.Digest, "knob": "0"}
	}
	builds := map[string]map[string]string{firstRelease.Name: {"digest": firstRelease.Digest}}
	// In this order: the same seed is to give the same run.
	documents := []struct {
		name    string
		content map[string]map[string]string
	}{{fieldsDocument, fields}, {buildsDocument, builds}}
	if p.hasTasks() {
		for _, name := range []string{monitor.CartDocument, waresDocument} {
			documents = append(documents, struct {
				name    string
				content map[string]map[string]string
			}{name, cartDocuments()[name]})
		}
	}
	if p.hasReleases() {
		for _, name := range []string{monitor.GoodsDocument, waresDocument} {
			documents = append(documents, struct {
				name    string
				content map[string]map[string]string
			}{name, goodsDocuments()[name]})
		}
	}
	for _, begun := range documents {
		name, content := begun.name, begun.content
		partition := p.partitionOf(name)
		_, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: partition, Name: name})
		if fault.Is(err, fault.NotFound) {
			text, marshalErr := json.Marshal(content)
			if marshalErr != nil {
				return marshalErr
			}
			_, err = p.c.Documents.CreateDocument(p.ctx, &apipb.CreateDocumentRequest{Partition: partition, Name: name, Content: string(text), Reason: "begun"})
		}
		if err != nil {
			return err
		}
	}
	if p.healing && !p.delivering.paused {
		err := p.actOnDelivery(intent.ActPause, "", monitor.Release{}, "")
		p.delivering.paused = err == nil
		return err
	}
	return nil
}

// build has a version come, at times under a name that there is, or has one go.
func (p person) build() error {
	d := &p.delivering
	made := monitor.Release{Name: fmt.Sprintf("1.%d.0", d.next+1), Digest: fmt.Sprintf("sha256:%d", d.next+1)}
	switch lot := p.r.IntN(12); {
	case lot < 2 && len(d.built) > 1:
		made.Name = d.built[len(d.built)-1].Name // Its tag is moved.
		p.mark("delivery: a tag is moved")
	case lot == 2 && len(d.built) > 2:
		gone := d.built[len(d.built)-1-p.r.IntN(2)]
		p.tell("%s: %s is withdrawn", p.d, gone.Name)
		p.mark("delivery: a version is withdrawn")
		return p.setDocument(buildsDocument, "/"+gone.Name, "")
	}
	d.next++
	if p.r.IntN(3) == 0 {
		d.bad[made] = true
	}
	d.built = append(d.built, made)
	p.tell("%s: %s, %s, bad: %v", p.d, made.Name, made.Digest, d.bad[made])
	return p.setDocument(buildsDocument, "/"+made.Name, fmt.Sprintf("{\"digest\": %q}", made.Digest))
}

// setVersion sets the version of an environment and the digest beside it by hand, to what a source
// lists under the name of a release.
func (p person) setVersion(environment string, release monitor.Release) error {
	for _, built := range p.delivering.built {
		if built.Name == release.Name {
			release = built // The newest of them: tags are moved.
		}
	}
	return p.edits(fieldsDocument,
		&apipb.DocumentOperation{Path: "/" + environment + "/version", Value: fmt.Sprintf("%q", release.Name)},
		&apipb.DocumentOperation{Path: "/" + environment + "/digest", Value: fmt.Sprintf("%q", release.Digest)})
}

// setDocument sets a path of a document's newest revision; empty: it is taken out.
func (p person) setDocument(name, path, value string) error {
	return p.edits(name, &apipb.DocumentOperation{Path: path, Value: value})
}

// edits a document's newest revision.
func (p person) edits(name string, operations ...*apipb.DocumentOperation) error {
	partition := p.partitionOf(name)
	found, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: partition, Name: name})
	if err != nil {
		return err
	}
	_, err = p.c.Documents.EditDocument(p.ctx, &apipb.EditDocumentRequest{
		Partition: partition, Name: name, Base: found.Document.Revision.Id, Reason: "it is so", Operations: operations,
	})
	return err
}

// someRelease is one of those that were built lately.
func (p person) someRelease(most int) monitor.Release {
	built := p.delivering.built
	if len(built) == 0 {
		return firstRelease
	}
	return built[len(built)-1-p.r.IntN(min(most, len(built)))]
}

// vote has one, two or three people say what they think of a version.
func (p person) vote() error {
	release := p.someRelease(3)
	if staged := p.Monitor.DeliveredTo("staging"); p.r.IntN(3) > 0 && staged.Name != "" {
		release = staged
	}
	var last error
	for _, name := range everybody[:1+p.r.IntN(3)] {
		approve := p.r.IntN(8) > 0
		if err := p.as(name).votesOn(release, approve); err != nil {
			last = err
		}
	}
	return last
}

// votesOn says what this person thinks of a version for production.
func (p person) votesOn(release monitor.Release, approve bool) error {
	return p.insists(func() error { return p.votesOnce(release, approve) })
}

func (p person) votesOnce(release monitor.Release, approve bool) error {
	asked := p.Monitor.VoteAsked(release, p.name, approve)
	_, err := p.c.Deliveries.VoteOnVersion(p.ctx, &apipb.VoteOnVersionRequest{
		Partition: string(p.deliveryHome()), Application: application, Environment: "production", Constraint: "people",
		Version: release.Name, Digest: release.Digest, Approve: approve, Reason: "I have looked",
	})
	p.tell("%s: %s votes on %s %s: %v (%v)", p.d, p.name, release.Name, release.Digest, approve, err)
	if err == nil {
		p.Monitor.VoteAnswered(asked)
		p.mark("delivery: a vote")
	}
	return err
}

// deliveryActs with how often each is made.
var deliveryActs = []string{
	intent.ActPin, intent.ActPin, intent.ActPin, intent.ActUnpin, intent.ActUnpin, intent.ActUnpin, intent.ActMarkBad, intent.ActMarkBad, intent.ActMarkBad, intent.ActMarkGood,
	intent.ActSkipTo, intent.ActSkipTo, intent.ActRollBack, intent.ActPause, intent.ActResume, intent.ActResume, intent.ActResume, intent.ActForce, intent.ActRestart, intent.ActHotfix,
}

// act does what somebody has in mind. What is pinned or paused is let go after some minutes.
func (p person) act() error {
	kind := deliveryActs[p.r.IntN(len(deliveryActs))]
	environment := deliveredEnvironments[p.r.IntN(len(deliveredEnvironments))]
	release, constraint := p.someRelease(4), ""
	switch kind {
	case intent.ActPin:
		if p.r.IntN(3) > 0 {
			release = p.Monitor.DeliveredTo(environment)
		}
	case intent.ActMarkBad, intent.ActMarkGood, intent.ActHotfix:
		if environment = ""; p.r.IntN(3) == 0 && kind != intent.ActHotfix {
			environment = deliveredEnvironments[p.r.IntN(len(deliveredEnvironments))]
		}
		if bad := slices.DeleteFunc(slices.Clone(p.delivering.built), func(r monitor.Release) bool { return !p.delivering.bad[r] }); kind == intent.ActMarkBad && len(bad) > 0 && p.r.IntN(2) == 0 {
			release = bad[len(bad)-1]
		}
	case intent.ActForce:
		if p.asksAdviser() && p.r.IntN(2) == 0 {
			return p.actOnAdvice()
		}
		environment, constraint = "production", []string{"staged", "soaked", "people", "office"}[p.r.IntN(4)]
	case intent.ActRestart:
		environment, constraint = "production", "people"
		if p.r.IntN(2) == 0 {
			environment, constraint = "test", "smoke"
		}
	case intent.ActRollBack:
		release = p.someRelease(6)
	}
	err := p.actOnDelivery(kind, environment, release, constraint)
	if ends := map[string]string{intent.ActPin: intent.ActUnpin, intent.ActPause: intent.ActResume}[kind]; err == nil && ends != "" {
		p.after(time.Duration(1+p.r.IntN(12))*time.Minute, func() { _ = p.actOnDelivery(ends, environment, monitor.Release{}, "") })
	}
	return err
}

// insists says something again while others said something meanwhile.
func (p person) insists(say func() error) error {
	const most = 5
	err := say()
	for n := 1; n < most && fault.Is(err, fault.Conflict); n++ {
		if p.people.Wait(p.ctx, time.Duration(100+p.r.IntN(400))*time.Millisecond, nil) != nil {
			return err
		}
		err = say()
	}
	return err
}

// actOnDelivery makes one act.
func (p person) actOnDelivery(kind, environment string, release monitor.Release, constraint string) error {
	return p.insists(func() error { return p.actsOnce(kind, environment, release, constraint) })
}

func (p person) actsOnce(kind, environment string, release monitor.Release, constraint string) error {
	if slices.Contains([]string{intent.ActUnpin, intent.ActPause, intent.ActResume}, kind) {
		release = monitor.Release{}
	}
	act := monitor.Act{Kind: kind, Environment: environment, Release: release, Constraint: constraint}
	asked := p.Monitor.ActAsked(act)
	_, err := p.c.Deliveries.ActOnDelivery(p.ctx, &apipb.ActOnDeliveryRequest{
		Partition: string(p.deliveryHome()), Application: application, Kind: kind, Environment: environment, Version: release.Name, Digest: release.Digest,
		Constraint: constraint, Reason: "I have my reasons",
	})
	p.tell("%s: %s of %s %s %s (%v)", p.d, kind, environment, release.Name, constraint, err)
	if err == nil {
		p.Monitor.ActAnswered(asked)
		p.mark("delivery: " + kind)
	}
	return err
}

// editDelivered sets what is beside a version, or the version itself.
func (p person) editDelivered() error {
	environment := deliveredEnvironments[p.r.IntN(len(deliveredEnvironments))]
	if p.r.IntN(5) > 0 {
		if p.r.IntN(2) == 0 {
			environment = "test"
		}
		p.tell("%s: something else of %s", p.d, environment)
		p.mark("delivery: the content of an environment is another one")
		return p.setDocument(fieldsDocument, "/"+environment+"/knob", fmt.Sprintf("%q", fmt.Sprint(p.r.IntN(1000))))
	}
	release := p.someRelease(4)
	p.tell("%s: %s is set to %s", p.d, environment, release.Name)
	p.mark("delivery: a field is edited by a person")
	err := p.setVersion(environment, release)
	p.after(time.Duration(1+p.r.IntN(8))*time.Minute, func() { _ = p.actOnDelivery(intent.ActResume, environment, monitor.Release{}, "") })
	return err
}

// Troubles of programs that verify.
var programTroubles = []string{"lies", "hangs", "dies", "is slow"}

func (l *Lab) programsFail(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "program")
	for range 1 + r.IntN(3) {
		l.delivering.troubles = append(l.delivering.troubles, programTroubles[r.IntN(len(programTroubles))])
	}
	l.tell("%s: %v", d, l.delivering.troubles)
}

// deliveryMoment has a version built, and the process die around a step of delivery, or an
// answer be lost, or something be edited once a program has ended.
func (l *Lab) deliveryMoment(d Disturbance, r *rand.Rand) {
	const around = 4 * time.Minute
	points := []string{"promotion", "verification"}
	if l.asksAdviser() {
		points = append(points, "constraint")
	}
	switch point := points[r.IntN(len(points))]; r.IntN(4) {
	case 0:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: KillAtPoint, Point: point, Seed: d.Seed}, r.IntN(4)})
	case 1:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: PauseAtPoint, Point: point, Length: 20 * time.Second, Seed: d.Seed}, r.IntN(4)})
	case 2: // And somebody says something between a decision and its step.
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: Meanwhile, Then: DeliveryAct, Point: "promotion", Length: 5 * time.Second, Seed: d.Seed}, r.IntN(4)})
	default:
		l.store.refuse, l.store.lose, l.store.only, l.store.left = false, true, "Promote", 1+r.IntN(3)
	}
	l.after(around, func() {
		l.armed = slices.DeleteFunc(l.armed, func(a armed) bool { return a.d.Number == d.Number })
		if l.store.only == "Promote" {
			l.store = storeTrouble{}
		}
	})
	l.person(Disturbance{Number: d.Number, At: d.At, Kind: VersionBuilt, Seed: d.Seed}, r)
}

// verify is the program that verifies, a process of its own: it goes on when who began it is gone.
func (r *Replica) verify(ctx context.Context, v delivery.Verifying) (delivery.Finding, error) {
	l := r.lab
	random := l.stream("programs")
	trouble, length := "", 2*time.Second+time.Duration(random.Int64N(int64(15*time.Second)))
	if t := &l.delivering.troubles; len(*t) > 0 && !l.healing {
		trouble, *t = (*t)[0], (*t)[1:]
		l.mark("delivery: a program " + trouble)
	}
	switch trouble {
	case "hangs":
		length = v.Until.Sub(l.Now())
	case "is slow":
		length = 50 * time.Second
	}
	length = max(time.Millisecond, min(length, v.Until.Sub(l.Now())))
	asset := intent.AssetID(deliveredPrefix + v.Environment)
	run := l.Monitor.ProgramBegan(v.Verification)
	ended, killed := make(chan struct{}), make(chan struct{})
	l.people.Go("program", func() {
		defer close(ended)
		_ = l.people.Wait(l.ctx, length, killed)
		l.Monitor.ProgramEnded(run)
	})
	if err := r.Wait(ctx, -1, ended); err != nil {
		close(killed)
		_ = r.Wait(context.WithoutCancel(ctx), time.Second, ended)
		l.mark("delivery: a program is cut off")
		return delivery.Finding{}, err
	}
	if trouble == "dies" || trouble == "hangs" {
		return delivery.Finding{}, fault.New(fault.Unavailable, "the program was killed")
	}
	words := strings.Fields(l.inProduction(asset)) // Version, digest, and what else there is.
	good := len(words) > 1 && !l.delivering.bad[monitor.Release{Name: words[0], Digest: words[1]}]
	if trouble == "lies" {
		good = !good
	}
	l.Monitor.ProgramSaid(run, good)
	l.tell("the program says of %s in %s: %v", v.Version.Name, v.Environment, good)
	l.mark(fmt.Sprintf("delivery: a program says %v", good))
	return delivery.Finding{Good: good, Reason: "as it looks"}, nil
}

// promoted marks what came of a step.
func (l *Lab) promoted(step store.PromotionStep, err error) {
	switch {
	case fault.Is(err, fault.Conflict):
		l.mark("delivery: what a step rests on moved")
	case err != nil:
	default:
		for _, row := range step.Records {
			l.mark("delivery: row " + string(row.Kind))
			if row.Kind == intent.DeliveryPromotion {
				l.tell("%s of %s gets %s %s: %s", row.Environment, application, row.Version.Name, row.Version.Digest, row.Why)
				l.mark("delivery: " + row.Environment + ", " + row.Why)
			}
		}
	}
}
