// Package protection asks services, programs and plugins what checks ask of each push: may it
// be? As far as the operator's policy (package external) allows. Its errors say whether
// it cannot be asked so (Invalid, Denied), which somebody must mend, or does not answer
// (Unavailable), which may end by itself. It keeps nothing and judges nothing; the
// enforcer calls it through its Options.
package protection

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// maxSaid is how much is told of what a protection says, in bytes.
const maxSaid = 300

// Asker asks for the checks of one partition. It is safe for concurrent use.
type Asker struct {
	partition intent.PartitionID
	policy    string
	plugins   Plugins
}

// Plugins returns the plugin of checks that a command line runs.
type Plugins func(run []string) plugin.Judge

// New returns an asker under the policy in a file, which is read for each
// question; no file: the zero policy.
func New(partition intent.PartitionID, policy string, plugins Plugins) *Asker {
	return &Asker{partition, policy, plugins}
}

// Ask answers a question within its time.
func (a *Asker) Ask(ctx context.Context, q check.Question) (check.Answer, error) {
	policy, err := external.ReadPolicy(a.policy)
	if err != nil {
		return check.Answer{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, q.Timeout, fault.New(fault.Unavailable, "there was no answer within %s", q.Timeout))
	defer cancel()
	var reply *check.Reply
	switch q.Source {
	case check.HTTP:
		reply, err = a.post(ctx, policy, q)
	case check.Command:
		reply, err = a.run(ctx, policy, q)
	case check.Plugin:
		reply, err = a.judge(ctx, policy, q)
	default:
		err = fault.New(fault.Invalid, "there is no protection of the kind %q", q.Source)
	}
	if err != nil && ctx.Err() != nil {
		return check.Answer{}, context.Cause(ctx)
	}
	return check.Answer{Reply: reply}, err
}

// MayAsk says whether the operator's policy lets the partition ask it; Denied: it does not.
func (a *Asker) MayAsk(q check.Question) error {
	policy, err := external.ReadPolicy(a.policy)
	if err != nil {
		return err
	}
	switch q.Source {
	case check.HTTP:
		_, err = policy.Place(a.partition, external.Protection, q.Place)
	case check.Command:
		err = policy.MayRun(a.partition, q.Place)
	case check.Plugin:
		_, err = policy.Plugin(a.partition, q.Place)
	default:
		err = fault.New(fault.Invalid, "there is no protection of the kind %q", q.Source)
	}
	return err
}

// post asks a service.
func (a *Asker) post(ctx context.Context, policy *external.Policy, q check.Question) (*check.Reply, error) {
	at, err := policy.Place(a.partition, external.Protection, q.Place)
	if err != nil {
		return nil, err
	}
	at.JSON = q.Body()
	status, text, err := external.Fetch(ctx, at)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, fault.New(fault.Denied, "it refuses whoever asks (%d)", status).
			WithHint("whoever runs the server lists it with its secret, as kind: protection under monitoring, in the file of --external-checks")
	case status < 200 || status > 299:
		return nil, fault.New(fault.Invalid, "it answered %d: %s", status, excerpt(text)).
			WithHint("look whether the URL is that of the protection; redirects are not followed")
	}
	return answer(text)
}

// run asks a program: by what it writes, or by how it exits.
func (a *Asker) run(ctx context.Context, policy *external.Policy, q check.Question) (*check.Reply, error) {
	if err := policy.MayRun(a.partition, q.Place); err != nil {
		return nil, err
	}
	ran, err := external.Run(ctx, append([]string{q.Place}, q.Arguments()...), q.Body())
	text := strings.TrimSpace(ran.Text)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return nil, fault.New(fault.Invalid, "it cannot be run: %w", err).WithHint("is it where the server runs, and may it be executed?")
	case err != nil:
		return nil, err
	case ran.Exit > 1:
		return nil, fault.New(fault.Unavailable, "it exited with %d, which is no answer: %s", ran.Exit, excerpt(ran.Complaint)).WithHint("0 says yes and 1 says no")
	case !strings.HasPrefix(text, "{"):
		return &check.Reply{Blocks: ran.Exit == 1, Reason: excerpt(text)}, nil
	}
	reply, err := answer(text)
	if err == nil && ran.Exit == 1 && !reply.Blocks {
		return nil, fault.New(fault.Unavailable, "it wrote that it passes, and exited with 1")
	}
	return reply, err
}

// judge asks a plugin.
func (a *Asker) judge(ctx context.Context, policy *external.Policy, q check.Question) (*check.Reply, error) {
	run, err := policy.Plugin(a.partition, q.Place)
	if err != nil {
		return nil, err
	}
	return Judged(ctx, a.plugins(run), q)
}

// Judged is what a plugin of checks answers to a question. The plugin bounds how long
// that takes, or the context does.
func Judged(ctx context.Context, judge plugin.Judge, q check.Question) (*check.Reply, error) {
	request := &pluginpb.JudgeRequest{}
	if err := protojson.Unmarshal([]byte(q.Body()), request); err != nil {
		return nil, fault.New(fault.Internal, "what it is to be told cannot be written: %w", err)
	}
	response, err := judge.Judge(ctx, request)
	if err != nil {
		return nil, err
	}
	reply := &check.Reply{Blocks: response.Judgement != pluginpb.JudgeResponse_JUDGEMENT_PASS, Reason: excerpt(response.Reason)}
	if response.Until != nil {
		reply.Until = response.Until.AsTime()
	}
	return reply, nil
}

// answer reads what a protection says.
func answer(text string) (*check.Reply, error) {
	var body struct {
		Result string     `json:"result"`
		Reason string     `json:"reason"`
		Until  *time.Time `json:"until"`
	}
	err := json.Unmarshal([]byte(text), &body)
	if err == nil && body.Result != "pass" && body.Result != "blocking" {
		err = errors.New("its result is neither pass nor blocking")
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "what it answered cannot be read: %w: %s", err, excerpt(text)).
			WithHint(`it must answer {"result": "pass"} or {"result": "blocking", "reason": "why"}`)
	}
	reply := &check.Reply{Blocks: body.Result == "blocking", Reason: excerpt(body.Reason)}
	if body.Until != nil {
		reply.Until = *body.Until
	}
	return reply, nil
}

func excerpt(text string) string {
	if text = strings.Join(strings.Fields(text), " "); len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return intent.Shown(text)
}
