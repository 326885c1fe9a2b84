package scenario

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// people give these commands without saying lehr; reasoned are those that ask
// for a reason.
var (
	people   = []string{"stop", "resume", "hold", "unhold", "pin", "unpin", "approve", "reject", "override", "disown", "rollout", "why"}
	reasoned = []string{"stop", "resume", "hold", "unhold", "pin", "unpin", "approve", "reject", "override", "disown"}
	// looking are the commands of rollouts that ask for nothing.
	looking = []string{"plan", "status", "history", "record"}
	// able are all that need nothing but a server that answers at once.
	able = append([]string{"get", "describe", "diff", "label", "partition", "version", "timeline"}, people...)
)

// lehr gives a command, as a person does at a terminal.
func (p *player) lehr(list []string) error {
	if slices.Contains(list, "--watch") || slices.Contains(list, "-w") {
		return fmt.Errorf("a script cannot watch; it waits by until")
	}
	if len(list) == 0 || !slices.Contains(able, list[0]) {
		return fmt.Errorf("a script can give the commands %s; it waits by until", strings.Join(able, ", "))
	}
	if (slices.Contains(reasoned, list[0]) || list[0] == "rollout" && len(list) > 1 && !slices.Contains(looking, list[1])) && !slices.Contains(list, "--reason") {
		list = append(slices.Clone(list), "--reason", "the script says so")
	}
	var text bytes.Buffer
	code := -1
	err := p.Ask(answer, func(ctx context.Context, c *client.Client) {
		code = p.command(ctx, c, p.Now, &text, list)
		// From then on the monitors hold Lehr to it.
		if scope := ""; code == 0 && (list[0] == "stop" || list[0] == "resume") {
			if len(list) > 1 && !strings.HasPrefix(list[1], "-") {
				scope = list[1]
			}
			p.brake(list[0], intent.PartitionID(scope))
		}
	})
	p.output = text.String()
	switch {
	case err != nil:
		return refuse("%v", err)
	case code != 0 && code != differs:
		return refuse("exit code %d", code)
	}
	return nil
}

// differs is the exit code of commands that found differences.
const differs = 2

func (p *player) brake(verb string, scope intent.PartitionID) {
	if verb == "stop" {
		p.Monitor.StopAcknowledged(scope, p.Now())
		return
	}
	p.Monitor.Resumed(scope, p.Now())
}

// accept lets the newest candidate through that a guard holds.
func (p *player) accept([]string) error {
	digest := ""
	var failed error
	err := p.Ask(answer, func(ctx context.Context, c *client.Client) {
		var found *apipb.ListCandidatesResponse
		if found, failed = c.Candidates.ListCandidates(ctx, &apipb.ListCandidatesRequest{Partition: "sim"}); failed != nil {
			return
		}
		for _, candidate := range found.Candidates {
			if candidate.State == string(intent.CandidateHeld) && digest == "" {
				digest = candidate.Digest
			}
		}
	})
	switch {
	case err != nil:
		return refuse("%v", err)
	case failed != nil:
		return refuse("%v", failed)
	case digest == "":
		return refuse("no candidate is held")
	}
	return p.lehr([]string{"approve", "--candidate", digest})
}
