package definition

import (
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/rule"
)

const (
	// maxNotifications of a partition: each report that is kept asks them all.
	maxNotifications = 50
	// leastRepeat is how often something is told of again at most.
	leastRepeat = time.Minute
	// maxTo targets of a notification.
	maxTo = 10
)

var notificationKeys = []string{"of", "when", "for", "repeat", "to", "text", "group", "resolved"}

// notifications reads who is told of what.
func (p *parser) notifications(node *yaml.Node) (list []*intentpb.Notification) {
	p.eachPair(node, "notifications", func(key, value *yaml.Node) {
		at := "notifications." + key.Value
		if !checkName().MatchString(key.Value) {
			p.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
		}
		list = append(list, p.notification(key, value, at))
	})
	if len(list) > maxNotifications {
		p.at(node, "notifications", "there are %d notifications, at most %d are allowed", len(list), maxNotifications).hint("join those with the same targets by ||")
	}
	return list
}

func (p *parser) notification(key, value *yaml.Node, at string) *intentpb.Notification {
	fields := p.fields(value, at, notificationKeys)
	n := &intentpb.Notification{Name: key.Value}
	for _, needed := range []string{"when", "to"} {
		if fields[needed] == nil {
			p.at(value, at+"."+needed, "%s.%s is missing", at, needed).
				hint(`write {when: 'report.waiting.exists(w, w.kind == "approval")', to: [chat]}`)
		}
	}
	if ofNode := fields["of"]; ofNode != nil {
		switch ofNode.Value {
		case "assets":
		case "partition":
			n.OfPartition = true
		case "delivery":
			n.OfDelivery = true
			p.refuseLasting(fields, at, "delivery")
		case "workflow":
			n.OfWorkflow = true
			p.refuseLasting(fields, at, "workflow")
		default:
			p.at(ofNode, at+".of", "%s.of must be assets, partition, delivery or workflow, is %s", at, describe(ofNode)).hint("leave it out for assets")
		}
	}
	subject := rule.SubjectOf(n)
	if whenNode := fields["when"]; whenNode != nil {
		n.When = p.text(whenNode, at+".when")
		_, err := rule.NoticeWhen(n.When, subject)
		p.check(whenNode, at+".when", err)
	}
	words := func(name string) (text string) {
		if field := fields[name]; field != nil {
			text = p.text(field, at+"."+name)
			_, err := rule.NoticeText(text, subject)
			p.check(field, at+"."+name, err)
		}
		return text
	}
	n.Text, n.Group = words("text"), words("group")
	if length := fields["for"]; length != nil {
		n.For = durationpb.New(p.duration(length, at+".for"))
	}
	if repeat := fields["repeat"]; repeat != nil {
		if n.Repeat = durationpb.New(p.duration(repeat, at+".repeat")); n.Repeat.AsDuration() < leastRepeat {
			p.at(repeat, at+".repeat", "%s.repeat is less than %s", at, leastRepeat).hint("people do not read more often; write repeat: 4h")
		}
	}
	if toNode := fields["to"]; toNode != nil {
		if n.To = p.texts(toNode, at+".to"); len(n.To) > maxTo {
			p.at(toNode, at+".to", "%s.to has %d targets, at most %d are allowed", at, len(n.To), maxTo).hint("let one of them tell the others")
		}
	}
	if resolved := fields["resolved"]; resolved != nil {
		if resolved.Value != "true" && resolved.Value != "false" {
			p.at(resolved, at+".resolved", "%s.resolved must be true or false, is %s", at, describe(resolved)).hint("write resolved: false where nobody needs to hear of its end")
		}
		n.SilentEnd = resolved.Value == "false"
	}
	return n
}

// refuseLasting keys: what happens to a version, or in a run, is told of once, when it happens.
func (p *parser) refuseLasting(fields map[string]*yaml.Node, at, subject string) {
	for _, key := range []string{"for", "repeat", "group", "resolved"} {
		if field := fields[key]; field != nil {
			p.at(field, at+"."+key, "%s.%s says nothing of: %s, which is told of once, when it happens", at, key, subject).hint("leave it out")
		}
	}
}
