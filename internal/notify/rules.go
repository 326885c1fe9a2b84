package notify

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// compiled is a notification of a policy, ready to be asked.
type compiled struct {
	*intentpb.Notification
	condition, text, group *rule.Notice
	// digest of what it says: another one begins anew.
	digest string
}

// ofAssets: it is about each asset.
func (c *compiled) ofAssets() bool { return rule.SubjectOf(c.Notification) == rule.NoticeOfAssets }

// compile the notifications of a policy. One that is wrong, as of a policy that an older
// Lehr published, is left out and told of.
func compile(policy *intentpb.Policy) (rules []*compiled, problems []error) {
	for _, n := range policy.GetNotifications() {
		c := &compiled{Notification: n}
		subject := rule.SubjectOf(n)
		var err error
		if c.condition, err = rule.NoticeWhen(n.When, subject); err == nil && n.Text != "" {
			c.text, err = rule.NoticeText(n.Text, subject)
		}
		if err == nil && n.Group != "" {
			c.group, err = rule.NoticeText(n.Group, subject)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(n)
		c.digest = intent.Sum("lehr.notification.v1", text).Short()
		rules = append(rules, c)
	}
	return rules, problems
}

func incarnation(id intent.IncarnationID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func moment(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// mostFollowed blockers lead to a root cause.
const mostFollowed = 32

// root is what a wait comes from in the end. It stays the same over heads that do not
// concern it, over restarts, and however its words change.
type root string

// cause returns what the assets that wait for it have in common: the root of the most
// decisive chain, and where that is an asset's own matter, the incarnation at which it
// was seen first.
func cause(r intent.Report, reportOf func(intent.AssetID) *intent.Report) (string, root) {
	shared := func(text string) (string, root) { return text, root(text) }
	own := func(reason string) (string, root) {
		return reason + " at " + incarnation(r.Target), root(reason + " of " + string(r.Asset) + ", content " + r.Effective.Short())
	}
	for range mostFollowed {
		if r.State != intent.StateWaiting || len(r.Waiting) == 0 {
			break
		}
		w := r.Waiting[0]
		switch {
		case w.Kind == intent.WaitStop, w.Kind == intent.WaitMode, w.Kind == intent.WaitStore, w.Kind == intent.WaitGeneration:
			return shared(string(w.Kind))
		case w.Kind == intent.WaitPlugin, w.Kind == intent.WaitPluginMissing:
			return shared(string(w.Kind) + " of " + string(r.Type))
		case w.Kind == intent.WaitHold:
			return shared("hold of " + w.Owner)
		case len(w.Blockers) == 0:
			return own(string(w.Kind))
		}
		blocker := reportOf(w.Blockers[0])
		if blocker == nil || blocker.State != intent.StateWaiting {
			return shared(string(w.Kind) + " on " + string(w.Blockers[0]))
		}
		r = *blocker
	}
	if r.Health.State == intent.Unhealthy {
		return own("unhealthy")
	}
	return own(string(r.State))
}

// summary is what is said of an asset when its notification has no text.
func summary(r *intentpb.NotedReport) string {
	switch {
	case len(r.Waiting) > 0:
		return r.Waiting[0].Kind + ": " + r.Waiting[0].Reason
	case r.HealthReason != "":
		return r.Health + ": " + r.HealthReason
	}
	return r.State
}
