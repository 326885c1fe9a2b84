package definition_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

func TestNotificationsAreRead(t *testing.T) {
	const head = "lehr: v1\npartition: shop\nsources: {s: {files: a}}\ngenerate: {g: {starlark: a.star, from: s}}\n"
	d, findings := definition.Parse("lehr.yaml", []byte(head+`notifications:
  approvals:
    when: report.state == "waiting" && report.waiting.exists(w, w.kind == "approval") && before.state != "off"
    for: 10m
    repeat: 4h
    to: [chat, oncall]
    text: '"look at " + report.asset'
    group: report.target
  stopped: {of: partition, when: "has(partition.stop) && now - partition.stop.since > duration('1h')", to: chat, resolved: false}
  asked: {of: workflow, when: 'workflow.event == "asks" && workflow.run > 0', text: workflow.workflow, to: chat}
`), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	n := d.Policy.Notifications
	if len(n) != 3 || !n[2].OfWorkflow || n[0].Name != "approvals" || n[0].For.AsDuration() != 10*time.Minute || n[0].Repeat.AsDuration() != 4*time.Hour ||
		len(n[0].To) != 2 || n[0].SilentEnd || !n[1].OfPartition || !n[1].SilentEnd || n[1].For != nil {
		t.Errorf("read as %v", n)
	}
	for text, want := range map[string]string{
		"{to: chat}":                                                       "notifications.n.when is missing",
		"{when: 'report.state == \"off\"'}":                                "notifications.n.to is missing",
		"{when: 'report.stat == \"off\"', to: chat}":                       "undefined field 'stat'",
		"{when: 'partition.id == \"a\"', to: chat}":                        "undeclared reference to 'partition'",
		"{of: partition, when: 'report.state == \"off\"', to: chat}":       "undeclared reference to 'report'",
		"{when: report.state, to: chat}":                                   "gives string, not a truth value",
		"{when: 'true', to: chat, text: 'report.at'}":                      "not a text",
		"{when: 'true', to: chat, text: '1 +'}":                            "no expression",
		"{when: 'true', to: chat, repeat: 1s}":                             "less than 1m0s",
		"{when: 'true', to: chat, for: soon}":                              "not a length of time",
		"{when: 'true', to: [a,b,c,d,e,f,g,h,i,j,k]}":                      "11 targets, at most 10",
		"{when: 'true', to: chat, of: galaxy}":                             "must be assets, partition, delivery or workflow, is",
		"{when: 'true', to: chat, resolved: maybe}":                        "must be true or false",
		"{of: delivery, when: 'true', to: chat, repeat: 1h}":               "notifications.n.repeat says nothing of: delivery",
		"{of: workflow, when: 'true', to: chat, for: 1h}":                  "notifications.n.for says nothing of: workflow",
		"{of: workflow, when: 'delivery.event == \"asks\"', to: chat}":     "undeclared reference to 'delivery'",
		"{of: delivery, when: report.asset == '', to: chat}":               "no expression of a notification",
		"{when: 'true', to: chat, url: 'http://x'}":                        "unknown field notifications.n.url",
		"{when: '" + strings.Repeat("(", 10_000) + "', to: chat}":          "no expression",
		"{when: '[1].map(x, [1].map(y, x)) == [[1]] || report', to: chat}": "no expression",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(head+"notifications: {n: "+text+"}\n"), schema.Builtin())
		if len(findings) == 0 || !strings.Contains(findings[0].Message, want) || findings[0].Line != 5 || findings[0].Hint == "" {
			t.Errorf("%.80s: %+v, want %q", text, findings, want)
		}
	}
}

// TestNotificationsOfThePageAreRead: what docs/operate/notifications.md shows is taken.
func TestNotificationsOfThePageAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operate/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	d, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\nsources: {s: {files: a}}\ngenerate: {g: {starlark: a.star, from: s}}\n"+text), schema.Builtin())
	if len(findings) > 0 || len(d.Policy.Notifications) != 8 {
		t.Errorf("%d notifications, %+v", len(d.Policy.Notifications), findings)
	}
}
