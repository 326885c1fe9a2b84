// Package auditexport writes the audit of a server as a file that can be verified anywhere. The command line and the
// pages do it by the same calls.
package auditexport

import (
	"context"
	"io"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// recordsRead at a time.
const recordsRead = 1000

// Heads returns how far each chain goes. It takes a viewer of all partitions.
func Heads(ctx context.Context, c *client.Client) (heads []audit.Checkpoint, err error) {
	response, err := c.Audit.ListCheckpoints(ctx, &apipb.ListCheckpointsRequest{})
	if err != nil {
		return nil, err
	}
	for _, p := range response.Checkpoints {
		link, err := intent.ParseDigest(p.Link)
		if err != nil {
			return nil, err
		}
		heads = append(heads, audit.Checkpoint{Store: p.Store, Partition: intent.PartitionID(p.Partition), Number: p.Number, Link: link, At: p.At.AsTime().UTC()})
	}
	return heads, nil
}

// Write writes the chains up to these heads as JSON lines. Equal heads make equal files: their times are left out.
func Write(ctx context.Context, w io.Writer, c *client.Client, heads []audit.Checkpoint) error {
	timeless := make([]audit.Checkpoint, len(heads))
	for i, head := range heads {
		timeless[i] = head
		timeless[i].At = time.Time{}
	}
	return audit.Export(w, timeless, func(partition intent.PartitionID, cursor uint64) ([]audit.Record, error) {
		response, err := c.Audit.ListAudit(ctx, &apipb.ListAuditRequest{Partition: string(partition), After: cursor, Limit: recordsRead})
		if err != nil {
			return nil, err
		}
		records := make([]audit.Record, len(response.Records))
		for i, r := range response.Records {
			records[i] = Record(r)
		}
		return records, nil
	})
}

// Record is a record of the API as a chain has it.
func Record(r *apipb.AuditRecord) audit.Record {
	return audit.Record{
		Partition: intent.PartitionID(r.Partition), Number: r.Number, At: r.At.AsTime(),
		By:   intent.Actor{Name: r.By.GetName(), Origin: r.By.GetOrigin()},
		From: r.From, Token: r.Token, Verb: r.Verb, Subject: r.Subject, Reason: r.Reason, Detail: r.Detail,
		Version: int(r.Version), Link: r.Link,
	}
}
