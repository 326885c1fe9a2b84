package procedures

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/workflow"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/workflow/flowrecord"
	"lehr.dev/sdk/serve"
)

// maxWords is how much of an answer is told in a reason, maxShown the longest value that is
// shown whole.
const (
	maxWords = 200
	maxShown = 1000
)

// expectation is a value that production is to have.
type expectation struct {
	place string
	at    jsonvalue.Pointer
	value string
}

// expect reads wanted values, sorted by their places.
func (s subject) expect(values map[string]string) (all []expectation, err error) {
	for _, place := range slices.Sorted(maps.Keys(values)) {
		e := expectation{place: place}
		if e.at, err = jsonvalue.ParsePointer(place); err != nil {
			return nil, err
		}
		if e.value, err = s.definition.FillInputs(values[place], s.inputs); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// look is what was found, and decided.
type look struct {
	subject
	// have are the values that production has, by their places; without those that are not there.
	have    map[string]string
	verdict flowrecord.Verdict
}

// look reads production.
func (p *Procedures) look(ctx context.Context, s subject) (look, error) {
	l := look{subject: s, have: map[string]string{}}
	value, err := s.read(ctx)
	if err != nil {
		return l, fmt.Errorf("%s: reading what production has: %w", s.asset.ID, err)
	}
	for _, e := range slices.Concat(s.wanted, s.healthy) {
		found, ok := e.at.Get(value)
		if !ok || found == nil {
			continue
		}
		text, isText := found.(string)
		if !isText {
			text = jsonvalue.Canonical(found)
		}
		l.have[e.place] = text
	}
	l.verdict = flowrecord.Decide(s.record, s.want, l.matches(s.wanted))
	return l, nil
}

// read the state of the thing. Whatever is no JSON object with status 2xx is no state.
func (s subject) read(ctx context.Context) (map[string]any, error) {
	call := endpoint.Call{Method: http.MethodGet, Secrets: s.asset.SecretRequest(), Headers: headers("")}
	if err := address(&call, s.payload.Path, cmp.Or(s.payload.GetObserve().GetGet(), "/")); err != nil {
		return nil, err
	}
	answer, err := s.api.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	if answer.Status < 200 || answer.Status >= 300 {
		return nil, fmt.Errorf("it answered with status %d%s", answer.Status, afterColon(wordsOf(answer)))
	}
	value, err := jsonvalue.Object(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("its answer is no JSON object: %w", err)
	}
	return value, nil
}

// address puts the path of a call below another one, where values of placeholders cannot lead it
// away. A path "/" is that other one itself.
func address(call *endpoint.Call, base, text string) error {
	if problem := workflow.PathProblem(text); problem != "" {
		return fmt.Errorf("%.200q is no path below the thing: %s", text, problem)
	}
	below, query, _ := strings.Cut(text, "?")
	call.Path, call.Query = base, query
	if below != "/" {
		call.Path += below
	}
	return nil
}

func headers(key string) map[string]string {
	all := map[string]string{"User-Agent": "lehr-workflow"}
	if key != "" {
		all["Idempotency-Key"] = key
	}
	return all
}

// wordsOf an answer, in one short line and without secrets.
func wordsOf(answer endpoint.Answer) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(answer.Redact(string(answer.Body))), " "), "?")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}

func afterColon(words string) string {
	if words == "" {
		return ""
	}
	return ": " + words
}

func (l look) matches(all []expectation) bool {
	return !slices.ContainsFunc(all, func(e expectation) bool { return l.differs(e) })
}

func (l look) differs(e expectation) bool {
	have, ok := l.have[e.place]
	return !ok || have != e.value
}

// difference is what Lehr is told.
func (l look) difference() serve.Difference {
	d := serve.Difference{ResourceKey: l.key, Base: l.base(), Current: l.current(), Health: l.health(), Reason: l.verdict.Reason}
	switch l.verdict.Kind {
	case flowrecord.Satisfied:
		d.Outcome, d.Reason = serve.InSync, ""
	case flowrecord.Begin, flowrecord.GoOn:
		d.Outcome, d.Plan, d.Reason = serve.Differs, l.plan(), ""
	default:
		d.Outcome = serve.Unknown
	}
	return d
}

