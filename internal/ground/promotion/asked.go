package promotion

import (
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// maxQuestions is how many questions of an environment are open at most: those about the versions
// that come next.
const maxQuestions = 8

// Question is one that a constraint of an environment asks about a version now.
type Question struct {
	Constraint *intentpb.DeliveryConstraint
	Version    intent.VersionName
}

// AskedDigest identifies whom a constraint asks. When the constraint is edited to ask somebody else,
// earlier answers no longer count.
func AskedDigest(spec *intentpb.AskedVerdict) intent.Digest {
	asked := &intentpb.AskedVerdict{Ask: spec.GetAsk()}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(asked)
	if err != nil {
		return intent.Digest{} // A policy that was read can be encoded.
	}
	return intent.Sum("lehr.asked.v1", text)
}

// judgeAnswer judges by the newest answer about a version.
func (d *decider) judgeAnswer(e *environment, c *constraint, spec *intentpb.AskedVerdict, r intent.VersionName) Verdict {
	result := d.index.results[actKey{e.spec.GetName(), c.spec.GetName(), r}]
	v := Verdict{Status: Waits, Cause: NoResult}
	switch {
	case result == nil || result.Content != c.askedDigest:
	case result.Unanswered:
		v.Reason = result.Reason
	case !result.Good:
		v.Cause, v.Reason = SaysNo, result.Reason
	case result.hasExpired(d.facts.Now, spec.GetExpires()):
	default:
		v.Status, v.Cause, v.Reason = Passes, Met, result.Reason
	}
	return v
}

// addQuestion adds the question of a constraint that does not let a version in, though those above it
// do. Releases come from the newest to the oldest, and a queue takes the oldest first.
func (c *choice) addQuestion(number int, r intent.VersionName) {
	spec := c.environment.constraints[number].spec
	if spec.GetAsked() == nil {
		return
	}
	if len(c.questions) == maxQuestions {
		if !c.queues() {
			return
		}
		c.questions = append(c.questions[:0], c.questions[1:]...)
	}
	c.questions = append(c.questions, Question{spec, r})
}
