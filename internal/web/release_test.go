package web_test

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestReleases: the page of delivery has a row for each release, its own page says what it waits for, and each act on
// it says first what it would change.
func TestReleases(t *testing.T) {
	w := newWorld(t)
	w.deliver()
	if text := words(w.shows("/partition/shop/delivery")); strings.Contains(text, "Releases of") {
		t.Errorf("a partition without a line shows %s", text)
	}
	w = newWorld(t)
	w.deliver(func(policy *intentpb.Policy) {
		policy.Deliveries[0].Releases = "shop/main"
		policy.ReleaseLines = []*intentpb.ReleaseLine{{Name: "main", Applications: []string{"shop/web", "gone/mail"}}}
	})
	if text := words(w.shows("/partition/shop/delivery", `href="partition/shop/releases?line=main"`)); !strings.Contains(text, "Releases of main Make a release No release is under way") {
		t.Errorf("a line without releases shows %s", text)
	}
	_, err := w.store.RecordDelivery(t.Context(), intent.DeliveryRecord{
		Partition: "shop", Application: "main", Kind: intent.DeliveryRelease, By: ann, Reason: "the week",
		Versions: map[string]intent.VersionName{"shop/web": {Name: "1.1.0", Digest: "sha256:b"}, "gone/mail": {Name: "2.0.0"}},
	}, store.DeliveryAuthority{Partition: "shop", AnyOf: []intent.Role{intent.Operator}})
	w.must(err)
	board := words(w.shows("/partition/shop/delivery", `href="partition/shop/release/1?line=main"`, "act/hold-release?"))
	for _, want := range []string{"release brings state test production made", "1 train mail 2.0.0, web 1.1.0 moving approved", "pending"} {
		if !strings.Contains(board, want) {
			t.Errorf("the board does not say %q: %s", want, board)
		}
	}
	one := words(w.shows("/partition/shop/release/1?line=main", "act/skip-release?environment=production"))
	for _, want := range []string{"made", "the week", "production pending", "shop/web 1.1.0 pending", "people waits for people, 0 of 1 have approved", "partition gone is not registered"} {
		if !strings.Contains(one, want) {
			t.Errorf("the release's page does not say %q: %s", want, one)
		}
	}
	w.shows("/partition/shop/releases?line=main", "1.1.0")
	abort := "/partition/shop/act/abort-release?line=main&release=1"
	if text := words(w.shows(abort)); !strings.Contains(text, "Abort release 1 of main") || !strings.Contains(text, "shop/web test") {
		t.Errorf("the form of an abort says %s", text)
	}
	skip := "/partition/shop/act/skip-release?line=main&release=1&environment=production"
	w.acts(skip, "reason", "not there")
	if text := words(w.shows("/partition/shop/release/1?line=main", "act/resume-release?environment=production")); !strings.Contains(text, "production skipped") || !strings.Contains(text, "not there") {
		t.Errorf("a release that was skipped shows %s", text)
	}
	w.acts(abort, "reason", "it loses orders")
	if text := w.shows("/partition/shop/release/1?line=main", "aborted"); strings.Contains(text, "act/hold-release") {
		t.Errorf("an aborted release can be held: %s", words(text))
	}
	if text := w.shows(abort); strings.Contains(text, `method="post"`) || !strings.Contains(text, `class="notice bad"`) {
		t.Errorf("it can be aborted twice: %s", words(text))
	}
	rows, err := w.store.DeliveryRecords(t.Context(), "shop", store.DeliveryFilter{Application: "main"})
	w.must(err)
	if len(rows) != 3 || rows[1].Act != intent.ActSkipRelease || rows[1].Environment != "production" || rows[2].Act != intent.ActAbortRelease || rows[2].By.Origin != "page" {
		t.Errorf("the rows are %+v", rows)
	}
	for path, says := range map[string]string{
		"/partition/shop/release/7?line=main": "there is no release 7 of main", "/partition/shop/release/x?line=main": "is no number of a release", "/partition/shop/releases?line=mian": "did you mean main",
	} {
		if _, text := w.get(path); !strings.Contains(words(text), says) {
			t.Errorf("%s shows %s, want %q", path, words(text), says)
		}
	}
}

// TestAReleaseIsMade by a form that asks for the versions first, and shows what they would do.
func TestAReleaseIsMade(t *testing.T) {
	w := newWorld(t)
	w.deliver(func(policy *intentpb.Policy) {
		policy.Deliveries[0].Releases = "shop/main"
		policy.ReleaseLines = []*intentpb.ReleaseLine{{Name: "main", Applications: []string{"shop/web"}}}
	})
	w.shows("/partition/shop/delivery", `href="partition/shop/act/release-create?line=main"`)
	if form := w.shows("/partition/shop/act/release-create?line=main", "shop/web", "See what it would do"); strings.Contains(form, `method="post"`) {
		t.Error("a release can be made before its versions are known")
	}
	for versions, want := range map[string]string{
		"web": "is no APPLICATION=VERSION", "=1": "is no APPLICATION=VERSION", "web=1.1.0+web=1.1.0": "web is named twice", "nobody=1.1.0": "nobody", "web=9.9.9": "9.9.9",
	} {
		if form := w.shows("/partition/shop/act/release-create?line=main&versions="+versions, want); strings.Contains(form, `method="post"`) {
			t.Errorf("%s can be released: %s", versions, words(form))
		}
	}
	w.shows("/partition/shop/act/release-create?line=main&versions=web%3D1.1.0&mode=sideways", "is no mode")
	path := "/partition/shop/act/release-create?line=main&mode=immediate&versions=web%3D1.1.0"
	w.shows(path, "How it would stand", "production", "Make the release", "What it would change")
	releases := func() (list []intent.DeliveryRecord) {
		rows, err := w.store.DeliveryRecords(t.Context(), "shop", store.DeliveryFilter{Application: "main"})
		w.must(err)
		for _, row := range rows {
			if row.Kind == intent.DeliveryRelease {
				list = append(list, row)
			}
		}
		return list
	}
	if made := releases(); len(made) > 0 {
		t.Fatalf("looking at the form made %+v", made)
	}
	if said := words(w.acts(path, "reason", "the week <b>")); !strings.Contains(said, "Release 1 of main is made.") {
		t.Errorf("it says %s", said)
	}
	made := releases()
	if len(made) != 1 || !made[0].Immediate || made[0].Versions["shop/web"].Name != "1.1.0" || made[0].Reason != "the week <b>" {
		t.Errorf("made are %+v", made)
	}
	w.shows("/partition/shop/release/1?line=main", "1.1.0", "the week &lt;b&gt;")
}
