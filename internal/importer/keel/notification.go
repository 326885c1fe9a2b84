package keel

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
)

// notification has somebody told of what happens to versions in an environment.
type notification struct {
	environment string
	target      target
	events      []string
}

// target is whom the operator of a server has told.
type target struct{ name, kind, address string }

// frequencies are the events of each frequency of Keel, as Lehr has them.
var frequencies = map[string][]string{
	"quiet":   {"waiting", "vetoed", "failed"},
	"normal":  {"waiting", "vetoed", "failed", "promoted", "rolled-back"},
	"verbose": {"waiting", "vetoed", "failed", "promoted", "rolled-back"},
}

func (r *reading) readNotification(e *environment, node *yaml.Node) {
	var kind, address, frequency string
	r.eachKey(node, "the notification", map[string]func(*yaml.Node){
		"type": func(value *yaml.Node) { kind = value.Value }, "address": func(value *yaml.Node) { address = value.Value },
		"frequency": func(value *yaml.Node) { frequency = value.Value },
	})
	if frequency == "" {
		frequency = "normal"
	}
	events, isFrequency := frequencies[frequency]
	_, isSecret := secrecy.Field("address", address)
	t := target{kind + "-" + segment(address), kind, address}
	switch {
	case kind != "slack" && kind != "email":
		r.leave(node, "notification "+kind, "the operator has people told by webhook, chat or mail: see docs/operate/notifications.md")
		return
	case !isFrequency:
		r.wrong(node, "notification "+kind, fmt.Sprintf("Keel has no frequency %q: it is one of quiet, normal and verbose", frequency))
		return
	case isSecret || strings.Contains(address, "://") || !named.MatchString(t.name) || address == "":
		r.leave(node, "notification "+kind, "its address is no channel and no mail address: name the target in the operator's file")
		return
	}
	r.keep(node)
	if !slices.Contains(r.targets, t) {
		r.targets = append(r.targets, t)
	}
	r.notifications = append(r.notifications, notification{e.name, t, events})
}

// describeNotifications are those of lehr.yaml, by name.
func (r *reading) describeNotifications() map[string]any {
	made := map[string]any{}
	for _, n := range r.notifications {
		name := segment(segment(n.environment) + "-" + n.target.name)
		for count, base := 2, name; made[name] != nil; count++ {
			name = segment(fmt.Sprintf("%.58s-%d", base, count))
		}
		made[name] = map[string]any{
			"of": "delivery", "to": []string{n.target.name},
			"when": fmt.Sprintf(`delivery.environment == %q && delivery.event in ["%s"]`, segment(n.environment), strings.Join(n.events, `", "`)),
		}
	}
	return made
}

// targetsFor is the operator's file of notifications, for a partition.
func (r *reading) targetsFor(partition string) []byte {
	type entry struct {
		Name       string            `yaml:"name"`
		Slack      map[string]string `yaml:"slack,omitempty"`
		Email      []string          `yaml:"email,omitempty"`
		Partitions []string          `yaml:"partitions"`
	}
	var entries []entry
	for _, t := range r.targets {
		made := entry{Name: t.name, Partitions: []string{partition}}
		if t.kind == "slack" {
			made.Slack = map[string]string{"env": strings.ToUpper(strings.ReplaceAll(t.name, "-", "_")) + "_URL"}
		} else {
			made.Email = []string{t.address}
		}
		entries = append(entries, made)
	}
	text, err := yaml.Marshal(map[string]any{"notifications": "v1", "targets": entries})
	if err != nil {
		panic(err) // Texts always encode.
	}
	return append([]byte("# Copy this into the file of --notifications of your server (docs/operate/notifications.md#targets).\n# Each variable holds the address of an incoming webhook of the channel that its target is named after.\n"), text...)
}
