package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// Source is a kind of what answers questions.
type Source string

// Sources, as people call them.
const (
	Prometheus   Source = "prometheus"
	Alertmanager Source = "alertmanager"
	// HTTP, Command and Plugin are asked by protections.
	HTTP    Source = "http"
	Command Source = "command"
	Plugin  Source = "plugin"
)

// Question is what a check asks outside. Equal questions have one answer, of
// whichever assets and checks they are asked.
type Question struct {
	Source Source
	// Place is a URL, or the name that the operator gave to one.
	Place string
	// Text is a query in PromQL, or matchers of alerts, each in a line, or what a
	// protection is told, in JSON.
	Text string
	// Line are the arguments of a command, each after a zero byte.
	Line string
	// Silenced, and inhibited, alerts are asked for too.
	Silenced, Inhibited bool
	// Keep is how old an answer may be, Every how often it is asked (0: each half of
	// that), and Timeout how long one is waited for (0: as long as monitoring is).
	Keep, Every, Timeout time.Duration
	// Incarnation at which the asset is, when it is asked; two questions that differ
	// in nothing else are one, so where they are kept it is zero.
	Incarnation intent.IncarnationID
}

// Pause between two askings.
func (q Question) Pause() time.Duration {
	if q.Every > 0 {
		return q.Every
	}
	return q.Keep / 2
}

// Answer to a question, as far as there is one.
type Answer struct {
	// At is when it was asked for what follows; zero: that was not answered yet.
	At      time.Time
	Samples []Sample
	Alerts  []Alert
	// Reply is what a protection answered.
	Reply *Reply
	// Bytes that the answer takes, about.
	Bytes int
	// Failed says why the newest asking has no answer; nil: it has.
	Failed error
	// bearing are where the samples, or alerts, with a label are; nil: all are
	// to be looked at.
	bearing map[label][]int
}

type label struct{ name, value string }

// Indexed is the answer, made ready for many assets that each look for theirs.
func (a Answer) Indexed() Answer {
	a.bearing = map[label][]int{}
	for i := range len(a.Samples) + len(a.Alerts) {
		for name, value := range a.labelsAt(i) {
			at := label{name, value}
			a.bearing[at] = append(a.bearing[at], i)
		}
	}
	return a
}

// labelsAt are those of a sample, or of an alert after them.
func (a Answer) labelsAt(i int) map[string]string {
	if i < len(a.Samples) {
		return a.Samples[i].Labels
	}
	return a.Alerts[i-len(a.Samples)].Labels
}

// withLabels bear all of some labels.
func (a Answer) withLabels(wanted map[string]string) Answer {
	if len(wanted) == 0 {
		return a
	}
	var indexes []int
	if a.bearing == nil {
		for i := range len(a.Samples) + len(a.Alerts) {
			indexes = append(indexes, i)
		}
	} else {
		first := true
		for name, value := range wanted {
			if matching := a.bearing[label{name, value}]; first || len(matching) < len(indexes) {
				indexes, first = matching, false
			}
		}
	}
	some := Answer{At: a.At}
	for _, i := range indexes {
		switch {
		case !bears(a.labelsAt(i), wanted):
		case i < len(a.Samples):
			some.Samples = append(some.Samples, a.Samples[i])
		default:
			some.Alerts = append(some.Alerts, a.Alerts[i-len(a.Samples)])
		}
	}
	return some
}

// Sample is the value of one series.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Alert that is active.
type Alert struct {
	Labels map[string]string
	Since  time.Time
	// Link to where it comes from.
	Link string
}

// defaultKeep is how old an answer may be where a check does not say.
const defaultKeep = time.Minute

func keepOf(period *durationpb.Duration) time.Duration {
	if keep := period.AsDuration(); keep > 0 {
		return keep
	}
	return defaultKeep
}

// judgeByAnswer makes the check one that judges by the answer to a question. Without an
// answer that is not too old it is broken (S11).
func (c *Configured) judgeByAnswer(q Question, judge func(Facts, Answer) intent.Verdict) func(Facts) intent.Verdict {
	c.Question = &q
	return func(f Facts) intent.Verdict {
		a := f.Answers[q]
		if !a.counts(q, f.Now) {
			return c.unanswered(q, a)
		}
		return judge(f, a)
	}
}

// counts reports whether an answer is there and not too old.
func (a Answer) counts(q Question, now time.Time) bool {
	age := now.Sub(a.At)
	return !a.At.IsZero() && age >= 0 && age < q.Keep
}

