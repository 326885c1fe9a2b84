package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"lehr.dev/internal/annealing/workflows"
	"lehr.dev/internal/ground/fault"
)

// TestWorkflowCalls: a real service gets the method, body, key and token of a call, and one that
// the operator does not list for the partition gets nothing.
func TestWorkflowCalls(t *testing.T) {
	var got []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Authorization")+" "+string(body))
		if r.URL.Path == "/jobs/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"image":"web:1"}`))
	}))
	defer service.Close()
	t.Setenv("CI_TOKEN", "secret")
	file := filepath.Join(t.TempDir(), "checks.yaml")
	text := "external-checks: v1\nmonitoring:\n  - {name: ci, kind: workflow, url: \"" + service.URL + "/jobs\", token: {env: CI_TOKEN}, partitions: [shop]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	call := callerBy(file)
	tell := workflows.Call{Partition: "shop", Key: "shop/promote#1/ci/telling/1", URL: service.URL + "/jobs/7?wait=1", Method: "PUT", Body: `{"a":1}`}
	answer, err := call(t.Context(), tell)
	if err != nil || answer.Status != 200 || answer.Text != `{"image":"web:1"}` || len(got) != 1 || got[0] != `PUT /jobs/7?wait=1 shop/promote#1/ci/telling/1 Bearer secret {"a":1}` {
		t.Errorf("%+v, %v; it got %q", answer, err, got)
	}
	tell.URL = service.URL + "/jobs/busy"
	if answer, err := call(t.Context(), tell); answer.Status != 503 || !fault.Is(err, fault.Unavailable) {
		t.Errorf("busy: %+v, %v", answer, err)
	}
	got = nil
	for name, refused := range map[string]workflows.Call{
		"elsewhere":         {Partition: "shop", URL: service.URL + "/admin", Method: "POST"},
		"another partition": {Partition: "other", URL: service.URL + "/jobs/7", Method: "POST"},
	} {
		if _, err := call(t.Context(), refused); !fault.Is(err, fault.Denied) || len(got) > 0 {
			t.Errorf("%s: %v; it got %q", name, err, got)
		}
	}
}
