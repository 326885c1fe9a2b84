package definition_test

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

const trainHead = deliveryHead + `delivery:
  payments:
    versions: images
    releases: main
    environments:
      test: {set: {document: knobs, field: /test/payments}, assets: id == "payments/test", constraints: {scanned: {task: scan}}}
      far: {partition: other, set: {document: knobs, field: /far/payments}, assets: "true"}
    tasks: {scan: {set: {document: knobs, field: /scan}, assets: id == "scan"}}
  orders: {versions: cart, environments: {test: {set: {document: knobs, field: /test/orders}, assets: "true"}}}
releases: {main: {applications: [payments]}}
checks:
  by-hand: `

// TestTrainChecksAreRead: an application without a partition is of this one, and a check without where is about the
// environment's assets.
func TestTrainChecksAreRead(t *testing.T) {
	for text, want := range map[string][3]string{
		"{train: payments, environment: test, longest: 72h}":                       {"shop/payments", `id == "payments/test"`, "72h0m0s"},
		"{train: shop/payments, environment: test, longest: 3d, where: id == 'a'}": {"shop/payments", "id == 'a'", "72h0m0s"},
		"{train: front/web, environment: eu, longest: 90d, where: id == 'a'}":      {"front/web", "id == 'a'", "2160h0m0s"},
	} {
		d, findings := definition.Parse("lehr.yaml", []byte(trainHead+text+"\n"), schema.Builtin())
		if len(findings) > 0 {
			t.Errorf("%s: %+v", text, findings)
			continue
		}
		c := d.Policy.GetChecks()[0]
		got := [3]string{c.GetTrain().GetApplication(), c.GetWhere(), c.GetTrain().GetLongest().AsDuration().Round(time.Second).String()}
		if got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestTrainChecksThatAreWrong: each is told with what is wrong, at its line.
func TestTrainChecksThatAreWrong(t *testing.T) {
	for text, says := range map[string]string{
		"{train: payments, environment: test}":                              "checks.by-hand.longest is missing",
		"{train: payments, longest: 1h}":                                    "checks.by-hand.environment is missing",
		"{train: payments, environment: test, longest: 91d}":                "at most 90d are allowed",
		"{train: payments, environment: test, longest: soon}":               "is not a length of time",
		"{train: payment, environment: test, longest: 1h}":                  `there is no application "payment" under delivery`,
		"{train: orders, environment: test, longest: 1h}":                   "the application orders takes no releases",
		"{train: payments, environment: tset, longest: 1h}":                 `the application payments has no environment "tset"`,
		"{train: payments, environment: scan, longest: 1h}":                 `has no environment "scan"`,
		"{train: payments, environment: far, longest: 1h}":                  "far is in partition other",
		"{train: front/web, environment: eu, longest: 1h}":                  "checks.by-hand.where is missing",
		"{train: front/web/x, environment: eu, longest: 1h, where: 'true'}": `"front/web/x" is no application`,
		"{train: payments, environment: test, longest: 1h, in_sync: 5%}":    "in_sync",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(trainHead+text+"\n"), schema.Builtin())
		line := strings.Count(trainHead, "\n") + 1
		found := false
		for _, f := range findings {
			found = found || strings.Contains(f.Message, says) && f.Line == line
		}
		if !found {
			t.Errorf("%s: %+v, want %q at line %d", text, findings, says, line)
		}
	}
}
