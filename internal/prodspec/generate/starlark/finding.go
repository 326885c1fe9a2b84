package starlark

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/generate/manifest"
)

// place is an error of a program with its own position.
type place struct {
	file         string
	line, column int
	asset        intent.AssetID
	message      string
	hint         string
}

func (p *place) Error() string { return fmt.Sprintf("%s:%d: %s", p.file, p.line, p.message) }

// findings turns the error that ended a run into what a person reads.
func (r *run) findings(err error) []intent.Finding {
	if m, ok := errors.AsType[*manifest.Error](err); ok {
		return m.Findings
	}
	f := intent.Finding{Rule: "generate", Severity: intent.Error, File: r.job.Program, Line: 1}
	if p, ok := errors.AsType[*place](err); ok {
		f.File, f.Line, f.Column, f.Message, f.Hint, f.Asset = p.file, p.line, p.column, p.message, p.hint, p.asset
		return []intent.Finding{f}
	}
	if e, ok := errors.AsType[syntax.Error](err); ok {
		at(&f, e.Pos)
		f.Message, f.Hint = e.Msg, "mend the program"
		return []intent.Finding{f}
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok {
		var findings []intent.Finding
		for _, e := range list {
			at(&f, e.Pos)
			f.Message, f.Hint = e.Msg, "mend the program"
			findings = append(findings, f)
		}
		return findings
	}
	f.Message = err.Error()
	if e, ok := errors.AsType[*fault.Error](err); ok {
		f.Message, f.Hint = e.Message, e.Hint
	}
	if e, ok := errors.AsType[*starlark.EvalError](err); ok {
		r.evaluation(&f, e)
	}
	return []intent.Finding{f}
}

// evaluation fills in the innermost position in a program, and the call chain.
func (r *run) evaluation(f *intent.Finding, e *starlark.EvalError) {
	f.Message = strings.TrimPrefix(f.Message, "Starlark computation cancelled: ")
	if f.Hint == "" {
		f.Hint = "mend the program, or the input it was given"
	}
	if r.outOfSteps {
		f.Hint = "look for a loop that does not end; a run may take " + fmt.Sprint(r.limits.Steps) + " steps"
	}
	if strings.Contains(f.Message, "called recursively") {
		f.Hint = "Starlark has no recursion: walk the data with a loop"
	}
	if suggestion := r.meantField(f.Message); suggestion != "" {
		f.Hint = "did you mean " + suggestion + "?"
	}
	if names := r.enumNames(f.Message); len(names) > 0 {
		f.Hint = "write one of " + strings.Join(names, ", ") + ", in quotes"
	}
	switch {
	case r.job.File != "":
		f.Message += " (run for " + r.job.File + ")"
	case r.last != "":
		f.Message += " (the file read last is " + r.last + ")"
	}
	const most = 6
	var chain []string
	for i := range e.CallStack {
		frame := e.CallStack.At(i)
		if frame.Pos.Filename() == "<builtin>" || !frame.Pos.IsValid() {
			continue
		}
		if len(chain) == 0 {
			at(f, frame.Pos)
		}
		if chain = append(chain, fmt.Sprintf("%s in %s", frame.Pos, frame.Name)); len(chain) == most {
			break
		}
	}
	if len(chain) > 1 {
		f.Message += "; called at " + strings.Join(chain[1:], ", ")
	}
}

// noField is what the library says of a field that a message does not have; it has no type
// for that.
var noField = regexp.MustCompile(`^([\w.]+) has no \.(\w+) field$`)

// meantField is the field that was probably meant; empty: the message says something else.
func (r *run) meantField(message string) string {
	match := noField.FindStringSubmatch(message)
	if match == nil {
		return ""
	}
	found, err := r.schema.Descriptors().FindDescriptorByName(protoreflect.FullName(match[1]))
	descriptor, ok := found.(protoreflect.MessageDescriptor)
	if err != nil || !ok {
		return ""
	}
	var names []string
	for i := range descriptor.Fields().Len() {
		names = append(names, string(descriptor.Fields().Get(i).Name()))
	}
	return spell.Nearest(match[2], names)
}

// noEnumName is what the library says of a name that an enum does not have; it has no type
// for that.
var noEnumName = regexp.MustCompile(`invalid name "[^"]*" for (\w+) enum$`)

// enumNames are those that may be written; none: the message says something else.
func (r *run) enumNames(message string) (names []string) {
	match := noEnumName.FindStringSubmatch(message)
	if match == nil {
		return nil
	}
	add := func(enums protoreflect.EnumDescriptors) {
		enum := enums.ByName(protoreflect.Name(match[1]))
		for i := 0; enum != nil && i < enum.Values().Len(); i++ {
			if value := enum.Values().Get(i); value.Number() != 0 {
				names = append(names, string(value.Name()))
			}
		}
	}
	var within func(protoreflect.MessageDescriptors)
	within = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			add(messages.Get(i).Enums())
			within(messages.Get(i).Messages())
		}
	}
	r.schema.Descriptors().RangeFiles(func(file protoreflect.FileDescriptor) bool {
		add(file.Enums())
		within(file.Messages())
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// crashed is the finding for a panic of the interpreter or of a library. The
// place is lost with the stack.
func (r *run) crashed(problem any) []intent.Finding {
	return []intent.Finding{{
		Rule: "generate", Severity: intent.Error, File: r.job.Program, Line: 1,
		Message: fmt.Sprintf("the run of %s crashed: %.300v", r.job.Name(), problem),
		Hint:    "look for a value of the wrong kind that is passed to a message",
	}}
}

func at(f *intent.Finding, position syntax.Position) {
	f.File, f.Line, f.Column = position.Filename(), int(position.Line), int(position.Col)
}
