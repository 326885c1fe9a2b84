package prodspec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
)

// mostWorkflowBytes of all workflows of a partition: they are part of the asset lehr/policy,
// which may have intent.MaxAssetBytes.
const mostWorkflowBytes = 100_000

// exploredWorkflow is what a workflow's file said when it was looked at last.
type exploredWorkflow struct {
	// file and digest of its content that was looked at.
	file     string
	digest   intent.Digest
	text     string
	explored generate.Explored
	findings []intent.Finding
}

// readWorkflows reads the files of workflows, has those that changed explored, and adds what
// they define to the policy.
func (s *sources) readWorkflows(ctx context.Context, now time.Time, changes source.Changes, r *reading) error {
	list := r.definition.Workflows
	files := make([]workflowFile, len(list))
	for i, w := range list {
		if _, err := s.readOne(ctx, now, changes, w.Source(), r); err != nil {
			return err
		}
		if f := s.folders[w.Source().Name]; f.snapshot != nil && len(f.snapshot.Files) == 1 {
			files[i] = workflowFile{w, f.directory, f.snapshot.Files[0]}
		}
	}
	if len(r.findings) > 0 || s.tooLarge(files, r) {
		return nil
	}
	if err := s.exploreWorkflows(ctx, files, r); err != nil || len(r.findings) > 0 {
		return err
	}
	s.addWorkflows(list, r)
	return nil
}

// workflowFile is a workflow and its file as it was listed.
type workflowFile struct {
	definition.Workflow
	folder source.Folder
	file   source.File
}

// tooLarge finds workflows that are too large together.
func (s *sources) tooLarge(files []workflowFile, r *reading) bool {
	total := int64(0)
	for _, f := range files {
		total += f.file.Size
	}
	if total <= mostWorkflowBytes {
		return false
	}
	r.findings = append(r.findings, intent.Finding{
		Rule: "workflow", Severity: intent.Error, File: s.file, Line: max(r.definition.Lines["workflows"], 1), Field: "workflows",
		Message: fmt.Sprintf("the files of all workflows have %d bytes, at most %d are kept with a partition", total, mostWorkflowBytes),
		Hint:    "shorten them, remove those that nobody starts, or define several partitions",
	})
	return true
}

// exploreWorkflows whose files changed since they were explored.
func (s *sources) exploreWorkflows(ctx context.Context, files []workflowFile, r *reading) error {
	known := map[string]exploredWorkflow{}
	working := false
	for _, f := range files {
		name := f.Source().Name
		last, ok := s.workflows[name]
		if ok && last.file == f.File && last.digest == f.file.Digest {
			known[name] = last
			continue
		}
		if !working {
			if err := s.workOn(ctx, r); err != nil {
				return err
			}
			working = true
		}
		content, err := f.folder.Content(f.file)
		if err != nil {
			return s.cannotRead(ctx, err, f.Source(), r)
		}
		explored, findings, err := s.program.Runner.Explore(ctx, f.File, content)
		if fault.Is(err, fault.Unavailable) && ctx.Err() == nil {
			return s.cannotRead(ctx, err, f.Source(), r)
		}
		if err != nil {
			return err
		}
		known[name] = exploredWorkflow{f.File, f.file.Digest, string(content), explored, findings}
	}
	s.workflows = known
	return nil
}

// addWorkflows to the policy, and what is wrong with them to the findings.
func (s *sources) addWorkflows(list []definition.Workflow, r *reading) {
	if len(list) == 0 {
		return
	}
	policy := proto.CloneOf(r.definition.Policy)
	for _, w := range list {
		known := s.workflows[w.Source().Name]
		judge := workflowJudge{workflow: w, known: known, definition: r.definition, findings: slices.Clone(known.findings), sources: map[string]string{}}
		if known.explored.Digest != "" {
			judge.judge()
			s.judgeWorkflowHosts(w, known, r)
		}
		for _, f := range judge.findings {
			if f.Severity == intent.Error {
				r.findings = append(r.findings, f)
			} else {
				r.warnings = append(r.warnings, f)
			}
		}
		policy.Workflows = append(policy.Workflows, &intentpb.Workflow{
			Name: w.Name, Digest: known.explored.Digest, Text: known.text, Sources: judge.sources, File: w.File,
		})
	}
	r.definition.Policy = policy
}

// judgeWorkflowHosts holds the addresses that a workflow calls to what the common policy allows.
func (s *sources) judgeWorkflowHosts(w definition.Workflow, known exploredWorkflow, r *reading) {
	var all []used
	for _, host := range known.explored.Hosts {
		all = append(all, used{"address", host.Name, "workflows." + w.Name, host.Line})
	}
	refused, remarks := r.common.judgeUses(w.File, all)
	r.findings, r.warnings = append(r.findings, refused...), append(r.warnings, remarks...)
}

