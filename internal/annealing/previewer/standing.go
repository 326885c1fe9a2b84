package previewer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// Reader is what the standing of a preview is read from, as store.All says.
type Reader interface {
	Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error)
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]store.Enforced, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	OpenPushes(ctx context.Context, partition intent.PartitionID) ([]store.OpenPush, error)
}

// Asset of a preview: in head, or there as far as is known.
type Asset struct {
	ID intent.AssetID
	// Gone: nothing of it is there, as was seen at what it is in head now.
	Gone bool
	// Good: it is in sync with head, and not unhealthy.
	Good bool
	// State and Reason say what it is doing; Reason is empty where nothing is in the way.
	State  intent.State
	Reason string
}

// Standing of a preview.
type Standing struct {
	// Covered: head is built from the newest entries.
	Covered bool
	Assets  []Asset
}

// IsGone reports whether nothing of an ending preview is there any more. It is not known before head
// is built from the entry that ends.
func (s Standing) IsGone() bool {
	return s.Covered && !slices.ContainsFunc(s.Assets, func(a Asset) bool { return !a.Gone })
}

// IsReady reports whether all of a preview is there, and well.
func (s Standing) IsReady() bool {
	return s.Covered && len(s.Assets) > 0 && !slices.ContainsFunc(s.Assets, func(a Asset) bool { return !a.Good })
}

// Reason is the first thing that is in the way; empty: none is known.
func (s Standing) Reason(ends bool) string {
	if !s.Covered {
		return "no incarnation is built from it yet"
	}
	for _, a := range s.Assets {
		if ends && !a.Gone || !ends && !a.Good {
			if a.Reason == "" {
				return fmt.Sprintf("%s is %s", a.ID, a.State)
			}
			return fmt.Sprintf("%s: %s", a.ID, a.Reason)
		}
	}
	if len(s.Assets) == 0 && !ends {
		return "its template gives no assets"
	}
	return ""
}

// ReadStanding reads what there is of a preview. Revision is that of the document of entries.
func ReadStanding(ctx context.Context, r Reader, partition store.Partition, policy *intentpb.Policy, rule branchpreview.Rule, preview, revision string) (s Standing, _ error) {
	s.Covered = covers(partition, rule.GetEntries(), revision)
	members, records, err := assetsOf(ctx, r, partition, rule, preview)
	if err != nil {
		return s, err
	}
	open := map[intent.AssetID]bool{}
	if len(members)+len(records) > 0 {
		pushes, err := r.OpenPushes(ctx, partition.ID)
		if err != nil {
			return s, err
		}
		for _, p := range pushes {
			open[p.Asset] = true
		}
	}
	seen := map[intent.AssetID]bool{}
	for _, m := range members {
		seen[m.Asset] = true
		a := Asset{ID: m.Asset, State: intent.StateUnseen}
		_, isThere := records[m.Asset]
		report, err := r.Report(ctx, partition.ID, m.Asset)
		switch {
		case err != nil && !fault.Is(err, fault.NotFound):
			return s, err
		case !isServed(policy, m.Type):
			// Production has nothing of a model: it is there with head and gone with it.
			a.Gone, a.Good, a.State = !isThere && !open[m.Asset], true, intent.StateInSync
		case err == nil:
			a.State = report.State
			isOfHead := report.Effective == m.Effective
			a.Gone = isOfHead && report.Absent && !isThere && !open[m.Asset]
			a.Good = isOfHead && report.State == intent.StateInSync && !report.Absent && report.Health.State != intent.Unhealthy
			if len(report.Waiting) > 0 {
				a.Reason = report.Waiting[0].Reason
			} else if report.Health.State == intent.Unhealthy {
				a.Reason = "it is unhealthy: " + report.Health.Reason
			}
		}
		s.Assets = append(s.Assets, a)
	}
	for id := range records {
		if !seen[id] {
			s.Assets = append(s.Assets, Asset{ID: id, State: intent.StateGone, Reason: "an orphan: lehr why " + string(id) + " says why it stays"})
		}
	}
	slices.SortFunc(s.Assets, func(a, b Asset) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return s, nil
}

// assetsOf lists what is named like an asset of a preview: the members of head, and the enforced
// records of what is there as far as is known.
func assetsOf(ctx context.Context, r Reader, partition store.Partition, rule branchpreview.Rule, preview string) (members []intent.Member, records map[intent.AssetID]store.Enforced, _ error) {
	const page = 1000
	prefix := rule.Prefix(preview)
	isOf := func(id intent.AssetID) bool {
		name, ok := rule.NameOf(id)
		return ok && name == preview
	}
	for filter := (store.AssetFilter{Prefix: prefix, Limit: page}); !partition.Head.IsZero(); {
		list, err := r.Members(ctx, partition.Head, filter)
		if err != nil {
			return nil, nil, err
		}
		for _, m := range list {
			if filter.After = m.Asset; isOf(m.Asset) {
				members = append(members, m)
			}
		}
		if len(list) < page {
			break
		}
	}
	records = map[intent.AssetID]store.Enforced{}
	for cursor := intent.AssetID(prefix).JustBefore(); ; {
		list, err := r.EnforcedPage(ctx, partition.ID, cursor, page)
		if err != nil {
			return nil, nil, err
		}
		for _, record := range list {
			if !strings.HasPrefix(string(record.Asset), prefix) {
				return members, records, nil
			}
			if cursor = record.Asset; isOf(record.Asset) && !record.Absent {
				records[record.Asset] = record
			}
		}
		if len(list) < page {
			return members, records, nil
		}
	}
}

// isServed reports whether a plugin serves a type.
func isServed(policy *intentpb.Policy, kind intent.TypeName) bool {
	return slices.ContainsFunc(policy.GetPlugins(), func(b *intentpb.PluginBinding) bool { return b.GetType() == string(kind) })
}

// covers reports whether head is built from a revision of a document, or a later one.
func covers(partition store.Partition, source, revision string) bool {
	for _, s := range partition.Covered {
		if s.Source != source {
			continue
		}
		at, err := strconv.ParseUint(s.Revision, 10, 64)
		wanted, wantedErr := strconv.ParseUint(revision, 10, 64)
		return err == nil && wantedErr == nil && at >= wanted && s.Failing == (intent.Failing{})
	}
	return false
}

// ReadPolicy is that of an incarnation; without one it is empty.
func ReadPolicy(ctx context.Context, r Reader, at intent.IncarnationID) (*intentpb.Policy, error) {
	policy := &intentpb.Policy{}
	if at.IsZero() {
		return policy, nil
	}
	_, body, err := r.Content(ctx, at, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return policy, nil
	}
	if err != nil {
		return nil, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	return policy, schema.Payload(asset, policy)
}
