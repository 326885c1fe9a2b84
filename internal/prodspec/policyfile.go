package prodspec

import (
	"context"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/validate"
)

// PolicyFile is a common policy, wherever it lies: it is read as definitions are.
type PolicyFile struct{ sources *sources }

// OpenPolicy opens the file at a program's Definition.
func OpenPolicy(program Program) (*PolicyFile, error) {
	if program.Limits == (source.Limits{}) {
		program.Limits = source.DefaultLimits()
	}
	if program.Elsewhere.Runtime == nil {
		program.Elsewhere.Runtime = loop.Real()
	}
	s, err := newSources(program)
	if err != nil {
		return nil, err
	}
	return &PolicyFile{sources: s}, nil
}

// Read returns the content of the file and its revision. A file in a repository is looked at
// as often as its place says; Unavailable while that fails, for what was read before need not be
// what is there.
func (f *PolicyFile) Read(ctx context.Context, now time.Time) (content []byte, revision string, err error) {
	snapshot, err := f.sources.own.Read(ctx, now, source.Changes{All: true})
	if err != nil {
		return nil, "", err
	}
	if lasting, ok := f.sources.own.(source.Lasting); ok && lasting.Failing().Reason != "" {
		failing := lasting.Failing()
		return nil, "", fault.New(fault.Unavailable, "%s cannot be read since %s: %s", f.sources.file, failing.Since.UTC().Format(time.RFC3339), failing.Reason)
	}
	content, err = f.sources.own.Content(snapshot.Files[0])
	return content, snapshot.Revision.String(), err
}

// Close ends what looks at it.
func (f *PolicyFile) Close() { f.sources.close() }

// ParsePolicy reads a common policy and compiles its expressions, over the built-in types. It
// is usable when nothing is found.
func ParsePolicy(file string, content []byte) (definition.Common, []intent.Finding) {
	schemas := schema.Builtin()
	common, findings := definition.ParseCommon(file, content, schemas)
	if len(findings) > 0 {
		return common, findings
	}
	s := &sources{file: common.Policy.File}
	for _, rule := range common.Policy.Rules {
		for _, problem := range validate.CheckChecks(schemas, rule.Policy.GetChecks()) {
			findings = append(findings, s.expressionFinding(common.CheckPlaces[rule.Name], "rules."+rule.Name+".checks."+rule.Policy.Checks[problem.Index].Name, problem))
		}
		for _, problem := range validate.CheckRules(schemas, rule.Policy.GetRules()) {
			findings = append(findings, s.expressionFinding(common.RulePlaces[rule.Name], "rules."+rule.Name+".validate.rules", problem))
		}
	}
	return common, findings
}
