package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// Protection is how a check asks somebody else of each push by itself.
type Protection struct {
	// Before: no push begins without a pass. During says what becomes of one under
	// way without one; After, if it is set, when it is asked once a push ended.
	Before bool
	During intentpb.Protection_During
	After  *After
	place  Question
	every  time.Duration
}

// After is when a protection is asked after a push: from the delay after its end on,
// for the duration.
type After struct{ Delay, Duration time.Duration }

// Phase of a push in which a protection is asked.
type Phase string

// Phases, as who is asked is told them.
const (
	PhaseBefore Phase = "before"
	PhaseDuring Phase = "during"
	PhaseAfter  Phase = "after"
	// PhasePromotion is of no push: it is asked of a version that is to come to an environment.
	PhasePromotion Phase = "promotion"
)

// Reply is what a protection answered.
type Reply struct {
	// Blocks: it says no. Reason is its own.
	Blocks bool
	Reason string
	// Until is when a pass ends, or a no may do so; zero: it did not say.
	Until time.Time
}

// Subject is the push that a protection is asked of, or would be.
type Subject struct {
	Partition intent.PartitionID
	Asset     intent.Asset
	// Effective digest of the content, and Digest that of the plan.
	Effective, Digest intent.Digest
	// Plan that it would carry out; none after it.
	Plan intent.Plan
	Push intent.PushID
}

const (
	// usualTimeout and usualEvery are how long an answer is waited for, and how often
	// it is asked while and after a push.
	usualTimeout = 4 * time.Second
	usualEvery   = 15 * time.Second
	// mostToldChanges of a plan, and mostToldText of their texts, in bytes, are told.
	mostToldChanges = 20
	mostToldText    = 200
)

// protection asks somebody else whether the push may be.
func (c *Configured) protection(config *intentpb.Protection) {
	q := Question{Source: HTTP, Place: config.GetHttp(), Keep: keepOf(config.GetKeep()), Timeout: cmp.Or(config.GetTimeout().AsDuration(), usualTimeout)}
	if line := config.GetCommand().GetLine(); len(line) > 0 {
		q.Source, q.Place = Command, line[0]
		for _, argument := range line[1:] {
			q.Line += "\x00" + argument
		}
	}
	if name := config.GetPlugin(); name != "" {
		q.Source, q.Place = Plugin, name
	}
	c.Protection = &Protection{Before: config.GetBefore(), During: config.GetDuring(), place: q, every: cmp.Or(config.GetEvery().AsDuration(), usualEvery)}
	if afterPush := config.GetAfter(); afterPush != nil {
		c.Protection.After = &After{afterPush.GetDelay().AsDuration(), afterPush.GetDuration().AsDuration()}
	}
	c.judge = func(f Facts) intent.Verdict {
		own, ok := f.Own[c]
		q, stopped := f.Stopped[c.Name]
		switch {
		case !ok && c.Protection.Before:
			return c.broken(errors.New("what is to be asked is not known"))
		case own.Unlabelled != nil:
			return c.broken(own.Unlabelled)
		case stopped:
			if v := c.VerdictBy(f.Now, q, f.Answers[q]); v.Answer != intent.Pass {
				v.Waiting.Reason += "; it stopped the last push while that was under way"
				return v
			}
		}
		if !c.Protection.Before {
			afterPush := c.Protection.After
			return c.passes(time.Time{}).Rests("asked after the push, from %s until %s after its end", afterPush.Delay, afterPush.Delay+afterPush.Duration)
		}
		return c.VerdictBy(f.Now, own.Before, f.Answers[own.Before])
	}
}

