package conduct

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// Pick asks a plugin which assets of a stage go on.
type Pick struct {
	Plugin, Stage string
	Targets       []selection.Target
	// Key names how far the targets are: an answer counts as long as that is so.
	Key string
}

// Picked is the answer to a Pick.
type Picked struct {
	Key    string
	Assets []intent.AssetID
	// Reason why the others wait.
	Reason string
	// Broken says why there is no answer; empty: there is one.
	Broken string
}

// mostPicked assets of a stage are offered to a plugin.
const mostPicked = 5000

// pick keeps those back that the plugin of their stage does not let go on. It can only
// take away from what the stage lets. Where it says nothing, all wait (S11).
func (d *decider) pick(policy selection.Policy, targets []selection.Target) {
	if d.run.Promoted {
		return
	}
	for i := range policy.Stages {
		stage := &policy.Stages[i]
		if stage.Plugin == "" || stage.Skip {
			continue
		}
		request := Pick{Plugin: stage.Plugin, Stage: stage.Name}
		waiting := false
		for _, t := range targets {
			if stage.Wants == nil || stage.Wants(t) {
				request.Targets = append(request.Targets, t)
				waiting = waiting || !t.Selected
			}
		}
		if !waiting {
			continue
		}
		request.Key = keyOf(request.Targets)
		answer, ok := d.Picked[stage.Name]
		ok = ok && answer.Key == request.Key
		for k := range targets {
			t := &targets[k]
			if t.Selected || t.Blocked != "" || stage.Wants != nil && !stage.Wants(*t) {
				continue
			}
			switch {
			case len(request.Targets) > mostPicked:
				t.Blocked = fmt.Sprintf("the stage has %d assets, more than the %d that the plugin %s can be asked about", len(request.Targets), mostPicked, stage.Plugin)
			case !ok:
				t.Blocked = fmt.Sprintf("the plugin %s was not asked yet", stage.Plugin)
			case answer.Broken != "":
				t.Blocked = fmt.Sprintf("the plugin %s cannot be asked which go on: %s", stage.Plugin, answer.Broken)
			case !slices.Contains(answer.Assets, t.Asset):
				t.Blocked = fmt.Sprintf("the plugin %s lets it wait: %s", stage.Plugin, answer.Reason)
			}
		}
		if len(request.Targets) <= mostPicked {
			d.decision.Pick = append(d.decision.Pick, request)
		}
		return // Stages after it wait for it.
	}
}

// keyOf is what an answer rests on: all but how long they were healthy.
func keyOf(targets []selection.Target) string {
	sum := sha256.New()
	for _, t := range targets {
		fmt.Fprintf(sum, "%q %t %t %t\n", t.Asset, t.Selected, t.InSync, t.Well)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
