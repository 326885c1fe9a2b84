package definition

import (
	"path"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
)

var verificationKeys = []string{"command", "http", "timeout"}

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
	switch command, http := fields["command"], fields["http"]; {
	case command != nil && http != nil || command == nil && http == nil:
		r.parser.at(node, at, "%s is run by one of command and http", at).hint(`write %s: {command: [/usr/local/bin/smoke]}, {http: "https://smoke.example.com/verify"}, or nothing where a program hands it in`, name)
		return nil
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

func verifySchema() map[string]any {
	run := object(map[string]any{"command": texts(), "http": text(), "timeout": duration()})
	return anyOf(texts(), mapOf(anyOf(run, map[string]any{"type": "null"})))
}
