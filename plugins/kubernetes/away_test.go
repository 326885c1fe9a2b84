package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// settings is the asset of a map in a namespace, which is pushed.
func (c *cluster) settings(namespace string) serve.Intent {
	c.Helper()
	asset := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"`+namespace+`"},"data":{"a":"1"}}`))
	c.mustPush(asset)
	return asset
}

// recalled waits until an asset is answered without a question to the server.
func (c *cluster) recalled(asset serve.Intent) {
	c.Helper()
	c.plane.Wait("the answer to be kept", func() error {
		if d := c.diff(asset); d.Outcome != serve.InSync || d.At.IsZero() {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
}

// predicting: what changes the server's predictions is noticed, although the object and
// intent stay as they are.
func predicting(c *cluster) {
	c.watched()
	asset := c.settings("predicting")
	c.recalled(asset)
	const policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
	c.byHand(policies, http.MethodPost, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"blue"},"spec":{"reinvocationPolicy":"Never","failurePolicy":"Fail",
"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"predicting"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]},
"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: \"replace\", path: \"/data/a\", value: \"blue\"}]"}}]}}`)
	c.Cleanup(func() { c.byHand(policies+"/blue", http.MethodDelete, "") })
	const bindings = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
	c.byHand(bindings, http.MethodPost, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":"blue"},"spec":{"policyName":"blue"}}`)
	c.Cleanup(func() { c.byHand(bindings+"/blue", http.MethodDelete, "") })
	c.plane.Wait("the policy to count", func() error {
		d := c.diff(asset)
		if changes(d) != "update\ndata.a: \"1\" → \"blue\"" {
			return fmt.Errorf("it is %v %s %s", d.Outcome, d.Reason, changes(d))
		}
		return nil
	})
}

