package prodspec

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/derive"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/validate"
)

// typeLimits bound a partition's .proto files: what they define is held in the
// server's memory.
var typeLimits = source.Limits{Files: 1000, Entries: 100_000, FileBytes: 500_000, TotalBytes: 2_000_000}

// programBytes is how large a generator's program may be: modules and native
// programs have their libraries in them.
const programBytes = 64 << 20

// parsed is a definition as it was read with certain types.
type parsed struct {
	revision, schema intent.Digest
	// common digest of what the common policy asks.
	common intent.Digest
	// content of the file, which is parsed again when its selectors select other environments.
	content []byte
	// types are where the definition says that types are.
	types      *definition.Source
	definition definition.Definition
	rules      *derive.Rules
	findings   []intent.Finding
	// warnings are what observed common rules would refuse.
	warnings []intent.Finding
}

// compiled is what the .proto files of a folder gave.
type compiled struct {
	folder   string
	revision intent.Digest
	set      *schema.Set
	findings []intent.Finding
}

// define reads the definition, its types, and parses the one with the others.
func (s *sources) define(ctx context.Context, now time.Time, changes source.Changes, r *reading) error {
	own := definition.Source{Name: definition.DefinitionSource, Line: 1}
	snapshot, err := s.own.Read(ctx, now, changes)
	if err != nil {
		return s.cannotRead(ctx, err, own, r)
	}
	s.note(own, s.own, snapshot, r)
	if err := s.readCommon(ctx, snapshot, r); err != nil || len(r.findings) > 0 {
		return err
	}
	last := &s.definition
	unchanged := snapshot.Revision == last.revision && r.common.digest == last.common && len(last.findings) == 0
	if unchanged && last.definition.Types == nil {
		r.definition, r.rules, r.set = last.definition, last.rules, s.types.set
		r.warnings = append(r.warnings, last.warnings...)
		return nil
	}
	content, err := s.own.Content(snapshot.Files[0])
	if err != nil {
		return s.cannotRead(ctx, err, own, r)
	}
	if err := s.workOn(ctx, r); err != nil {
		return err
	}
	types := last.types
	if !unchanged {
		if types, r.findings = definition.TypesOf(s.file, content); len(r.findings) > 0 {
			return nil
		}
	}
	if err := s.compile(ctx, now, changes, types, r); err != nil || len(r.findings) > 0 {
		return err
	}
	if err := s.workOn(ctx, r); err != nil {
		return err
	}
	if r.set = s.types.set; snapshot.Revision != last.revision || r.common.digest != last.common || r.set.Digest() != last.schema {
		*last = parsed{revision: snapshot.Revision, common: r.common.digest, schema: r.set.Digest(), types: types, content: content}
		s.parse(content, r.common, last)
	}
	r.definition, r.rules, r.findings = last.definition, last.rules, slices.Clone(last.findings)
	r.warnings = append(r.warnings, last.warnings...)
	return nil
}

func (s *sources) parse(content []byte, asked common, result *parsed) {
	poison(string(content))
	result.definition, result.findings = definition.ParseWithDefaults(s.file, content, s.types.set, asked.defaults(), nil)
	if len(result.findings) > 0 {
		return
	}
	if result.findings, result.warnings = asked.judgeDefinition(s.file, result.definition); len(result.findings) > 0 {
		return
	}
	asked.addPrograms(&result.definition)
	if expected := s.program.Partition; expected != "" && result.definition.Partition != expected {
		result.findings = []intent.Finding{{
			Rule: "definition", Severity: intent.Error, File: s.file, Line: 1, Field: "partition",
			Message: fmt.Sprintf("the file defines the partition %s, but is registered for %s", result.definition.Partition, expected),
			Hint:    "a partition keeps its name: change it back, or register the file as another partition",
		}}
		return
	}
	result.rules, result.findings = derive.New(s.file, result.definition, s.types.set)
	for _, problem := range validate.CheckRules(s.types.set, result.definition.Policy.GetRules()) {
		result.findings = append(result.findings, s.expressionFinding(result.definition.RulePlaces, fmt.Sprintf("validate.rules[%d]", problem.Index), problem))
	}
	for _, problem := range validate.CheckChecks(s.types.set, result.definition.Policy.GetChecks()) {
		result.findings = append(result.findings, s.expressionFinding(result.definition.CheckPlaces, "checks."+result.definition.Policy.Checks[problem.Index].Name, problem))
	}
	for _, problem := range validate.CheckRollouts(s.types.set, result.definition.Policy) {
		result.findings = append(result.findings, s.expressionFinding(result.definition.RolloutPlaces, "rollouts."+result.definition.Policy.Rollouts[problem.Index].Name, problem))
	}
	for _, problem := range validate.CheckDeliveries(s.types.set, result.definition.Policy) {
		result.findings = append(result.findings, s.expressionFinding(result.definition.DeliveryPlaces, "delivery."+result.definition.Policy.Deliveries[problem.Index].Name, problem))
	}
}

