package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// In runs that set fields a document says what some records are, and a rollout sets
// their values a stage at a time, while people edit the same document.

// Disturbances of runs that set fields.
const (
	FieldRun    Kind = "a value is to be rolled out"
	FieldEdit   Kind = "somebody edits a document"
	FieldUndo   Kind = "somebody undoes an edit of a document"
	FieldRace   Kind = "two people edit a document"
	FieldMoment Kind = "a value is to be rolled out, and something happens around an edit"
)

var fieldKinds = []weighed{{FieldRun, 14}, {FieldEdit, 10}, {FieldUndo, 4}, {FieldRace, 8}, {RolloutOrder, 8}, {FieldMoment, 12}}

const (
	// knobs is the document, fieldPrefix how its records are called, and knobAsset what
	// else is made of it.
	knobs, fieldPrefix, knobAsset = "knobs", "flag-", "knob"
	// neverText is a value of which nothing can be generated.
	neverText = "never"
)

// firstKnobs is the document as it is first.
const firstKnobs = `{"other":"x","values":{"flag-a1":"r","flag-a2":"r","flag-b1":"r","flag-b2":"r"}}`

// knobProgram makes the records that the document says.
const knobProgram = `
def flag(id, text):
    if text == "never":
        fail("nothing can be made of never")
    return asset(id, lehr.command.v1.Command(diff = ["true"], push = ["true"], input = text),
                 addons = [lehr.intent.v1.ImpactedScope(scopes = {"cluster": id[5]})])

def generate(ctx):
    held = json("held/knobs.json")
    return [flag(id, text) for id, text in held["values"].items()] + [
        asset("knob", lehr.command.v1.Command(diff = ["true"], push = ["true"], input = held["other"]))]
`

// Sets reports whether runs of a seed have a rollout that sets fields of a document.
func Sets(seed uint64) bool { return seed%27 == 15 }

// sets reports whether this run has one.
func (l *Lab) sets() bool { return l.options.Definition == "" && Sets(l.options.Seed) }

// ofKnobs reports whether an asset is made of the document.
func (l *Lab) ofKnobs(asset intent.AssetID) bool {
	return l.sets() && (asset == knobAsset || strings.HasPrefix(string(asset), fieldPrefix))
}

// field is the document whose fields are set; empty: none.
func (l *Lab) field() string {
	if l.sets() {
		return knobs
	}
	return ""
}

// setsFields adds the document, and the rollout of its fields, to a definition.
func (c *Course) setsFields(text string) string {
	text = strings.Replace(text, "generate:\n", "  held: {document: knobs}\ngenerate:\n  knobs: {starlark: knobs.star, from: [held]}\n", 1)
	return text + fmt.Sprintf("rollouts:\n  values:\n    select: id.startsWith(%q)\n    by: {document: knobs, field: \"/values/{id}\"}\n    stages: %s\n    patience: %s\n    newer: supersedes\n",
		fieldPrefix, shapes[c.Shape](c.Soak), rolloutPatience)
}

// inProduction is what the record of a field really has.
func (l *Lab) inProduction(asset intent.AssetID) string {
	for _, r := range l.World.Resources() {
		if r.Asset != asset || !r.Exists {
			continue
		}
		const input = 3 // Of a Command.
		for rest := r.Payload; len(rest) > 0; {
			number, _, n := protowire.ConsumeField(rest)
			_, _, tag := protowire.ConsumeTag(rest)
			if n < 0 || tag < 0 {
				return ""
			}
			if number == input {
				text, _ := protowire.ConsumeString(rest[tag:])
				return text
			}
			rest = rest[n:]
		}
	}
	return ""
}

// fieldRun has somebody start a run with a value: good, ill after a while, or one of
// which nothing can be made.
func (p person) fieldRun() error {
	value := fmt.Sprintf("well-%d", p.r.IntN(9))
	switch lot := p.r.IntN(10); {
	case lot < 3:
		value = fmt.Sprintf("%s%d", illText, 1+p.r.IntN(4))
	case lot == 3:
		value = neverText
	}
	p.tell("%s: %q, by %s", p.d, value, p.name)
	_, err := p.c.Rollouts.OrderRollout(p.ctx, &apipb.OrderRolloutRequest{
		Partition: string(p.partition), Rollout: "values", Kind: string(intent.OrderStart), Value: fmt.Sprintf("%q", value), Reason: "spring",
	})
	return err
}

