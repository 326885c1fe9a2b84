package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
)

// Verification says which audit is verified, without a server: that of the
// store's file, or of a Database, or a File that was exported.
type Verification struct {
	Store, Database, File string
	// Checkpoints is a file of them to compare with; empty: none.
	Checkpoints string
	// Partition, with what concerns all together, is all that is verified;
	// empty: every chain.
	Partition intent.PartitionID
}

func (v Verification) concerns(partition intent.PartitionID) bool {
	return v.Partition == "" || partition == "" || partition == v.Partition
}

// VerifyAudit recomputes chains and holds them to the rules that they tell of.
// An error says that they could not be read.
func VerifyAudit(ctx context.Context, v Verification) (audit.Report, error) {
	checkpoints, notes, err := v.readCheckpoints()
	if err != nil {
		return audit.Report{}, err
	}
	report, err := v.verify(ctx, checkpoints)
	report.Notes = append(notes, report.Notes...)
	return report, err
}

func (v Verification) readCheckpoints() (list []audit.Checkpoint, notes []string, err error) {
	if v.Checkpoints == "" {
		return nil, nil, nil
	}
	file, err := files.OpenGiven(v.Checkpoints)
	if err != nil {
		return nil, nil, fault.New(fault.NotFound, "reading the checkpoints: %w", err).WithHint("lehr serve --audit-checkpoints, or lehr audit checkpoint -o json, writes them")
	}
	defer file.Close()
	list, unread, err := audit.ReadCheckpoints(file)
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, fault.New(fault.Invalid, "%s has no checkpoints", v.Checkpoints).WithHint("lehr serve --audit-checkpoints, or lehr audit checkpoint -o json, writes them")
	}
	for _, line := range unread {
		notes = append(notes, fmt.Sprintf("line %d of %s is no checkpoint, and was left out: was it cut off?", line, v.Checkpoints))
	}
	return slices.DeleteFunc(list, func(c audit.Checkpoint) bool { return !v.concerns(c.Partition) }), notes, nil
}

func (v Verification) verify(ctx context.Context, checkpoints []audit.Checkpoint) (audit.Report, error) {
	if v.File != "" {
		file, err := files.OpenGiven(v.File)
		if err != nil {
			return audit.Report{}, fault.New(fault.NotFound, "reading the exported audit: %w", err).WithHint("lehr audit export > FILE writes one")
		}
		defer file.Close()
		return audit.VerifyFile(ctx, file, checkpoints)
	}
	opened, err := openBeside(ctx, cmp.Or(v.Database, v.Store))
	if err != nil {
		return audit.Report{}, err
	}
	defer opened.Close()
	return audit.VerifyStore(ctx, opened, checkpoints, v.concerns)
}
