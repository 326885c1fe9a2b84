package modules

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lehr.dev/sdk/serve"
)

// replica is the plugin of another machine, over the same module and state.
type replica struct {
	*Modules
	site *site
	// pushes so far.
	pushes int
}

// replicas are the plugins of two machines, which have the site's list, key and backend alone
// in common. Nothing keeps them apart but the backend's lock: as if Lehr had two enforcers.
func (s *site) replicas() [2]*replica {
	var both [2]*replica
	for i := range both {
		options := s.modules.Options
		options.Host = fmt.Sprintf("machine-%d", i)
		options.Folder = filepath.Join(s.folder, options.Host)
		both[i] = &replica{Modules: newModules(options), site: s}
	}
	return both
}

func (r *replica) look() serve.Difference {
	r.site.t.Helper()
	if answer, isAnswered := r.Prepare(r.site.t.Context(), r.site.asset()); isAnswered {
		return answer
	}
	return r.Diff(r.site.t.Context(), []serve.Intent{r.site.asset()})[0]
}

func (r *replica) push(d serve.Difference) serve.Outcome {
	r.pushes++
	return r.Push(r.site.t.Context(), serve.Push{
		ID: serve.PushID(fmt.Sprintf("%s-%d", r.Host, r.pushes)), Asset: r.site.asset(), Plan: d.Plan.Digest(), Base: d.Base,
		Progress: func(string) {}, SaveMemo: func(context.Context, serve.ResourceKey, []byte) error { return nil },
	}, r.site)
}

// Two replicas that push one module at the same time apply it once: by the log of the provider
// no operation begins before the one before it has ended, and none is done twice. Their plans
// have one digest, so what was approved of one is what the other applies, and nothing else.
func TestTwoReplicasNeverApplyAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.mustPush()
	both := s.replicas()
	for round := range 2 {
		s.module.Variables["env"] = fmt.Sprintf("round-%d", round)
		var outcomes [2]serve.Outcome
		plans := [2]serve.Difference{both[0].look(), both[1].look()}
		if plans[0].Plan.Digest() != plans[1].Plan.Digest() || plans[0].Base != plans[1].Base || plans[0].ResourceKey != plans[1].ResourceKey {
			t.Errorf("two replicas have two plans:\n%s\n%s", shown(plans[0]), shown(plans[1]))
		}
		var pushing sync.WaitGroup
		for i, r := range both {
			pushing.Go(func() { outcomes[i] = r.push(plans[i]) })
		}
		pushing.Wait()
		pushed := 0
		for _, outcome := range outcomes {
			isLocked := outcome.Ending == serve.Failed && outcome.Retryable && strings.Contains(outcome.Reason, "the state is locked by")
			switch {
			case outcome.Ending == serve.Pushed:
				pushed++
			case outcome.Ending != serve.Stale && !isLocked:
				t.Errorf("a push ended %s: %s", outcome.Ending, outcome.Reason)
			}
		}
		if pushed != 1 || s.count("begin update logo") != round+1 {
			t.Errorf("round %d: %+v; the cloud did %q", round, outcomes, s.log())
		}
		if a, b := both[0].look(), both[1].look(); a.Outcome != serve.InSync || b.Outcome != serve.InSync {
			t.Errorf("afterwards: %s, %s", shown(a), shown(b))
		}
	}
	s.module.Variables["region"] = "us"
	approved := both[0].look()
	s.module.Variables["region"] = "asia"
	if outcome := both[1].push(approved); outcome.Ending != serve.Stale || s.count("begin delete logo") != 0 {
		t.Errorf("an approval of another plan: %+v; the cloud did %q", outcome, s.log())
	}
	s.module.Variables["region"] = "us"
	if outcome := both[1].push(approved); outcome.Ending != serve.Pushed || s.count("begin delete logo") != 1 {
		t.Errorf("what was approved on the other replica: %+v; the cloud did %q", outcome, s.log())
	}
	underWay := ""
	for _, line := range s.log() {
		verb, operation, _ := strings.Cut(line, " ")
		switch {
		case verb == "begin" && underWay != "", verb == "end" && underWay != operation:
			t.Fatalf("two operations at once: %q", s.log())
		case verb == "begin":
			underWay = operation
		default:
			underWay = ""
		}
	}
}
