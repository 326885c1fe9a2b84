package validate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// ownRule is a rule of the partition's policy, compiled.
type ownRule struct {
	*intentpb.ValidationRule
	digest intent.Digest
	filter *rule.Filter
	// payloadType is the type that every asset it is about has; empty: any.
	payloadType intent.TypeName
	// must judges assets, and whole aggregates.
	must  *rule.Condition
	whole *rule.Whole
	// keyExpression gives keys, and message what is said; nil: none, and a plain text.
	keyExpression, message *rule.Expression
	parameters             map[string]*rule.Expression
	arguments              []*rule.Expression
	// loosened: only head's policy has it, so it holds at most.
	loosened bool
	// fresh: head's policy has it not, or the types changed, so all is judged.
	fresh bool
}

// RuleProblem is what is wrong with a field of a rule.
type RuleProblem struct {
	Index int
	Field string
	Err   error
}

// CheckRules compiles the rules of a policy, and says what is wrong with them.
func CheckRules(types *schema.Set, rules []*intentpb.ValidationRule) (problems []RuleProblem) {
	if len(rules) == 0 {
		return nil
	}
	environment := rule.New(types)
	for i, r := range rules {
		if _, field, err := compileRule(environment, r); err != nil {
			problems = append(problems, RuleProblem{i, field, err})
		}
	}
	return problems
}

func digestOfRule(r *intentpb.ValidationRule) (intent.Digest, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	return intent.Sum("lehr.rule.v1", text), err
}

// compileRule names the field that is wrong.
func compileRule(e *rule.Environment, r *intentpb.ValidationRule) (_ *ownRule, field string, err error) {
	own := &ownRule{ValidationRule: r}
	if own.digest, err = digestOfRule(r); err != nil {
		return nil, "", err
	}
	if r.Where != "" {
		if own.filter, err = e.Filter(r.Where); err != nil {
			return nil, "where", err
		}
		own.payloadType = own.filter.Narrow().Type
	}
	if r.Scope == intentpb.ValidationRule_SCOPE_WHOLE {
		if own.whole, err = e.Whole(r.Must); err != nil {
			return nil, "must", err
		}
		if r.By != "" {
			if own.keyExpression, err = e.Compile(r.By, own.payloadType); err != nil {
				return nil, "by", err
			}
		} else if r.Where != "" {
			return nil, "where", fault.New(fault.Invalid, "where says which assets have a key, and there is no by").
				WithHint(`say by: scope, or put the condition into the aggregates: count(type == "Job")`)
		}
		return own, "", nil
	}
	if len(r.AllowedSecrets) > 0 {
		return own, "", nil
	}
	view := rule.Alone
	switch {
	case r.External != nil:
		view = rule.Answered
	case r.Scope == intentpb.ValidationRule_SCOPE_NEIGHBOURHOOD:
		view = rule.Among
	}
	if own.must, err = e.Condition(r.Must, own.payloadType, view); err != nil {
		return nil, "must", err
	}
	if e.IsExpression(r.Message) {
		if own.message, err = e.Compile(r.Message, own.payloadType); err != nil {
			return nil, "message", err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.External.GetParameters())) {
		if own.parameters == nil {
			own.parameters = map[string]*rule.Expression{}
		}
		if own.parameters[name], err = e.Compile(r.External.Parameters[name], own.payloadType); err != nil {
			return nil, "parameters", err
		}
	}
	for _, text := range r.External.GetArguments() {
		compiled, err := e.Compile(text, own.payloadType)
		if err != nil {
			return nil, "arguments", err
		}
		own.arguments = append(own.arguments, compiled)
	}
	return own, "", nil
}