// workflowJudge holds what a workflow's file says to the rest of the definition.
type workflowJudge struct {
	workflow   definition.Workflow
	known      exploredWorkflow
	definition definition.Definition
	findings   []intent.Finding
	// sources are the names of those that read the documents of its actions, by document.
	sources map[string]string
}

func (j *workflowJudge) fail(line int, hint, format string, arguments ...any) {
	j.findings = append(j.findings, intent.Finding{
		Rule: "workflow", Severity: intent.Error, File: j.workflow.File, Line: max(line, 1), Message: fmt.Sprintf(format, arguments...), Hint: hint,
	})
}

func (j *workflowJudge) judge() {
	if name := j.known.explored.Name; name != j.workflow.Name {
		j.fail(j.known.explored.Line, fmt.Sprintf("write name: %s here, or workflows: {%s: {file: %s}} in lehr.yaml", j.workflow.Name, name, j.workflow.File),
			"the workflow is named %s, and lehr.yaml lists the file as %s", name, j.workflow.Name)
	}
	stored, inGit := j.definition.Documents()
	for _, use := range j.known.explored.Documents {
		j.judgeDocument(use, stored, inGit)
	}
}

// judgeDocument that an action edits: a source of the partition reads it, or nothing would follow
// from the edit.
func (j *workflowJudge) judgeDocument(use workflow.Use, stored map[string]string, inGit []string) {
	name, ok := stored[use.Name]
	switch {
	case ok:
		j.sources[use.Name] = name
		j.judgeOwner(use)
	case use.HasPlaceholder():
		j.fail(use.Line, "write the name of the document; field and value may have placeholders",
			"the action of %s edits the document %.100q, whose name is not known before a run", use.Place, use.Name)
	case slices.Contains(inGit, use.Name):
		j.fail(use.Line, "let it edit a document that Lehr stores; documents in git come later",
			"the action of %s edits %.100q, a file in git, and workflows only edit documents that Lehr stores", use.Place, use.Name)
	default:
		names := slices.Sorted(maps.Keys(stored))
		hint := "name one under sources of lehr.yaml: knobs: {document: knobs}"
		if len(names) > 0 {
			hint += "; known: " + strings.Join(names, ", ")
		}
		if nearest := spell.Nearest(use.Name, names); nearest != "" {
			hint = "is " + nearest + " meant? " + hint
		}
		j.fail(use.Line, hint, "the action of %s edits the document %.100q, which no source of lehr.yaml reads", use.Place, use.Name)
	}
}

// judgeOwner of a field: one that delivery or a rollout sets has an owner, which would undo what a
// run does.
func (j *workflowJudge) judgeOwner(use workflow.Use) {
	refuse := func(owner string) {
		j.fail(use.Line, "let the workflow set a field of its own, or ask for what it wants where that field is decided",
			"the action of %s sets the field %s of the document %s, and so does %s", use.Place, use.Field, use.Name, owner)
	}
	for _, delivery := range j.definition.Policy.GetDeliveries() {
		for _, s := range delivery.GetSelectors() {
			if s.GetDocument() == use.Name && (fieldsOverlap(use.Field, s.GetPointer()) || fieldsOverlap(use.Field, s.GetDigestPointer())) {
				refuse(fmt.Sprintf("delivery, in the environments %s of %s that assets select", s.GetEnvironment(), delivery.GetName()))
				return
			}
		}
		for _, e := range delivery.GetEnvironments() {
			if e.GetPartition() == "" && e.GetDocument() == use.Name && (fieldsOverlap(use.Field, e.GetPointer()) || fieldsOverlap(use.Field, e.GetDigestPointer()) || fieldsOverlap(use.Field, e.GetTask().GetParametersPointer())) {
				refuse(fmt.Sprintf("delivery, in the environment %s of %s", e.GetName(), delivery.GetName()))
				return
			}
		}
	}
	for _, rollout := range j.definition.Policy.GetRollouts() {
		if field := rollout.GetField(); field.GetDocument() == use.Name && fieldsOverlap(use.Field, field.GetPointer()) {
			refuse("the rollout " + rollout.GetName())
			return
		}
	}
}

// fieldsOverlap reports whether two JSON Pointers, with {…} for what is filled in later, may be one
// field, or one in the other.
func fieldsOverlap(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	parts, others := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(parts), len(others)) {
		if parts[i] != others[i] && !strings.Contains(parts[i], "{") && !strings.Contains(others[i], "{") {
			return false
		}
	}
	return true
}
