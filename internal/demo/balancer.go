package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// pool is what a balancer sends requests to: the weight by address, as its own
// admin endpoint says.
type pool map[string]int

// admin asks a balancer's admin endpoint.
func admin(ctx context.Context, method string, port int, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := browser.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	const most = 1 << 20
	content, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the balancer's admin endpoint %d answered %s: %s", port, response.Status, content)
	}
	return content, err
}

// upstreams reads a balancer's pool; without a server of the service it is
// empty.
func (s *stage) upstreams(ctx context.Context, adminPort int) (pool, error) {
	content, err := admin(ctx, http.MethodGet, adminPort, "/config/apps/http/servers", "")
	if err != nil {
		if strings.Contains(err.Error(), "invalid traversal path") {
			return pool{}, nil // It has no HTTP servers at all.
		}
		return nil, err
	}
	var servers map[string]any
	if err := json.Unmarshal(content, &servers); err != nil {
		return nil, fmt.Errorf("reading %.200s: %w", content, err)
	}
	found := pool{}
	collect(servers[s.service], found)
	return found, nil
}

// collect finds the reverse proxies in a part of the configuration.
func collect(part any, found pool) {
	switch part := part.(type) {
	case []any:
		for _, each := range part {
			collect(each, found)
		}
	case map[string]any:
		if part["handler"] == "reverse_proxy" {
			weights := weightsOf(part)
			upstreams, _ := part["upstreams"].([]any)
			for i, upstream := range upstreams {
				address, _ := upstream.(map[string]any)["dial"].(string)
				found[address] = 1
				if i < len(weights) {
					found[address] = weights[i]
				}
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(part)) {
			collect(part[key], found)
		}
	}
}

func weightsOf(proxy map[string]any) (weights []int) {
	balancing, _ := proxy["load_balancing"].(map[string]any)
	policy, _ := balancing["selection_policy"].(map[string]any)
	list, _ := policy["weights"].([]any)
	for _, weight := range list {
		number, _ := weight.(float64)
		weights = append(weights, int(number))
	}
	return weights
}

// shares is what the global balancer gives each cluster.
func (s *stage) shares(ctx context.Context) (map[string]int, error) {
	pool, err := s.upstreams(ctx, s.port+1)
	if err != nil {
		return nil, err
	}
	shares := map[string]int{}
	for _, c := range s.clusters {
		if weight, ok := pool[fmt.Sprintf("127.0.0.1:%d", c.balancer())]; ok {
			shares[c.name] = weight
		}
	}
	return shares, nil
}

// balanced is so when every balancer is as the manifest says, and answers.
func (s *stage) balanced(ctx context.Context) string {
	shares, err := s.shares(ctx)
	if err != nil {
		return err.Error()
	}
	expected := map[string]int{}
	for _, w := range s.manifest.clusters {
		if w.turndown {
			continue
		}
		expected[w.name] = w.replicas
		pool, err := s.upstreams(ctx, w.admin())
		if err != nil {
			return err.Error()
		}
		if len(pool) != w.replicas {
			return fmt.Sprintf("the balancer of cluster %s has %d upstreams, not %d", w.name, len(pool), w.replicas)
		}
	}
	if !maps.Equal(shares, expected) {
		return fmt.Sprintf("the global balancer gives the clusters %v, not %v", shares, expected)
	}
	if _, err := search(ctx, s.port); err != nil {
		return "the global balancer: " + err.Error()
	}
	return ""
}
