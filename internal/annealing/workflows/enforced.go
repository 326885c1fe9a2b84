package workflows

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

const (
	// memberPage is how many assets are read at once, candidatePage how many candidates.
	memberPage, candidatePage = 1000, 50
	// maxComparisons are remembered.
	maxComparisons = 100
)

// comparison names two heads: the base of an edit, and the present one.
type comparison struct{ base, head intent.IncarnationID }

// awaitEnforcement of a revision: head was built from it or a later one, and all assets that
// differ from what they were before the edit, or the asset of a task, are in sync and not
// unhealthy.
func (v *visit) awaitEnforcement(ctx context.Context, key string, progress intent.WorkflowAction, action *workflow.Action, documentName string) (event *workflow.Event, stored bool, err error) {
	source := v.run.Sources[documentName]
	if !reached(v.partition.Covered, source, progress.Revision) {
		reason, refused, err := v.refusal(ctx, source, progress.Revision)
		if err != nil {
			return nil, false, err
		}
		if refused {
			return answer(key, workflow.OutcomeFailed, "%s", reason), false, nil
		}
		stored, err := v.storeReason(ctx, key, progress, "revision %s of %s is not published yet", progress.Revision, documentName)
		return nil, stored, err
	}
	if action.Task != nil {
		return v.awaitTask(ctx, key, progress, action)
	}
	assets, err := v.changedAssets(ctx, progress.Before)
	if err != nil {
		return nil, false, err
	}
	good, waiting, err := v.areEnforced(ctx, assets)
	if err != nil {
		return nil, false, err
	}
	if good == len(assets) {
		return answer(key, workflow.OutcomeDone, "revision %s of %s is enforced; %s", progress.Revision, documentName, followed(len(assets))), false, nil
	}
	stored, err = v.storeReason(ctx, key, progress, "%d of %d assets are in sync with revision %s of %s; %s", good, len(assets), progress.Revision, documentName, waiting)
	return nil, stored, err
}

// followed says how many assets an edit changed.
func followed(assets int) string {
	switch assets {
	case 0:
		return "no asset differs"
	case 1:
		return "one asset followed it"
	}
	return fmt.Sprintf("%d assets followed it", assets)
}

// outputDelay is from when a task is seen in sync until its outputs are read: the enforcer writes
// them after it has found the asset in sync, and those of an earlier run are there until then.
const outputDelay = 10 * time.Second

// awaitTask waits until the asset of a task is in sync with what head says, and until it told the
// outputs that the action declares.
func (v *visit) awaitTask(ctx context.Context, key string, progress intent.WorkflowAction, action *workflow.Action) (event *workflow.Event, stored bool, err error) {
	asset := intent.AssetID(action.Task.Asset)
	good, waiting, err := v.areEnforced(ctx, []intent.AssetID{asset})
	if err != nil {
		return nil, false, err
	}
	if good == 0 {
		stored, err = v.storeReason(ctx, key, progress, "%s", waiting)
		return nil, stored, err
	}
	done := answer(key, workflow.OutcomeDone, "%s is in sync", asset)
	if len(action.Outputs) == 0 {
		return done, false, nil
	}
	if progress.Next.IsZero() {
		progress.Next, progress.Waiting = v.now.Add(outputDelay), fmt.Sprintf("%s is in sync; its outputs are read next", asset)
		return nil, true, v.keep(ctx, key, progress)
	}
	if isPausing(progress.Next, v.now, outputDelay) {
		return nil, false, nil
	}
	values, problem, err := v.outputsOfTask(ctx, asset, action)
	if err != nil {
		return nil, false, err
	}
	if problem != "" {
		stored, err = v.storeReason(ctx, key, progress, "%s", problem)
		return nil, stored, err
	}
	done.Outputs = values
	return done, false, nil
}

// outputsOfTask reads what an action declares from the outputs that its asset told. A problem says
// what is not there yet.
func (v *visit) outputsOfTask(ctx context.Context, asset intent.AssetID, action *workflow.Action) (values map[string]workflow.Value, problem string, err error) {
	report, err := v.Store.Report(ctx, v.Partition, asset)
	if err != nil {
		return nil, "", err
	}
	if len(report.OutputProblems) > 0 {
		return nil, fmt.Sprintf("the outputs of %s are not taken up: %s", asset, report.OutputProblems[0].Reason), nil
	}
	doc, err := v.Store.Document(ctx, v.Partition, outputs.Document, "")
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, "", err
	}
	table := outputs.Table{} // There is no document before an asset tells an output.
	if err == nil {
		var findings []intent.Finding
		if table, findings = outputs.Parse(doc.Content); len(findings) > 0 {
			return nil, "the document " + outputs.Document + " is damaged: " + findings[0].Message, nil
		}
	}
	values = map[string]workflow.Value{}
	for _, output := range action.Outputs {
		raw, ok := table.Values[outputs.ID{Asset: asset, Name: output.Name}]
		if !ok {
			return nil, fmt.Sprintf("%s has not told the output %s", asset, output.Name), nil
		}
		values[output.Name] = workflow.Value{Type: output.Type, Text: workflow.TextOf(raw)}
	}
	return values, "", nil
}

