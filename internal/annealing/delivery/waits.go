package delivery

import (
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
)

// mostFollowed versions that may come to an environment have rows that say what they wait for:
// those that come next.
const mostFollowed = 8

// openWaits are the last rows of versions that wait for a constraint, by environment.
func openWaits(rows []intent.DeliveryRecord) map[string]map[intent.VersionName]intent.DeliveryRecord {
	open := map[string]map[intent.VersionName]intent.DeliveryRecord{}
	for i := range rows {
		row := &rows[i]
		if row.Kind != intent.DeliveryWait {
			continue
		}
		versions := open[row.Environment]
		switch {
		case row.Constraint == "":
			delete(versions, row.Version)
		case versions == nil:
			open[row.Environment] = map[intent.VersionName]intent.DeliveryRecord{row.Version: *row}
		default:
			versions[row.Version] = *row
		}
	}
	return open
}

// waits are rows of versions that begin to wait for another constraint in the environments of the
// partition, or for none any more. Of each environment those that come next are followed.
func (d *Deliverer) waits(m *Moment, decision *promotion.Decision) (rows []intent.DeliveryRecord, err error) {
	for at := range m.Places {
		if m.Places[at].Partition.ID != d.Partition || m.Places[at].Trouble == promotion.NotAllowed {
			continue
		}
		name := m.Places[at].Spec.GetName()
		next := decision.Next(at, mostFollowed, promotion.Pending)
		for _, version := range next {
			row, err := waitOf(decision, name, version)
			if err != nil {
				return nil, err
			}
			known := m.Waits[name][row.Version]
			if known.Constraint != row.Constraint || (known.Cause == intent.CauseNeedsPeople) != (row.Cause == intent.CauseNeedsPeople) {
				rows = append(rows, row)
			}
		}
		ended := slices.SortedFunc(maps.Keys(m.Waits[name]), func(a, b intent.VersionName) int {
			return strings.Compare(a.Name+" "+a.Digest, b.Name+" "+b.Digest)
		})
		for _, version := range ended {
			if !slices.Contains(next, version) {
				rows = append(rows, intent.DeliveryRecord{Kind: intent.DeliveryWait, Environment: name, Version: version})
			}
		}
	}
	return rows, nil
}

// waitOf says for which constraint a version waits: the first that does not let it in yet. One
// that is refused waits for none.
func waitOf(decision *promotion.Decision, environment string, version intent.VersionName) (row intent.DeliveryRecord, err error) {
	row = intent.DeliveryRecord{Kind: intent.DeliveryWait, Environment: environment, Version: version}
	explained, err := decision.Explain(environment, version)
	if err != nil {
		return row, err
	}
	if slices.ContainsFunc(explained.Verdicts, func(v promotion.Verdict) bool { return v.Status == promotion.Refuses }) {
		return row, nil
	}
	for _, v := range explained.Verdicts {
		if v.Status == promotion.Waits {
			row.Constraint, row.Cause, row.Reason = v.Constraint, CauseWord(v.Cause), v.Words()
			break
		}
	}
	return row, nil
}
