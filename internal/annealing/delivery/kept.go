package delivery

import (
	"context"
	"maps"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
)

// Kept names the versions of a source that no limit of it may hide, of all applications of a
// partition that deliver them: what environments have or are to have, wherever these are, what they
// would go back to, what is let in, and what people spoke of and may still come.
func (r *Reader) Kept(ctx context.Context, id intent.PartitionID, source string) ([]string, error) {
	partition, err := r.Store.Partition(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	policy, err := r.Policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, spec := range policy.GetDeliveries() {
		if spec.GetVersions() != source {
			continue
		}
		m, err := r.Read(ctx, partition, spec)
		if fault.Is(err, fault.Invalid) {
			continue // Its versions cannot be read as they are; what is listed next may mend that.
		}
		if err != nil {
			return nil, err
		}
		m.keep(names)
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names)), nil
}

// keep adds the names of versions that an application needs.
func (m *Moment) keep(names map[string]bool) {
	decision := m.Application.Decide(m.Catalogue, m.Facts)
	ordered := m.Catalogue.Ordered()
	for i := range m.Places {
		place := &m.Places[i]
		name, outcome := place.Spec.GetName(), &decision.Outcomes[i]
		names[place.Found], names[place.coming().Name], names[outcome.Has.Name], names[outcome.Wants.Name] = true, true, true, true
		stays := m.Facts.Environments[name].Stays
		for n := len(stays) - 2; n >= 0; n-- {
			if stays[n].GoodBefore > 0 || !stays[n].GoodSince.IsZero() {
				names[stays[n].Name] = true // It would go back to it.
				break
			}
		}
		for at, state := range decision.States(i) {
			if state == promotion.Approved {
				names[ordered[at].Name] = true
			}
		}
	}
	if m.Facts.Line != nil {
		for i := range m.Facts.Line.Releases {
			if release := &m.Facts.Line.Releases[i]; release.Aborted == nil {
				names[release.Versions[m.Facts.Member].Name] = true
			}
		}
	}
	for i := range m.Facts.Acts {
		act := &m.Facts.Acts[i]
		names[act.Name], names[act.Had.Name], names[act.Newest.Name] = true, true, true
	}
	for i := range m.Facts.Votes {
		vote := &m.Facts.Votes[i]
		at := slices.IndexFunc(m.Places, func(p Place) bool { return p.Spec.GetName() == vote.Environment })
		if at >= 0 && decision.State(at, vote.VersionName) == promotion.Pending {
			names[vote.Name] = true
		}
	}
}
