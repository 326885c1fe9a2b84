package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// A field in a repository cannot be set in one transaction with the rows that explain it. So a
// landing is stored first, under the lease and by all that it was decided on; then the commit or
// the pull request is made, by a key of that row, so that it is made once however often it is
// tried; and the promotion is stored when the field is seen to hold the version.

// landingOf is how it goes with the field of an environment in a repository: the last row of that
// kind since the field was set last; nil: nothing is to come, and nothing is in its way.
func landingOf(rows []intent.DeliveryRecord, environment string) *intent.DeliveryRecord {
	for i := len(rows) - 1; i >= 0; i-- {
		r := &rows[i]
		if r.Environment != environment {
			continue
		}
		switch r.Kind {
		case intent.DeliveryLanding:
			return r
		case intent.DeliveryPromotion, intent.DeliveryFound:
			return nil
		case intent.DeliveryVeto:
			if r.Request.Number != 0 {
				return nil // People closed its pull request.
			}
		}
	}
	return nil
}

// landingTroubles are why a field in a repository cannot be edited, by what rows say.
var landingTroubles = map[string]promotion.Trouble{intent.LandingAway: promotion.RepositoryAway, intent.LandingFieldGone: promotion.FieldGone}

// readLanding fills in what rows say of a field in a repository: the repository itself is read by
// the actor alone.
func (p *Place) readLanding(rows []intent.DeliveryRecord) {
	name := p.Spec.GetName()
	if latest := latestStay(rows, name); latest != nil {
		p.Found, p.Written, p.Revision, p.Digest = latest.Version.Name, true, latest.Revision, latest.Version.Digest
	} else {
		p.Trouble = promotion.NotReadYet
	}
	if p.Landing = landingOf(rows, name); p.Landing == nil {
		return
	}
	if trouble := landingTroubles[p.Landing.Cause]; trouble != 0 {
		p.Trouble = trouble
	}
}

// coming is the version that is to come by a landing; zero: none.
func (p *Place) coming() intent.VersionName {
	if p.Landing == nil {
		return intent.VersionName{}
	}
	return p.Landing.Version
}

// LandingWords say for people how it goes with a field in a repository; empty: nothing is to be said.
func (p *Place) LandingWords() string {
	row := p.Landing
	if row == nil {
		return ""
	}
	text := ""
	if row.Version.Name != "" {
		text = fmt.Sprintf("%s is to be committed to the repository of %s", row.Version.Name, p.Spec.GetDocument())
		if row.Request.Number != 0 {
			text = fmt.Sprintf("%s waits for the pull request #%d to be merged: %s", row.Version.Name, row.Request.Number, row.Request.Link)
		}
	}
	switch {
	case row.Trouble == "":
	case text != "":
		text += "; the last try failed: " + row.Trouble
	case row.Cause == intent.LandingAway:
		text = "its repository cannot be read: " + row.Trouble
	default:
		text = row.Trouble
	}
	return text
}

// repositoryRow is what the last visit to the repository of a place found and is not in rows yet;
// ok: there is something.
func (d *Deliverer) repositoryRow(m *Moment, place *Place) (row intent.DeliveryRecord, ok bool) {
	v, ok := d.visits.Last(place.Spec.GetDocument())
	if !ok {
		return row, false
	}
	if v.Err != nil {
		cause := intent.LandingAway
		if fault.Is(v.Err, fault.NotFound) {
			cause = intent.LandingFieldGone
		}
		return place.troubleRow(cause, v.Err.Error())
	}
	name, revision := place.Spec.GetName(), v.Document.Revision.ID
	content, err := document.Parse(v.Document.Content)
	if err != nil {
		return place.troubleRow(intent.LandingAway, err.Error())
	}
	found, written, err := fieldIn(content, place.Spec.GetPointer())
	if err != nil {
		return place.troubleRow(intent.LandingAway, err.Error())
	}
	if !written {
		return place.troubleRow(intent.LandingFieldGone, fmt.Sprintf("the field %s is not in %s", place.Spec.GetPointer(), v.Document.Place))
	}
	digest := digestIn(content, place.Spec)
	coming := place.coming()
	if coming.Name != "" && holds(v.Document.Content, place) {
		l := place.Landing
		return intent.DeliveryRecord{
			Kind: intent.DeliveryPromotion, Environment: name, Version: coming, Revision: revision, Why: l.Why, Back: l.Back, Reason: l.Reason, Request: l.Request,
		}, true
	}
	if changed := found != place.Found || digest != "" && place.Digest != "" && digest != place.Digest; changed || !place.Written {
		if coming.Name != "" && place.Spec.GetPullRequest() != "" {
			// What is proposed is taken back first, or it would be merged over what somebody set.
			o, ok := d.outcomeOf(v, m, place)
			if place.overwritten = !ok || !o.Withdrawn; place.overwritten {
				return d.landedRow(v, m, place)
			}
		}
		return intent.DeliveryRecord{Kind: intent.DeliveryFound, Environment: name, Version: m.foundVersion(found, digest), Revision: revision}, true
	}
	if coming.Name == "" {
		return place.troubleRow("", "")
	}
	return d.landedRow(v, m, place)
}

