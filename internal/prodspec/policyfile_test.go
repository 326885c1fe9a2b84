package prodspec_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/test/gitrepo"
)

// TestACommonPolicyInARepositoryThatIsAway: it is read from a repository; while that is away it is
// no policy that was read, and says since when; back again it is read as it is then.
func TestACommonPolicyInARepositoryThatIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at a repository for seconds")
	}
	w, origin := newWorld(t, "web"), gitrepo.New(t)
	commit := func(rule string) {
		origin.Write("ops/lehr-policy.yaml", "lehr: v1\nrules:\n  "+rule+": {owner: platform, for: all}\n")
		origin.Commit(rule)
	}
	commit("first")
	options := w.elsewhere()
	options.Partition, options.Runtime, options.Wake = intent.PartitionID("common-policy"), loop.Real(), func() {}
	file, err := prodspec.OpenPolicy(prodspec.Program{Definition: origin.Folder + "//ops/lehr-policy.yaml?ref=main&every=1s", Elsewhere: options})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	until := func(what string, is func(content string, err error) bool) {
		t.Helper()
		for deadline := time.Now().Add(waitAtMost); ; time.Sleep(5 * time.Millisecond) {
			content, _, err := file.Read(t.Context(), time.Now())
			if is(string(content), err) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is not %s: %q, %v", what, content, err)
			}
		}
	}
	says := func(rule string) func(string, error) bool {
		return func(content string, err error) bool { return err == nil && strings.Contains(content, "  "+rule+":") }
	}
	until("read", says("first"))
	if err := os.Rename(origin.Folder, origin.Folder+".away"); err != nil {
		t.Fatal(err)
	}
	until("away", func(content string, err error) bool {
		return content == "" && fault.Is(err, fault.Unavailable) && strings.Contains(err.Error(), "lehr-policy.yaml cannot be read since ")
	})
	if err := os.Rename(origin.Folder+".away", origin.Folder); err != nil {
		t.Fatal(err)
	}
	commit("second")
	until("read again", says("second"))
}
