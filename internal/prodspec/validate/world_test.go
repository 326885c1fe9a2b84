package validate_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

var (
	_ validate.Snapshots = store.Snapshots(nil)
	_ validate.History   = store.All(nil)
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// world is a partition's history in memory. Each incarnation is a map.
type world struct {
	t         testing.TB
	now       time.Time
	validator *validate.Validator
	history   []incarnation
	policy    *intentpb.Policy // of head
	enforced  map[intent.AssetID]bool
	// absent are those of them that were turned down.
	absent map[intent.AssetID]bool
	// collected incarnations are not listed any more.
	collected map[intent.Sequence]bool
	// reads counts what was asked for, to tell what a judgement costs.
	reads int
	// rested are those of them for which a rule asked for all assets.
	rested  int
	outside validate.Outside
	again   validate.Again
	checked []validate.Checked
}

type incarnation struct {
	intent.Incarnation
	assets map[intent.AssetID]store.Entry
}

func newWorld(t testing.TB) *world {
	validator, err := validate.New(schema.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, now: start, validator: validator, enforced: map[intent.AssetID]bool{}, absent: map[intent.AssetID]bool{}}
}

// entry builds an added or changed asset.
func entry(t testing.TB, id intent.AssetID, payload proto.Message, addons ...proto.Message) store.Entry {
	t.Helper()
	set := schema.Builtin()
	asset := intent.Asset{ID: id}
	var err error
	if asset.Payload, err = set.Pack(payload); err != nil {
		t.Fatal(err)
	}
	for _, addon := range addons {
		packed, err := set.Pack(addon)
		if err != nil {
			t.Fatal(err)
		}
		asset.Addons = append(asset.Addons, packed)
	}
	body, digest, err := set.Encode(asset)
	if err != nil {
		t.Fatal(err)
	}
	references, err := set.References(asset)
	if err != nil {
		t.Fatal(err)
	}
	return store.Entry{Asset: id, Member: intent.Member{Asset: id, Type: asset.Payload.Type, Digest: digest, Effective: digest}, Body: body, References: references}
}

// plain is an asset whose content is the text.
func plain(t testing.TB, id intent.AssetID, text string) store.Entry {
	return entry(t, id, &commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: text})
}

func dependsOn(on ...string) *intentpb.Dependencies {
	dependencies := &intentpb.Dependencies{}
	for _, id := range on {
		dependencies.Dependencies = append(dependencies.Dependencies, &intentpb.Dependency{On: id, Rule: intentpb.Dependency_RULE_ORDER})
	}
	return dependencies
}

func removed(id intent.AssetID) store.Entry { return store.Entry{Asset: id, Removed: true} }

func (w *world) head() incarnation {
	if len(w.history) == 0 {
		return incarnation{}
	}
	return w.history[len(w.history)-1]
}

