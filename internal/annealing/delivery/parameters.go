package delivery

import (
	"fmt"
	"strings"

	"lehr.dev/internal/ground/promotion"
)

// runParameters is what a task's parameters field holds, as docs/use/delivery-tasks.md lists it.
type runParameters struct {
	// Run is another text for each run, as the id of a task's rerun; at most 100 bytes.
	Run string `json:"run"`
	// Reason for which it runs, for people.
	Reason      string `json:"reason"`
	Version     string `json:"version"`
	Digest      string `json:"digest,omitempty"`
	Commit      string `json:"commit,omitempty"`
	Application string `json:"application"`
	// Environment that it runs before, after, or on whose failure.
	Environment string `json:"environment,omitempty"`
	// Previous version of that environment.
	Previous string `json:"previous,omitempty"`
	// Release that brings the version; 0: none.
	Release int `json:"release,omitempty"`
}

// runReasons say for people why a task runs, before the name of an environment.
var runReasons = map[promotion.DemandCause]string{
	promotion.ComesNext: "before it comes to ", promotion.IsGood: "after it came to ", promotion.HasFailed: "after it failed in ",
}

// parametersOf a run of a task.
func parametersOf(m *Moment, run *promotion.Demand) runParameters {
	const mostName = 80
	name := strings.ToValidUTF8(run.Name[:min(len(run.Name), mostName)], "")
	p := runParameters{
		Run: fmt.Sprintf("%s/%d", name, run.Number), Reason: runReasons[run.Cause] + run.Environment, Version: run.Name, Digest: run.Digest, Commit: m.Versions[run.VersionName].Commit,
		Application: m.Spec.GetName(), Environment: run.Environment, Previous: run.Had.Name, Release: run.Release,
	}
	if run.By != "" {
		p.Reason = fmt.Sprintf("asked by %s: %s", run.By, run.Reason)
	}
	return p
}
