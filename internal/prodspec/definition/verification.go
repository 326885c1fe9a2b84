package definition

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/ground/validation"
)

var verificationKeys = []string{"command", "http", "analysis", "against", "timeout"}

// maxAnalysisTime that a validation may take which verifies an environment.
const maxAnalysisTime = 6 * time.Hour

// maxVerificationTime that one may take: nothing is pushed to its environment meanwhile.
const maxVerificationTime = time.Hour

// verifications of an environment are names of those that are handed in, or a mapping of names to
// how Lehr runs them.
func (r *deliveryParser) verifications(node *yaml.Node, spec *intentpb.DeliveryEnvironment, at string) {
	if resolve(node).Kind == yaml.MappingNode {
		r.eachPair(node, at, func(key, value *yaml.Node) {
			if !checkName().MatchString(key.Value) {
				r.parser.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
			}
			spec.Verify = append(spec.Verify, key.Value)
			if v := r.verification(key.Value, value, at+"."+key.Value); v != nil {
				spec.Runs = append(spec.Runs, v)
			}
		})
	} else {
		spec.Verify = r.texts(node, at)
		r.checkDuplicates(node, at, spec.Verify, "verification")
	}
	if len(spec.Verify) > maxVerifications {
		r.parser.at(node, at, "%s names %d verifications, at most %d are allowed", at, len(spec.Verify), maxVerifications).hint("let one of them try more")
	}
}

// verification that Lehr runs; nil: it is handed in, or a finding says what is wrong.
func (r *deliveryParser) verification(name string, node *yaml.Node, at string) *intentpb.DeliveryVerification {
	if node.Tag == "!!null" {
		return nil
	}
	fields := r.fields(node, at, verificationKeys)
	if node.Kind != yaml.MappingNode {
		return nil
	}
	v := &intentpb.DeliveryVerification{Name: name}
	command, http, analysis := fields["command"], fields["http"], fields["analysis"]
	kinds := 0
	for _, kind := range []*yaml.Node{command, http, analysis} {
		if kind != nil {
			kinds++
		}
	}
	if against := fields["against"]; against != nil && analysis == nil {
		r.parser.at(against, at+".against", "%s.against names the control of an analysis, and there is none", at).hint("write analysis: the name of one of validations:")
	}
	switch {
	case kinds != 1:
		r.parser.at(node, at, "%s is run by one of command, http and analysis", at).
			hint(`write %s: {command: [/usr/local/bin/smoke]}, {http: "https://smoke.example.com/verify"}, {analysis: errors}, or nothing where a program hands it in`, name)
		return nil
	case analysis != nil:
		r.analysis(v, fields, at)
		return v
	case command != nil:
		line := r.texts(command, at+".command")
		if len(line) > 0 && !path.IsAbs(line[0]) {
			r.parser.at(command, at+".command", "%s.command: %q is no absolute path", at, line[0]).hint("name the program itself, as whoever runs the server lists it in the file of --external-checks")
		}
		v.Kind = &intentpb.DeliveryVerification_Command{Command: &intentpb.CommandLine{Line: line}}
	default:
		place := r.text(http, at+".http")
		r.check(http, at+".http", external.CheckPlace(place))
		v.Kind = &intentpb.DeliveryVerification_Http{Http: place}
	}
	if timeout := fields["timeout"]; timeout != nil {
		d := r.duration(timeout, at+".timeout")
		if d > 0 && (d < time.Second || d > maxVerificationTime) {
			r.parser.at(timeout, at+".timeout", "%s.timeout: %s is not between 1s and %s", at, d, maxVerificationTime).hint("nothing is pushed to the environment while it runs: let it try less, or several of it")
		}
		v.Timeout = durationpb.New(d)
	}
	return v
}

// analysis by a validation of the file.
func (r *deliveryParser) analysis(v *intentpb.DeliveryVerification, fields map[string]*yaml.Node, at string) {
	node := fields["analysis"]
	analysis := &intentpb.DeliveryAnalysis{Validation: r.text(node, at+".analysis")}
	v.Kind = &intentpb.DeliveryVerification_Analysis{Analysis: analysis}
	if against := fields["against"]; against != nil {
		analysis.Against = r.text(against, at+".against")
	}
	if timeout := fields["timeout"]; timeout != nil {
		r.parser.at(timeout, at+".timeout", "%s.timeout: an analysis takes as long as its validation says", at).hint("set interval, intervals and warm_up of the validation")
	}
	var names []string
	for _, known := range r.definition.Policy.GetValidations() {
		if names = append(names, known.GetName()); known.GetName() != analysis.Validation {
			continue
		}
		settings, err := validation.Of(known)
		if err != nil {
			return // A finding at the validation says so.
		}
		if length := settings.Length(); length > maxAnalysisTime {
			r.parser.at(node, at+".analysis", "%s.analysis: the validation %s takes %s, more than %s", at, analysis.Validation, length, maxAnalysisTime).
				hint("nothing is pushed to the environment meanwhile: give the environment a validation of its own that is shorter, and let a soak: of the next one wait longer")
		}
		return
	}
	if analysis.Validation == "" {
		return
	}
	hint := "write one under validations:, docs/use/judge.md shows how"
	if len(names) > 0 {
		hint = "known: " + strings.Join(names, ", ")
	}
	if suggestion := spell.Nearest(analysis.Validation, names); suggestion != "" {
		hint = "did you mean " + suggestion + "? " + hint
	}
	r.parser.at(node, at+".analysis", "%s.analysis: there is no validation %q", at, analysis.Validation).hint("%s", hint)
}

// analyses: what they compare is in this partition, where their queries may be asked.
func (r *deliveryParser) analyses(spec *intentpb.Delivery) {
	partitions := map[string]string{}
	for _, e := range spec.GetEnvironments() {
		partitions[e.GetName()] = e.GetPartition()
	}
	for _, e := range spec.GetEnvironments() {
		for _, v := range e.GetRuns() {
			analysis := v.GetAnalysis()
			if analysis == nil {
				continue
			}
			name := "environments." + e.GetName()
			at := r.at + "." + name + ".verify." + v.GetName()
			control, ok := partitions[analysis.GetAgainst()]
			switch {
			case e.GetPartition() != "":
				r.parser.at(r.nodes[name], at, "%s: an analysis is of an environment in this partition, and %s is in %s", at, e.GetName(), e.GetPartition()).
					hint("let a rollout of that partition validate the change, or verify it by http")
			case analysis.GetAgainst() == "":
			case !ok:
				r.parser.at(r.nodes[name], at+".against", "%s.against: there is no environment %q", at, analysis.GetAgainst()).
					hint("known: %s", strings.Join(slices.Sorted(maps.Keys(partitions)), ", "))
			case control != "" || analysis.GetAgainst() == e.GetName():
				r.parser.at(r.nodes[name], at+".against", "%s.against must be another environment in this partition, is %s", at, analysis.GetAgainst()).
					hint("name the one that keeps what was there before, as production for a canary")
			}
		}
	}
}

func verifySchema() map[string]any {
	run := object(map[string]any{"command": texts(), "http": text(), "analysis": text(), "against": text(), "timeout": duration()})
	return anyOf(texts(), mapOf(anyOf(run, map[string]any{"type": "null"})))
}
