package definition_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

func TestPromotionGrants(t *testing.T) {
	const head = "lehr: v1\npartition: eu\nsources: {held: {document: knobs}}\ngenerate: {web: {starlark: web.star, from: [held]}}\n"
	d, findings := definition.Parse("lehr.yaml", []byte(head+"promotions: {grants: [{application: shop/web, document: knobs, fields: [/production/version, /production/digest]}]}\n"), schema.Builtin())
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	grants := d.Policy.GetPromotionGrants()
	if len(grants) != 1 || grants[0].GetPartition() != "shop" || grants[0].GetApplication() != "web" || grants[0].GetSource() != "held" || len(grants[0].GetPointers()) != 2 {
		t.Errorf("grants: %v", grants)
	}
	const inGit = "lehr: v1\npartition: eu\nsources: {knobs: {git: ./shop.git, branch: main, document: knobs.yaml}}\ngenerate: {web: {starlark: web.star, from: [knobs]}}\n"
	d, findings = definition.Parse("lehr.yaml", []byte(inGit+"promotions: {grants: [{application: shop/web, document: knobs, fields: [/production/version]}]}\n"), schema.Builtin())
	if grants = d.Policy.GetPromotionGrants(); len(findings) > 0 || len(grants) != 1 || !grants[0].GetInRepository() || grants[0].GetSource() != "knobs" {
		t.Errorf("of a document in git: %v, %v", grants, findings)
	}
	for text, want := range map[string]string{
		"promotions: {}": "promotions.grants is no list",
		"promotions: {grants: [{document: knobs, fields: [/a]}]}":                                  "promotions.grants[0].application is missing",
		"promotions: {grants: [{application: web, document: knobs, fields: [/a]}]}":                `"web" is no application of a partition`,
		"promotions: {grants: [{application: shop/web, document: nobs, fields: [/a]}]}":            `no source is the document "nobs"`,
		"promotions: {grants: [{application: shop/web, document: knobs, fields: [a]}]}":            "a",
		"promotions: {grants: [{application: shop/web, document: knobs, fields: [/a], for: you}]}": "unknown field promotions.grants[0].for",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(head+text+"\n"), schema.Builtin())
		found := false
		for _, f := range findings {
			found = found || strings.HasPrefix(f.Field, "promotions") && (strings.Contains(f.Message, want))
		}
		if !found {
			t.Errorf("%s: %v, want %s", text, findings, want)
		}
	}
}
