package delivery

import (
	"maps"
	"slices"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// TestReleasesOfRows: what people asked about a release is of it alone, and each skip and the hold end by themselves.
func TestReleasesOfRows(t *testing.T) {
	made := func(number int) intent.DeliveryRecord {
		return intent.DeliveryRecord{Kind: intent.DeliveryRelease, Release: number, Immediate: number == 2, Versions: map[string]intent.VersionName{"shop/web": {Name: "1.0"}}}
	}
	act := func(kind string, number int, environment string) intent.DeliveryRecord {
		return intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: kind, Release: number, Environment: environment, By: intent.Actor{Name: "ann"}, Reason: "why"}
	}
	for says, test := range map[string]struct {
		rows          []intent.DeliveryRecord
		held, aborted bool
		skipped       []string
	}{
		"nothing is asked":                      {},
		"an act on the other one":               {rows: []intent.DeliveryRecord{act(intent.ActHoldRelease, 2, ""), act(intent.ActAbortRelease, 2, ""), act(intent.ActSkipRelease, 2, "test")}},
		"an act on one that there is not":       {rows: []intent.DeliveryRecord{act(intent.ActAbortRelease, 7, "")}},
		"it is held":                            {rows: []intent.DeliveryRecord{act(intent.ActHoldRelease, 1, "")}, held: true},
		"it is held and resumed":                {rows: []intent.DeliveryRecord{act(intent.ActHoldRelease, 1, ""), act(intent.ActResumeRelease, 1, "")}},
		"two skips":                             {rows: []intent.DeliveryRecord{act(intent.ActSkipRelease, 1, "test"), act(intent.ActSkipRelease, 1, "prod")}, skipped: []string{"prod", "test"}},
		"one of two skips ends":                 {rows: []intent.DeliveryRecord{act(intent.ActSkipRelease, 1, "test"), act(intent.ActSkipRelease, 1, "prod"), act(intent.ActResumeRelease, 1, "test")}, skipped: []string{"prod"}},
		"the end of a skip is no end of a hold": {rows: []intent.DeliveryRecord{act(intent.ActHoldRelease, 1, ""), act(intent.ActSkipRelease, 1, "test"), act(intent.ActResumeRelease, 1, "test")}, held: true},
		"it is aborted for good":                {rows: []intent.DeliveryRecord{act(intent.ActAbortRelease, 1, ""), act(intent.ActResumeRelease, 1, "")}, aborted: true},
	} {
		releases := releasesOf(append([]intent.DeliveryRecord{made(1), made(2)}, test.rows...))
		if len(releases) != 2 || releases[0].Immediate || !releases[1].Immediate {
			t.Fatalf("%s: %+v", says, releases)
		}
		skipped := maps.Clone(releases[0].Skipped)
		maps.DeleteFunc(skipped, func(_ string, act *promotion.ReleaseAct) bool { return act == nil })
		if r := releases[0]; (r.Held != nil) != test.held || (r.Aborted != nil) != test.aborted || !slices.Equal(slices.Sorted(maps.Keys(skipped)), test.skipped) {
			t.Errorf("%s: held %v, aborted %v, skipped in %v", says, r.Held, r.Aborted, slices.Sorted(maps.Keys(skipped)))
		}
	}
}

// TestVersionsOfReleases: a version comes when a release brings it, and no limit of its source hides it until then; a
// line that no longer lists the application brings nothing.
func TestVersionsOfReleases(t *testing.T) {
	spec := chain()
	spec.Releases = "shop/main"
	w := newWorld(t, spec)
	line := &intentpb.ReleaseLine{Name: "main", Applications: []string{"shop/web"}}
	w.policies[shop].ReleaseLines = []*intentpb.ReleaseLine{line}
	w.list("1.0.0", "1.1.0", "1.2.0")
	w.goOn()
	w.expectVersion(shop, "test", "1.0.0")
	record := func(record intent.DeliveryRecord) {
		t.Helper()
		record.Partition, record.Application, record.By, record.Reason = shop, "main", ann, "it is time"
		_, err := w.store.RecordDelivery(t.Context(), record, store.DeliveryAuthority{Partition: shop, AnyOf: []intent.Role{intent.Operator}})
		w.must(err)
	}
	versions := func(name string) map[string]intent.VersionName {
		return map[string]intent.VersionName{"shop/web": {Name: name, Digest: "sha256:" + name}}
	}
	record(intent.DeliveryRecord{Kind: intent.DeliveryRelease, Versions: versions("1.1.0")})
	record(intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: intent.ActHoldRelease, Release: 1})
	w.goOn()
	w.expectVersion(shop, "test", "1.0.0")
	names, err := (&Reader{Store: w.store, Schemas: schemas{}}).Kept(t.Context(), shop, "images")
	if err != nil || !slices.Contains(names, "1.1.0") || slices.Contains(names, "1.2.0") {
		t.Errorf("kept are %v, %v, want what release 1 brings and nothing that no release brings", names, err)
	}
	record(intent.DeliveryRecord{Kind: intent.DeliveryAct, Act: intent.ActResumeRelease, Release: 1})
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
	w.policies[shop].ReleaseLines = nil
	record(intent.DeliveryRecord{Kind: intent.DeliveryRelease, Versions: versions("1.2.0")})
	w.goOn()
	w.expectVersion(shop, "test", "1.1.0")
}
