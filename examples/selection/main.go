// Command quietest is an example of a plugin that selects for rollouts: where the fewest
// users are, things go on first, one cluster at a time. docs/use/rollouts.md goes through it;
// lehr starts it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/sdk/serve"
)

func main() {
	os.Exit(serve.MainCheck(serve.Check{Name: "quietest", Version: "1", Select: pick}))
}

// pick looks up how many users each cluster has, in a file of lines such as "a 1200",
// which is the first argument.
func pick(_ context.Context, request *pluginpb.SelectRequest) (serve.Selection, error) {
	users, err := usersOf(os.Args[1:])
	if err != nil {
		return serve.Selection{}, err
	}
	quietest := ""
	for _, t := range request.Targets {
		cluster := t.Scopes["cluster"]
		if t.Selected && !(t.InSync && t.Well) {
			return serve.Selection{Reason: "cluster " + cluster + " is under way"}, nil
		}
		if !t.Selected && (quietest == "" || cmp.Or(cmp.Compare(users[cluster], users[quietest]), strings.Compare(cluster, quietest)) < 0) {
			quietest = cluster
		}
	}
	selected := serve.Selection{Reason: fmt.Sprintf("cluster %s, with %d users, goes first", quietest, users[quietest])}
	for _, t := range request.Targets {
		if t.Scopes["cluster"] == quietest {
			selected.Assets = append(selected.Assets, t.Asset)
		}
	}
	return selected, nil
}

func usersOf(arguments []string) (map[string]int, error) {
	if len(arguments) != 1 {
		return nil, serve.Misconfigured("it was not started with the name of one file")
	}
	text, err := os.ReadFile(arguments[0])
	if err != nil {
		return nil, err
	}
	users := map[string]int{}
	for line := range strings.Lines(string(text)) {
		cluster, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if users[cluster], err = strconv.Atoi(count); err != nil {
			return nil, serve.Misconfigured("%s: %q is no cluster with a count of users", arguments[0], line)
		}
	}
	return users, nil
}