// reached reports whether a revision of a document, or a later one, is among those of sources.
func reached(sources []intent.SourceRevision, source, revision string) bool {
	least, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(sources, func(s intent.SourceRevision) bool {
		number, err := strconv.ParseUint(s.Revision, 10, 64)
		return s.Source == source && err == nil && number >= least
	})
}

// refusal says why what was built of a revision is not served, if it was refused.
func (v *visit) refusal(ctx context.Context, source, revision string) (reason string, refused bool, err error) {
	if v.candidates == nil {
		if v.candidates, err = v.Store.ListCandidates(ctx, v.Partition, candidatePage); err != nil {
			return "", false, err
		}
	}
	reason, refused = intent.Refusal(v.candidates, func(c *intent.Candidate) bool { return reached(c.Sources, source, revision) })
	return reason, refused, nil
}

// changedAssets are those of head that are new since an incarnation, or differ from it; all, if
// there was none or it was collected.
func (v *visit) changedAssets(ctx context.Context, base intent.IncarnationID) ([]intent.AssetID, error) {
	key := comparison{base, v.partition.Head}
	if known, ok := v.comparisons[key]; ok {
		return known, nil
	}
	changed, err := v.differences(ctx, base)
	if base.Sequence == 0 || fault.Is(err, fault.NotFound) {
		changed, err = v.allAssets(ctx)
	}
	if err != nil {
		return nil, err
	}
	if len(v.comparisons) >= maxComparisons {
		clear(v.comparisons)
	}
	v.comparisons[key] = changed
	return changed, nil
}

// differences of head from an incarnation, without the policy and what was removed.
func (v *visit) differences(ctx context.Context, base intent.IncarnationID) (changed []intent.AssetID, err error) {
	if base.Sequence == 0 || base == v.partition.Head {
		return nil, nil
	}
	var cursor intent.AssetID
	for {
		changes, err := v.Store.Changes(ctx, base, v.partition.Head, cursor, memberPage)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			cursor = c.Asset
			if c.After != nil && c.Asset != intent.PolicyAsset {
				changed = append(changed, c.Asset)
			}
		}
		if len(changes) < memberPage {
			return changed, nil
		}
	}
}

// allAssets of head, without the policy.
func (v *visit) allAssets(ctx context.Context) (all []intent.AssetID, err error) {
	if v.partition.Head.Sequence == 0 {
		return nil, nil
	}
	filter := store.AssetFilter{Limit: memberPage}
	for {
		members, err := v.Store.Members(ctx, v.partition.Head, filter)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			filter.After = m.Asset
			if m.Asset != intent.PolicyAsset {
				all = append(all, m.Asset)
			}
		}
		if len(members) < memberPage {
			return all, nil
		}
	}
}

// areEnforced counts the assets that are in sync with what head says and not unhealthy, and says
// what the first of the others waits for.
func (v *visit) areEnforced(ctx context.Context, assets []intent.AssetID) (good int, waiting string, err error) {
	for _, asset := range assets {
		word, err := v.isEnforced(ctx, asset)
		switch {
		case err != nil:
			return 0, "", err
		case word == "":
			good++
		case waiting == "":
			waiting = word
		}
	}
	return good, waiting, nil
}

// isEnforced says why an asset is not as head says; empty: it is.
func (v *visit) isEnforced(ctx context.Context, asset intent.AssetID) (why string, err error) {
	member, err := v.Store.Member(ctx, v.partition.Head, asset)
	if fault.Is(err, fault.NotFound) {
		return fmt.Sprintf("%s is not in the partition's intent", asset), nil
	}
	if err != nil {
		return "", err
	}
	report, err := v.Store.Report(ctx, v.Partition, asset)
	switch {
	case fault.Is(err, fault.NotFound):
		return fmt.Sprintf("%s was not looked at yet", asset), nil
	case err != nil:
		return "", err
	case report.Effective != member.Effective:
		return fmt.Sprintf("%s was not looked at yet with its new intent", asset), nil
	case report.Health.State == intent.Unhealthy:
		return fmt.Sprintf("%s is unhealthy: %s", asset, report.Health.Reason), nil
	case report.State == intent.StateInSync:
		return "", nil
	case report.State == intent.StateWaiting && len(report.Waiting) > 0:
		return fmt.Sprintf("%s waits (%s): %s", asset, report.Waiting[0].Kind, report.Waiting[0].Reason), nil
	}
	return fmt.Sprintf("%s is %s", asset, report.State), nil
}
