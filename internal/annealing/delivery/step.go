package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// observe returns rows of what is found in the environments of the partition and is not in rows
// yet: fields that somebody else set, whether all is good, attempts that failed, and what rollouts
// found bad.
func (d *Deliverer) observe(ctx context.Context, m *Moment) (rows []intent.DeliveryRecord, err error) {
	for i := range m.Places {
		place := &m.Places[i]
		if place.InRepository && place.Partition.ID == d.Partition {
			if row, ok := d.repositoryRow(m, place); ok {
				rows = append(rows, row)
				continue
			}
		}
		if place.Partition.ID != d.Partition || place.Trouble == promotion.NotAllowed || place.Trouble == promotion.FieldGone {
			continue
		}
		name := place.Spec.GetName()
		facts := m.Facts.Environments[name]
		latest := latestStay(m.Records, name)
		if place.Written && (latest == nil || place.differsFrom(latest)) {
			rows = append(rows, intent.DeliveryRecord{
				Kind: intent.DeliveryFound, Environment: name, Version: m.foundVersion(place.Found, place.Digest), Revision: place.Revision,
			})
			continue
		}
		if latest == nil {
			continue
		}
		if row, ok := standingOf(place, facts, latest); ok {
			rows = append(rows, row)
			continue
		}
		if row, ok := changedOf(m.Records, place, latest); ok {
			rows = append(rows, row)
			continue
		}
		row, ok, err := d.attemptOf(ctx, m, place, facts, latest)
		if err != nil {
			return nil, err
		}
		if ok {
			rows = append(rows, row)
		}
		vetoes, err := d.vetoes(ctx, m, place)
		if err != nil {
			return nil, err
		}
		rows = append(rows, vetoes...)
	}
	return rows, nil
}

// foundVersion is the version that the fields of an environment hold. Where somebody set the version
// and left the digest as it was, what runs there is no version that a source lists.
func (m *Moment) foundVersion(name, digest string) intent.VersionName {
	version := m.named(name)
	if digest != "" && version.Digest != "" {
		version.Digest = digest
	}
	return version
}

// named is the version that a source lists under a name; of none: one without a digest.
func (m *Moment) named(name string) intent.VersionName {
	for version, v := range m.Versions {
		if version.Name == name && v.Gone.IsZero() {
			return version
		}
	}
	return intent.VersionName{Name: name}
}

// latestStay is the row that began what an environment has; nil: it never had a version.
func latestStay(rows []intent.DeliveryRecord, environment string) *intent.DeliveryRecord {
	for i := len(rows) - 1; i >= 0; i-- {
		if r := &rows[i]; r.Environment == environment && (r.Kind == intent.DeliveryPromotion || r.Kind == intent.DeliveryFound) {
			return r
		}
	}
	return nil
}

// standingOf is a row that says how an environment stands now; ok: it stood otherwise before.
func standingOf(place *Place, facts *promotion.Environment, latest *intent.DeliveryRecord) (row intent.DeliveryRecord, ok bool) {
	stay := &facts.Stays[len(facts.Stays)-1]
	good := place.covers(latest.Revision) && place.Assets.AllGood()
	wasGood := !stay.GoodSince.IsZero()
	if good == wasGood && (!good || stay.Content == place.Assets.Content.String()) {
		return row, false
	}
	return intent.DeliveryRecord{
		Kind: intent.DeliveryStanding, Environment: place.Spec.GetName(), Version: latest.Version, Good: good, Content: place.Assets.Content, Revision: latest.Revision,
	}, true
}

// changedOf is a row that says that an environment which did not converge is to be something else
// now, with the same version: its attempts count anew.
func changedOf(rows []intent.DeliveryRecord, place *Place, latest *intent.DeliveryRecord) (row intent.DeliveryRecord, ok bool) {
	attempt := lastAttempt(rows, latest)
	if attempt == nil || attempt.Content.IsZero() || attempt.Content == place.Assets.Content || !place.covers(latest.Revision) {
		return row, false
	}
	return intent.DeliveryRecord{
		Kind: intent.DeliveryStanding, Environment: place.Spec.GetName(), Version: latest.Version, Content: place.Assets.Content, Revision: latest.Revision,
	}, true
}

