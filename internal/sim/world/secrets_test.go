package world

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/secret"
)

const safeProto = `edition = "2023";
package t.v1;
import "lehr/intent/v1/secret.proto";
message Safe { string name = 1; string about = 2; lehr.intent.v1.SecretRef key = 3; string key_digest = 4; }`

// wantedSafe is an asset that names a secret.
func wantedSafe(t *testing.T, w *World) *wanted {
	t.Helper()
	compiled, findings := schema.Compile(t.Context(), []schema.SourceFile{{Path: "t/v1/safe.proto", Text: []byte(safeProto)}}, nil)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	message, err := compiled.Set.New("t.v1.Safe")
	if err == nil {
		err = protojson.Unmarshal([]byte(`{"name": "ann", "about": "v1", "key": {"env": "LEHR_SAFE"}}`), message)
	}
	if err != nil {
		t.Fatal(err)
	}
	payload := intent.Message{Type: "t.v1.Safe"}
	read := &wanted{Asset: intent.Asset{ID: "safe/ann", Payload: payload}, set: compiled.Set, message: message.ProtoReflect(), key: "sim:Safe/ann"}
	read.sealed = w.sealedBy(read.message)
	return read
}

// Production has the value of a secret, plans its digest; a rotation is a difference, and a
// push that was bound to the value of before ends.
func TestASecretThatIsRotated(t *testing.T) {
	b := newBench(t, 1)
	w := b.world
	w.options.Secret = "swordfish"
	var news []RotationNews
	plans := map[intent.Digest]string{}
	w.OnRotated = func(one RotationNews) { news = append(news, one) }
	w.OnSealed = func(_ intent.AssetID, plan intent.Digest, value string) { plans[plan] = value }
	asset, ref := wantedSafe(t, w), &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: "LEHR_SAFE"}}
	plan := func(state snapshot) *comparison {
		t.Helper()
		found, err := asset.compare(state, plugin.Served{})
		if err != nil {
			t.Fatal(err)
		}
		asset.sealed.tellPlan(asset.ID, found)
		for _, change := range found.plan.Changes {
			if strings.Contains(change.Current+change.Target, "swordfish") || change.Path == "key" {
				t.Errorf("a plan shows %+v", change)
			}
		}
		return found
	}
	land := func(found *comparison, push *secret.Push) (snapshot, error) {
		t.Helper()
		l := &landing{replica: b.replica, set: asset.set, payloadType: asset.Payload.Type, sealed: asset.sealed, changes: found.changes, effect: Effect{Key: asset.key, By: ByLehr}}
		if err := l.reveal(push); err != nil {
			return snapshot{}, err
		}
		if err := w.land(l); err != nil {
			t.Fatal(err)
		}
		return w.snapshot(asset.key), nil
	}
	created := plan(snapshot{})
	push := asset.sealed.begin(w.now())
	if err := asset.sealed.bind(push, created.value); err != nil {
		t.Fatal(err)
	}
	state, err := land(created, push)
	if err != nil || plan(state).plan.Action != "" || w.holdsOther(asset, state) != "" || !strings.Contains(string(state.payload), "swordfish-0") {
		t.Fatalf("%v, %q", err, state.payload)
	}
	w.RotateSecret(ref)
	rotated := plan(state)
	if len(rotated.changes) != 1 || rotated.changes[0].Path != "key_digest" || w.holdsOther(asset, state) == "" {
		t.Errorf("a rotation is no difference: %+v", rotated.plan)
	}
	if _, err := land(rotated, push); !errors.Is(err, secret.ErrRotated) || !slices.Equal(news, []RotationNews{RotatedInPush}) {
		t.Errorf("a push that was bound to the value of before: %v, %v", err, news)
	}
	w.RotateSecret(ref)
	again := plan(state)
	asset.sealed.noteStale(asset.ID, rotated.plan.Digest(), again.value)
	if again.plan.Digest() == rotated.plan.Digest() || !slices.Contains(news, RotatedBeforePush) {
		t.Errorf("two values have one plan, or nobody tells that it is stale: %v", news)
	}
	if len(plans) != 3 || plans[again.plan.Digest()] != asset.sealed.now() {
		t.Errorf("%v", plans)
	}
}
