package versionlist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/ordering"
)

func rules(t *testing.T, limit int, keep ...string) Rules {
	t.Helper()
	order, err := ordering.New(&intentpb.VersionOrder{Prereleases: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return Rules{Order: order, Limit: limit, Keep: keep}
}

func version(name, digest string) Version {
	return Version{Version: strings.TrimPrefix(name, "v"), Name: name, Digest: digest}
}

func names(versions []Version) string {
	var list []string
	for _, v := range versions {
		list = append(list, v.Name)
	}
	return strings.Join(list, " ")
}

// What has no place in the order is listed with the reason, and never among the others.
func TestWhatCannotBeOrderedIsListed(t *testing.T) {
	found := Found{Versions: []Version{version("latest", "a"), version("v1.9.0", "b"), version("v1.10.0", "c"), version("nightly", "d")}}
	list, _ := Arrange(found, rules(t, 10), List{}, time.Now())
	if got := names(list.Versions); got != "v1.10.0 v1.9.0" {
		t.Errorf("versions %s", got)
	}
	if len(list.Unordered) != 2 || list.Unordered[0].Cause != NotInOrder || list.Unordered[0].Reason == "" {
		t.Errorf("unordered %+v", list.Unordered)
	}
}

// The limit leaves out the oldest, counts them, and leaves out nothing that is kept.
func TestALimitHidesNothingThatIsKept(t *testing.T) {
	var found Found
	for i := range 20 {
		found.Versions = append(found.Versions, version(fmt.Sprintf("v1.%d.0", i), "d"), version(fmt.Sprintf("junk-%02d", i), "d"))
	}
	list, _ := Arrange(found, rules(t, 3, "v1.2.0", "1.4.0", "junk-01"), List{}, time.Now())
	if got := names(list.Versions); got != "v1.19.0 v1.18.0 v1.17.0 v1.4.0 v1.2.0" || list.Older != 15 {
		t.Errorf("versions %s, and %d older", got, list.Older)
	}
	if n := len(list.Unordered); n != 4 || list.MoreUnordered != 16 || list.Unordered[3].Name != "junk-01" {
		t.Errorf("%d unordered and %d more: %+v", n, list.MoreUnordered, list.Unordered)
	}
}

// Two artifacts of one name are both refused; the same one twice is one.
func TestTwoOfOneName(t *testing.T) {
	found := Found{Versions: []Version{version("1.0.0", "a"), version("1.0.0", "b"), version("0.9.0", "c"), version("v0.9.0", "c")}}
	list, warnings := Arrange(found, rules(t, 10), List{}, time.Now())
	if got := names(list.Versions); got != "0.9.0" {
		t.Errorf("versions %s", got)
	}
	if len(list.Refused) != 2 || list.Refused[0].Cause != Ambiguous || !strings.Contains(list.Refused[0].Reason, "a, b") {
		t.Errorf("refused %+v", list.Refused)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "1.0.0") {
		t.Errorf("warnings %q", warnings)
	}
}

// Tags that move and versions that are withdrawn stay known, with since when; what was only not
// looked at is neither.
func TestWhatIsGoneStaysKnown(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	first, warnings := Arrange(Found{Versions: []Version{version("1.0.0", "a"), version("1.1.0", "b"), version("1.2.0", "c")}}, rules(t, 10), List{}, began)
	if len(warnings) > 0 {
		t.Fatalf("warnings %q", warnings)
	}
	second, warnings := Arrange(Found{Versions: []Version{version("1.0.0", ""), version("1.2.0", "other")}}, rules(t, 10), first, began.Add(time.Hour))
	if len(second.Withdrawn) != 2 || second.Withdrawn[0].Name != "1.2.0" || second.Withdrawn[0].Digest != "c" || second.Withdrawn[0].MovedTo != "other" ||
		second.Withdrawn[1].Name != "1.1.0" || !second.Withdrawn[1].Since.Equal(began.Add(time.Hour)) {
		t.Errorf("withdrawn %+v", second.Withdrawn)
	}
	if text := strings.Join(warnings, "; "); !strings.Contains(text, "1.2.0 moved from c to other") || !strings.Contains(text, "1.1.0 was withdrawn") {
		t.Errorf("warnings %s", text)
	}
	third, warnings := Arrange(Found{Versions: []Version{version("1.0.0", "a"), version("1.1.0", "b"), version("1.2.0", "other")}}, rules(t, 10), second, began.Add(2*time.Hour))
	if len(third.Withdrawn) != 1 || third.Withdrawn[0].Name != "1.2.0" || !third.Withdrawn[0].Since.Equal(began.Add(time.Hour)) || len(warnings) > 0 {
		t.Errorf("withdrawn %+v, warnings %q", third.Withdrawn, warnings)
	}
}

// The file has what generators read before, and can be read back.
func TestTheFile(t *testing.T) {
	list := List{Versions: []Version{{Version: "1.0.0", Name: "v1.0.0", Digest: "sha256:a"}}}
	text, err := json.Marshal(list)
	if err != nil || string(text) != `{"versions":[{"version":"1.0.0","name":"v1.0.0","digest":"sha256:a"}]}` {
		t.Errorf("%s, %v", text, err)
	}
	back, err := Parse(text)
	if err != nil || !slices.EqualFunc(back.Versions, list.Versions, func(a, b Version) bool { return a.Name == b.Name && a.Digest == b.Digest }) {
		t.Errorf("%+v, %v", back, err)
	}
	if v, ok := back.Find("1.0.0"); !ok || v.Name != "v1.0.0" {
		t.Errorf("found %+v, %v", v, ok)
	}
	if _, err := Parse([]byte("[")); err == nil {
		t.Error("half a list is read")
	}
}
