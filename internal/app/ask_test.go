package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/annealing/protection"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// TestConstraintsAskServicesAndPrograms: they are asked as checks are, of a version, and the operator's file must let
// both partitions.
func TestConstraintsAskServicesAndPrograms(t *testing.T) {
	var told, reply string
	status := http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		told = string(text)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(reply))
	}))
	defer service.Close()
	file := outsideFile(t)
	ask := askConstraint(asker("shop", file, nil), func(home intent.PartitionID, q check.Question) error {
		return protection.New(home, file, nil).MayAsk(q)
	})
	asking := func(home intent.PartitionID, spec *intentpb.AskedVerdict) delivery.Asking {
		return delivery.Asking{
			Home: home, Partition: "shop", At: intent.IncarnationID{Partition: home, Sequence: 12}, Application: "web", Environment: "production", Constraint: "ticket",
			Version: intent.VersionName{Name: "1.1.0", Digest: "sha256:1"}, Commit: "1f2e3d4", Spec: spec, Timeout: 10 * time.Second,
		}
	}
	byService := &intentpb.AskedVerdict{Ask: &intentpb.AskedVerdict_Http{Http: service.URL}}
	reply = `{"result": "pass", "reason": "CHG-7", "until": "2026-12-01T09:00:00Z"}`
	got, err := ask(t.Context(), asking("shop", byService))
	if want := (delivery.Reply{Pass: true, Reason: "CHG-7", Until: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	const want = `{"incarnation":"shop@12","protection":"ticket","phase":"promotion","partition":"shop","home":"shop","application":"web","environment":"production","version":"1.1.0","digest":"sha256:1","commit":"1f2e3d4","content":"1.1.0@sha256:1"}`
	if told != want {
		t.Errorf("it was told %s, want %s", told, want)
	}
	reply = `{"result": "blocking", "reason": "not approved"}`
	if got, err = ask(t.Context(), asking("shop", byService)); err != nil || got.Pass || got.Reason != "not approved" {
		t.Errorf("%+v, %v", got, err)
	}
	reply = `yes`
	if got, err = ask(t.Context(), asking("shop", byService)); err == nil {
		t.Errorf("what cannot be read is %+v", got)
	}
	status = http.StatusServiceUnavailable
	if got, err = ask(t.Context(), asking("shop", byService)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one that does not answer is %+v, %v", got, err)
	}

	byProgram := func(script string) *intentpb.AskedVerdict {
		return &intentpb.AskedVerdict{Ask: &intentpb.AskedVerdict_Command{Command: &intentpb.CommandLine{Line: []string{"/bin/sh", "-c", script}}}}
	}
	if got, err = ask(t.Context(), asking("shop", byProgram("grep -q 1f2e3d4 && echo known"))); err != nil || !got.Pass || got.Reason != "known" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = ask(t.Context(), asking("shop", byProgram("echo a CVE; exit 1"))); err != nil || got.Pass || got.Reason != "a CVE" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = ask(t.Context(), asking("shop", byProgram("exit 3"))); err == nil {
		t.Errorf("an exit that is no answer is %+v", got)
	}
	if _, err = ask(t.Context(), asking("other", byProgram("true"))); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "other may not run") {
		t.Errorf("an application of a partition that may not ask: %v", err)
	}
	if _, err = ask(t.Context(), asking("shop", &intentpb.AskedVerdict{Ask: &intentpb.AskedVerdict_Plugin{Plugin: "quiet"}})); !fault.Is(err, fault.Denied) {
		t.Errorf("a plugin that the operator does not list: %v", err)
	}
}