// lastAttempt that failed since an environment was given what it has, and since something else of
// it changed; nil: none did.
func lastAttempt(rows []intent.DeliveryRecord, latest *intent.DeliveryRecord) (attempt *intent.DeliveryRecord) {
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Environment != latest.Environment || r.Number <= latest.Number:
		case r.Kind == intent.DeliveryAttempt:
			attempt = r
		case r.Kind == intent.DeliveryStanding && attempt != nil && !attempt.Content.IsZero() && r.Content != attempt.Content:
			attempt = nil
		}
	}
	return attempt
}

// defaultRetry is how long after an attempt that failed the next may begin, where lehr.yaml does
// not say; as long an environment has to converge.
const defaultRetry = 30 * time.Minute

// attemptOf is a row that says that an environment did not converge with what it was given: what
// was built of it is refused, or it fails for as long as the next attempt would wait.
func (d *Deliverer) attemptOf(ctx context.Context, m *Moment, place *Place, facts *promotion.Environment, latest *intent.DeliveryRecord) (row intent.DeliveryRecord, ok bool, err error) {
	stay := &facts.Stays[len(facts.Stays)-1]
	if !stay.GoodSince.IsZero() || stay.GoodBefore > 0 || facts.Rollout || latest.Kind != intent.DeliveryPromotion || lastAttempt(m.Records, latest) != nil {
		return row, false, nil
	}
	row = intent.DeliveryRecord{Kind: intent.DeliveryAttempt, Environment: place.Spec.GetName(), Version: latest.Version, Revision: latest.Revision}
	if !place.covers(latest.Revision) {
		row.Reason, ok, err = d.refused(ctx, place, latest.Revision)
		return row, ok, err
	}
	patience := defaultRetry
	if retry := place.Spec.GetRetry(); retry != nil {
		patience = retry.AsDuration()
	}
	row.Content = place.Assets.Content
	if place.Spec.GetTask() != nil && place.Assets.Stuck {
		row.Reason = fmt.Sprintf("the task failed for it: %d of %d assets are good", place.Assets.Good, len(place.Assets.Members))
		return row, true, nil // A program that failed does not run again unasked.
	}
	row.Reason = fmt.Sprintf("%d of %d assets are good with it after %s", place.Assets.Good, len(place.Assets.Members), patience)
	return row, place.Assets.Failing && m.Facts.Now.Sub(begunAt(m.Records, stay.Start, latest)) >= patience, nil
}

// begunAt is when an attempt began: when the field was set, or when something else changed after
// an attempt that failed.
func begunAt(rows []intent.DeliveryRecord, start time.Time, latest *intent.DeliveryRecord) time.Time {
	for i := range rows {
		if r := &rows[i]; r.Environment == latest.Environment && r.Number > latest.Number && r.Kind == intent.DeliveryStanding {
			start = r.At
		}
	}
	return start
}

// mostCandidates are looked through for the one before a revision.
const mostCandidates = 50

// refused says why what was built of a revision is not served; ok: the revision is to blame. What is
// wrong with the partition since before it is not: then nothing is known of the revision yet.
func (d *Deliverer) refused(ctx context.Context, place *Place, revision string) (reason string, ok bool, err error) {
	candidates, err := d.Store.ListCandidates(ctx, place.Partition.ID, mostCandidates)
	if err != nil {
		return "", false, err
	}
	reason, ok = intent.Refusal(candidates, func(c *intent.Candidate) bool { return place.built(c, revision) })
	return reason, ok, nil
}

