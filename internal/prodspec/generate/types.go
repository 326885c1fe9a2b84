package generate

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/validate"
)

// typesRequest asks for .proto files to be compiled; typesReply has the set's
// files, or findings.
type typesRequest struct {
	Files []schema.SourceFile `json:"files"`
}

type typesReply struct {
	Set      []byte           `json:"set,omitempty"`
	Findings []intent.Finding `json:"findings,omitempty"`
}

// judgeRequest asks for the rules of own types to be applied.
type judgeRequest struct {
	Bodies [][]byte `json:"bodies"`
}

type judgeReply struct {
	Findings []intent.Finding `json:"findings,omitempty"`
}

// compileTypes compiles, and compiles the rules that the types bear: a rule
// that is none would fail each asset of the type.
func compileTypes(ctx context.Context, files []schema.SourceFile) (*schema.Set, []intent.Finding) {
	compiled, findings := schema.Compile(ctx, files, starlark.Reserved)
	if compiled == nil {
		return nil, findings
	}
	contents, err := validate.NewContents(compiled.Set)
	if err != nil {
		return nil, []intent.Finding{validate.FromError("types", "", err)}
	}
	for _, name := range compiled.Own {
		if ctx.Err() != nil {
			break
		}
		if err := contents.CheckRules(name); err != nil {
			at := compiled.Place(protoreflect.FullName(name))
			findings = append(findings, intent.Finding{
				Rule: "types", Severity: intent.Error, File: at.File, Line: at.Line, Column: at.Column, Field: string(name),
				Message: fmt.Sprintf("the rules of %s cannot be applied: %v", name, err), Hint: "mend its buf.validate options",
			})
		}
	}
	if len(findings) > 0 {
		return nil, findings[:min(len(findings), mostBroken)]
	}
	return compiled.Set, nil
}

// mostBroken rules are told at once.
const mostBroken = 20

// judgeBodies applies the rules of own types to canonical assets.
func judgeBodies(contents *validate.Contents, bodies [][]byte) (findings []intent.Finding) {
	for _, body := range bodies {
		asset, err := schema.Decode(body)
		if err != nil {
			return append(findings, validate.FromError("content", "", err))
		}
		findings = append(findings, contents.Judge(asset, validate.OwnTypes)...)
	}
	return findings
}

// Compile implements Runner. What takes the child along is a finding: the
// files are to blame.
func (p *Process) Compile(ctx context.Context, files []schema.SourceFile) (*schema.Set, []intent.Finding, error) {
	var reply typesReply
	death, err := p.ask(ctx, schema.Builtin(), frameTypes, typesRequest{files}, "compiling the types", &reply)
	if err != nil {
		return nil, nil, err
	}
	if death != nil {
		f := death.Findings[0]
		// Which of the files is to blame is not known.
		f.Rule, f.File, f.Line = "types", "", 0
		f.Hint = "make the types, or the rules in their options, simpler; they are not compiled again until they change"
		return nil, []intent.Finding{f}, nil
	}
	if len(reply.Findings) > 0 {
		return nil, reply.Findings, nil
	}
	if len(reply.Set) > schema.MaxSetBytes {
		return nil, nil, fault.New(fault.Internal, "compiling the types gave %d bytes, at most %d are taken", len(reply.Set), schema.MaxSetBytes)
	}
	schemas, err := schema.FromFiles(reply.Set)
	return schemas, nil, err
}

// Judge implements Runner.
func (p *Process) Judge(ctx context.Context, schemas *schema.Set, bodies [][]byte) ([]intent.Finding, error) {
	var reply judgeReply
	death, err := p.ask(ctx, schemas, frameJudge, judgeRequest{bodies}, "judging assets by the rules of their types", &reply)
	if err != nil {
		return nil, err
	}
	if death == nil {
		return reply.Findings, nil
	}
	f := death.Findings[0]
	f.Rule, f.Hint = "content", "a rule in a .proto file of this partition costs too much; make it simpler"
	if len(bodies) == 1 {
		if asset, err := schema.Decode(bodies[0]); err == nil {
			f.Asset = asset.ID
		}
		return []intent.Finding{f}, nil
	}
	// One of many is to blame: halves tell which.
	first, err := p.Judge(ctx, schemas, bodies[:len(bodies)/2])
	if err != nil || len(first) > 0 {
		return first, err
	}
	return p.Judge(ctx, schemas, bodies[len(bodies)/2:])
}

// ask has a child of its own do one thing. A death says of what it died.
func (p *Process) ask(ctx context.Context, schemas *schema.Set, kind frameKind, request any, subject string, reply any) (death *Result, err error) {
	first, err := p.setup(schemas, Job{})
	if err != nil {
		return nil, err
	}
	err = p.withChild(ctx, first, func(s *session) error {
		s.begin()
		death, err = s.ask(kind, request, subject, reply)
		s.turn.Done()
		return err
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return death, err
}

func (s *session) ask(kind frameKind, request any, subject string, reply any) (*Result, error) {
	watch := s.watch(s.timeout())
	defer watch.stop()
	err := writeJSON(s.stdin, kind, request)
	if err == nil {
		var answer frameKind
		var payload []byte
		if answer, payload, err = read(s.stdout, s.frameLimit()); err == nil && answer == frameResult {
			return nil, json.Unmarshal(payload, reply)
		}
		if err == nil {
			err = fmt.Errorf("unknown frame %q", answer)
		}
	}
	s.end()
	late := watch.reason()
	death := s.post(Job{Generator: subject}, err, late, s.timeout())
	if death.Stopped && late == "" {
		// Somebody outside ended it: nothing is known of what it was given.
		return nil, fault.New(fault.Unavailable, "%s", death.Findings[0].Message)
	}
	return &death, nil
}
