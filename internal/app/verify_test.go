package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/annealing/strategist/sampling"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// verifying is a verification of an environment of the same partition, or of another.
func verifying(home intent.PartitionID, spec *intentpb.DeliveryVerification) delivery.Verifying {
	spec.Name = "smoke"
	return delivery.Verifying{Spec: spec, Verification: intent.Verification{
		Partition: "shop", Home: home, Application: "web", Environment: "test", Name: "smoke", Version: intent.VersionName{Name: "1.1.0", Digest: "sha256:1"},
		Content: intent.Sum("content"), Assets: []intent.AssetID{"web/test"}, Until: time.Now().Add(time.Minute),
	}}
}

func byCommand(line ...string) *intentpb.DeliveryVerification {
	return &intentpb.DeliveryVerification{Kind: &intentpb.DeliveryVerification_Command{Command: &intentpb.CommandLine{Line: line}}}
}

func byHTTP(place string) *intentpb.DeliveryVerification {
	return &intentpb.DeliveryVerification{Kind: &intentpb.DeliveryVerification_Http{Http: place}}
}

// outsideFile lets the partition shop run a shell, and reach this machine.
func outsideFile(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "external.yaml")
	text := "external-checks: v1\nnetworks: [127.0.0.0/8]\ncommands:\n  - {run: /bin/sh, partitions: [shop]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAProgramVerifies(t *testing.T) {
	verify := verifier(outsideFile(t))
	seen := filepath.Join(t.TempDir(), "seen")
	finding, err := verify(t.Context(), verifying("shop", byCommand("/bin/sh", "-c", "cat > "+seen)))
	if err != nil || !finding.Good {
		t.Errorf("one that exits with 0 is %+v, %v", finding, err)
	}
	text, err := os.ReadFile(seen)
	if err != nil || !strings.Contains(string(text), `"environment":"test","version":"1.1.0","digest":"sha256:1"`) || !strings.Contains(string(text), `"assets":["web/test"]`) {
		t.Errorf("it was told %s, %v", text, err)
	}
	finding, err = verify(t.Context(), verifying("shop", byCommand("/bin/sh", "-c", "echo no order arrives >&2; exit 3")))
	if err != nil || finding.Good || finding.Reason != "no order arrives" {
		t.Errorf("one that exits with 3 is %+v, %v", finding, err)
	}
	// What does not come to an end by itself says nothing.
	if finding, err = verify(t.Context(), verifying("shop", byCommand("/bin/sh", "-c", "kill -9 $$"))); err == nil {
		t.Errorf("one that was killed is %+v", finding)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if finding, err = verify(ctx, verifying("shop", byCommand("/bin/sh", "-c", "sleep 600"))); err == nil {
		t.Errorf("one whose time is over is %+v", finding)
	}
	if _, err = verify(t.Context(), verifying("shop", byCommand("/bin/true"))); !fault.Is(err, fault.Denied) {
		t.Errorf("a program that the operator does not list: %v", err)
	}
	if _, err = verify(t.Context(), verifying("other", byCommand("/bin/sh", "-c", "true"))); !fault.Is(err, fault.Denied) {
		t.Errorf("an application of a partition that may not run it: %v", err)
	}
}

func TestAServiceVerifies(t *testing.T) {
	var told string
	status := http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		told = string(text)
		w.WriteHeader(status)
		_, _ = w.Write([]byte("carts are empty"))
	}))
	defer service.Close()
	verify := verifier(outsideFile(t))
	for _, tc := range []struct {
		status int
		good   bool
		broken bool
	}{
		{status: http.StatusOK, good: true}, {status: http.StatusNoContent, good: true}, {status: http.StatusNotFound}, {status: http.StatusInternalServerError},
		{status: http.StatusServiceUnavailable, broken: true}, {status: http.StatusTooManyRequests, broken: true}, {status: http.StatusFound, broken: true},
	} {
		status = tc.status
		finding, err := verify(t.Context(), verifying("shop", byHTTP(service.URL)))
		if finding.Good != tc.good || (err != nil) != tc.broken {
			t.Errorf("status %d is %+v, %v", tc.status, finding, err)
		}
	}
	if !strings.Contains(told, `"verification":"smoke","partition":"shop"`) {
		t.Errorf("it was told %s", told)
	}
	service.Close()
	if finding, err := verify(t.Context(), verifying("shop", byHTTP(service.URL))); err == nil {
		t.Errorf("one that nobody answers is %+v", finding)
	}
}

// TestTheJudgeVerifies: what it finds good or bad is a result; where it cannot tell, or may not ask,
// there is none.
func TestTheJudgeVerifies(t *testing.T) {
	folder := t.TempDir()
	changed := time.Now().Add(-time.Hour).Truncate(time.Second)
	series := func(value int) string {
		var samples []string
		for i := range 60 {
			samples = append(samples, fmt.Sprintf(`{"at": %d, "value": %d}`, changed.Unix()+int64(15*(i+1)), value+i%3))
		}
		return `{"samples": [` + strings.Join(samples, ", ") + `]}`
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("control", series(100))
	write("measure", "#!/bin/sh\ncase $(cat) in *web/canary*) cat "+folder+"/canary;; *web/production*) cat "+folder+"/control;; *) exit 1;; esac\n")
	write("checks.yaml", "external-checks: v1\ncommands: [{run: "+folder+"/measure, partitions: [shop]}]\n")
	validation := func(program string) *intentpb.Validation {
		return &intentpb.Validation{Name: "speed", Compare: intentpb.Validation_COMPARISON_CONTROL, Interval: durationpb.New(10 * time.Minute), Step: durationpb.New(15 * time.Second),
			Metrics: []*intentpb.ValidationMetric{{
				Name: "p90", Worse: intentpb.ValidationMetric_DIRECTION_HIGHER, Unit: "ms", Matters: "15%",
				Source: &intentpb.MetricSource{Ask: &intentpb.MetricSource_Command{Command: &intentpb.CommandLine{Line: []string{program}}}},
			}}}
	}
	analyse := analyser(sampling.New("shop", filepath.Join(folder, "checks.yaml"), nil), loop.Real())
	found := func(program string) (delivery.Finding, error) {
		v := verifying("shop", &intentpb.DeliveryVerification{})
		v.Analysis = &delivery.Analysis{
			Validation: validation(program), Began: changed.Add(-time.Minute), Changed: changed,
			Experiment: delivery.AnalysedAssets{Assets: []intent.AssetID{"web/canary"}}, Control: delivery.AnalysedAssets{Assets: []intent.AssetID{"web/production"}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return analyse(ctx, v)
	}
	write("canary", series(200))
	if finding, err := found(folder + "/measure"); err != nil || finding.Good || !strings.Contains(finding.Reason, "p90: 201 ms after 101 ms") {
		t.Errorf("twice as slow: %+v, %v", finding, err)
	}
	write("canary", series(100))
	if finding, err := found(folder + "/measure"); err != nil || !finding.Good {
		t.Errorf("as fast: %+v, %v", finding, err)
	}
	write("canary", `{"samples": []}`)
	if finding, err := found(folder + "/measure"); err == nil {
		t.Errorf("without samples: %+v", finding)
	}
	if finding, err := found("/bin/date"); err == nil || !strings.Contains(err.Error(), `may not run "/bin/date"`) {
		t.Errorf("a program that the operator does not list: %+v, %v", finding, err)
	}
}
