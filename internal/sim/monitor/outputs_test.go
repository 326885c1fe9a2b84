package monitor

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/sim/world"
)

// asksB has a ask for the address of b: what stands there is the name of its program.
func (r *run) asksB(address string) {
	r.Helper()
	r.options.Asks = func(asset intent.Asset) AskedOutput {
		job := &processpb.Job{}
		if asset.ID != "a" || schema.Payload(asset, job) != nil {
			return AskedOutput{}
		}
		return AskedOutput{Teller: "b", Value: fmt.Sprintf("%q", strings.TrimPrefix(job.Binary, "/bin/"))}
	}
	r.publish(job("a", address))
}

// tells has the plugin of b tell an address to whoever acts; empty: that there is none.
func (r *run) tells(address string) {
	value := ""
	if address != "" {
		value = fmt.Sprintf("%q", address)
	}
	r.OutputTold(world.OutputNews{Asset: "b", Replica: "north", Value: value}, true)
}

// writes has the enforcer write an output; empty: take it out.
func (r *run) writes(asset, name, address string) {
	r.Helper()
	path := document.Path{asset, name}
	operation := document.Operation{Path: path.String()}
	if address != "" {
		operation.Value = json.RawMessage(fmt.Sprintf("%q", address))
	}
	_, err := r.SaveOutputs(r.Context(), r.lease, document.Edit{Operations: []document.Operation{operation}, Reason: "told"})
	r.must(err)
}

// begins has the document be there, with an address of b that it told.
func (r *run) begins() {
	r.Helper()
	r.asksB("1")
	r.tells("1")
	_, err := r.SaveOutputs(r.Context(), r.lease, document.Edit{Operations: []document.Operation{{Path: "/b", Value: json.RawMessage(`{"address": "1"}`)}}, Reason: "told"})
	r.must(err)
}

// edits has a person write an address of b.
func (r *run) edits(address string) {
	r.Helper()
	doc, err := r.Document(r.Context(), sim, "outputs", "")
	r.must(err)
	_, err = r.EditDocument(r.Context(), sim, "outputs", document.Edit{Base: doc.Revision.ID, Operations: []document.Operation{{Path: "/b/address", Value: json.RawMessage(fmt.Sprintf("%q", address))}}, Reason: "mine"}, ann)
	r.must(err)
}

// changesOften has b tell another address so often, and each be written.
func (r *run) changesOften(times int, pause time.Duration) {
	r.Helper()
	r.begins()
	for n := range times {
		r.pass(pause)
		r.tells(fmt.Sprint(n + 2))
		r.writes("b", "address", fmt.Sprint(n+2))
	}
}

// kept asks whether the document has what is told, a while after the last telling.
func (r *run) kept(after time.Duration) {
	r.pass(after)
	r.OutputsKept(r.now, r.now.Add(-after), after+time.Minute)
}

var outputsTold = []breach{
	{"S11", "which b did not tell", // the placeholder stands there still
		func(r *run) { r.asksB("${output:b#address}"); r.effect(r.admit("a")) },
		func(r *run) { r.asksB("1"); r.tells("1"); r.effect(r.admit("a")) }},
	{"S11", "which b did not tell", // it is another's
		func(r *run) { r.begins(); r.asksB("2"); r.effect(r.admit("a")) },
		func(r *run) { r.begins(); r.edits("2"); r.asksB("2"); r.effect(r.admit("a")) }},
	{"S4", "which nobody told who holds the lease",
		func(r *run) {
			r.begins()
			r.tells("2")
			r.pass(time.Second)
			r.acquire("south")
			r.writes("b", "address", "2")
		},
		func(r *run) {
			r.begins()
			r.tells("2")
			r.pass(time.Second)
			r.acquire("south")
			r.tells("2")
			r.writes("b", "address", "2")
		}},
	{"S11", "its plugin did not tell that it is gone",
		func(r *run) { r.begins(); r.writes("b", "address", "") },
		func(r *run) { r.begins(); r.tells(""); r.writes("b", "address", "") }},
	{"S10", "no plugin told that",
		func(r *run) {
			r.begins()
			_, err := r.SaveOutputs(r.Context(), r.lease, document.Edit{Operations: []document.Operation{{Path: "/c", Value: json.RawMessage(`{"address": "1"}`)}}})
			r.must(err)
		}, nil},
	{"S10", "no plugin told that", func(r *run) { r.begins(); r.writes("b", "port", "1") }, nil},
	{"L10", "times within an hour",
		func(r *run) { r.changesOften(14, time.Minute) },
		func(r *run) { r.changesOften(14, 10*time.Minute) }},
	{"L4", "and the document has",
		func(r *run) { r.begins(); r.tells("2"); r.kept(outputGrace + time.Second) },
		func(r *run) { r.begins(); r.tells("2"); r.kept(outputGrace) }},
	{"L4", "and the document has", // what a person wrote is put right
		func(r *run) { r.begins(); r.edits("2"); r.kept(outputGrace + time.Second) },
		func(r *run) {
			r.begins()
			r.edits("2")
			r.writes("b", "address", "1")
			r.kept(outputGrace + time.Second)
		}},
	{"L4", "and the document has", // what keeps changing waits, for an hour at most
		func(r *run) { r.changesOften(4, time.Minute); r.tells("9"); r.kept(dampedGrace + time.Second) },
		func(r *run) { r.changesOften(4, time.Minute); r.tells("9"); r.kept(dampedGrace - time.Minute) }},
}
