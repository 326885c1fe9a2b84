package app

import (
	"context"
	"encoding/json"
	"strings"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/annealing/protection"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// asks is who asks what constraints of a partition's environments ask, in the way of its checks; nil:
// nobody does. The operator's file must let both partitions ask: the one that defines the
// application, and that of the environment.
func (a *App) asks(partition intent.PartitionID) func(context.Context, delivery.Asking) (delivery.Reply, error) {
	if a.options.Parts.Ask != nil {
		return a.options.Parts.Ask
	}
	answer := a.answerer(partition)
	switch {
	case answer == nil:
		return nil
	case a.options.Parts.Outside != nil || a.options.Parts.Judge != nil:
		return askConstraint(answer, nil)
	}
	return askConstraint(answer, func(home intent.PartitionID, q check.Question) error {
		return protection.New(home, a.options.ExternalChecks, nil).MayAsk(q)
	})
}

// askConstraint asks by an answerer of the environment's partition, where its application's home may
// ask the same; nil: any may.
func askConstraint(answer func(context.Context, check.Question) (check.Answer, error), mayAsk func(home intent.PartitionID, q check.Question) error) func(context.Context, delivery.Asking) (delivery.Reply, error) {
	return func(ctx context.Context, asking delivery.Asking) (delivery.Reply, error) {
		q, err := questionOf(asking)
		if err != nil {
			return delivery.Reply{}, err
		}
		if mayAsk != nil && asking.Home != asking.Partition {
			if err := mayAsk(asking.Home, q); err != nil {
				return delivery.Reply{}, err
			}
		}
		answered, err := answer(ctx, q)
		switch {
		case err != nil:
			return delivery.Reply{}, err
		case answered.Reply == nil:
			return delivery.Reply{}, fault.New(fault.Unavailable, "it answered nothing")
		}
		return delivery.Reply{Pass: !answered.Reply.Blocks, Reason: answered.Reply.Reason, Until: answered.Reply.Until}, nil
	}
}

// promotionRequest is what is asked about a version, in JSON.
type promotionRequest struct {
	Protection  string      `json:"protection"`
	Phase       check.Phase `json:"phase"`
	Partition   string      `json:"partition"`
	Home        string      `json:"home"`
	Application string      `json:"application"`
	Environment string      `json:"environment"`
	Version     string      `json:"version"`
	Digest      string      `json:"digest,omitempty"`
	Commit      string      `json:"commit,omitempty"`
	Content     string      `json:"content"`
}

// questionOf puts what a constraint asks as a check puts it.
func questionOf(a delivery.Asking) (check.Question, error) {
	q := check.Question{Source: check.HTTP, Place: a.Spec.GetHttp(), Timeout: a.Timeout, Incarnation: a.At}
	if line := a.Spec.GetCommand().GetLine(); len(line) > 0 {
		q.Source, q.Place = check.Command, line[0]
		for _, argument := range line[1:] {
			q.Line += "\x00" + argument
		}
	}
	if name := a.Spec.GetPlugin(); name != "" {
		q.Source, q.Place = check.Plugin, name
	}
	text, err := json.Marshal(promotionRequest{
		Protection: a.Constraint, Phase: check.PhasePromotion, Partition: string(a.Partition), Home: string(a.Home), Application: a.Application, Environment: a.Environment,
		Version: a.Version.Name, Digest: a.Version.Digest, Commit: a.Commit, Content: strings.TrimSuffix(a.Version.Name+"@"+a.Version.Digest, "@"),
	})
	q.Text = string(text)
	return q, err
}