// fieldEdit has somebody edit the document: a field that a rollout sets, to a value of
// their own or to what it was at first, or another one.
func (p person) fieldEdit() error {
	path, value := "/other", fmt.Sprintf("p-%d", p.r.IntN(1000))
	if p.r.IntN(3) > 0 {
		path = "/values/" + []string{"flag-a1", "flag-a2", "flag-b1", "flag-b2"}[p.r.IntN(4)]
		if p.r.IntN(4) == 0 {
			value = "r"
		}
	}
	return p.setField(path, value)
}

// setField edits as somebody does who looks, thinks, and saves.
func (p person) setField(path, value string) error {
	response, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: string(p.partition), Name: knobs})
	if err != nil {
		return err
	}
	p.think()
	base := response.Document.Revision.Id
	p.tell("%s: %s is %q, by %s on revision %s", p.d, path, value, p.name, base)
	made, err := p.c.Documents.EditDocument(p.ctx, &apipb.EditDocumentRequest{
		Partition: string(p.partition), Name: knobs, Base: base, Reason: "I know better",
		Operations: []*apipb.DocumentOperation{{Path: path, Value: fmt.Sprintf("%q", value)}},
	})
	switch {
	case err == nil:
		p.Monitor.Edited(base, made.Document.Revision.Id, path, fmt.Sprintf("%q", value))
	case fault.Is(err, fault.Conflict):
		p.mark("document: an edit on an older revision was refused")
	}
	return err
}

// think for some seconds.
func (p person) think() {
	_ = p.people.Wait(p.ctx, time.Duration(p.r.Int64N(int64(5*time.Second))), nil)
}

// fieldUndo has somebody undo what was edited last, perhaps by a rollout.
func (p person) fieldUndo() error {
	list, err := p.c.Documents.ListDocumentRevisions(p.ctx, &apipb.ListDocumentRevisionsRequest{Partition: string(p.partition), Name: knobs, Limit: 1})
	if err != nil || len(list.Revisions) == 0 || list.Revisions[0].Kind == document.Created {
		return err
	}
	last := list.Revisions[0]
	if p.think(); p.d.Then == FieldEdit && len(last.Changes) > 0 {
		if err := p.as("bob").setField(last.Changes[0].Path, fmt.Sprintf("p-%d", p.r.IntN(1000))); err != nil {
			return err
		}
	}
	p.tell("%s: revision %s is undone, by %s", p.d, last.Id, p.name)
	made, err := p.c.Documents.UndoDocument(p.ctx, &apipb.UndoDocumentRequest{Partition: string(p.partition), Name: knobs, Revision: last.Id, Reason: "not that"})
	switch {
	case err == nil:
		p.Monitor.Undone(last.Id, made.Document.Revision.Id)
		p.mark("document: undone")
		if strings.HasPrefix(last.By.GetName(), intent.RolloutPrefix) {
			p.mark("document: what a rollout did is undone")
		}
	case fault.Is(err, fault.Conflict):
		p.mark("document: an undo was refused")
	}
	return err
}

// fieldRace has two people edit the document at once, or one undo what another sets
// again meanwhile.
func (l *Lab) fieldRace(d Disturbance, r *rand.Rand) {
	if r.IntN(3) == 0 {
		l.person(Disturbance{Number: d.Number, Kind: FieldUndo, Then: FieldEdit, Seed: d.Seed}, r)
		return
	}
	for n := range uint64(2) {
		l.person(Disturbance{Number: d.Number, Kind: FieldEdit, Seed: d.Seed + n}, rand.New(rand.NewPCG(d.Seed+n, 1)))
	}
}

// editMoment is how long what is to happen around an edit waits for one.
const editMoment = 4 * time.Minute

