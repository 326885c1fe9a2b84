package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

// listPlugins lists the plugins of a partition with their types, each with its class and longest effect, and how they answer.
func listPlugins(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"PLUGIN", "VERSION", "STATE", "TYPES", "LOOKS", "HALF IN", "99 % IN", "TEXT"}}
	response, err := c.Server.ListPlugins(ctx, &apipb.ListPluginsRequest{Partition: q.partition})
	if err != nil {
		return result, err
	}
	for _, p := range response.Plugins[:min(len(response.Plugins), q.limit)] {
		looks := fmt.Sprint(p.Looks)
		if p.FailedLooks > 0 {
			looks += fmt.Sprintf(", %d failed", p.FailedLooks)
		}
		var types []string
		for _, t := range p.Types {
			text := lastName(t.Type)
			if t.Guarantee != "" {
				text += fmt.Sprintf(" (%s, %s)", t.Guarantee, t.LongestEffect.AsDuration())
			}
			types = append(types, text)
		}
		result.add(p, p.Program, cmp.Or(p.Version, "-"), stateOfPlugin(p), strings.Join(types, ", "), looks, durationOr(p.Median), durationOr(p.P99), cmp.Or(p.Problem, "-"))
	}
	result.more = len(response.Plugins) > q.limit
	switch {
	case response.Asked:
	case response.Replica != "":
		result.notes = append(result.notes, "The replica "+response.Replica+" acts for this partition and asks its plugins: ask that one how they answer")
	default:
		result.notes = append(result.notes, "No server acts for this partition now, so nobody asks its plugins")
	}
	return result, nil
}

// stateOfPlugin is how a plugin answers.
func stateOfPlugin(p *apipb.PluginStatus) string {
	switch {
	case p.BreakerOpen:
		return fmt.Sprintf("not asked, %d failed in a row", p.Failures)
	case p.Problem != "":
		return "down"
	case p.Name == "":
		return "-"
	case p.Failures > 0:
		return fmt.Sprintf("well, %d failed in a row", p.Failures)
	}
	return "well"
}

func durationOr(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return d.AsDuration().String()
}
