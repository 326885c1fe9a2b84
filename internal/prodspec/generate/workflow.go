package generate

import (
	"context"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/workflow"
)

// workflowBounds of a search while a partition is built. A search that reaches them is a
// warning; a person can look further (lehr workflow check --limit).
var workflowBounds = workflow.Bounds{States: 5000, Effort: 5_000_000}

// mostWorkflowFindings of one file are told.
const mostWorkflowFindings = 50

// Explored is what a file says that defines a workflow.
type Explored struct {
	// Name of the workflow, and the Line where it is written.
	Name string `json:"name"`
	Line int    `json:"line"`
	// Digest of what it says.
	Digest string `json:"digest"`
	// Documents that its actions edit, and Hosts that they call.
	Documents []workflow.Use `json:"documents,omitempty"`
	Hosts     []workflow.Use `json:"hosts,omitempty"`
}

// workflowRequest asks what a file says; workflowReply has that and findings.
type workflowRequest struct {
	File string `json:"file"`
	Text []byte `json:"text"`
}

type workflowReply struct {
	Explored Explored         `json:"explored"`
	Findings []intent.Finding `json:"findings,omitempty"`
}

// Explore implements Runner. What takes the child along is a finding.
func (p *Process) Explore(ctx context.Context, file string, text []byte) (Explored, []intent.Finding, error) {
	var reply workflowReply
	death, err := p.ask(ctx, schema.Builtin(), frameWorkflow, workflowRequest{file, text}, "checking the workflow "+file, &reply)
	if err != nil {
		return Explored{}, nil, err
	}
	if death != nil {
		f := death.Findings[0]
		f.Rule, f.File, f.Line, f.Hint = "workflow", file, 1, "make the workflow smaller; it is not checked again until it changes"
		return Explored{}, []intent.Finding{f}, nil
	}
	return reply.Explored, reply.Findings, nil
}

// Explore implements Runner.
func (p InProcess) Explore(ctx context.Context, file string, text []byte) (Explored, []intent.Finding, error) {
	reply := exploreWorkflow(file, text)
	return reply.Explored, reply.Findings, ctx.Err()
}

func exploreWorkflow(file string, text []byte) workflowReply {
	definition, found := workflow.Read(file, text)
	var reply workflowReply
	if definition != nil {
		reply.Explored = Explored{
			Name: definition.Name, Line: definition.Line, Digest: definition.Digest(), Documents: definition.Documents(), Hosts: definition.Hosts(),
		}
		found = append(found, definition.CheckWithin(workflowBounds).Findings...)
	}
	// Errors come first, so that none is left out for a warning.
	for _, severity := range []intent.Severity{intent.Error, intent.Warning} {
		for _, f := range found {
			if f.Severity == severity && len(reply.Findings) < mostWorkflowFindings {
				reply.Findings = append(reply.Findings, withTrace(f, file))
			}
		}
	}
	return reply
}

// withTrace is a finding that says who shows the way there, if there is one.
func withTrace(f workflow.Finding, file string) intent.Finding {
	if len(f.Trace) > 0 {
		f.Hint += "; lehr workflow check " + file + " shows the steps that lead there"
	}
	return f.Finding
}