// unanswered says why there is no answer that counts.
func (c *Configured) unanswered(q Question, a Answer) intent.Verdict {
	source := fmt.Sprintf("%s %s", q.Source, intent.Shown(q.Place))
	switch {
	case a.Failed != nil && q.Misasked(a.Failed):
		v := intent.IsBroken(c.Name, a.Failed)
		v.Waiting.Kind, v.Waiting.Check = intent.WaitCheckConfig, c.Name
		v.Waiting.Reason = fmt.Sprintf("check %s cannot be asked as it is configured: %s: %v", c.Name, source, a.Failed)
		return v
	case a.Failed != nil && a.At.IsZero():
		return c.broken(fmt.Errorf("%s: %w", source, a.Failed))
	case a.Failed != nil:
		return c.broken(fmt.Errorf("%s: %w; what it answered at %s is older than %s", source, a.Failed, instant(a.At), q.Keep))
	}
	v := c.broken(errors.New(source + " was asked, and did not answer yet"))
	v.Waiting.Kind = intent.WaitTurn
	return v
}

// holdsUntil is how long a pass that rests on an answer holds.
func (c *Configured) holdsUntil(a Answer) time.Time { return a.At.Add(c.Question.Keep) }

// labels are those that an asset's series or alerts bear: expressions by name.
type labels struct {
	names  []string
	values map[string]*rule.Expression
}

// labelled makes the check one that is about those series, or alerts, that bear
// labels of the asset.
func (c *Configured) labelled(expressions map[string]string, typeName intent.TypeName, types *rule.Environment) error {
	c.labels = labels{slices.Sorted(maps.Keys(expressions)), map[string]*rule.Expression{}}
	for _, name := range c.labels.names {
		var err error
		if c.labels.values[name], err = types.Compile(expressions[name], typeName); err != nil {
			return err
		}
	}
	return nil
}

// Own is what a check that asks outside looks at of the asset.
type Own struct {
	// Labels that its series or alerts bear; Unlabelled says why one is not known.
	Labels     map[string]string
	Unlabelled error
	// Serves is how much it serves now, and would after a push; Unsized says why
	// that is not known.
	Serves  Amount
	Unsized error
	// Before is what its protection is asked before a push.
	Before Question
}

// Sized says how a check tells what an asset serves: by an expression, or by a
// dimension of its Capacity addon.
type Sized struct {
	Expression, Dimension string
}

// LabelsOf an asset. An empty one is none: it would match what does not have the
// label at all.
func (c *Configured) LabelsOf(asset intent.Asset) (map[string]string, error) {
	values := map[string]string{}
	for _, name := range c.labels.names {
		text, err := c.labels.values[name].Text(asset)
		if err == nil && text == "" {
			err = errors.New("it is empty")
		}
		if err != nil {
			return nil, fmt.Errorf("the label %s of %s: %w", name, asset.ID, err)
		}
		values[name] = text
	}
	return values, nil
}

// pick what of an answer is about the asset.
func (c *Configured) pick(f Facts, a Answer) (Answer, error) {
	own, ok := f.Own[c]
	switch {
	case !ok:
		return Answer{}, errors.New("what of an answer is about the asset is not known")
	case own.Unlabelled != nil:
		return Answer{}, own.Unlabelled
	}
	return a.withLabels(own.Labels), nil
}

// bears reports whether all of some labels are among others.
func bears(present, wanted map[string]string) bool {
	for name, value := range wanted {
		if present[name] != value {
			return false
		}
	}
	return true
}

// labelsText says which labels are meant, where some are.
func labelsText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	return " for " + series(labels)
}

// series writes labels as queries do.
func series(labels map[string]string) string {
	const most = 200
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+`="`+labels[name]+`"`)
	}
	return "{" + excerpt(strings.Join(parts, ","), most) + "}"
}

// excerpt is the beginning of a text from outside, for people.
func excerpt(text string, most int) string {
	if text = strings.Join(strings.Fields(text), " "); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return intent.Shown(text)
}

// Side of an answer: it is worth another look when that changes.
type Side struct {
	Answer intent.Answer
	Kind   intent.WaitingKind
}

// Sides are those of the checks that ask outside.
func Sides(f Facts) []Side {
	var sides []Side
	for _, c := range f.Checks {
		if c.Question != nil || c.Protection != nil {
			v := c.judge(f)
			sides = append(sides, Side{v.Answer, v.Waiting.Kind})
		}
	}
	return sides
}