// landedRow is what came of the landing of a place at the last visit.
func (d *Deliverer) landedRow(v *landing.Visit, m *Moment, place *Place) (row intent.DeliveryRecord, ok bool) {
	outcome, ok := d.outcomeOf(v, m, place)
	if !ok {
		return place.troubleRow("", "") // It was not tried; the repository can be read.
	}
	none := intent.DeliveryRecord{Kind: intent.DeliveryLanding, Environment: place.Spec.GetName()}
	switch {
	case fault.Is(outcome.Err, fault.Conflict):
		return row, false // The next visit finds what somebody else set.
	case outcome.Err != nil:
		return place.troubleRow(intent.LandingRefused, outcome.Err.Error())
	case outcome.Withdrawn:
		return none, true
	case outcome.Closed || outcome.Merged:
		reason := "the pull request #%d was closed without being merged"
		if outcome.Merged {
			reason = "the pull request #%d was merged, and the field does not hold the version after it"
		}
		return intent.DeliveryRecord{
			Kind: intent.DeliveryVeto, Environment: place.Spec.GetName(), Version: place.coming(), Request: outcome.PullRequest,
			Reason: fmt.Sprintf(reason, outcome.PullRequest.Number),
		}, true
	case outcome.PullRequest != place.Landing.Request && outcome.PullRequest.Number != 0:
		row = *place.Landing
		row.First, row.Request, row.Cause, row.Trouble = place.landingNumber(), outcome.PullRequest, intent.CauseNeedsPeople, ""
		return row, true
	}
	return place.troubleRow("", "")
}

// troubleRow says what is in the way of a landing, or that nothing is any more; ok: rows say
// otherwise so far.
func (p *Place) troubleRow(cause, text string) (row intent.DeliveryRecord, ok bool) {
	text = clip(text)
	if p.Landing != nil {
		row = *p.Landing
		row.First = p.landingNumber()
	}
	hasTrouble := row.Trouble != ""
	if row.Trouble == text || text == "" && !hasTrouble {
		return row, false
	}
	row.Kind, row.Environment, row.Cause, row.Trouble = intent.DeliveryLanding, p.Spec.GetName(), cause, text
	return row, true
}

// landingNumber is that of the row with which the landing began, which names its commit or pull
// request: rows that go on with it keep the number of the first.
func (p *Place) landingNumber() uint64 {
	if p.Landing == nil {
		return 0
	}
	if p.Landing.First != 0 {
		return p.Landing.First
	}
	return p.Landing.Number
}

// holds reports whether a document says already what the landing of a place is to bring.
func holds(content []byte, place *Place) bool {
	operations, err := place.landingOperations()
	if err != nil {
		return false
	}
	next, err := document.Apply(content, operations)
	return err == nil && bytes.Equal(next, content)
}

