package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/auditexport"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// AuditSource is which audit is verified, without a server.
type AuditSource struct {
	// Store is a file, Database a PostgreSQL URL, File an exported audit; the
	// last of them that is set counts.
	Store, Database, File string
	// Checkpoints is a file of them to compare with.
	Checkpoints string
	// Partition is all that is verified, with what concerns all together.
	Partition intent.PartitionID
}

func (s *session) auditCommand() *cobra.Command {
	command := family("audit", "Export and verify the record of who did what, from where, and why")
	command.AddCommand(s.auditVerifyCommand(), s.auditExportCommand(), s.auditCheckpointCommand())
	return command
}

func (s *session) auditVerifyCommand() *cobra.Command {
	var source AuditSource
	command := &cobra.Command{
		Use:   "verify",
		Short: "Check the audit for tampering and broken rules; needs no server",
		Long: `Recompute every chain of the audit in the store's file, in a database or in an
exported file, and check the records against the rules that they describe. This
finds records that were edited, left out, moved or cut off. If somebody cut off
the newest records with every trace of them, or rewrote all records, only
checkpoints that are kept elsewhere show it: lehr serve --audit-checkpoints.

Exit codes: 0 the audit is intact, 1 it is not.`,
		Example: `  lehr audit verify --checkpoints /mnt/elsewhere/checkpoints.jsonl
  lehr audit verify --file audit.jsonl --checkpoints checkpoints.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if source.File != "" && (s.databaseGiven || s.storeGiven) || s.databaseGiven && s.storeGiven {
				return fault.New(fault.Invalid, "only one audit is verified at a time").WithHint("name one of --store, --database and --file")
			}
			source.Store, source.Partition = s.store, intent.PartitionID(s.partition)
			if !s.storeGiven {
				source.Database = s.database
			}
			report, err := s.local.VerifyAudit(command.Context(), source)
			if err != nil {
				return err
			}
			return s.printVerified(report)
		},
	}
	flags := command.Flags()
	flags.StringVar(&source.File, "file", "", "verify this exported audit instead of the store's")
	flags.StringVar(&source.Checkpoints, "checkpoints", "", "compare with the checkpoints in this file")
	return command
}

func (s *session) printVerified(report audit.Report) error {
	if s.json() {
		if err := printJSON(s.Out, report); err != nil {
			return err
		}
	} else {
		for _, p := range report.Problems {
			fmt.Fprintln(s.Out, plain(p.Message))
			if p.Hint != "" {
				fmt.Fprintln(s.Out, "  "+plain(p.Hint))
			}
		}
		if more := report.Count - len(report.Problems); more > 0 {
			fmt.Fprintf(s.Out, "and %d more\n", more)
		}
		var records uint64
		for _, chain := range report.Chains {
			records += chain.Records
		}
		for _, note := range report.Notes {
			fmt.Fprintln(s.Out, "Note: "+plain(note))
		}
		if report.OK() {
			fmt.Fprintf(s.Out, "The audit is as it was written: %s in %s.\n", count(int(records), "record"), count(len(report.Chains), "chain"))
		} else {
			fmt.Fprintln(s.Out, "The audit is NOT as it should be.")
		}
	}
	if !report.OK() {
		return exit{exitError}
	}
	return nil
}

func (s *session) auditExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write the audit as JSON lines, which can be verified anywhere",
		Example: `  lehr audit export > audit.jsonl
  lehr audit verify --file audit.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx := command.Context()
			c, err := s.connectOrOpen(ctx)
			if err != nil {
				return err
			}
			heads, err := s.checkpoints(ctx, c)
			if err != nil {
				return err
			}
			return auditexport.Write(ctx, s.Out, c, heads)
		},
	}
}

func (s *session) auditCheckpointCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "checkpoint",
		Short: "Print how far each chain of the audit goes, to keep elsewhere",
		Long: `Print how far each chain of the audit goes: the number of its last record, and
the link that covers all records before it. Keep this where nobody who can change
the store can change it. Later, lehr audit verify --checkpoints FILE shows whether
records were cut off or rewritten. lehr serve --audit-checkpoints sends
checkpoints by itself.`,
		Example: `  lehr audit checkpoint -o json >> /mnt/elsewhere/checkpoints.jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := s.connectOrOpen(command.Context())
			if err != nil {
				return err
			}
			list, err := s.checkpoints(command.Context(), c)
			if err != nil {
				return err
			}
			if s.json() {
				return audit.WriteCheckpoints(s.Out, list)
			}
			rows := make([][]string, len(list))
			for i, c := range list {
				rows[i] = []string{audit.Scope(c.Partition), fmt.Sprint(c.Number), c.Link.String(), c.At.Local().Format("2006-01-02 15:04:05"), c.Store}
			}
			table(s.Out, []string{"CHAIN", "RECORDS", "LINK", "AT", "STORE"}, rows)
			return nil
		},
	}
}

// checkpoints asks for those of the chosen partition, or of all, and in any
// case for that of all together.
func (s *session) checkpoints(ctx context.Context, c *client.Client) ([]audit.Checkpoint, error) {
	heads, err := auditexport.Heads(ctx, c)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(heads, func(p audit.Checkpoint) bool {
		return s.partition != "" && p.Partition != "" && string(p.Partition) != s.partition
	})
	if s.partition != "" && !slices.ContainsFunc(list, func(p audit.Checkpoint) bool { return string(p.Partition) == s.partition }) {
		return nil, fault.New(fault.NotFound, "the audit has no chain of partition %s", s.partition).WithHint("lehr get partitions lists them")
	}
	return list, nil
}

// listAudit lists what was chosen of a chain, oldest first.
func listAudit(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"NUMBER", "AT", "BY", "FROM", "VERB", "SUBJECT", "REASON", "DETAIL"}}
	request := &apipb.ListAuditRequest{Partition: q.partition, Subject: q.asset, Actor: q.actor}
	if q.everywhere {
		request.Partition = ""
	}
	since, err := s.moment(q.since)
	if err != nil {
		return result, err
	}
	request.Since = since
	// A page of what is chosen may be empty, and not the last.
	for result.more = true; result.more && len(result.rows) < q.limit; {
		request.Limit = int32(min(q.limit-len(result.rows), 1000))
		response, err := c.Audit.ListAudit(ctx, request)
		if err != nil {
			return result, err
		}
		for _, r := range response.Records {
			result.add(r, fmt.Sprint(r.Number), r.At.AsTime().Local().Format("2006-01-02 15:04:05"),
				r.By.GetName()+" ("+r.By.GetOrigin()+")", origin(r), r.Verb, r.Subject, r.Reason, r.Detail)
		}
		request.After = response.Next
		result.more = response.Next != 0
	}
	return result, nil
}

// origin is where a call came from, and by which credential.
func origin(r *apipb.AuditRecord) string {
	if r.Token == "" {
		return r.From
	}
	return strings.TrimSpace(r.From + " token " + r.Token)
}
