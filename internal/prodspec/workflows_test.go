package prodspec_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/test/gitrepo"
)

const promoteFile = `workflow: v1
name: promote
inputs: {version: string}
machines:
  deploy:
    initial: deploying
    states:
      deploying:
        action:
          edit: {document: tuning, field: /clusters/a/version, value: "${inputs.version}"}
          runs: at-least-once
          leaves: []
      deployed: {end: success}
      failed: {end: failure}
    transitions:
      - {from: deploying, to: deployed, on: done}
      - {from: deploying, to: failed, on: failed}
`

// withPromote is a world with a document and a workflow that edits it.
func withPromote(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "  service: {files: [service.yaml]}", "  service: {files: [service.yaml]}\n  knobs: {document: tuning}")
	w.replace("lehr.yaml", "from: [service]", "from: [service, knobs]")
	w.replace("lehr.yaml", "validate:\n", "workflows:\n  promote: {file: flows/promote.yaml}\nvalidate:\n")
	w.write("flows/promote.yaml", promoteFile)
	return w
}

// exploring counts how many files of workflows are explored.
type exploring struct {
	generate.Runner
	explored atomic.Int32
}

func (c *exploring) Explore(ctx context.Context, file string, text []byte) (generate.Explored, []intent.Finding, error) {
	c.explored.Add(1)
	return c.Runner.Explore(ctx, file, text)
}

// An edit of a workflow's file publishes it with the next incarnation; one that is wrong is
// rejected at its line, and the incarnation before stays head.
func TestWorkflowsArePublished(t *testing.T) {
	w := withPromote(t)
	runner := &exploring{Runner: w.processes()}
	w.runner = runner
	w.start()
	w.wait("unavailable", func(s prodspec.Status) bool { return s.State == prodspec.Unavailable })
	if _, err := w.store.CreateDocument(t.Context(), "shop", "tuning", []byte(tuning), "begun", person); err != nil {
		t.Fatal(err)
	}
	status := w.served(1)
	if !slices.ContainsFunc(status.Sources, func(r intent.SourceRevision) bool { return r.Source == "workflow/promote" }) {
		t.Errorf("the sources are %+v", status.Sources)
	}
	first := w.policy(1).GetWorkflows()
	if len(first) != 1 || first[0].GetName() != "promote" || first[0].GetText() != promoteFile || first[0].GetFile() != "flows/promote.yaml" ||
		first[0].GetSources()["tuning"] != "knobs" || !strings.HasPrefix(first[0].GetDigest(), "sha256:") {
		t.Fatalf("workflows are %v", first)
	}

	w.replace("flows/promote.yaml", "leaves: []", "leaves: []\n          timeout: 1h")
	w.replace("flows/promote.yaml", "on: failed}", "on: [failed, expired]}")
	w.served(2)
	if second := w.policy(2).GetWorkflows(); second[0].GetDigest() == first[0].GetDigest() || !strings.Contains(second[0].GetText(), "timeout: 1h") {
		t.Errorf("workflows are %v", second)
	}
	explored := runner.explored.Load()
	w.replace("lehr.yaml", "owner: shop-sre@example.com", "owner: other@example.com")
	w.served(3)
	if again := runner.explored.Load(); again != explored {
		t.Errorf("a file that did not change was explored %d times more", again-explored)
	}

	w.replace("flows/promote.yaml", "to: deployed", "to: depolyed")
	f := w.refused(prodspec.Rejected, 3)
	if f.File != "flows/promote.yaml" || f.Line != 17 || !strings.Contains(f.Hint, "is deployed meant?") {
		t.Errorf("the finding is %+v", f)
	}
	w.replace("flows/promote.yaml", "depolyed", "deployed")
	w.served(3)
	w.remove("flows/promote.yaml")
	if f := w.refused(prodspec.Unavailable, 3); f.File != "lehr.yaml" || f.Field != "workflows.promote.file" || f.Line != 13 || !strings.Contains(f.Message, "flows/promote.yaml") {
		t.Errorf("the finding is %+v", f)
	}
}

// tuned builds the definition without a server, with a document tuning.
func (w *world) tuned() prodspec.Program {
	w.t.Helper()
	elsewhere := w.elsewhere()
	elsewhere.Documents = func(_ context.Context, _ intent.PartitionID, name string) (document.Document, error) {
		if name == "builds" {
			return document.Document{Name: name, Content: []byte(`{"1.0.0": {}}`), Revision: document.Revision{ID: "1"}}, nil
		}
		return document.Document{Name: "tuning", Content: []byte(tuning), Size: len(tuning), Revision: document.Revision{ID: "1"}}, nil
	}
	return prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.processes(), Elsewhere: elsewhere}
}

