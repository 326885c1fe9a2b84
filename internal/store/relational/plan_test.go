package relational_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/relational"
	"lehr.dev/internal/store/sqlite"
)

// TestPlansFollowTheChange: the statements whose cost must follow the change
// search by what changed, not through the whole partition.
func TestPlansFollowTheChange(t *testing.T) {
	db, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const m = "m USING PRIMARY KEY (partition=? AND asset=?"
	for _, c := range []struct {
		name, text string
		arguments  int
		searches   []string
	}{
		{"many changes", relational.ManyChanges, 5, []string{
			"t USING PRIMARY KEY (partition=? AND asset>?)", "b USING PRIMARY KEY (partition=? AND asset=?", "a USING PRIMARY KEY (partition=? AND asset=?"}},
		{"changes counted", relational.CountChanges, 4, []string{
			"COVERING INDEX member_from (partition=? AND from_seq>? AND from_seq<?)", "COVERING INDEX member_to (partition=? AND to_seq>? AND to_seq<?)"}},
		{"few changes", relational.FewChanges, 5, []string{
			"COVERING INDEX member_from (partition=? AND from_seq>? AND from_seq<?)", "COVERING INDEX member_to (partition=? AND to_seq>? AND to_seq<?)",
			"b USING PRIMARY KEY (partition=? AND asset=?", "a USING PRIMARY KEY (partition=? AND asset=?"}},
		{"changed buckets", relational.ChangedBuckets, 2, []string{
			"COVERING INDEX member_from (partition=? AND from_seq=?)", "COVERING INDEX member_to (partition=? AND to_seq=?)"}},
		{"members of a bucket", relational.MembersOfBucket, 2, []string{"COVERING INDEX member_bucket (partition=? AND bucket=?)"}},
		{"rows of an asset", relational.RowsOfAsset, 3, []string{"PRIMARY KEY (partition=? AND asset=?)"}},
		{"edges to an asset", relational.EdgesOf("to_asset"), 3, []string{"edge_target (partition=? AND to_asset=?)"}},
		{"edges from an asset", relational.EdgesOf("from_asset"), 3, []string{"PRIMARY KEY (partition=? AND from_asset=?)"}},
		{"fields of an asset", relational.FieldsOfAsset, 3, []string{"field_asset (partition=? AND asset=?)"}},
		{"discard fields", relational.DiscardFields, 3, []string{"field_asset (partition=? AND asset=? AND path=?)", "field_from (partition=? AND from_seq=?)"}},
		{"reopen fields", relational.ReopenFields, 3, []string{"field_asset (partition=? AND asset=? AND path=?)", "field_to (partition=? AND to_seq=?)"}},
		{"collect fields", relational.CollectFields, 4, []string{"field_asset (partition=? AND asset=? AND path=?)", "field_to (partition=? AND to_seq>? AND to_seq<?)"}},
		{"search fields", relational.SearchFields, 4, []string{"f USING INDEX field_value (partition=? AND path=? AND value=?", "o USING INDEX field_asset (partition=? AND asset=?"}},
		{"incarnation by time", relational.Incarnations(store.Lookup{At: time.Now()}), 2, []string{"COVERING INDEX incarnation_time (partition=? AND superseded>?)"}},
		{"incarnation by label", relational.Incarnations(store.Lookup{Label: "l"}), 2, []string{"COVERING INDEX label_name (partition=? AND name=?)"}},
		{"incarnation by label and value", relational.Incarnations(store.Lookup{Label: "l", Value: "v"}), 3, []string{"COVERING INDEX label_name (partition=? AND name=? AND value=?)"}},
		{"orphans", relational.ListOrphans, 4, []string{"enforced_adrift (partition=? AND asset>?)", m}},
		{"orphans counted", relational.CountOrphans, 2, []string{"enforced_adrift (partition=?)", m}},
		{"records that left", relational.MarkAdrift, 2, []string{"PRIMARY KEY (partition=? AND asset=?)"}},
		{"claims without an asset", relational.IdleClaims() + " LIMIT $3 + 0", 4, []string{"claim_asset (partition=?)"}},
		{"members", relational.Members(store.AssetFilter{}), 4, []string{"PRIMARY KEY (partition=? AND asset>?)"}},
		{"members by prefix", relational.Members(store.AssetFilter{Prefix: "a"}), 6, []string{"PRIMARY KEY (partition=? AND asset>? AND asset<?)"}},
		{"members by type", relational.Members(store.AssetFilter{Type: "t"}), 5, []string{"member_type (partition=? AND type=? AND asset>?)"}},
		{"members by field", relational.Members(store.AssetFilter{Field: "f"}), 5, []string{"f USING PRIMARY KEY (partition=? AND path=? AND asset>?)", m}},
		{"members by value", relational.Members(store.AssetFilter{Field: "f", Value: "v", Type: "t"}), 7, []string{
			"f USING INDEX field_value (partition=? AND path=? AND value=? AND asset>?)", m}},
		{"members by reference", relational.Members(store.AssetFilter{RefersTo: "a"}), 5, []string{
			"e USING INDEX edge_target (partition=? AND to_asset=? AND from_asset>?)", m}},
		{"members by reference and field", relational.Members(store.AssetFilter{RefersTo: "a", Field: "f", Value: "v"}), 7, []string{
			"e USING INDEX edge_target (partition=? AND to_asset=? AND from_asset>?)", m, "f EXISTS USING INDEX field_value (partition=? AND path=? AND value=? AND asset=?"}},
		{"runs of workflows", relational.WorkflowRuns(store.WorkflowFilter{Before: 1}), 3, []string{"sqlite_autoindex_workflow_run_1 (partition=? AND number<?)"}},
		{"runs of a workflow", relational.WorkflowRuns(store.WorkflowFilter{Workflow: "w"}), 3, []string{"workflow_run_name (partition=? AND workflow=?)"}},
		{"runs that go on", relational.WorkflowRuns(store.WorkflowFilter{Open: true}), 2, []string{"workflow_run_open (partition=?)"}},
		{"runs that changed", relational.WorkflowRuns(store.WorkflowFilter{Touched: new(uint64)}), 3, []string{"workflow_run_touched (partition=? AND touched>?)"}},
		{"runs that go on and changed", relational.WorkflowRuns(store.WorkflowFilter{Open: true, Touched: new(uint64)}), 3, []string{"workflow_run_touched (partition=? AND touched>?)"}},
		{"services", relational.ServicesAfter, 3, []string{"COVERING INDEX report_group (partition=? AND service>?)"}},
		{"a service of all partitions", relational.SurveyService, 1, []string{"r USING COVERING INDEX report_group (partition=? AND service=?)"}},
		{"what asks, of a service", relational.SurveyAsking, 1, []string{"USING INDEX report_asks"}},
		{"pushes of a service", relational.ServicePushes, 3, []string{"s EXISTS USING COVERING INDEX report_group (partition=? AND service=?)"}},
		{"groups counted", relational.CountGroups, 3, []string{"COVERING INDEX report_group (partition=? AND service>? AND service<?)"}},
		{"an instance counted", relational.CountInstance, 3, []string{"COVERING INDEX report_group (partition=? AND service=?)"}},
		{"unhealthy members counted", relational.CountUnhealthy, 3, []string{"report_unhealthy (partition=? AND state=?"}},
		{"unseen members", relational.CountUnseen, 4, []string{"s USING INDEX field_value (partition=? AND path=? AND value=?)", "i USING INDEX field_asset (partition=? AND asset=? AND path=?"}},
		{"the group of an asset", relational.FieldsOfGroup, 3, []string{"field_asset (partition=? AND asset=? AND path=?"}},
		{"reports of a group by state", relational.ReportsBy(store.ReportFilter{Group: intent.Group{Service: "s"}, State: "waiting"}), 7, []string{
			"report_group (partition=? AND service=? AND state=?)"}},
		{"reports of an instance by state", relational.ReportsBy(store.ReportFilter{Group: intent.Group{Service: "s", Instance: "i"}, State: "waiting"}), 8, []string{
			"report_group (partition=? AND service=? AND state=? AND instance=?"}},
		{"reports by state", relational.ReportsBy(store.ReportFilter{State: "waiting"}), 6, []string{"report_state (partition=? AND state=? AND asset>? AND asset<?)"}},
		{"what is unhealthy in sync", relational.ReportsBy(store.ReportFilter{Unhealthy: true}), 5, []string{"report_unhealthy (partition=? AND state=? AND asset>? AND asset<?)"}},
		{"what is unhealthy in sync, of a group", relational.ReportsBy(store.ReportFilter{Group: intent.Group{Service: "s"}, Unhealthy: true}), 6, []string{"report_unhealthy (partition=? AND state=?"}},
		{"reports", relational.ReportsBy(store.ReportFilter{}), 5, []string{"PRIMARY KEY (partition=? AND asset>? AND asset<?)"}},
	} {
		rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.text, make([]any, c.arguments)...)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, step)
		}
		rows.Close()
		if steps := strings.Join(plan, "\n"); (strings.HasPrefix(c.name, "members") || c.name == "many changes") && strings.Contains(steps, "FOR ORDER BY") {
			t.Errorf("%s: sorts all before it returns a page:\n%s", c.name, steps)
		}
		for _, search := range c.searches {
			if !strings.Contains(strings.Join(plan, "\n"), search) {
				t.Errorf("%s: does not search by %s:\n%s", c.name, search, strings.Join(plan, "\n"))
			}
		}
	}
}

// TestNoBareLimit: SQLite compiles a statement anew for each new value of a
// parameter that stands alone after LIMIT, for it plans by that value; that
// took a seventh of the time of all that the store did.
func TestNoBareLimit(t *testing.T) {
	bare := regexp.MustCompile(`LIMIT \$[0-9]+(?: \+ 0)?`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range bare.FindAllString(string(text), -1) {
			if seen++; !strings.HasSuffix(limit, "+ 0") {
				t.Errorf("%s: %q: write %q, so that the statement is compiled once", file, limit, limit+" + 0")
			}
		}
	}
	if seen == 0 {
		t.Error("no statement with a limit was found: is the text written otherwise?")
	}
}