// VerdictBy is the verdict by an answer to one of the protection's questions.
func (c *Configured) VerdictBy(now time.Time, q Question, a Answer) intent.Verdict {
	source := fmt.Sprintf("%s %s", q.Source, intent.Shown(q.Place))
	switch {
	case !a.counts(q, now):
		return c.unanswered(q, a)
	case a.Reply == nil:
		return c.broken(fmt.Errorf("%s answered nothing", source))
	case a.Reply.Blocks:
		return c.waits(intent.WaitProtection, later(a.Reply.Until, now), "%s says no: %s; asked at %s", source, cmp.Or(a.Reply.Reason, "it gives no reason"), instant(a.At))
	case !a.Reply.Until.IsZero() && !a.Reply.Until.After(now):
		return c.broken(fmt.Errorf("%s passed it until %s, and was not asked again since", source, instant(a.Reply.Until)))
	}
	until := a.At.Add(q.Keep)
	if end := a.Reply.Until; !end.IsZero() && end.Before(until) {
		until = end
	}
	return c.passes(until).Rests("%s says yes%s; %s old", source, because(a.Reply.Reason), aged(now, a.At))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// later is a time that is still to come; zero: it is not.
func later(at, now time.Time) time.Time {
	if !at.After(now) {
		return time.Time{}
	}
	return at
}

// Protects reports whether the question is one of a protection: of one push alone.
func (q Question) Protects() bool {
	return q.Source == HTTP || q.Source == Command || q.Source == Plugin
}

// Misasked reports whether an error says that a protection cannot be asked so, until
// somebody mends what is configured; others may end by themselves.
func (q Question) Misasked(err error) bool {
	return q.Protects() && (fault.Is(err, fault.Denied) || fault.Is(err, fault.Invalid))
}

// protectionRequest is what a protection is told; the incarnation is added when it is asked.
type protectionRequest struct {
	Protection string            `json:"protection"`
	Phase      Phase             `json:"phase"`
	Partition  string            `json:"partition"`
	Asset      string            `json:"asset"`
	Type       string            `json:"type"`
	Labels     map[string]string `json:"labels,omitempty"`
	Content    string            `json:"content"`
	Push       string            `json:"push,omitempty"`
	PlanDigest string            `json:"planDigest"`
	Plan       *intent.Plan      `json:"plan,omitempty"`
	// Changes is how many there are in the plan, of which the first are told.
	Changes int `json:"changes,omitempty"`
}

// Ask is the question that the protection is asked of a push in a phase. What is
// told is part of it, so an answer counts for that content and that plan alone.
func (c *Configured) Ask(phase Phase, subject Subject) (Question, error) {
	labels := &intentpb.Labels{}
	if _, err := schema.Addon(subject.Asset, labels); err != nil {
		return Question{}, err
	}
	t := protectionRequest{
		Protection: c.Name, Phase: phase, Partition: string(subject.Partition), Asset: string(subject.Asset.ID), Type: string(subject.Asset.Payload.Type),
		Labels: labels.GetLabels(), Content: subject.Effective.String(), Push: string(subject.Push), PlanDigest: subject.Digest.String(), Changes: len(subject.Plan.Changes),
	}
	if subject.Plan.Action != "" || len(subject.Plan.Changes) > 0 {
		t.Plan = &intent.Plan{Action: subject.Plan.Action}
		for _, change := range subject.Plan.Changes[:min(len(subject.Plan.Changes), mostToldChanges)] {
			for _, text := range []*string{&change.Path, &change.Current, &change.Target, &change.Reason, &change.Writer} {
				*text = excerpt(*text, mostToldText)
			}
			t.Plan.Changes = append(t.Plan.Changes, change)
		}
	}
	text, err := json.Marshal(t)
	q := c.Protection.place
	q.Text = string(text)
	if phase != PhaseBefore {
		q.Every = c.Protection.every
	}
	return q, err
}

// During is what is asked while a push is under way, by what was asked before it.
func (c *Configured) During(question Question, push intent.PushID) Question {
	question.Every = c.Protection.every
	question.Text = strings.Replace(question.Text, `"phase":"before"`, fmt.Sprintf(`"phase":"during","push":%q`, push), 1)
	return question
}

// Body is what a protection is told, in JSON.
func (q Question) Body() string {
	return fmt.Sprintf(`{"incarnation":%q,%s`, q.Incarnation.String(), strings.TrimPrefix(q.Text, "{"))
}

// Arguments of a command.
func (q Question) Arguments() []string {
	if q.Line == "" {
		return nil
	}
	return strings.Split(q.Line[1:], "\x00")
}

// Questions are the questions that a check asks for a push of an asset, by what it looks
// at of it.
func (c *Configured) Questions(own Own, stopped map[string]Question) (questions []Question) {
	switch {
	case c.Question != nil && (c.Sized == nil || own.Unsized != nil || own.Serves.Falls()):
		questions = append(questions, *c.Question)
	case c.Protection != nil && c.Protection.Before:
		questions = append(questions, own.Before)
	}
	if q, ok := stopped[c.Name]; ok && c.Protection != nil {
		questions = append(questions, q)
	}
	return questions
}
