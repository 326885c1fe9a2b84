package objects

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	httppb "lehr.dev/gen/lehr/http/v1"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// bench is the plugin's kind with an operator's list.
type bench struct {
	*testing.T
	Objects
	path string
}

// open lists one endpoint, called api. more are lines of its entry.
func open(t *testing.T, url, profile string, more ...string) *bench {
	t.Helper()
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	text := fmt.Sprintf("http-endpoints: v1\nendpoints:\n- name: api\n  url: %s\n  profile: %s\n  partitions: [shop]\n  requests_per_second: 1000\n", url, profile)
	for _, line := range more {
		text += "  " + line + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := endpoint.OpenSource(path, resolver.New(endpoint.Plugin, os.Getenv("LEHR_SECRET_LIST")), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, Objects{Source: source}, path}
}

// listSecret has the operator's list of secrets name one.
func listSecret(t *testing.T, place string) {
	t.Helper()
	folder := t.TempDir()
	list, key := filepath.Join(folder, "secrets.yaml"), filepath.Join(folder, "key")
	text := fmt.Sprintf("lehr-secrets: v1\nkey: %s\nsecrets: [{%s, partitions: [shop], plugins: [lehr-http]}]\n", key, place)
	for path, content := range map[string]string{list: text, key: rand.Text() + rand.Text()} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("LEHR_SECRET_LIST", list)
}

// custom writes a profile of a test's own, and returns its path.
func custom(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// object is a payload; identity is NAME=VALUE, separated by commas.
func object(resource, identity, body string) *httppb.Resource {
	o := &httppb.Resource{Endpoint: "api", Resource: resource, Body: body, Identity: map[string]string{}}
	for part := range strings.SplitSeq(identity, ",") {
		name, value, _ := strings.Cut(part, "=")
		o.Identity[name] = value
	}
	return o
}

func asset(o *httppb.Resource, addons ...string) serve.Intent {
	intent := serve.Intent{Incarnation: serve.IncarnationID{Partition: "shop"}}
	intent.ID = "thing/one"
	intent.Payload.Type = objectType
	intent.Payload.Bytes, _ = proto.MarshalOptions{Deterministic: true}.Marshal(o)
	for _, addon := range addons {
		intent.Addons = append(intent.Addons, serve.Message{Type: serve.TypeName(addon)})
	}
	return intent
}

const turndown = "lehr.intent.v1.Turndown"

// look is the difference of one asset.
func (b *bench) look(intent serve.Intent) serve.Difference {
	b.Helper()
	return b.Diff(b.Context(), []serve.Intent{intent})[0]
}

// state is a difference in short: in sync, absent, an action with its changes, or unknown.
func (b *bench) state(intent serve.Intent) string {
	b.Helper()
	d := b.look(intent)
	switch {
	case d.Outcome == serve.Unknown:
		return "unknown: " + d.Reason
	case d.Outcome == serve.InSync && len(d.Current) == 0:
		return "nothing is there"
	case d.Outcome == serve.InSync:
		return "in sync"
	}
	var changes []string
	for _, change := range d.Plan.Changes {
		text := fmt.Sprintf("%s %s -> %s", change.Path, change.Current, change.Target)
		if change.Destructive {
			text += " (destructive)"
		}
		changes = append(changes, text)
	}
	return string(d.Plan.Action) + ": " + strings.Join(changes, "; ")
}

func (b *bench) expect(intent serve.Intent, want string) {
	b.Helper()
	if got := b.state(intent); got != want {
		b.Errorf("%s\nwant %s", got, want)
	}
}

// unknown holds that nothing is known of the asset, and that the reason says a text.
func (b *bench) unknown(intent serve.Intent, want string) {
	b.Helper()
	if got := b.state(intent); !strings.HasPrefix(got, "unknown: ") || !strings.Contains(got, want) {
		b.Errorf("%s\nwant unknown: …%s…", got, want)
	}
}

// permits lets everything through, and counts.
type permits struct {
	effects int
	// before is called when an effect is about to begin.
	before func()
}

func (p *permits) Effect(context.Context) error {
	p.effects++
	if p.before != nil {
		p.before()
	}
	return nil
}

func (p *permits) Cover(context.Context, string) error { return nil }

// push has what the last look found carried out.
func (b *bench) push(intent serve.Intent) serve.Outcome {
	b.Helper()
	return b.pushWith(intent, &permits{})
}

func (b *bench) pushWith(intent serve.Intent, p *permits) serve.Outcome {
	b.Helper()
	d := b.look(intent)
	if d.Outcome != serve.Differs {
		b.Fatalf("nothing is to be pushed: %s", b.state(intent))
	}
	return b.Push(b.Context(), serve.Push{
		ID: "push-1", Asset: intent, Plan: d.Plan.Digest(), Base: d.Base, Progress: func(string) {},
	}, p)
}

func (b *bench) pushed(intent serve.Intent) {
	b.Helper()
	if outcome := b.push(intent); outcome.Ending != serve.Pushed {
		b.Errorf("the push ended: %+v", outcome)
	}
}