// expressionFinding places what is wrong with a validation rule, a check, a rollout or an
// application.
func (s *sources) expressionFinding(all []definition.RulePlaces, field string, problem validate.RuleProblem) intent.Finding {
	f := validate.FromError("definition", "", problem.Err)
	places := all[problem.Index]
	at, ok := places[problem.Field]
	if !ok {
		at = places[""]
	}
	f.File, f.Line, f.Column = s.file, at.Line, at.Column
	f.Field = field + "." + problem.Field
	f.Message = f.Field + ": " + f.Message
	return f
}

// rulePlace is where a rule of the policy is written.
func (s *sources) rulePlace(id string) validate.Origin {
	d := s.definition.definition
	for i, r := range d.Policy.GetRules() {
		if r.GetId() == id {
			return validate.Origin{File: s.file, Line: d.RulePlaces[i][""].Line}
		}
	}
	return validate.Origin{File: s.file, Line: 1}
}

// rolloutPlace is where a rollout of the policy is written.
func (s *sources) rolloutPlace(name string) validate.Origin {
	d := s.definition.definition
	for i, r := range d.Policy.GetRollouts() {
		if r.GetName() == name {
			return validate.Origin{File: s.file, Line: d.RolloutPlaces[i][""].Line}
		}
	}
	return validate.Origin{File: s.file, Line: 1}
}

// compile makes the set of types what the .proto files say, if they changed.
func (s *sources) compile(ctx context.Context, now time.Time, changes source.Changes, typeSource *definition.Source, r *reading) error {
	if typeSource == nil {
		s.types = compiled{set: schema.Builtin()}
		return nil
	}
	if _, err := s.readOne(ctx, now, changes, *typeSource, r); err != nil || len(r.findings) > 0 {
		return err
	}
	folder := s.folders[definition.TypeSource]
	if s.types.folder == typeSource.Directory && s.types.revision == folder.snapshot.Revision {
		r.findings = slices.Clone(s.types.findings)
		return nil
	}
	if err := s.workOn(ctx, r); err != nil {
		return err
	}
	files := make([]schema.SourceFile, len(folder.snapshot.Files))
	for i, file := range folder.snapshot.Files {
		text, err := folder.directory.Content(file)
		if err != nil {
			return s.cannotRead(ctx, err, *typeSource, r)
		}
		files[i] = schema.SourceFile{Path: file.Path, Text: text}
	}
	schemas, findings, err := s.program.Runner.Compile(ctx, files)
	if fault.Is(err, fault.Unavailable) && ctx.Err() == nil {
		return s.cannotRead(ctx, err, *typeSource, r)
	}
	if err != nil {
		return err
	}
	for i := range findings {
		if findings[i].File == "" {
			findings[i].File, findings[i].Line, findings[i].Field = s.file, typeSource.Line, "types"
			continue
		}
		findings[i].File = path.Join(filepath.ToSlash(typeSource.Directory), findings[i].File)
	}
	s.types = compiled{folder: typeSource.Directory, revision: folder.snapshot.Revision, set: schemas, findings: findings}
	r.findings = slices.Clone(findings)
	return nil
}

// derivation says where a derivation or resolver is defined, and why it is.
func (s *sources) derivation(name string) (line int, reason string) {
	for _, d := range s.definition.definition.Derivations {
		if d.Name == name {
			return d.Line, ""
		}
	}
	for _, r := range s.definition.definition.Resolvers {
		if r.Name == name {
			return r.Line, r.Reason
		}
	}
	return 1, ""
}
