package relational_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/sqlite"
)

// TestOldChangesAreForgotten: by their number and by their bytes, the newest
// never, and the audit says which.
func TestOldChangesAreForgotten(t *testing.T) {
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	by := intent.Actor{Name: "tester"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.AddPartition(t.Context(), "shop", "/shop/lehr.yaml", "", by))
	s.KeepLess(5, 1000)
	_, err = s.CreateDocument(t.Context(), "shop", "knobs", []byte(`{}`), "", by)
	must(err)
	set := func(base int, value string) {
		t.Helper()
		text, err := json.Marshal(value)
		must(err)
		_, err = s.EditDocument(t.Context(), "shop", "knobs", document.Edit{Base: fmt.Sprint(base), Operations: []document.Operation{{Path: "/a", Value: text}}}, by)
		must(err)
	}
	kept := func(want int) {
		t.Helper()
		list, err := s.DocumentRevisions(t.Context(), "shop", "knobs", "", 0)
		must(err)
		if len(list) != want {
			t.Errorf("%d revisions are kept, want %d", len(list), want)
		}
		verified, err := s.Verify(t.Context())
		if err != nil || verified.Documents != 1 {
			t.Errorf("verified %+v, %v", verified, err)
		}
	}
	for base := 1; base < 8; base++ {
		set(base, fmt.Sprint(base))
	}
	kept(5)
	if found, err := s.Document(t.Context(), "shop", "knobs", "4"); err != nil || string(found.Content) != `{"a":"3"}` {
		t.Errorf("the oldest that is kept: %s, %v", found.Content, err)
	}
	if _, err := s.Document(t.Context(), "shop", "knobs", "3"); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "kept from revision 4 on") {
		t.Errorf("one that is not: %v", err)
	}
	set(8, strings.Repeat("x", 900))
	kept(2)
	set(9, strings.Repeat("y", 2000)) // The newest stays, however large.
	kept(1)
	records, err := s.AuditRecords(t.Context(), "shop", 0, 0)
	must(err)
	if last := records[len(records)-1]; last.Detail != "revision 10: set /a; forgot revisions 8 to 9" {
		t.Errorf("the audit says %q", last.Detail)
	}
}