func (w *world) built() prodspec.Built {
	w.t.Helper()
	built, err := prodspec.Build(w.t.Context(), w.tuned(), loop.Real().Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return built
}

// A document in git is none that a workflow edits.
func TestWorkflowsEditNoDocumentsInGit(t *testing.T) {
	w, origin := withPromote(t), gitrepo.New(t)
	origin.Write("prod/sizes.yaml", "a: 1\n")
	origin.Commit("Begin")
	w.replace("lehr.yaml", "  knobs: {document: tuning}", "  knobs: {document: tuning}\n  sizes: {git: "+origin.Folder+", branch: main, document: prod/sizes.yaml}")
	if built := w.built(); !built.OK() {
		t.Fatalf("findings are %+v", built.Findings)
	}
	w.replace("flows/promote.yaml", "document: tuning", "document: sizes")
	built := w.built()
	if len(built.Findings) != 1 || built.Findings[0].Line != 10 || !strings.Contains(built.Findings[0].Message, `"sizes", a file in git`) || !strings.Contains(built.Findings[0].Hint, "documents in git come later") {
		t.Errorf("findings are %+v", built.Findings)
	}
}

// What is wrong between a workflow and the rest of the definition, and what the search finds.
func TestWorkflowsAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		file, old, new string
		line           int
		message, hint  string
		severity       intent.Severity
	}{
		"another name":     {"flows/promote.yaml", "name: promote", "name: demote", 2, "the workflow is named demote, and lehr.yaml lists the file as promote", "name: promote", intent.Error},
		"another document": {"flows/promote.yaml", "document: tuning", "document: tunning", 10, `the action of deploy/deploying edits the document "tunning", which no source of lehr.yaml reads`, "is tuning meant?", intent.Error},
		"a placeholder":    {"flows/promote.yaml", "document: tuning", `document: "${inputs.version}"`, 10, "whose name is not known before a run", "write the name", intent.Error},
		"no role":          {"flows/promote.yaml", "edit: {document: tuning, field: /clusters/a/version, value: \"${inputs.version}\"}\n          runs: at-least-once\n          leaves: []", "person: {question: Now, roles: [aprover]}", 10, `"aprover" is not a role`, "is approver meant?", intent.Error},
		"a run gets stuck": {"flows/promote.yaml", "failed: {end: failure}", "failed:", 14, "a run can get stuck in deploy/failed", "lehr workflow check flows/promote.yaml shows the steps", intent.Error},
		"an unused input":  {"flows/promote.yaml", "inputs: {version: string}", "inputs: {version: string, size: int}", 3, "no guard and no action uses input size", "take it out", intent.Warning},
		"all is too large": {"flows/promote.yaml", "workflow: v1", "workflow: v1\n# " + strings.Repeat("x", 100_000), 12, "at most 100000 are kept with a partition", "shorten them", intent.Error},
		"one is too large": {"flows/promote.yaml", "workflow: v1", "workflow: v1\n# " + strings.Repeat("x", 300_000), 13, "at most 262144 are read", "", intent.Error},
		"it is not YAML":   {"flows/promote.yaml", "machines:", "machines: {", 3, "the file cannot be read", "", intent.Error},
		"another file":     {"lehr.yaml", "flows/promote.yaml", "flows/demote.yaml", 13, `matches "flows/demote.yaml"`, "", intent.Error},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPromote(t)
			w.replace(c.file, c.old, c.new)
			built := w.built()
			found := slices.ContainsFunc(built.Findings, func(f intent.Finding) bool {
				return f.Line == c.line && f.Severity == c.severity && strings.Contains(f.Message, c.message) && strings.Contains(f.Hint, c.hint)
			})
			if !found || built.OK() == (c.severity == intent.Error) {
				t.Errorf("findings are %+v", built.Findings)
			}
		})
	}
}

// TestWorkflowsLeaveSelectedFieldsToDelivery: what a selector's environments set has an owner, also
// before anything is selected.
func TestWorkflowsLeaveSelectedFieldsToDelivery(t *testing.T) {
	for field, refused := range map[string]bool{"/clusters/{each}/version": true, "/clusters/{each}/size": false} {
		w := withPromote(t)
		w.replace("lehr.yaml", "  knobs: {document: tuning}", "  knobs: {document: tuning}\n  versions: {pushed: builds, file: builds.json}")
		w.replace("lehr.yaml", "workflows:\n", "delivery:\n  web: {versions: versions, environments: {cluster: {each: {by: scope nothing}, set: {document: tuning, field: \""+field+"\"}, assets: \"true\"}}}\nworkflows:\n")
		built := w.built()
		found := slices.ContainsFunc(built.Findings, func(f intent.Finding) bool {
			return f.Severity == intent.Error && f.File == "flows/promote.yaml" && strings.Contains(f.Message, "and so does delivery, in the environments cluster of web that assets select")
		})
		if found != refused {
			t.Errorf("%s: findings are %+v", field, built.Findings)
		}
	}
}

