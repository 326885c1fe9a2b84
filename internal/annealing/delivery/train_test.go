package delivery

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// makeRelease of one version, in the line main.
func (w *world) makeRelease(version string, immediate bool) {
	w.t.Helper()
	record := intent.DeliveryRecord{
		Kind: intent.DeliveryRelease, Partition: shop, Application: "main", By: ann, Reason: "it is time", Immediate: immediate,
		Versions: map[string]intent.VersionName{"shop/web": {Name: version, Digest: "sha256:" + version}},
	}
	_, err := w.store.RecordDelivery(w.t.Context(), record, store.DeliveryAuthority{Partition: shop, AnyOf: []intent.Role{intent.Operator}})
	w.must(err)
}

func (w *world) train(asker intent.PartitionID, environment string) (Train, error) {
	return (&Reader{Store: w.store, Schemas: schemas{}}).Train(w.t.Context(), asker, "shop/web", environment)
}

// TestTheTrainOfAnEnvironment is in it from the very step that sets its field until all is good, and only its
// own partition may ask.
func TestTheTrainOfAnEnvironment(t *testing.T) {
	spec := chain()
	spec.Releases = "shop/main"
	w := newWorld(t, spec)
	w.policies[shop].ReleaseLines = []*intentpb.ReleaseLine{{Name: "main", Applications: []string{"shop/web"}}}
	w.list("1.0.0", "1.1.0", "1.2.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.0.0")
	if train, err := w.train(shop, "test"); err != nil || train.Release != 0 {
		t.Errorf("before any release: %+v", train)
	}
	w.makeRelease("1.1.0", false)
	for step := 0; ; step++ {
		if _, err := w.pass(shop); err != nil {
			t.Fatal(err)
		}
		doc, err := w.store.Document(t.Context(), shop, "knobs", "")
		w.must(err)
		has, _, err := fieldOf(doc.Content, "/test/version")
		w.must(err)
		train, err := w.train(shop, "test")
		w.must(err)
		isSet := has == "1.1.0"
		if isSet != (train.Release == 1) || isSet && (train.Version != "1.1.0" || train.Since.IsZero()) {
			t.Fatalf("the field is %s, and the train is %+v", has, train)
		}
		if isSet {
			break
		}
		if step > 10 {
			t.Fatal("the train never came")
		}
	}
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
	if train, err := w.train(shop, "test"); err != nil || train.Release != 0 {
		t.Errorf("with all good: %+v", train)
	}
	w.makeRelease("1.2.0", true)
	if _, err := w.pass(shop); err != nil {
		t.Fatal(err)
	}
	if train, err := w.train(shop, "test"); err != nil || train.Release != 0 {
		t.Errorf("of an immediate release: %+v", train)
	}
	for environment, says := range map[string]string{"test": "is not in this partition", "nowhere": "there is no environment nowhere"} {
		asker := shop
		if environment == "test" {
			asker = "other"
		}
		if _, err := w.train(asker, environment); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "1.1.0") {
			t.Errorf("%s asks of %s: %v, want %q", asker, environment, err, says)
		}
	}
}

// TestTheTrainOfAFieldInARepository is in the environment before the commit is made.
func TestTheTrainOfAFieldInARepository(t *testing.T) {
	w, d := landingWorld(t, "")
	w.policies[shop].Deliveries[0].Releases = "shop/main"
	w.policies[shop].ReleaseLines = []*intentpb.ReleaseLine{{Name: "main", Applications: []string{"shop/web"}}}
	w.list("1.0.0", "1.1.0")
	w.settle(d, "it has what it had", func() bool { return len(w.moment().Facts.Environments["test"].Stays) == 1 })
	w.makeRelease("1.1.0", false)
	in := 0
	w.settle(d, "the train is through", func() bool {
		isCommitted := strings.Contains(string(w.repository.contents[len(w.repository.contents)-1]), `"test":{"version":"1.1.0"}`)
		train, err := w.train(shop, "test")
		w.must(err)
		if train.Release == 1 {
			in++
		}
		stays := w.moment().Facts.Environments["test"].Stays
		last := stays[len(stays)-1]
		if isGood := last.Name == "1.1.0" && !last.GoodSince.IsZero(); isCommitted && !isGood && train.Release != 1 {
			t.Fatalf("it is committed and not good, and no train is in: %+v", train)
		} else if isGood {
			return train.Release == 0
		}
		return false
	})
	if in == 0 {
		t.Error("no train was ever in it")
	}
}
