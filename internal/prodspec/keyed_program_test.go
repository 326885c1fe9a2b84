package prodspec_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
)

// TestKeyedPrograms: a module and a native program run once for each entry, and
// again only for one whose value changed, or for all when what they share did; also
// after a restart. What goes wrong names the entry, and head stays.
func TestKeyedPrograms(t *testing.T) {
	for kind, program := range programs {
		t.Run(kind, func(t *testing.T) {
			w := variedWorld(t, program, "entry")
			w.remove("in")
			w.replace("lehr.yaml", `  in: {dir: in, files: ["*.yaml"]}`, "  teams: {files: [teams.yaml]}\n  shared: {files: [shared.txt]}")
			w.replace("lehr.yaml", "from: [in]", "from: [teams, shared], for_each: {key: spec.teams}")
			w.write("shared.txt", "all")
			entries := map[string]string{"web": "owner: ann", "api": "owner: bob", "db": "owner: cyd"}
			write := func(comment string) {
				text := comment + "spec:\n  teams:\n"
				for _, key := range slices.Sorted(maps.Keys(entries)) {
					text += fmt.Sprintf("    %s: {%s}\n", key, entries[key])
				}
				w.write("teams.yaml", text)
			}
			write("")
			w.runner = w.runnerOf(false)
			w.start()
			if first := w.served(1); first.Executions != 3 {
				t.Fatalf("%d runs at first, want 3", first.Executions)
			}
			sequence := intent.Sequence(1)
			runs := func(what string, want int, publishes bool) {
				t.Helper()
				before := w.pipeline.Status()
				write(fmt.Sprintf("# %s\n", what))
				if publishes {
					sequence++
				}
				after := w.wait(what, func(s prodspec.Status) bool {
					return s.State == prodspec.Serving && s.Head.Sequence == sequence && sourceOf(s.Sources, "teams") != sourceOf(before.Sources, "teams")
				})
				if got := after.Executions - before.Executions; got != want {
					t.Errorf("%s: %d runs, want %d", what, got, want)
				}
			}
			entries["web"] = "owner: dan"
			runs("one value", 1, true)
			entries["web"] = `"owner": 'dan'`
			runs("written otherwise", 0, false)
			delete(entries, "db")
			entries["cache"] = "owner: eve"
			runs("one more, and one less", 1, true)
			if ids := w.assets(); !slices.Equal(ids, []intent.AssetID{intent.PolicyAsset, "owner/api", "owner/cache", "owner/web"}) {
				t.Errorf("assets %v", ids)
			}
			if owner, labels := w.owner(sequence, "owner/web"); owner != "dan" || labels["shared"] != "shared.txt: all" || labels["file"] != "" {
				t.Errorf("web has the owner %q, of %v", owner, labels)
			}
			if origin := w.blame(sequence, "owner/web", "payload.owner").Origin; len(origin.Inputs) == 0 || origin.Inputs[0].File != "teams.yaml" {
				t.Errorf("it comes from %+v, want the file of the entries", origin)
			}
			w.stop()
			w.start()
			if status := w.served(sequence); status.Executions != 0 {
				t.Errorf("%d runs after a restart", status.Executions)
			}

			for value, want := range map[string]string{
				"fail: true":  "the run of g for teams.yaml#api ended with ",
				"wrong: true": "api has the wrong owner",
			} {
				ran := w.pipeline.Status().Executions
				entries["api"] = value
				write("# " + value + "\n")
				status := w.wait(value, func(s prodspec.Status) bool {
					return s.State == prodspec.Rejected && strings.HasPrefix(s.Findings[0].Message, want)
				})
				if f := status.Findings[0]; len(status.Findings) != 1 || f.Hint == "" || f.Line == 0 || status.Head.Sequence != sequence {
					t.Errorf("%s: %+v, head %s", value, status.Findings, status.Head)
				}
				if status.Executions != ran+1 {
					t.Errorf("%s: %d runs, want one", value, status.Executions-ran)
				}
				entries["api"] = "owner: bob"
				write("")
				w.wait("the end of "+value, func(s prodspec.Status) bool { return s.State == prodspec.Serving })
			}

			w.write("shared.txt", "most")
			before := w.pipeline.Status().Executions
			if status := w.served(sequence + 1); status.Executions-before != 3 {
				t.Errorf("%d runs when what all read changed, want 3", status.Executions-before)
			}
			if _, labels := w.owner(sequence+1, "owner/api"); labels["shared"] != "shared.txt: most" {
				t.Errorf("api was told %v", labels)
			}
			w.stop()
			if built := w.verify(); !built.OK() || len(built.Assets) != 4 {
				t.Errorf("built twice: %+v", built.Findings)
			}
		})
	}
}

// owner and labels that an asset has.
func (w *world) owner(sequence intent.Sequence, id intent.AssetID) (string, map[string]string) {
	w.t.Helper()
	asset, owner, labels := w.content(sequence, id), &intentpb.Owner{}, &intentpb.Labels{}
	if err := schema.Payload(asset, owner); err != nil {
		w.t.Fatal(err)
	}
	if _, err := schema.Addon(asset, labels); err != nil {
		w.t.Fatal(err)
	}
	return owner.Owner, labels.Labels
}