// landingOperations set the fields of a place to what its landing brings. They follow from the row
// alone, so that whoever goes on with it asks for the same.
func (p *Place) landingOperations() (list []document.Operation, err error) {
	for _, field := range []struct{ pointer, value string }{{p.Spec.GetPointer(), p.coming().Name}, {p.Spec.GetDigestPointer(), p.coming().Digest}} {
		if field.pointer == "" || field.value == "" {
			continue
		}
		value, err := json.Marshal(field.value)
		if err != nil {
			return nil, fault.New(fault.Internal, "%q cannot be encoded: %w", field.value, err)
		}
		list = append(list, document.Operation{Path: field.pointer, Value: value})
	}
	return list, nil
}

// land goes on with the landing of an environment: it begins one where the field is to be set, and
// has the next visit take back what is to come no longer. Stepped: a row was stored.
func (d *Deliverer) land(ctx context.Context, m *Moment, decision *promotion.Decision, at int, records []intent.DeliveryRecord) (stepped bool, err error) {
	place, outcome := &m.Places[at], &decision.Outcomes[at]
	key, coming := keyOfPlace(m, place), place.coming()
	d.visits.Forget(key.String())
	switch {
	case coming.Name != "" && coming == outcome.Wants && outcome.Edit && !place.overwritten:
		return false, d.addLanding(m, place, false)
	case coming.Name != "" && (outcome.Edit || outcome.Wants == outcome.Has || place.overwritten):
		return false, d.addLanding(m, place, true)
	case coming.Name != "" || !outcome.Edit:
		if len(records) == 0 {
			return false, nil
		}
		return true, d.promote(ctx, m, store.PromotionStep{Records: records})
	}
	row := intent.DeliveryRecord{
		Kind: intent.DeliveryLanding, Environment: place.Spec.GetName(), Version: outcome.Wants, Why: WhyWord(outcome.Why), Back: outcome.Back,
		Reason: reasonOf(m, place, outcome, decision), Revision: place.Revision,
	}
	if place.Landing != nil {
		row.Cause, row.Trouble = place.Landing.Cause, place.Landing.Trouble
	}
	d.visitNow(place)
	return true, d.promote(ctx, m, store.PromotionStep{Records: append(records, row)})
}

// addLanding has the next visit go on with the landing of a place, or take it back.
func (d *Deliverer) addLanding(m *Moment, place *Place, withdraw bool) error {
	operations, err := place.landingOperations()
	if err != nil {
		return err
	}
	l, key := place.Landing, keyOfPlace(m, place).String()
	d.visits.Add(landing.Landing{
		ID: key, Owner: key, Number: place.landingNumber(), Request: l.Request.Number, Host: place.Spec.GetPullRequest(), Withdraw: withdraw,
		Key:  fmt.Sprintf("%s/%s/%s/%d", m.Spec.GetName(), place.Spec.GetName(), branchWord(l.Version.Name), place.landingNumber()),
		Edit: document.Edit{Base: l.Revision, Operations: operations, Back: l.Back, Reason: l.Reason}, Actor: intent.DeliveryHolder(m.Home.ID, m.Spec.GetName()),
		Document: place.Spec.GetDocument(), Decided: d.decided(m, place),
	})
	return nil
}

// branchWord is a version's name as a branch can have it: what else it has is left out, for the
// number after it tells versions apart.
func branchWord(name string) string {
	const most = 60
	word := make([]byte, 0, most)
	for i := range len(name) {
		c := name[i]
		isWord := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if isWord || len(word) > 0 && (c == '-' || c == '_' || c == '.' && word[len(word)-1] != '.') {
			word = append(word, c)
		}
		if len(word) == most {
			break
		}
	}
	return "v" + string(bytes.TrimRight(word, ".-_"))
}

func keyOfPlace(m *Moment, place *Place) environmentKey {
	return environmentKey{m.Home.ID, m.Spec.GetName(), place.Spec.GetName()}
}

// LandingSince is when a landing began that is under way; zero: none is.
func (p *Place) LandingSince(rows []intent.DeliveryRecord) time.Time {
	number := p.landingNumber()
	if p.coming().Name == "" {
		return time.Time{}
	}
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].Number == number {
			return rows[i].At
		}
	}
	return time.Time{}
}