// TestWorkflowsLeaveFieldsToTheirOwners: what a rollout sets is not a workflow's to set.
func TestWorkflowsLeaveFieldsToTheirOwners(t *testing.T) {
	for field, refused := range map[string]bool{
		"/clusters/{scope}/version": true, "/clusters/{scope}": true, "/clusters/b/version": false, "/clusters/{scope}/size": false,
	} {
		w := withPromote(t)
		w.replace("lehr.yaml", "workflows:\n", "rollouts:\n  slowly: {select: true, by: {document: tuning, field: \""+field+"\"}, stages: [{rest: true}]}\nworkflows:\n")
		built := w.built()
		found := slices.ContainsFunc(built.Findings, func(f intent.Finding) bool {
			return f.Line == 10 && f.File == "flows/promote.yaml" && strings.Contains(f.Message, "sets the field /clusters/a/version of the document tuning, and so does the rollout slowly")
		})
		if found != refused || built.OK() == refused {
			t.Errorf("%s: findings are %+v", field, built.Findings)
		}
	}
}

// The hosts that a workflow calls are held to what the common policy allows.
func TestWorkflowsCallAllowedHosts(t *testing.T) {
	w := withPromote(t)
	w.replace("flows/promote.yaml", `edit: {document: tuning, field: /clusters/a/version, value: "${inputs.version}"}`, `tell: {url: "https://bad.example/${inputs.version}"}`)
	for allowed, ok := range map[string]bool{"*.good.example": false, "bad.example": true} {
		program := w.tuned()
		common := &intentpb.CommonPolicy{File: "lehr-policy.yaml", Rules: []*intentpb.CommonRule{{
			Name: "hosts", Owner: "platform", Mode: intentpb.CommonRule_MODE_REQUIRE, Allow: &intentpb.Allowance{Addresses: []string{allowed}},
		}}}
		program.Common = func(context.Context) (*intentpb.CommonPolicy, error) { return common, nil }
		built, err := prodspec.Build(t.Context(), program, loop.Real().Now())
		if err != nil {
			t.Fatal(err)
		}
		refused := slices.ContainsFunc(built.Findings, func(f intent.Finding) bool {
			return f.File == "flows/promote.yaml" && f.Line == 10 && f.Field == "workflows.promote" && strings.Contains(f.Message, `the address "bad.example" is not allowed`)
		})
		if refused == ok || built.OK() != ok {
			t.Errorf("with %s allowed: %+v", allowed, built.Findings)
		}
	}
}

// A definition in a repository has its workflows there.
func TestWorkflowsInARepository(t *testing.T) {
	w, origin := newWorld(t, "web"), gitrepo.New(t)
	for _, name := range []string{"lehr.yaml", "service.yaml", "web.star"} {
		content, err := os.ReadFile(filepath.Join(w.folder, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if name == "lehr.yaml" {
			text += "workflows: {ask: {file: flows/ask.yaml}}\n"
		}
		origin.Write("prod/"+name, text)
	}
	ask := strings.NewReplacer("name: promote", "name: ask", "inputs: {version: string}\n", "",
		`edit: {document: tuning, field: /clusters/a/version, value: "${inputs.version}"}`, "ask: {url: https://status.example.com/ready}", "          leaves: []\n", "").Replace(promoteFile)
	origin.Write("prod/flows/ask.yaml", ask)
	origin.Commit("Begin")
	w.definition = origin.Folder + "//prod/lehr.yaml?ref=main&every=1s"
	w.start()
	w.served(1)
	if workflows := w.policy(1).GetWorkflows(); len(workflows) != 1 || workflows[0].GetText() != ask {
		t.Errorf("workflows are %v", workflows)
	}
	origin.Write("prod/flows/ask.yaml", strings.Replace(ask, "/ready", "/quiet", 1))
	commit := origin.Commit("Ask for quiet")
	w.served(2)
	if text := w.policy(2).GetWorkflows()[0].GetText(); !strings.Contains(text, "/quiet") {
		t.Errorf("the workflow is still %s", text)
	}
	if r := w.coverage("workflow/ask"); !strings.HasPrefix(commit, r.Revision) && !strings.HasPrefix(r.Revision, commit) {
		t.Errorf("it is covered at %+v, want commit %s", r, commit)
	}
	origin.Write("prod/flows/ask.yaml", strings.Replace(ask, "to: deployed", "to: deploid", 1))
	origin.Commit("Misspell a state")
	if f := w.refused(prodspec.Rejected, 2); f.File != "flows/ask.yaml" || f.Line != 14 {
		t.Errorf("the finding is %+v", f)
	}
}
