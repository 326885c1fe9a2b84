package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// listGroups lists services, each with its instances below it.
func listGroups(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"GROUP", "STATE", "ASSETS", "MEMBERS"}}
	request := &apipb.ListGroupsRequest{Partition: q.partition, Group: q.group}
	more, err := pages(q.limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Reports.ListGroups(ctx, request)
		if err != nil {
			return 0, false, err
		}
		for groups := response.Groups; len(groups) > 0; {
			end := slices.IndexFunc(groups, func(g *apipb.Group) bool { return g.Service != groups[0].Service })
			if end < 0 {
				end = len(groups)
			}
			result.addService(groups[:end])
			groups = groups[end:]
		}
		request.After = response.Next
		return len(response.Groups), response.Next != "", nil
	})
	result.more = more
	return result, err
}

// addService adds a row for a service, over all of it, and one for each instance.
func (l *listing) addService(groups []*apipb.Group) {
	whole := &apipb.Group{Name: groups[0].Service, Service: groups[0].Service, States: map[string]int64{}}
	for _, g := range groups {
		for state, n := range g.States {
			whole.States[state] += n
		}
		whole.Unhealthy += g.Unhealthy
	}
	whole.State = worst(whole.States)
	l.addGroup(whole)
	for _, g := range groups {
		if g.Instance != "" {
			l.addGroup(g)
		}
	}
}

func (l *listing) addGroup(g *apipb.Group) {
	total := int64(0)
	for n := range maps.Values(g.States) {
		total += n
	}
	members := states(g.States)
	if g.Unhealthy > 0 {
		members += fmt.Sprintf("; %d unhealthy", g.Unhealthy)
	}
	l.add(g, g.Name, g.State, fmt.Sprint(total), members)
}

// worst of the states that are counted.
func worst(counts map[string]int64) string {
	for _, state := range intent.States() {
		if counts[string(state)] > 0 {
			return string(state)
		}
	}
	return ""
}

// mostWorst members of a group are shown that are not in sync.
const mostWorst = 20

// describeGroup shows a group's instances, what is wanted and what is there, and the
// members that are not in sync.
func describeGroup(ctx context.Context, s *session, c *client.Client, partition, name string) error {
	groups, err := c.Reports.ListGroups(ctx, &apipb.ListGroupsRequest{Partition: partition, Group: name})
	if err != nil {
		return err
	}
	explanation, err := c.Reports.Why(ctx, &apipb.WhyRequest{Partition: partition, Asset: name, Subject: "group"})
	if err != nil {
		return err
	}
	if s.json() {
		return printMessage(s.Out, explanation)
	}
	var result listing
	result.header = []string{"GROUP", "STATE", "ASSETS", "MEMBERS"}
	if result.addService(groups.Groups); name != groups.Groups[0].Service {
		result.rows = result.rows[1:]
	}
	fmt.Fprintf(s.Out, "group %s is %s: %s\n", plain(name), stateWords(explanation.State), plain(intent.State(explanation.State).Words()))
	s.printStanding(explanation.Standing, "  ")
	fmt.Fprintln(s.Out)
	table(s.Out, result.header, result.rows)
	var rows [][]string
	for _, state := range []intent.State{intent.StateWaiting, intent.StatePushing, intent.StateOff} {
		if explanation.States[string(state)] == 0 || len(rows) >= mostWorst {
			continue
		}
		members, err := c.Reports.ListReports(ctx, &apipb.ListReportsRequest{
			Partition: partition, Group: name, State: string(state), Limit: int32(mostWorst - len(rows)),
		})
		if err != nil {
			return err
		}
		for _, r := range members.Reports {
			waiting := cmp.Or(r.PushNote, r.Push)
			if len(r.Waiting) > 0 {
				waiting = r.Waiting[0].Kind + ": " + r.Waiting[0].Reason
			}
			rows = append(rows, []string{r.Asset, r.State, r.Target, s.age(r.At), cut(waiting)})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.Out)
		table(s.Out, []string{"ASSET", "STATE", "TARGET", "AGE", "WAITS FOR"}, rows)
		fmt.Fprintf(s.Out, "lehr why %s has the causes; lehr get reports --group %s lists all\n", plain(name), plain(name))
	}
	return nil
}
