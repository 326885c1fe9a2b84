package canaries

import (
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// TestPauseHoldsTheSwitch: what would move requests waits for a person, and nothing else does, nor what is the old slot now.
func TestPauseHoldsTheSwitch(t *testing.T) {
	types := schema.Builtin()
	payload, err := types.Pack(&kubernetespb.Object{Kind: "Service", Name: "web", Json: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	label, err := types.Pack(&intentpb.Labels{Labels: map[string]string{"pause": "before"}})
	if err != nil {
		t.Fatal(err)
	}
	pauses := intent.Asset{ID: "web", Payload: payload, Addons: []intent.Message{label}}
	must, err := rule.New(types).Condition(pauseCondition, "lehr.kubernetes.v1.Object", rule.Moving)
	if err != nil {
		t.Fatal(err)
	}
	for path, wants := range map[string]bool{
		"spec.selector.rollouts-pod-template-hash": false, "spec.selector[lehr.dev/slot]": false, "spec.replicas": false,
		"spec.ports[port=80].targetPort": true, "metadata.labels.team": true,
	} {
		for action, passes := range map[intent.Action]bool{intent.ActionUpdate: wants, intent.ActionCreate: true} {
			push := rule.Added{Push: rule.Push{
				Now: time.Now(), Plan: intent.Plan{Action: action, Changes: []intent.FieldChange{{Path: path, Current: "blue", Target: "green"}}},
			}}
			if holds, err := must.Holds(pauses, push); err != nil || holds != passes {
				t.Errorf("%s of %s: %v, want %v (%v)", action, path, holds, passes, err)
			}
			if holds, err := must.Holds(intent.Asset{ID: "web", Payload: payload}, push); err != nil || !holds {
				t.Errorf("%s of %s is held where the label is gone: %v", action, path, err)
			}
		}
	}
}