// base changes with what is seen of production and with each step of a run.
func (l look) base() string {
	text := fmt.Sprint(l.have)
	if l.record != nil {
		memo, _ := l.record.Memo() // It was read from one.
		text += string(memo)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// current is intent with the values that production has.
func (l look) current() []byte {
	current := proto.CloneOf(l.payload)
	for _, e := range l.wanted {
		if l.differs(e) {
			current.Observe.Want[e.place] = shorten(l.have[e.place])
		}
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(current)
	if err != nil {
		return nil
	}
	return content
}

// health is that of the thing; one that a run left in the middle is not well.
func (l look) health() serve.Health {
	switch l.verdict.Kind {
	case flowrecord.Refused:
		return serve.Health{State: serve.Unhealthy, Reason: l.record.EndWords()}
	case flowrecord.GoOn:
		return serve.Health{State: serve.Unhealthy, Reason: fmt.Sprintf("%s: %s", l.verdict.Reason, l.record.Place(l.definition))}
	case flowrecord.Begin:
		if l.record != nil && (!l.record.HasEnded() || l.record.State.End.Outcome != workflow.EndSuccess) {
			return serve.Health{State: serve.Unhealthy, Reason: l.verdict.Reason}
		}
	}
	for _, e := range l.healthy {
		if l.differs(e) {
			return serve.Health{State: serve.Unhealthy, Reason: fmt.Sprintf("it has %q at %s, not %q", shorten(l.have[e.place]), e.place, e.value)}
		}
	}
	return serve.Health{State: serve.Healthy}
}

// plan of a run that begins or goes on. Nothing in it changes with the time alone.
func (l look) plan() serve.Plan {
	plan := serve.Plan{Action: serve.ActionUpdate}
	add := func(path, current, target, reason string) {
		if current != target {
			plan.Changes = append(plan.Changes, serve.FieldChange{Path: path, Current: current, Target: target, Reason: reason, Destructive: l.payload.Destructive})
		}
	}
	for _, e := range l.wanted {
		if l.differs(e) {
			add(strings.ReplaceAll(strings.TrimPrefix(e.place, "/"), "/", "."), shorten(l.have[e.place]), shorten(e.value), "")
		}
	}
	before, run := "", "run 1"
	if l.record != nil {
		before = fmt.Sprintf("run %d", l.record.Number)
		if !l.record.HasEnded() {
			before += " at " + l.record.Place(l.definition)
		}
		run = fmt.Sprintf("run %d", l.record.Number+1)
	}
	if l.verdict.Kind == flowrecord.GoOn {
		add("run", before, fmt.Sprintf("run %d to its end", l.record.Number), l.verdict.Reason)
	} else {
		add("run", before, run, l.verdict.Reason)
	}
	add("run.workflow", "", l.definition.Name+" "+strings.TrimPrefix(l.definition.Digest(), "sha256:")[:12], "")
	var inputs []string
	for _, name := range slices.Sorted(maps.Keys(l.inputs)) {
		inputs = append(inputs, name+"="+l.inputs[name].Text)
	}
	add("run.inputs", "", shorten(strings.Join(inputs, ", ")), "")
	if l.record != nil && !l.record.HasEnded() {
		add("run.in_doubt", "", strings.Join(l.record.InDoubt(), ", "), "may have happened, and is not repeated in its run")
		if l.verdict.Kind == flowrecord.Begin {
			add("run.left", strings.Join(l.record.State.Leftovers, ", "), "", "what the run before left in production")
		}
	}
	if reason := l.payload.GetRerun().GetReason(); reason != "" && l.verdict.Kind == flowrecord.Begin && l.record != nil && l.record.Rerun != l.want.Rerun {
		add("run.rerun", "", reason, "")
	}
	return serve.Bound(plan)
}

// shorten a value for people: a digest stands for the rest of a long one.
func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes, sha256 %x)", len(text), sha256.Sum256([]byte(text)))
}
