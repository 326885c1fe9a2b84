package promotion

import (
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// maxQuestions of an environment are asked at a time: those about the versions that come next.
const maxQuestions = 8

// Question is one that a constraint of an environment asks about a release now.
type Question struct {
	Constraint *intentpb.DeliveryConstraint
	Release    Release
}

// AskedDigest identifies whom a constraint asks. An answer of another does not count, also where
// the constraint has its name.
func AskedDigest(spec *intentpb.AskedVerdict) intent.Digest {
	asked := &intentpb.AskedVerdict{Ask: spec.GetAsk()}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(asked)
	if err != nil {
		return intent.Digest{} // Of a policy that was read this cannot be.
	}
	return intent.Sum("lehr.asked.v1", text)
}

// asked is the newest answer about a release.
func (d *decider) asked(e *environment, c *constraint, spec *intentpb.AskedVerdict, r Release) Verdict {
	result := d.index.results[actKey{e.spec.GetName(), c.spec.GetName(), r}]
	v := Verdict{Status: Waits, Cause: NoResult}
	switch {
	case result == nil || result.Content != c.asked:
	case result.Unanswered:
		v.Reason = result.Reason
	case !result.Good:
		v.Cause, v.Reason = SaysNo, result.Reason
	case result.ends(d.facts.Now, spec.GetExpires()):
	default:
		v.Status, v.Cause, v.Reason = Passes, Met, result.Reason
	}
	return v
}

// ask notes that a constraint does not let a release in which those above it do, so that it is
// asked. Releases are looked at from the newest on, and of a queue the oldest come next.
func (c *choice) ask(number int, r Release) {
	spec := c.environment.constraints[number].spec
	if spec.GetAsked() == nil {
		return
	}
	if len(c.questions) == maxQuestions {
		if c.environment.spec.GetNewer() != intentpb.DeliveryEnvironment_NEWER_QUEUES {
			return
		}
		c.questions = append(c.questions[:0], c.questions[1:]...)
	}
	c.questions = append(c.questions, Question{spec, r})
}
