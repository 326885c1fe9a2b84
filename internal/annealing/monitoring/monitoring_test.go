package monitoring_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/monitoring"
)

// asked returns what an asker says to an answer that no real source gives.
func asked(t *testing.T, source check.Source, answer func(http.ResponseWriter, *http.Request)) (check.Answer, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "checks.yaml")
	policy := fmt.Sprintf("external-checks: v1\nmonitoring: [{name: main, kind: %s, url: %q, token: {env: TOKEN}, partitions: [shop]}]\n", source, server.URL)
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKEN", "s3cret")
	return monitoring.New("shop", file).Ask(t.Context(), check.Question{Source: source, Place: "main", Text: "a=b", Keep: time.Minute})
}

// TestWhatIsNoWholeAnswerIsNone: and no error tells the secret.
func TestWhatIsNoWholeAnswerIsNone(t *testing.T) {
	const success = `{"status":"success","data":{"resultType":"vector","result":`
	for _, test := range []struct {
		source check.Source
		status int
		body   string
		says   string
	}{
		{check.Prometheus, 200, success + `[]},"warnings":["a store did not answer"]}`, "not whole: a store did not answer"},
		{check.Prometheus, 200, success + `[{"metric":{},"histogram":[1,{}]}]}}`, "histogram"},
		{check.Prometheus, 200, success + `[{"metric":{},"value":[1,2]}]}}`, "no value"},
		{check.Prometheus, 200, success + `[{"metric":{},"value":[1,"x"]}]}}`, "cannot be read"},
		{check.Prometheus, 200, success + `{}}}`, "cannot be read"},
		{check.Prometheus, 200, success + `null}}`, "cannot be read"},
		{check.Prometheus, 200, `{"status":"success","data":{"resultType":"vector"}}`, "cannot be read"},
		{check.Prometheus, 200, success + "[" + strings.Repeat(`{"metric":{},"value":[1,"1"]},`, 2000) + `{"metric":{},"value":[1,"1"]}]}}`, "2001 series"},
		{check.Prometheus, 200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "gives a matrix"},
		{check.Prometheus, 200, `{"status":"success"}`, "gives a "},
		{check.Prometheus, 200, `{}`, "not Prometheus's"},
		{check.Prometheus, 200, "<html>", "not Prometheus's"},
		{check.Prometheus, 200, strings.Repeat("x", 2<<20), "more than 1048576 bytes"},
		{check.Prometheus, 302, "", "redirects are not followed"},
		{check.Prometheus, 401, "s3cret", "refuses whoever asks (401)"},
		{check.Prometheus, 503, "", "answered 503"},
		{check.Prometheus, 503, `{"status":"error","errorType":"timeout","error":"query timed out"}`, "(timeout): query timed out"},
		{check.Alertmanager, 200, "null", "not Alertmanager's"},
		{check.Alertmanager, 200, `[{}]`, "not Alertmanager's"},
		{check.Alertmanager, 200, `{"status":"success"}`, "not Alertmanager's"},
		{check.Alertmanager, 403, "", "refuses whoever asks (403)"},
		{check.Alertmanager, 500, "", "answered 500"},
	} {
		_, err := asked(t, test.source, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer s3cret" {
				t.Errorf("it is told %q", r.Header.Get("Authorization"))
			}
			if test.status == http.StatusFound {
				w.Header().Set("Location", "/other")
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s, %d, %.60s: %v", test.source, test.status, test.body, err)
		}
	}
	if _, err := monitoring.New("shop", "/no/such/file").Ask(t.Context(), check.Question{Source: check.Prometheus, Place: "main"}); err == nil {
		t.Error("a policy that cannot be read allows")
	}
	if _, err := monitoring.New("shop", "").Ask(t.Context(), check.Question{Source: check.Prometheus, Place: "http://127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "no public address") {
		t.Errorf("%v", err)
	}
}

// TestASourceThatHangs is no answer, within the four seconds that it takes.
func TestASourceThatHangs(t *testing.T) {
	_, err := asked(t, check.Prometheus, func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // An answer could still get through.
	})
	if err == nil || !strings.Contains(err.Error(), "no answer within 4s") {
		t.Errorf("%v", err)
	}
}