// fieldMoment starts a run, and has something happen around an edit of it: the process
// dies before or after, the answer is lost, or somebody is faster.
func (l *Lab) fieldMoment(d Disturbance, r *rand.Rand) {
	const point = "rollout edit"
	switch r.IntN(4) {
	case 0:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: KillAtPoint, Point: point, Seed: d.Seed}, r.IntN(2)})
	case 1:
		l.store.refuse, l.store.lose, l.store.only, l.store.left = false, true, "SetFields", 1
	case 2:
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: Meanwhile, Then: FieldEdit, Point: point, Length: 5 * time.Second, Seed: d.Seed}, r.IntN(2)})
	default:
		l.editedThen = func() { l.restart(Disturbance{Number: d.Number, Kind: Restart, Seed: d.Seed}, r) }
	}
	l.after(editMoment, func() {
		l.armed = slices.DeleteFunc(l.armed, func(a armed) bool { return a.d.Number == d.Number })
		if l.store.only == "SetFields" {
			l.store = storeTrouble{}
		}
		l.editedThen = nil
	})
	l.person(Disturbance{Number: d.Number, At: d.At, Kind: FieldRun, Seed: d.Seed}, r)
}

// fieldSet marks what came of an edit by a rollout.
func (l *Lab) fieldSet(err error) {
	switch {
	case err == nil:
		l.mark("field: a rollout edits")
		if then := l.editedThen; then != nil {
			l.editedThen = nil
			l.mark("field: restart after an edit")
			l.people.Go("after an edit", then)
		}
	case fault.Is(err, fault.Conflict):
		l.mark("field: somebody was faster")
	}
}

// keepDocuments makes those of a user's partition where there are none.
func (p person) keepDocuments() error {
	for _, name := range slices.Sorted(maps.Keys(p.options.Documents)) {
		_, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: string(p.partition), Name: name})
		if fault.Is(err, fault.NotFound) {
			_, err = p.c.Documents.CreateDocument(p.ctx, &apipb.CreateDocumentRequest{Partition: string(p.partition), Name: name, Content: p.options.Documents[name], Reason: "as it is"})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepKnobs makes the document where there is none, gives back what cannot be made,
// and does what the run waits for that only a person may do.
func (p person) keepKnobs() error {
	if !p.sets() {
		return nil
	}
	response, err := p.c.Documents.GetDocument(p.ctx, &apipb.GetDocumentRequest{Partition: string(p.partition), Name: knobs})
	if fault.Is(err, fault.NotFound) {
		_, err := p.c.Documents.CreateDocument(p.ctx, &apipb.CreateDocumentRequest{Partition: string(p.partition), Name: knobs, Content: firstKnobs, Reason: "begun"})
		return err
	}
	if err != nil {
		return err
	}
	list, err := p.c.Rollouts.ListRollouts(p.ctx, &apipb.ListRolloutsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, rollout := range list.Rollouts {
		for _, kind := range []intent.OrderKind{intent.OrderResume, intent.OrderAbort} {
			if strings.Contains(rollout.GetRun().GetWaits(), "lehr rollout "+string(kind)) {
				return p.order(rollout.Name, kind)
			}
		}
		if waits := rollout.GetRun().GetWaits(); strings.Contains(waits, "going back waits") && strings.Contains(waits, "to be healthy") {
			return p.mendKnobs(response.Document.Content, illText) // What was there before was no better.
		}
		if waits := rollout.GetRun().GetWaits(); strings.Contains(waits, "going back waits for head") {
			return p.mendKnobs(response.Document.Content, neverText) // What was there before could not be made either: somebody had set it.
		}
		if intent.RolloutState(rollout.GetRun().GetState()).Open() {
			return nil
		}
	}
	return p.mendKnobs(response.Document.Content, neverText)
}

// mendKnobs sets the first value that begins so to another one.
func (p person) mendKnobs(content, prefix string) error {
	for _, id := range []string{"flag-a1", "flag-a2", "flag-b1", "flag-b2"} {
		if strings.Contains(content, fmt.Sprintf("%q:\"%s", id, prefix)) {
			return p.setField("/values/"+id, "mended")
		}
	}
	return nil
}
