package definition_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// FuzzParse: whatever a lehr.yaml says is a definition, or findings with a place.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	for _, seed := range []string{
		"", "lehr: v1\npartition: x\nsources: {}\ngenerate: {}\n", "a: &a [*a]\n", "? {a: 1}\n: 2\n", "--- \n---\n", "\xff\xfe", "lehr: &x v1\npartition: *x\nsources: *x\ngenerate: [*x, *x]\n",
		"lehr: v1\npartition: x\nsources:\n  a: {files: [\"**/**\"]}\ngenerate:\n  b: {derive: Dependencies, edges: [{rule: version, on: 'x'}]}\n  c: {starlark: c.star, from: [c, a, b]}\n",
		"lehr: v1\npartition: x\nvalidate: {shrink: {max: 101%, period: -1h, floor: 99999999999}}\nplugins: {Job: {run: []}}\nchecks: {budget: [{}]}\nmodes: {Job: !!binary aGk=}\ntypes: {}\n",
		"lehr: v1\npartition: x\nsources: {}\ngenerate: {}\nvalidate:\n  rules:\n    - {id: a, where: type == \"Job\", must: payload.replicas > 1, severity: hold, scope: whole, by: scope}\n    - {id: a, must: true, http: https://x, sql: y, parameters: {a: b}, timeout: 2h}\n    - {id: b, must: 1, command: [], arguments: x}\n    - []\n",
		"\r\r0", "lehr: v1\npartition: x\nsources: {a: {files: [b]}}\ngenerate:\n  b: {model: worker, from: a, for_each: file}\n  c: {model: x, args: [y]}\n  d: {resolve: Job, where: true, only: {a: [b], c: d}, set: {payload.replicas: 3}, reason: x}\n  e: {resolve: [], set: {}, fill: [], only: x}\n",
		"lehr: v1\npartition: x\nsources: {k: {document: k}}\ngenerate: {}\nrollouts:\n  a: {select: type == \"Job\", by: {document: k, field: \"/{scope.c}/{id}\"}, stages: [{name: 1, scopes: [a], percent: 10%}, {rest: true, by: scope c, order: [b], parallel: 2, factor: 2, soak: 31d}], emergency: [{}]}\n  b: {by: pins, stages: [[], {rest: false, window: {zone: UTC, open: []}}], validate: x, on_bad: y}\n",
		"lehr: v1\npartition: x\nsources: {k: {document: k}, i: {registry: \"https://a/b\", file: i}}\ngenerate: {}\ndelivery:\n  a: {versions: i, order: {by: date, layout: YYYY, match: (a)}, environments: {e: {set: {document: k, field: /a}, assets: true, constraints: {c: {depends_on: [f-1]}, d: {zone: UTC, open: [a], at_most: 1}}}, f: {each: [1, b], set: {document: k, field: \"/{each}\"}, assets: x, partition: \"{each}\", verify: [], constraints: {s: {soak: 1h, in: e}, j: {judgement: 1, roles: []}, n: {deny: [{commit: 1}]}, v: {verdict: 1, expires: 1}}}}}\n  b: []\n  c: {environments: []}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
		// YAML knows more breaks than one.
		lines := 2
		for _, r := range text {
			if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
				lines++
			}
		}
		for _, finding := range findings {
			if finding.Message == "" || finding.Line < 1 || finding.Line > lines || finding.File != "lehr.yaml" || finding.Severity != intent.Error {
				t.Errorf("finding %+v has no place in %d lines", finding, lines)
			}
		}
		if len(findings) == 0 && (d.Partition == "" || !utf8.ValidString(string(d.Partition)) || d.Policy == nil) {
			t.Errorf("nothing is wrong with %+v", d)
		}
		if from, wrong := definition.TypesOf("lehr.yaml", []byte(text)); from != nil && len(wrong) == 0 && len(findings) == 0 && d.Types == nil {
			t.Errorf("it has types in %+v, and has none", from)
		}
	})
}