// vanishing: a definition that goes takes its objects along, and one that comes back is
// served again.
func vanishing(c *cluster) {
	given := c.watched()
	const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"quays.port.example"},"spec":{"group":"port.example","names":{"kind":"Quay","plural":"quays"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"length":{"type":"integer"}},"type":"object"}},"type":"object"}},"served":true,"storage":true}]}}`
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	const quays = "/apis/port.example/v1/namespaces/vanishing/quays"
	quay := c.asset(object(c.T, `{"apiVersion":"port.example/v1","kind":"Quay","metadata":{"name":"north","namespace":"vanishing"},"spec":{"length":9}}`))
	settings := c.settings("vanishing")
	served := func() error {
		_, err := c.plane.Ask(http.MethodGet, quays, "", nil)
		return err
	}
	for round := range 2 {
		c.byHand(definitions, http.MethodPost, definition)
		c.plane.Wait("the kind to be served", served)
		c.plane.Wait("the kind to be seen", func() error {
			if d := c.diff(asOfNow(quay)); d.Plan.Action != serve.ActionCreate || strings.Contains(fmt.Sprint(d.Plan.Changes), "no kind Quay") {
				return fmt.Errorf("it is %v %s %s", d.Outcome, d.Reason, changes(d))
			}
			return nil
		})
		c.mustPush(quay)
		c.recalled(quay)
		hinted := given.of("thing")
		c.byHand(definitions+"/quays.port.example", http.MethodDelete, "")
		c.plane.Wait("the end of the kind to be told", func() error {
			d := c.diff(quay)
			if d.Plan.Action != serve.ActionCreate || given.of("thing") == hinted {
				return fmt.Errorf("round %d: it is %v %s", round, d.Outcome, d.Reason)
			}
			return nil
		})
		c.plane.Wait("the definition to be gone", func() error {
			if _, err := c.plane.Ask(http.MethodGet, definitions+"/quays.port.example", "", nil); err == nil {
				return fmt.Errorf("it is there")
			}
			return nil
		})
	}
	c.recalled(settings)
}

// failing: an aggregated API that is away makes its objects unknown, and no others.
func failing(c *cluster) {
	c.watched()
	const services = "/apis/apiregistration.k8s.io/v1/apiservices"
	c.byHand(services, http.MethodPost, `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.away.example"},"spec":{"group":"away.example","version":"v1","groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"name":"nowhere","namespace":"failing"}}}`)
	c.Cleanup(func() { c.byHand(services+"/v1.away.example", http.MethodDelete, "") })
	settings := c.settings("failing")
	away := c.asset(object(c.T, `{"apiVersion":"away.example/v1","kind":"Ship","metadata":{"name":"a","namespace":"failing"}}`))
	away.ID = "away"
	c.plane.Wait("the API to be away", func() error {
		if d := c.diff(away); d.Outcome != serve.Unknown {
			return fmt.Errorf("it is %v %s", d.Outcome, changes(d))
		}
		return nil
	})
	c.recalled(settings)
	if d := c.diff(away); !strings.Contains(d.Reason, "away.example/v1") {
		c.Errorf("it is %v %s", d.Outcome, d.Reason)
	}
}

// limiting: a server that answers 429 is left alone for as long as it says, and its objects
// are unknown. What answers so stands before the real one, which does so only under load.
func limiting(c *cluster) {
	var busy atomic.Bool
	asked := make(chan time.Time, 100)
	c.putInFront(func(server http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !busy.Load() {
				server.ServeHTTP(w, r)
				return
			}
			select {
			case asked <- time.Now():
			default:
			}
			w.Header().Set("Retry-After", "7")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		})
	})
	asset := c.settings("limiting")
	busy.Store(true)
	if d := c.diff(asset); d.Outcome != serve.Unknown || d.RetryAfter != 7*time.Second || !strings.Contains(d.Reason, "too busy") {
		c.Errorf("it is %v %s, again after %v", d.Outcome, d.Reason, d.RetryAfter)
	}
	if len(asked) != 1 {
		c.Errorf("the server was asked %d times", len(asked))
	}
	if outcome := c.push(asset, serve.Difference{}, permits{}); outcome.Ending != serve.Failed || !outcome.Retryable || outcome.RetryAfter != 7*time.Second {
		c.Errorf("a push ended %+v", outcome)
	}
	busy.Store(false)
	if d := c.diff(asset); d.Outcome != serve.InSync {
		c.Errorf("afterwards it is %v %s", d.Outcome, d.Reason)
	}
}

// TestServerAway: while the API server is away all is unknown, and what was changed by the
// time it is back is told.
func TestServerAway(t *testing.T) {
	p := plane.Start(t)
	c := (&cluster{T: t, plane: p, list: writeList(t, p)}).with(t, "away")
	given := c.watched()
	asset := c.settings("away")
	c.recalled(asset)
	p.KillServer()
	p.Wait("the server's end to be noticed", func() error {
		d := c.diff(asset)
		switch d.Outcome {
		case serve.Unknown:
			return nil
		case serve.InSync: // Until the end of the watch is seen.
			return fmt.Errorf("it is still in sync as of %v", d.At)
		}
		t.Fatalf("it is %v %s", d.Outcome, changes(d))
		return nil
	})
	before := given.of("thing")
	p.Wait("the asset to be hinted, for it is not watched", func() error {
		if given.of("thing") == before {
			return fmt.Errorf("no hint")
		}
		return nil
	})
	p.StartServer()
	c.byHand("/api/v1/namespaces/away/configmaps/settings", http.MethodPatch, `{"data":{"a":"theirs"}}`)
	p.Wait("the change to be told", func() error {
		d := c.diff(asset)
		if d.Outcome != serve.Differs {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
	c.mustPush(asset)
	c.recalled(asset)
}

// TestRestoredBackup: a cluster whose storage is behind what was seen of it is not believed,
// and nothing is pushed there, before a person accepts it; then what was planned for a
// version of before counts no more.
func TestRestoredBackup(t *testing.T) {
	t.Run("with the server", func(t *testing.T) { restored(t, (*plane.Plane).Restore) })
	// The server is to be started anew, too, and whoever forgets that is not to be harmed.
	t.Run("below the server", func(t *testing.T) { restored(t, (*plane.Plane).RestoreBelow) })
}

func restored(t *testing.T, restore func(*plane.Plane, string)) {
	p := plane.Start(t)
	c := (&cluster{T: t, plane: p, list: writeList(t, p)}).with(t, "restored")
	c.state = t.TempDir() + "/state.json"
	c.kind = kindWith(t, c.list, c.state)
	c.watched()
	asset := c.settings("restored")
	backup := p.Backup()
	c.recalled(asset)
	version := c.asset(object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"restored"},"data":{"a":"2"}}`))
	planned := c.diff(version)
	c.mustPush(version)
	for i := range 20 { // Other writes, after which versions of before are given out again.
		c.byHand("/api/v1/namespaces/restored/configmaps", http.MethodPost, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other-%d"}}`, i))
	}
	c.recalled(version)

	restore(p, backup)
	var reason string
	p.Wait("the restore to be noticed", func() error {
		d := c.diff(asOfNow(version))
		if d.Outcome == serve.Differs {
			t.Fatalf("of a restored cluster it is told that it differs: %s", changes(d))
		}
		if reason = d.Reason; d.Outcome != serve.Unknown || !strings.Contains(reason, "restored from a backup") {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
	if outcome := c.push(version, planned, permits{}); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "restored from a backup") {
		t.Errorf("a push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	// Another run of the plugin knows it, too.
	c.kind = kindWith(t, c.list, c.state)
	if d := c.diff(asOfNow(version)); d.Outcome != serve.Unknown || d.Reason != reason {
		t.Errorf("after a restart of the plugin it is %v %s", d.Outcome, d.Reason)
	}
	_, rest, _ := strings.Cut(reason, "restored: ")
	id, _, _ := strings.Cut(rest[1:], `"`)
	text, err := os.ReadFile(c.list)
	if err == nil {
		err = os.WriteFile(c.list, []byte(strings.Replace(string(text), "partitions: [shop]}", fmt.Sprintf("partitions: [shop], restored: %q}", id), 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Wait("the restore to be accepted", func() error {
		if d := c.diff(version); d.Outcome != serve.Differs {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
	again := c.diff(version)
	if again.Base == planned.Base || again.Plan.Digest() != planned.Plan.Digest() {
		t.Errorf("the plan of before, for %s, is %s, for %s", planned.Base, again.Plan.Digest(), again.Base)
	}
	c.mustPush(version)
}
