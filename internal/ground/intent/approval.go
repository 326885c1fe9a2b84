package intent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reading names what a person read: a plan, and the content that it would bring about.
// Two contents may have one plan, where its text does not show all that would be done: of
// a command, of what is made anew, of a difference that says nothing. So what a person
// says yes or no to is named by both together. It is zero where there is no plan.
func Reading(effective, plan Digest) Digest {
	if plan.IsZero() {
		return Digest{}
	}
	return Sum("lehr.reading.v1", effective[:], plan[:])
}

// Approval is one person's yes to one plan of one content. It allows one push,
// with those of others where more are asked for. It is void, and not listed
// any more, when an incarnation is published that changes or removes the asset.
type Approval struct {
	Partition PartitionID `json:"partition"`
	Asset     AssetID     `json:"asset"`
	Effective Digest      `json:"effective"`
	Plan      Digest      `json:"plan"`
	By        Actor       `json:"by"`
	// Alone: given where there is one person only, the user of a local server.
	// Where one approval is asked for, theirs counts for their own changes too.
	Alone   bool      `json:"alone,omitempty"`
	Reason  string    `json:"reason"`
	Created time.Time `json:"created"`
	// Until is when it ends by itself; zero: never.
	Until time.Time `json:"until,omitzero"`
	// UsedBy is the push that consumed it.
	UsedBy PushID `json:"usedBy,omitempty"`
}

// Rejection is one person's no to one plan of one content. It beats every
// approval, until it is taken back or ends; it is void as approvals are.
type Rejection struct {
	Partition PartitionID `json:"partition"`
	Asset     AssetID     `json:"asset"`
	Effective Digest      `json:"effective"`
	Plan      Digest      `json:"plan"`
	By        Actor       `json:"by"`
	Reason    string      `json:"reason"`
	Created   time.Time   `json:"created"`
	// Until is when it ends by itself; zero: never.
	Until time.Time `json:"until,omitzero"`
}

// Rejected says who blocks the plan that the rejections are of; nil: nobody
// does now.
func Rejected(asset AssetID, rejections []Rejection, now time.Time) *WaitingOn {
	for _, r := range rejections {
		if Expired(r.Until, now) {
			continue
		}
		return &WaitingOn{
			Kind: WaitRejected, Owner: r.By.Name, Until: r.Until,
			Reason: fmt.Sprintf("%s rejected plan %s: %s. It is not pushed, whoever approves it, until the plan changes, or %s or an operator takes that back: lehr reject %s --withdraw",
				r.By.Name, Reading(r.Effective, r.Plan).Short(), r.Reason, r.By.Name, asset),
		}
	}
	return nil
}

// Override lets one check of one content pass. It always ends; it is void as
// approvals are.
type Override struct {
	Partition PartitionID `json:"partition"`
	Asset     AssetID     `json:"asset"`
	Effective Digest      `json:"effective"`
	Check     string      `json:"check"`
	By        Actor       `json:"by"`
	Reason    string      `json:"reason"`
	Created   time.Time   `json:"created"`
	Until     time.Time   `json:"until"`
}

// InForce reports whether the override has not ended. One that never ends is
// none.
func (o Override) InForce(now time.Time) bool { return now.Before(o.Until) }

// Quorum is what the approvals of a plan must come to.
type Quorum struct {
	// People who must approve; 0: one.
	People int
	// Period for which an approval counts at most; 0: as long as it was given
	// for.
	Period time.Duration
}

// Stricter asks for what both ask for.
func (q Quorum) Stricter(other Quorum) Quorum {
	q.People = max(q.People, other.People)
	if q.Period == 0 || other.Period > 0 && other.Period < q.Period {
		q.Period = other.Period
	}
	return q
}

// Consent is how far the approval of a plan has come.
type Consent struct {
	Need int `json:"need"`
	// Approved names who did, as far as it counts, the first one first.
	Approved []string `json:"approved,omitempty"`
	// Authors made the change: theirs do not count.
	Authors []string `json:"authors,omitempty"`
	// Until is when the first of those that count ends; zero: never.
	Until time.Time `json:"until,omitzero"`
	// Alone: the only person there is has approved.
	Alone bool `json:"alone,omitempty"`
}

// Consent counts approvals of one plan of one content: people who are not
// authors of the change, each once, whose approval was neither used nor ended
// (S9). People are told apart by their names, wherever they come from.
func (q Quorum) Consent(authors []string, approvals []Approval, now time.Time) Consent {
	c := Consent{Need: max(1, q.People), Authors: authors}
	sorted := slices.SortedStableFunc(slices.Values(approvals), func(a, b Approval) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.By.Name, b.By.Name))
	})
	for _, a := range sorted {
		alone := a.Alone && c.Need == 1
		ends := q.ends(a)
		switch {
		case a.UsedBy != "" || a.By.Name == "" || Expired(ends, now):
			continue
		case slices.Contains(authors, a.By.Name) && !alone:
			continue
		case slices.Contains(c.Approved, a.By.Name):
			continue
		}
		c.Approved = append(c.Approved, a.By.Name)
		c.Alone = c.Alone || alone
		if !ends.IsZero() && (c.Until.IsZero() || ends.Before(c.Until)) {
			c.Until = ends
		}
	}
	return c
}

// ends is when an approval ends to count; zero: never.
func (q Quorum) ends(a Approval) time.Time {
	if latest := a.Created.Add(q.Period); q.Period > 0 && (a.Until.IsZero() || latest.Before(a.Until)) {
		return latest
	}
	return a.Until
}

// Reached reports whether enough people approved.
func (c Consent) Reached() bool { return c.Need > 0 && len(c.Approved) >= c.Need }

// Words say who approved and who is missing, for example "1 of 2: ann
// approved; needs 1 more approver other than bob".
func (c Consent) Words() string {
	text := "nobody approved"
	if len(c.Approved) > 0 {
		text = Listed(c.Approved) + " approved"
	}
	// More than are needed is no other fraction than enough.
	text = fmt.Sprintf("%d of %d: %s", min(len(c.Approved), c.Need), c.Need, text)
	if c.Reached() {
		return text
	}
	missing := c.Need - len(c.Approved)
	text += fmt.Sprintf("; needs %d more approver", missing)
	if missing > 1 {
		text += "s"
	}
	if len(c.Authors) > 0 {
		text += " other than " + Listed(c.Authors)
	}
	return text
}

// Listed puts names into a sentence: "ann, bob and carol".
func Listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
