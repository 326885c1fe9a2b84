package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
)

// BenchmarkVerifyFile goes through an exported file of pushes; b.N are records.
func BenchmarkVerifyFile(b *testing.B) {
	chain := audit.Chain{Partition: "shop"}
	var records []intent.AuditRecord
	write := func(verb, subject, detail string) {
		r := intent.AuditRecord{
			Partition: "shop", Number: chain.Number + 1, At: noon, By: intent.Actor{Name: "server", Origin: "server"},
			Verb: verb, Subject: subject, Detail: detail, Version: audit.Version,
		}
		r.Link = audit.Short(audit.Link(chain.Link, r))
		if err := chain.Next(r); err != nil {
			b.Fatal(err)
		}
		records = append(records, r)
	}
	write("add-partition", "shop", "/srv/lehr.yaml")
	write("acquire", "shop", "epoch 1")
	write("publish", "shop@1", "1 assets, under epoch 1")
	for i := 0; len(records) < b.N; i++ {
		push := fmt.Sprint("p", i)
		write("admit", "web/a", admit(push, 1, 1, 3, 0, false))
		write("close", "web/a", "push "+push+" pushed")
	}
	var file bytes.Buffer
	head := audit.Checkpoint{Store: "s", Partition: "shop", Number: chain.Number, Link: chain.Link}
	err := audit.Export(&file, []audit.Checkpoint{head}, func(_ intent.PartitionID, after uint64) ([]intent.AuditRecord, error) { return records[after:], nil })
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	report, err := audit.VerifyFile(context.Background(), &file, nil)
	if err != nil || !report.OK() {
		b.Fatal(report, err)
	}
}
