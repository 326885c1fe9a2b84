package rule_test

import (
	"fmt"
	"testing"

	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

func BenchmarkEnvironment(b *testing.B) {
	for b.Loop() {
		if _, err := rule.New(schema.Builtin()).Filter(`type == "Job" && payload.replicas > 2`); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	environment := rule.New(schema.Builtin())
	for i := 0; b.Loop(); i++ {
		if _, err := environment.Filter(fmt.Sprintf(`type == "Job" && payload.replicas > %d`, i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	environment := rule.New(schema.Builtin())
	job := frontend(b)
	for _, text := range []string{`id.endsWith("d")`, `type == "Job" && payload.replicas > 2`, `labels.team == "web"`, `payload.args.exists(a, a == "--two")`} {
		b.Run(text, func(b *testing.B) {
			filter := must(environment.Filter(text))
			for b.Loop() {
				if matched, err := filter.Match(job); err != nil || !matched {
					b.Fatal(matched, err)
				}
			}
		})
	}
}