// built reports whether a candidate has a revision of a place's document, or a later one.
func (p *Place) built(c *intent.Candidate, revision string) bool {
	return slices.ContainsFunc(c.Sources, func(s intent.SourceRevision) bool {
		return s.Source == p.Source && p.reached(s.Revision, revision)
	})
}

// vetoes are rows of what rollouts found bad that the environment's assets follow.
func (d *Deliverer) vetoes(ctx context.Context, m *Moment, place *Place) (rows []intent.DeliveryRecord, err error) {
	governed, err := newSharedReads(d.Reader, place.Partition).governed(ctx, place)
	if err != nil || len(governed) == 0 {
		return nil, err
	}
	runs, err := d.Store.Rollouts(ctx, place.Partition.ID, store.RolloutFilter{Newest: true})
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		if run.Bad == "" || !governed[run.Name] || run.To.IsZero() {
			continue
		}
		brought, err := d.releaseAt(ctx, m, place, run.To)
		if err != nil {
			return nil, err
		}
		replaced, err := d.releaseAt(ctx, m, place, run.From)
		if err != nil {
			return nil, err
		}
		if brought == (intent.VersionName{}) || brought == replaced {
			continue // It found something else bad.
		}
		row := intent.DeliveryRecord{
			Kind: intent.DeliveryVeto, Environment: place.Spec.GetName(), Version: brought, Reason: run.Bad, Rollout: fmt.Sprintf("%s, run %d", run.Name, run.Run),
		}
		if !run.Back.IsZero() {
			if row.BackTo, err = d.releaseAt(ctx, m, place, run.Back); err != nil {
				return nil, err
			}
		}
		if !vetoed(m.Records, row) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func vetoed(rows []intent.DeliveryRecord, row intent.DeliveryRecord) bool {
	return slices.ContainsFunc(rows, func(r intent.DeliveryRecord) bool {
		return r.Kind == row.Kind && r.Environment == row.Environment && r.Rollout == row.Rollout && r.Version == row.Version && r.BackTo == row.BackTo
	})
}

// releaseAt is what an environment's field held in the revision that an incarnation was built of;
// zero: nobody knows.
func (d *Deliverer) releaseAt(ctx context.Context, m *Moment, place *Place, at intent.IncarnationID) (version intent.VersionName, err error) {
	if at.Sequence == 0 {
		return version, nil
	}
	incarnation, err := d.Store.Incarnation(ctx, at)
	if fault.Is(err, fault.NotFound) {
		return version, nil
	}
	if err != nil {
		return version, err
	}
	for _, source := range incarnation.Sources {
		if source.Source != place.Source {
			continue
		}
		for i := range m.Records {
			r := &m.Records[i]
			isStay := r.Kind == intent.DeliveryPromotion || r.Kind == intent.DeliveryFound
			if isStay && r.Environment == place.Spec.GetName() && place.reached(source.Revision, r.Revision) {
				version = r.Version
			}
		}
	}
	return version, nil
}

// admissions are rows of versions that are let in into an environment, and of which that is not
// in rows yet, with the verdicts of now.
func admissions(m *Moment, decision *promotion.Decision, at int) (rows []intent.DeliveryRecord, err error) {
	name := m.Places[at].Spec.GetName()
	known := m.Facts.Environments[name].Approved
	add := func(version intent.VersionName) error {
		if slices.Contains(known, version) {
			return nil
		}
		explained, err := decision.Explain(name, version)
		if fault.Is(err, fault.NotFound) {
			return nil // It goes back to what nobody lists any more.
		}
		if err != nil {
			return err
		}
		rows = append(rows, intent.DeliveryRecord{Kind: intent.DeliveryAdmission, Environment: name, Version: version, Verdicts: Stored(explained.Verdicts)})
		return nil
	}
	for place, state := range decision.States(at) {
		if state == promotion.Approved {
			if err := add(m.Catalogue.Ordered()[place].VersionName()); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// statusWords of verdicts, as they are stored and answered.
var statusWords = map[promotion.Status]string{promotion.Passes: "passes", promotion.Waits: "waits", promotion.Refuses: "refuses"}

// Stored are verdicts as rows keep them.
func Stored(verdicts []promotion.Verdict) (list []intent.DeliveryVerdict) {
	for _, v := range verdicts {
		list = append(list, intent.DeliveryVerdict{Constraint: v.Constraint, Status: statusWords[v.Status], Text: v.Words()})
	}
	return list
}

// whyWords are stored and answered.
var whyWords = map[promotion.Why]string{
	promotion.Keeps: "", promotion.LetIn: "let-in", promotion.Pinned: intent.WhyPinned, promotion.AskedBack: "asked-back", promotion.WentBack: "went-back",
	promotion.FollowsRollout: "follows-rollout",
}

// WhyWord is a word for why an environment should have a version.
func WhyWord(why promotion.Why) string { return whyWords[why] }

// editOf is the edit that gives an environment what it should have; nil: it changes nothing.
func editOf(m *Moment, place *Place, outcome *promotion.Outcome, decision *promotion.Decision) (*document.Edit, error) {
	wants := outcome.Wants
	value, err := json.Marshal(wants.Name)
	if err != nil {
		return nil, fault.New(fault.Internal, "the name of version %q cannot be encoded: %w", wants.Name, err)
	}
	edit := &document.Edit{Base: place.Revision, Back: outcome.Back, Reason: reasonOf(m, place, outcome, decision)}
	if wants.Name != place.Found || !place.Written {
		edit.Operations = append(edit.Operations, document.Operation{Path: place.Spec.GetPointer(), Value: value})
	}
	if pointer := place.Spec.GetDigestPointer(); pointer != "" && wants.Digest != "" && wants.Digest != outcome.Has.Digest {
		digest, err := json.Marshal(wants.Digest)
		if err != nil {
			return nil, fault.New(fault.Internal, "the digest of version %q cannot be encoded: %w", wants.Name, err)
		}
		edit.Operations = append(edit.Operations, document.Operation{Path: pointer, Value: digest})
	}
	if pointer := place.Spec.GetTask().GetParametersPointer(); pointer != "" && outcome.Run != nil {
		parameters, err := json.Marshal(parametersOf(m, outcome.Run))
		if err != nil {
			return nil, fault.New(fault.Internal, "the parameters of the task %s cannot be encoded: %w", place.Spec.GetName(), err)
		}
		edit.Operations = append(edit.Operations, document.Operation{Path: pointer, Value: parameters})
	}
	if len(edit.Operations) == 0 {
		return nil, nil
	}
	return edit, nil
}

// reasonOf an edit, for the document's history.
func reasonOf(m *Moment, place *Place, outcome *promotion.Outcome, decision *promotion.Decision) string {
	name := place.Spec.GetName()
	text := map[promotion.Why]string{
		promotion.LetIn: "it is let in", promotion.Pinned: "it is pinned", promotion.AskedBack: "a person had it go back",
		promotion.WentBack: "what it had is bad, and this was good there last", promotion.FollowsRollout: "a rollout went back to it",
	}[outcome.Why]
	reason := fmt.Sprintf("%s of %s gets %s: %s", name, m.Spec.GetName(), outcome.Wants.Name, text)
	if run := outcome.Run; run != nil {
		return clip(fmt.Sprintf("%s of %s runs for %s, %s", name, m.Spec.GetName(), outcome.Wants.Name, parametersOf(m, run).Reason))
	}
	if outcome.Why != promotion.LetIn {
		return clip(reason)
	}
	explained, err := decision.Explain(name, outcome.Wants)
	if err != nil {
		return clip(reason)
	}
	var parts []string
	for _, v := range explained.Verdicts {
		parts = append(parts, v.Words())
	}
	if len(parts) > 0 {
		reason += " (" + strings.Join(parts, "; ") + ")"
	}
	return clip(reason)
}

func clip(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), document.MaxReason)], "")
}
