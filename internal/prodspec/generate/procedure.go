package generate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	workflowpb "lehr.dev/gen/lehr/workflow/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/prodspec/generate/work"
)

// procedureType is that of assets whose push is a workflow.
var procedureType = intent.TypeName((&workflowpb.Procedure{}).ProtoReflect().Descriptor().FullName())

// judgeProcedures has a run fail whose assets have definitions of workflows that are wrong: a push
// that could get stuck would find out in the middle. Each definition is explored once, however many
// assets have it. open returns what the run read, where the definition's lines are looked for.
func judgeProcedures(result work.Result, open func(work.Read) []byte) work.Result {
	j := &procedureJudge{reads: result.Reads, open: open, known: map[string]exploredProcedure{}}
	for _, made := range result.Assets {
		if made.Type != procedureType {
			continue
		}
		// What is no such asset is refused where the run's answer is checked.
		procedure := &workflowpb.Procedure{}
		asset, err := schema.Decode(made.Body)
		if err != nil || schema.Payload(asset, procedure) != nil || procedure.Definition == "" {
			continue
		}
		j.judge(made, procedure)
	}
	if len(j.errors) > 0 {
		result.Assets, result.Blobs, result.Warnings, result.Findings = nil, nil, nil, j.errors
		return result
	}
	result.Warnings = append(result.Warnings, j.warnings...)
	return result
}

type procedureJudge struct {
	reads            []work.Read
	open             func(work.Read) []byte
	known            map[string]exploredProcedure
	errors, warnings []intent.Finding
}

// exploredProcedure is what was found out about the text of a definition.
type exploredProcedure struct {
	definition *workflow.Definition
	hasErrors  bool
}

func (j *procedureJudge) judge(made work.Asset, procedure *workflowpb.Procedure) {
	explored, ok := j.known[procedure.Definition]
	if !ok {
		explored = j.explore(made, procedure.Definition)
		j.known[procedure.Definition] = explored
	}
	if explored.hasErrors {
		return // It is told once, not with every asset.
	}
	inputs, err := explored.definition.CheckInputs(procedure.Inputs)
	if err != nil {
		j.refuse(made, "payload.inputs", err)
		return
	}
	for _, wanted := range []struct {
		field  string
		values map[string]string
	}{{"want", procedure.GetObserve().GetWant()}, {"healthy", procedure.GetObserve().GetHealthy()}} {
		for _, place := range slices.Sorted(maps.Keys(wanted.values)) {
			if _, err := explored.definition.FillInputs(wanted.values[place], inputs); err != nil {
				j.refuse(made, fmt.Sprintf("payload.observe.%s[%q]", wanted.field, place), err)
			}
		}
	}
	if get := procedure.GetObserve().GetGet(); get != "" {
		if problem := workflow.PathProblem(get); problem != "" {
			j.refuse(made, "payload.observe.get", fault.New(fault.Invalid, "%.100q is no path below the thing: %s", get, problem).WithHint("write /PATH, or leave it out"))
		}
	}
	for _, use := range explored.definition.Endpoints() {
		if !slices.Contains(procedure.Also, use.Name) {
			j.refuse(made, "payload.also", fault.New(fault.Invalid, "the action of %s calls the endpoint %.100q, which the asset does not name", use.Place, use.Name).
				WithHint("add it: also: [%s]", use.Name))
		}
	}
}

func (j *procedureJudge) refuse(made work.Asset, field string, err error) {
	f := intent.Finding{Rule: "workflow", Severity: intent.Error, Asset: made.ID, Field: field, File: made.File, Line: max(made.Line, 1), Message: err.Error()}
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		f.Message, f.Hint = cause.Message, cause.Hint
	}
	j.errors = append(j.errors, f)
}

// explore a definition, and tell what is wrong with it at the file that has its text.
func (j *procedureJudge) explore(made work.Asset, text string) exploredProcedure {
	definition, found := workflow.ReadForPush("the definition", []byte(text))
	if definition != nil {
		found = append(found, definition.CheckWithin(workflowBounds).Findings...)
	}
	file, offset, isLocated := locateText(text, j.reads, j.open)
	for _, one := range found[:min(len(found), mostWorkflowFindings)] {
		f := one.Finding
		f.Asset, f.Field = made.ID, "payload.definition"
		if isLocated {
			f.File, f.Line = file, f.Line+offset
		} else {
			f.Message = fmt.Sprintf("line %d of the definition: %s", f.Line, f.Message)
			f.File, f.Line, f.Column = made.File, max(made.Line, 1), 0
		}
		if len(one.Trace) > 0 {
			f.Hint += "; the way there: " + wayOf(one.Trace)
		}
		if f.Severity == intent.Error {
			j.errors = append(j.errors, f)
		} else {
			j.warnings = append(j.warnings, f)
		}
	}
	return exploredProcedure{definition, definition == nil || len(workflow.Errors(found)) > 0}
}

// wayOf a trace in one line, its end if it is long.
func wayOf(trace []workflow.Move) string {
	const most = 6
	var events []string
	for _, move := range trace[max(0, len(trace)-most):] {
		events = append(events, move.Event)
	}
	if len(trace) > most {
		return "…, " + strings.Join(events, ", ")
	}
	return strings.Join(events, ", ")
}

// locateText finds the only place in what was read that has the lines of a text, each indented as
// it likes: in a file of its own, or as a block within another one. offset is to be added to a line
// of the text.
func locateText(text string, reads []work.Read, open func(work.Read) []byte) (file string, offset int, ok bool) {
	wanted := trimmedLines(text)
	if len(wanted) < 2 {
		return "", 0, false
	}
	for _, read := range reads {
		if read.Kind != work.ReadFile {
			continue
		}
		lines := trimmedLines(string(open(read)))
		for at := 0; at+len(wanted) <= len(lines); at++ {
			if !slices.Equal(lines[at:at+len(wanted)], wanted) {
				continue
			}
			if ok {
				return "", 0, false
			}
			file, offset, ok = read.Name, at, true
		}
	}
	return file, offset, ok
}

func trimmedLines(text string) []string {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}
