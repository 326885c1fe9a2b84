package intent

// PlanRecord is what is kept of the plan of a push for as long as the push itself: so
// many of its changes as fit, and how many more there were.
type PlanRecord struct {
	Action Action `json:"action,omitempty"`
	// Changes that were kept: destructive ones first, then in the order of their paths.
	Changes []RecordedChange `json:"changes,omitempty"`
	// More changes were not kept, of which MoreDestructive are destructive.
	More            int `json:"more,omitempty"`
	MoreDestructive int `json:"moreDestructive,omitempty"`
}

// RecordedChange is a field change in a PlanRecord.
type RecordedChange struct {
	FieldChange
	// Cut: a text of it was too long, and what is kept of that text ends with "…".
	Cut bool `json:"cut,omitempty"`
}

// Count is how many changes the plan had.
func (r PlanRecord) Count() int { return len(r.Changes) + r.More }

// CountDestructive is how many of the plan's changes are marked as destructive.
func (r PlanRecord) CountDestructive() int {
	count := r.MoreDestructive
	for _, c := range r.Changes {
		if c.Destructive {
			count++
		}
	}
	return count
}

// Destructive reports what Plan.Destructive did of the whole plan.
func (r PlanRecord) Destructive() bool {
	return r.Action == ActionDelete || r.Action == ActionReplace || r.CountDestructive() > 0
}

// Head is the record with at most so many of its changes; the others are counted.
func (r PlanRecord) Head(most int) PlanRecord {
	if len(r.Changes) <= most {
		return r
	}
	head := PlanRecord{Action: r.Action, Changes: r.Changes[:most], More: r.Count() - most}
	head.MoreDestructive = r.CountDestructive() - PlanRecord{Changes: head.Changes}.CountDestructive()
	return head
}

// Cut cuts a text that has more bytes, between two runes, and marks that by "…", which
// counts. It says whether it did.
func Cut(text string, most int) (string, bool) {
	cut := cutTo(text, most)
	return cut, len(text) > most
}
