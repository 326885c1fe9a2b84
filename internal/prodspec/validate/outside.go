package validate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// Question is what an external check asks about one asset.
type Question struct {
	Partition intent.PartitionID
	Rule      string
	Asset     intent.AssetID
	// Key is equal for equal questions about equal assets.
	Key   intent.Digest
	Check *intentpb.ExternalCheck
	// Parameters and Arguments are the check's, evaluated.
	Parameters map[string]string
	Arguments  []string
	// Timeout of an answer, and how long it may be kept.
	Timeout, Keep time.Duration
}

// Outside asks, and returns an answer or an error for each question. An error
// says that there is no answer now.
type Outside func(ctx context.Context, questions []Question) []Reply

// Reply to a question.
type Reply struct {
	Answer rule.Answer
	Err    error
}

// maxQuestions of a rule about one candidate.
const maxQuestions = 10_000

// askOutside asks about the assets that a rule with an external check is about.
// Without an answer the candidate is held: that is neither a pass nor a
// rejection.
func (b *breaches) askOutside(ctx context.Context, r *ownRule) error {
	var assets []intent.Asset
	var questions []Question
	more := 0
	err := b.eachAsset(ctx, r, func(asset intent.Asset) error {
		if len(questions) == maxQuestions {
			more++
			return nil
		}
		q, err := b.question(r, asset)
		if err != nil {
			b.judged(r, asset, false, err)
			return nil
		}
		assets, questions = append(assets, asset), append(questions, q)
		return nil
	})
	if err != nil || len(questions) == 0 {
		return err
	}
	if b.Outside == nil {
		b.unanswered(r, len(assets), intent.Finding{Asset: assets[0].ID, Message: "nothing outside is asked here"})
		return nil
	}
	replies := b.Outside(ctx, questions)
	if err := ctx.Err(); err != nil {
		return err
	}
	silent, first := more, intent.Finding{Message: "more than the checks ask at once", Hint: "let where leave some out"}
	for i, reply := range replies {
		if reply.Err != nil {
			if silent++; first.Asset == "" {
				first = FromError("", assets[i].ID, reply.Err)
			}
			continue
		}
		holds, err := r.must.Holds(assets[i], rule.Added{Answer: reply.Answer})
		b.judged(r, assets[i], holds, err)
	}
	if silent > 0 {
		b.unanswered(r, silent, first)
	}
	return nil
}

func (b *breaches) question(r *ownRule, asset intent.Asset) (Question, error) {
	_, digest, err := b.types.Encode(asset)
	if err != nil {
		return Question{}, err
	}
	q := Question{
		Partition: b.Candidate.Partition, Rule: r.Id, Asset: asset.ID, Check: r.External,
		Key:     intent.Sum("lehr.question.v1", r.digest[:], digest[:]),
		Timeout: r.External.Timeout.AsDuration(), Keep: r.External.Keep.AsDuration(),
	}
	for _, name := range slices.Sorted(maps.Keys(r.parameters)) {
		if q.Parameters == nil {
			q.Parameters = map[string]string{}
		}
		if q.Parameters[name], err = r.parameters[name].Text(asset); err != nil {
			return q, err
		}
	}
	for _, argument := range r.arguments {
		text, err := argument.Text(asset)
		if err != nil {
			return q, err
		}
		q.Arguments = append(q.Arguments, text)
	}
	return q, nil
}

// unanswered holds what could not be asked, once for each rule: the first says why,
// and what to do. A rule that only warns does no more than that here, too.
func (b *breaches) unanswered(r *ownRule, count int, first intent.Finding) {
	f := intent.Finding{
		Rule: "rules." + r.Id, Asset: first.Asset, Hint: first.Hint,
		Message: fmt.Sprintf("rule %s has no answer for %d assets: %s", r.Id, count, first.Message),
	}
	if r.Severity == intentpb.ValidationRule_SEVERITY_WARNING {
		f.Severity = intent.Warning
		b.add(f)
		return
	}
	b.hold(f)
}
