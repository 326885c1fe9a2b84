package definition_test

import (
	"os"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

const releasesHead = deliveryHead + `delivery:
  payments: {versions: images, releases: main, environments: {test: {set: {document: knobs, field: /test/payments}, assets: "true"}}}
  orders: {versions: cart, releases: shop/main, environments: {test: {set: {document: knobs, field: /test/orders}, assets: "true", constraints: {near: {lag: 0, behind: [test]}}}}}
`

// TestReleaseLinesAreRead: names without a partition are of this one.
func TestReleaseLinesAreRead(t *testing.T) {
	text := releasesHead + `releases:
  main:
    applications: [payments, orders, front/web]
    mode: immediate
    order:
      - {first: payments, then: [orders, front/web]}
      - {first: orders, then: [front/web], by: application}
`
	d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	line := d.Policy.GetReleaseLines()[0]
	if line.GetName() != "main" || line.GetMode() != intentpb.ReleaseLine_MODE_IMMEDIATE || strings.Join(line.GetApplications(), " ") != "shop/payments shop/orders front/web" {
		t.Errorf("%v", line)
	}
	first, second := line.GetOrder()[0], line.GetOrder()[1]
	if first.GetFirst() != "shop/payments" || strings.Join(first.GetThen(), " ") != "shop/orders front/web" || first.GetWhole() || !second.GetWhole() {
		t.Errorf("%v", line.GetOrder())
	}
	for i, spec := range d.Policy.GetDeliveries() {
		if spec.GetReleases() != "shop/main" {
			t.Errorf("application %d takes the releases of %q", i, spec.GetReleases())
		}
	}
}

// TestReleasesOfThePageAreRead: the samples of docs/use/releases.md are taken, together.
func TestReleasesOfThePageAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/use/releases.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")
	if len(blocks) != 5 {
		t.Fatalf("the page has %d samples, this test knows 4", len(blocks)-1)
	}
	sample := func(i int) string {
		text, _, _ := strings.Cut(blocks[i], "```")
		return text
	}
	near := strings.ReplaceAll(strings.TrimSpace(sample(3)), "\n", "\n        ")
	orders := "  orders:\n    versions: cart\n    releases: main\n    environments:\n      test:\n        set: {document: knobs, field: /test/orders}\n        assets: id == \"orders\"\n        " + near +
		"\n      production: {set: {document: knobs, field: /production/orders}, assets: id == \"orders/production\"}\n"
	d, findings := definition.Parse("lehr.yaml", []byte(deliveryHead+sample(1)+sample(2)+orders+sample(4)), schema.Builtin())
	if len(findings) > 0 || len(d.Policy.GetReleaseLines()) != 1 || d.Policy.GetDeliveries()[1].GetEnvironments()[0].GetConstraints()[0].GetLag().GetAtMost() != 2 || d.Policy.GetChecks()[0].GetTrain().GetApplication() != "shop/payments" {
		t.Errorf("%+v, %v", findings, d.Policy.GetDeliveries())
	}
}

// TestReleaseLinesThatAreWrong: each is told with what is wrong.
func TestReleaseLinesThatAreWrong(t *testing.T) {
	for text, says := range map[string]string{
		"releases: {other: {applications: [payments, orders]}}":                                                                               `there is no line of releases "main"`,
		"releases: {main: {applications: [payments]}}":                                                                                        "the line of releases main does not list orders",
		"releases: {main: {applications: [payments, orders, wbe]}}":                                                                           `there is no application "wbe" under delivery`,
		"releases: {main: {applications: [payments, orders, payments]}}":                                                                      "payments",
		"releases: {main: {applications: [payments, orders, a/b/c]}}":                                                                         `"a/b/c" is no application`,
		"releases: {main: {mode: train}}":                                                                                                     "releases.main.applications is missing",
		"releases: {main: {applications: [payments, orders], mode: fast}}":                                                                    "train or immediate",
		"releases: {main: {applications: [payments, orders], order: [{first: payments}]}}":                                                    "order[0].then is missing",
		"releases: {main: {applications: [payments, orders], order: [{first: payments, then: [front/web]}]}}":                                 "front/web is not among the applications of the line",
		"releases: {main: {applications: [payments, orders], order: [{first: payments, then: [orders]}, {first: orders, then: [payments]}]}}": "wait for each other in a circle: shop/payments -> shop/orders -> shop/payments",
		"releases: {main: {applications: [payments, orders], order: [{first: payments, then: [orders], by: service}]}}":                       "environment or application",
		"releases: {payments: {applications: [payments, orders]}, main: {applications: [payments, orders]}}":                                  "an application is called payments, too",
		"releases: {main: {applications: [payments, orders], order: [{first: payments, then: [payments]}]}}":                                  "shop/payments -> shop/payments",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(releasesHead+text+"\n"), schema.Builtin())
		found := false
		for _, f := range findings {
			found = found || strings.Contains(f.Message, says) || strings.Contains(f.Hint, says)
		}
		if !found {
			t.Errorf("%s: %+v, want %q", text, findings, says)
		}
	}
}