// judge judges a delta on head.
func (w *world) judge(policy *intentpb.Policy, acknowledged bool, delta ...store.Entry) validate.Judgement {
	w.t.Helper()
	judgement, err := w.validator.Run(context.Background(), validate.Input{
		Candidate:       intent.CandidateID{Partition: "shop", Digest: intent.Sum("test", []byte("candidate"))},
		Base:            w.head().ID,
		Delta:           delta,
		HeadPolicy:      w.policy,
		CandidatePolicy: policy,
		Snapshots:       w,
		History:         w,
		Origin: func(id intent.AssetID) validate.Origin {
			return validate.Origin{Generator: "web", File: "web.star", Line: len(id)}
		},
		Servers:      w.servers(delta),
		Rest:         w.rest(delta),
		Outside:      w.outside,
		Again:        w.again,
		Checked:      w.checked,
		Acknowledged: acknowledged,
		Now:          w.now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return judgement
}

// rest reads what of head a delta does not touch.
func (w *world) rest(delta []store.Entry) validate.Rest {
	return func(_ context.Context, wanted func(intent.AssetID, intent.TypeName) bool, each func(intent.AssetID, []byte) error) error {
		assets := w.head().assets
		for _, id := range slices.Sorted(maps.Keys(assets)) {
			touched := slices.ContainsFunc(delta, func(e store.Entry) bool { return e.Asset == id })
			if touched || !wanted(id, assets[id].Member.Type) {
				continue
			}
			w.reads++
			w.rested++
			if err := each(id, assets[id].Body); err != nil {
				return err
			}
		}
		return nil
	}
}

// publish makes the delta an incarnation, judged or not.
func (w *world) publish(policy *intentpb.Policy, labels map[string]string, delta ...store.Entry) {
	next := incarnation{assets: maps.Clone(w.head().assets)}
	if next.assets == nil {
		next.assets = map[intent.AssetID]store.Entry{}
	}
	next.ID = intent.IncarnationID{Partition: "shop", Sequence: intent.Sequence(len(w.history) + 1)}
	next.Created, next.Labels, w.policy = w.now, labels, policy
	for _, entry := range delta {
		_, ok := next.assets[entry.Asset]
		switch {
		case entry.Removed:
			delete(next.assets, entry.Asset)
			next.Removed++
			continue
		case ok:
			next.Changed++
		default:
			next.Added++
		}
		next.assets[entry.Asset] = entry
	}
	next.Count = len(next.assets)
	next.Policy = next.assets[intent.PolicyAsset].Member.Digest
	w.history = append(w.history, next)
}

func (w *world) at(id intent.IncarnationID) incarnation {
	w.reads++
	if id.IsZero() || int(id.Sequence) > len(w.history) {
		w.t.Fatalf("asked for incarnation %v of %d", id, len(w.history))
	}
	return w.history[id.Sequence-1]
}

func (w *world) Member(_ context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error) {
	if entry, ok := w.at(id).assets[asset]; ok {
		return entry.Member, nil
	}
	return intent.Member{}, fault.New(fault.NotFound, "%v has no asset %s", id, asset)
}

func (w *world) Members(_ context.Context, id intent.IncarnationID, filter store.AssetFilter) (members []intent.Member, _ error) {
	assets := w.at(id).assets
	for _, asset := range slices.Sorted(maps.Keys(assets)) {
		if asset > filter.After && matches(assets[asset], filter) && len(members) < filter.Limit {
			members = append(members, assets[asset].Member)
		}
	}
	return members, nil
}

func matches(entry store.Entry, filter store.AssetFilter) bool {
	if filter.Type != "" && entry.Member.Type != filter.Type {
		return false
	}
	if filter.Field == "" {
		return true
	}
	asset, err := schema.Decode(entry.Body)
	_, ok := asset.Addon(intent.TypeName(filter.Field))
	return err == nil && ok
}

func (w *world) Body(_ context.Context, digest intent.Digest) ([]byte, error) {
	w.reads++
	for i := len(w.history) - 1; i >= 0; i-- {
		for _, entry := range w.history[i].assets {
			if entry.Member.Digest == digest {
				return entry.Body, nil
			}
		}
	}
	return nil, fault.New(fault.NotFound, "no body %s", digest)
}

// servers are those of head and a delta.
func (w *world) servers(delta []store.Entry) func(intent.AssetID) []intent.AssetID {
	after := maps.Clone(w.head().assets)
	if after == nil {
		after = map[intent.AssetID]store.Entry{}
	}
	for _, entry := range delta {
		if after[entry.Asset] = entry; entry.Removed {
			delete(after, entry.Asset)
		}
	}
	served := map[intent.AssetID][]intent.AssetID{}
	for id, entry := range after {
		asset, err := schema.Decode(entry.Body)
		if err != nil {
			continue
		}
		addon := &intentpb.Dependencies{}
		if _, err := schema.Addon(asset, addon); err != nil {
			w.t.Fatal(err)
		}
		for _, d := range addon.Dependencies {
			if d.Rule == intentpb.Dependency_RULE_CAPACITY {
				served[intent.AssetID(d.On)] = append(served[intent.AssetID(d.On)], id)
			}
		}
	}
	if len(served) == 0 {
		return nil
	}
	return func(id intent.AssetID) []intent.AssetID { return served[id] }
}

func (w *world) EdgesFrom(_ context.Context, id intent.IncarnationID, asset intent.AssetID) (edges []store.Edge, _ error) {
	for _, reference := range w.at(id).assets[asset].References {
		edges = append(edges, store.Edge{From: asset, To: reference.To, Field: reference.Field, Read: reference.Read})
	}
	return edges, nil
}

func (w *world) EdgesTo(_ context.Context, id intent.IncarnationID, asset intent.AssetID) (edges []store.Edge, _ error) {
	for from, entry := range w.at(id).assets {
		for _, reference := range entry.References {
			if reference.To == asset {
				edges = append(edges, store.Edge{From: from, To: asset, Field: reference.Field, Read: reference.Read})
			}
		}
	}
	return edges, nil
}

func (w *world) Incarnations(_ context.Context, _ intent.PartitionID, before intent.Sequence, limit int) (list []intent.Incarnation, _ error) {
	w.reads++
	for i := len(w.history) - 1; i >= 0 && len(list) < limit; i-- {
		if id := w.history[i].ID; id.Sequence < before && !w.collected[id.Sequence] {
			list = append(list, w.history[i].Incarnation)
		}
	}
	return list, nil
}

func (w *world) Changes(_ context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) (changes []store.Change, _ error) {
	old, young := w.at(from).assets, w.at(to).assets
	all := maps.Clone(old)
	maps.Copy(all, young)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		before, ok := old[id]
		now, is := young[id]
		if id <= after || ok && is && before.Member == now.Member || len(changes) == limit {
			continue
		}
		change := store.Change{Asset: id}
		if ok {
			change.Before = &before.Member
		}
		if is {
			change.After = &now.Member
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func (w *world) EnforcedPage(_ context.Context, _ intent.PartitionID, after intent.AssetID, limit int) (page []store.Enforced, _ error) {
	w.reads++
	for _, id := range slices.Sorted(maps.Keys(w.enforced)) {
		if id > after && len(page) < limit {
			record := store.Enforced{Asset: id, Absent: w.absent[id]}
			for _, old := range w.history {
				if e, ok := old.assets[id]; ok && record.Type == "" {
					record.Type, record.Incarnation = e.Member.Type, old.ID
				}
			}
			page = append(page, record)
		}
	}
	return page, nil
}

// finding returns the one finding of a rule whose message has all the parts.
func finding(t testing.TB, judgement validate.Judgement, rule string, parts ...string) intent.Finding {
	t.Helper()
	for _, f := range judgement.Findings {
		if f.Rule == rule && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(f.Message, part) }) {
			return f
		}
	}
	t.Fatalf("no finding of rule %s says %q in %+v", rule, parts, judgement.Findings)
	return intent.Finding{}
}

// entryOf is the entry with other content that schema.Encode would refuse.
func entryOf(e store.Entry, text string) store.Entry {
	payload, err := schema.Builtin().Pack(&commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: text})
	if err != nil {
		panic(err)
	}
	any, err := anypb.New(&commandpb.Command{})
	if err != nil {
		panic(err)
	}
	any.Value = payload.Bytes
	e.Body, err = schema.Builtin().Canonical(&intentpb.Asset{Id: string(e.Asset), Payload: any})
	if err != nil {
		panic(err)
	}
	return e
}
