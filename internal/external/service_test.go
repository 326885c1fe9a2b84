package external_test

import (
	"testing"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
)

// TestService lets a partition call what the operator lists for it, and what lies below that.
func TestService(t *testing.T) {
	t.Setenv("CI_TOKEN", "secret")
	policy, err := read(t, `
monitoring:
  - {name: ci, kind: workflow, url: "https://ci.example.com/jobs/", token: {env: CI_TOKEN}, partitions: [shop]}
  - {name: prom, kind: prometheus, url: "https://prom.example.com", partitions: [shop]}
`)
	if err != nil {
		t.Fatal(err)
	}
	for place, allowed := range map[string]bool{
		"https://ci.example.com/jobs":              true,
		"https://ci.example.com/jobs/7?wait=true":  true,
		"https://ci.example.com/jobsother":         false,
		"https://ci.example.com/jobs/../admin":     false,
		"https://ci.example.com/jobs/%2e%2e/admin": false,
		"https://ci.example.com/":                  false,
		"http://ci.example.com/jobs/7":             false,
		"https://ci.example.com:8443/jobs/7":       false,
		"https://prom.example.com/":                false,
		"https://me@ci.example.com/jobs/7":         false,
		"ci":                                       false,
	} {
		request, err := policy.Service("shop", external.Workflow, place)
		if (err == nil) != allowed {
			t.Errorf("%s: %v", place, err)
		}
		if allowed && (request.URL.String() != place || request.Header.Get("Authorization") != "Bearer secret") {
			t.Errorf("%s: the request is for %s with %v", place, request.URL, request.Header)
		}
	}
	if _, err := policy.Service("other", external.Workflow, "https://ci.example.com/jobs/7"); !fault.Is(err, fault.Denied) {
		t.Errorf("another partition: %v", err)
	}
}