// ownRules judges by the rules of the policy: those of the candidate, and those
// of head that the candidate has not (S23). What breaks only the latter is held,
// so that nobody loosens a rule by the change that it is there for.
func (v *Validator) ownRules(ctx context.Context, j *judging) error {
	v.lock.Lock()
	defer v.lock.Unlock()
	rules := v.compileOwn(j)
	defer v.keep(rules)
	broken := &breaches{judging: j, reported: map[breach]bool{}}
	// The candidate's own come first: what they say is not said again.
	for _, r := range rules {
		var err error
		switch {
		case r.whole != nil:
			err = v.judgeWhole(ctx, broken, r)
		case r.Scope == intentpb.ValidationRule_SCOPE_NEIGHBOURHOOD:
			err = broken.neighbourhoods(ctx, r)
		case r.External != nil:
			err = broken.askOutside(ctx, r)
		case len(r.AllowedSecrets) > 0:
			err = broken.eachAsset(ctx, r, func(asset intent.Asset) error { return broken.secrets(r, asset) })
		default:
			err = broken.eachAsset(ctx, r, func(asset intent.Asset) error {
				holds, err := r.must.Holds(asset, rule.Added{})
				broken.judged(r, asset, holds, err)
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compileOwn compiles those rules that were not compiled in the last run.
func (v *Validator) compileOwn(j *judging) (rules []*ownRule) {
	compile := func(r *intentpb.ValidationRule) (*ownRule, string, error) {
		digest, err := digestOfRule(r)
		if cached := v.compiled[digest]; cached != nil && err == nil {
			again := *cached
			again.loosened, again.fresh = false, false
			return &again, "", nil
		}
		return compileRule(v.expressions, r)
	}
	head := map[intent.Digest]bool{}
	for _, r := range j.HeadPolicy.GetRules() {
		if digest, err := digestOfRule(r); err == nil {
			head[digest] = true
		}
	}
	own := map[intent.Digest]bool{}
	for _, r := range j.CandidatePolicy.GetRules() {
		compiled, field, err := compile(r)
		if err != nil {
			finding := FromError("rules."+r.Id, intent.PolicyAsset, err)
			finding.Field = field
			j.add(finding)
			continue
		}
		own[compiled.digest] = true
		compiled.fresh = j.Again != nil || !head[compiled.digest]
		rules = append(rules, compiled)
	}
	for _, r := range j.HeadPolicy.GetRules() {
		if digest, err := digestOfRule(r); err == nil && own[digest] || r.Severity == intentpb.ValidationRule_SEVERITY_WARNING {
			continue
		}
		compiled, _, err := compile(r)
		if err != nil {
			j.hold(intent.Finding{
				Rule: "rules." + r.Id, Asset: intent.PolicyAsset,
				Message: fmt.Sprintf("the rule %s of head cannot be judged with the types of this candidate, which has it not: %s", r.Id, FromError("", "", err).Message),
			})
			continue
		}
		compiled.loosened = true
		rules = append(rules, compiled)
	}
	return rules
}

func (v *Validator) keep(rules []*ownRule) {
	compiled, tallies := map[intent.Digest]*ownRule{}, map[intent.Digest]*tally{}
	for _, r := range rules {
		compiled[r.digest] = r
		if existing := v.tallies[r.digest]; existing != nil {
			tallies[r.digest] = existing
		}
	}
	v.compiled, v.tallies = compiled, tallies
}

// breach is what a rule is broken by: an asset, or a key of the whole.
type breach struct{ rule, subject string }

// breaches gathers them.
type breaches struct {
	*judging
	reported map[breach]bool
	// referrers are the assets of the delta that refer to one, once asked for.
	referrers map[intent.AssetID][]intent.AssetID
	decoded   map[intent.AssetID]intent.Asset
}

// judged keeps what was found of an asset. An error is never a pass.
func (b *breaches) judged(r *ownRule, asset intent.Asset, holds bool, err error) {
	if holds && err == nil {
		return
	}
	f := intent.Finding{Asset: asset.ID, Hint: "validate.rules of lehr.yaml says: must: " + intent.Shown(r.Must)}
	text := r.Message
	// Whoever may read findings need not be let see secrets.
	redacted, failed := b.types.Redact(asset)
	if r.message != nil && err == nil {
		if failed == nil {
			text, failed = r.message.Text(redacted)
		}
		if failed != nil {
			text = ""
		}
	}
	switch {
	case err != nil:
		message, hint := b.reason(asset, err)
		f.Message, f.Hint = fmt.Sprintf("rule %s cannot be judged of asset %s: %s", r.Id, asset.ID, message), cmp.Or(hint, f.Hint)
	case text != "":
		const most = 1000
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "…"
		}
		f.Message = fmt.Sprintf("asset %s: %s (rule %s)", asset.ID, text, r.Id)
	default:
		f.Message = fmt.Sprintf("asset %s breaks the rule %s", asset.ID, r.Id)
	}
	b.keep(r, string(asset.ID), f)
}

// reason of what cannot be judged of an asset. Whoever may read findings need not
// be let see secrets.
func (j *judging) reason(asset intent.Asset, err error) (message, hint string) {
	f := FromError("", asset.ID, err)
	if redacted, failed := j.types.Redact(asset); failed != nil || !same(redacted, asset) {
		f.Message = "what exactly is wrong is not shown, for the asset holds secrets"
	}
	return f.Message, f.Hint
}

func same(a, b intent.Asset) bool {
	equal := func(a, b intent.Message) bool { return a.Type == b.Type && bytes.Equal(a.Bytes, b.Bytes) }
	return equal(a.Payload, b.Payload) && slices.EqualFunc(a.Addons, b.Addons, equal)
}

// keep a finding, as the rule says.
func (b *breaches) keep(r *ownRule, subject string, f intent.Finding) {
	f.Rule = "rules." + r.Id
	if r.loosened {
		if b.reported[breach{r.Id, subject}] {
			return
		}
		f.Message += fmt.Sprintf("; so %s has it, and this candidate loosens it", b.Base)
	}
	severity := r.Severity
	if severity != intentpb.ValidationRule_SEVERITY_WARNING {
		b.reported[breach{r.Id, subject}] = true
	}
	b.place(r, &f)
	switch {
	case r.loosened, severity == intentpb.ValidationRule_SEVERITY_HOLD:
		b.hold(f)
	case severity == intentpb.ValidationRule_SEVERITY_WARNING:
		f.Severity = intent.Warning
		b.add(f)
	default:
		f.Severity = intent.Error
		b.add(f)
	}
}

// place of a finding that is about no asset is that of the rule.
func (b *breaches) place(r *ownRule, f *intent.Finding) {
	if f.Asset == "" && b.Rule != nil && !r.loosened {
		origin := b.Rule(r.Id)
		f.File, f.Line = origin.File, origin.Line
	}
}

// eachAsset calls do for each asset that the rule is to judge: those that
// changed, or all when the rule did.
func (b *breaches) eachAsset(ctx context.Context, r *ownRule, do func(intent.Asset) error) error {
	visit := func(id intent.AssetID, body []byte) error {
		asset, err := schema.Decode(body)
		if err != nil {
			return err
		}
		matches, err := b.matches(r, asset)
		if err != nil || !matches {
			return nil // A finding tells of the error.
		}
		return do(asset)
	}
	for _, entry := range b.delta {
		if entry.Removed || entry.Body == nil || !r.wants(entry.Asset, entry.Member.Type) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(entry.Asset, entry.Body); err != nil {
			return err
		}
	}
	if !r.fresh || b.Rest == nil {
		return nil
	}
	return b.Rest(ctx, r.wants, visit)
}

// wants reports whether the rule may be about an asset.
func (r *ownRule) wants(id intent.AssetID, typeName intent.TypeName) bool {
	return id != intent.PolicyAsset && (r.payloadType == "" || r.payloadType == typeName)
}

// matches reports whether the rule is about an asset. Where that cannot be
// told, it is broken.
func (b *breaches) matches(r *ownRule, asset intent.Asset) (bool, error) {
	if r.filter == nil {
		return true, nil
	}
	matches, err := r.filter.Match(asset)
	if err != nil {
		b.judged(r, asset, false, err)
	}
	return matches, err
}
