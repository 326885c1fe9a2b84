package conduct

import (
	"fmt"
	"slices"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// A run sets a field of a document in a repository by a commit, or by a pull request on which people
// decide. The run records a pull request before it is opened, as it records fields before it sets
// them, and follows the pull request until it is merged or closed. It closes one that it does not want any
// more, so that nobody merges it later.

// Proposed is the last observation of a pull request.
type Proposed struct {
	Request intent.PullRequest
	// Merged, Closed: people did that. Withdrawn: it is not open, as Lehr wanted.
	Merged, Closed, Withdrawn bool
	// Trouble is why it could not be opened or followed, or empty.
	Trouble string
}

// Landing is an edit of a document in a repository that is to be carried out after the step.
type Landing struct {
	Key, Document, Host string
	// Request is the number of its pull request, if that is known.
	Request int
	// Withdraw: the run does not want it any more.
	Withdraw bool
	Edit     document.Edit
}

// followProposals updates the pull requests of the run by what was observed.
func (d *decider) followProposals() {
	if d.run == nil {
		return
	}
	for i := range d.run.Proposals {
		p := &d.run.Proposals[i]
		seen, ok := d.Proposed[p.Key]
		if !ok || !p.Pending() {
			continue
		}
		p.Trouble = seen.Trouble
		if seen.Request.Number != 0 && p.Request != seen.Request {
			p.Request = seen.Request
			d.event(d.holder(), "propose", "pull request #%d asks for %s of %s: %s", p.Request.Number, count(len(p.Pointers), "field", "fields"), p.Document, p.Request.Link)
		}
		switch {
		case seen.Merged:
			p.State = intent.ProposalMerged
			d.event(d.holder(), "merge", "pull request #%d was merged", p.Request.Number)
		case p.State == intent.ProposalWithdrawing && (seen.Withdrawn || seen.Closed):
			p.State = intent.ProposalWithdrawn
		case p.State == intent.ProposalOpen && seen.Closed:
			p.State = intent.ProposalClosed
		}
	}
}

// withdrawUnwanted marks pull requests for closing if a field of theirs is not to be set any more.
// Their other fields are proposed again.
func (d *decider) withdrawUnwanted() {
	for i := range d.run.Proposals {
		if p := &d.run.Proposals[i]; p.State == intent.ProposalOpen && !d.wants(p) {
			p.State = intent.ProposalWithdrawing
		}
	}
}

// withdrawsAll marks all pull requests of the run for closing, and reports whether one is still open.
func (d *decider) withdrawsAll() bool {
	for i := range d.run.Proposals {
		if p := &d.run.Proposals[i]; p.State == intent.ProposalOpen {
			p.State = intent.ProposalWithdrawing
		}
	}
	return d.withdrawing() != nil
}

// wants reports whether all fields of a pull request are still to be set by it.
func (d *decider) wants(p *intent.RolloutProposal) bool {
	isBack := d.run.State == intent.RolloutRollingBack
	if p.Back != isBack || !d.run.State.Open() || p.Host != d.Field.Host || p.Document != d.Field.Document {
		return false
	}
	return !slices.ContainsFunc(p.Pointers, func(pointer string) bool {
		e := d.editOf(pointer)
		if e == nil || !e.Set() {
			return true
		}
		if isBack {
			return !d.ours(e)
		}
		return same(d.Field.Now.at(pointer), d.run.Value)
	})
}

// proposalOf returns the newest pull request of the run that sets a field, or restores it; nil if there
// is none.
func (d *decider) proposalOf(pointer string, back bool) *intent.RolloutProposal {
	for i := range slices.Backward(d.run.Proposals) {
		if p := &d.run.Proposals[i]; p.Run == d.run.Run && p.Back == back && p.Document == d.Field.Document && slices.Contains(p.Pointers, pointer) {
			return p
		}
	}
	return nil
}

// propose asks for a pull request for the fields without an open one, once all unwanted pull requests
// are closed.
func (d *decider) propose(operations []document.Operation, reason string) {
	back := d.run.State == intent.RolloutRollingBack
	if d.withdrawing() != nil {
		return
	}
	var pointers []string
	for _, o := range operations {
		if p := d.proposalOf(o.Path, back); p == nil || !p.Pending() {
			pointers = append(pointers, o.Path)
		}
	}
	if len(pointers) == 0 {
		return
	}
	d.run.Proposed++
	d.run.Proposals = append(d.run.Proposals, intent.RolloutProposal{
		Run: d.run.Run, Key: fmt.Sprintf("rollout/%s/%d/%d-%d", d.Name, d.run.Run, d.run.Proposed, d.run.Began.Unix()),
		Document: d.Field.Document, Host: d.Field.Host, Base: d.Field.Now.Revision, Pointers: pointers, Back: back, Reason: reason, State: intent.ProposalOpen,
	})
}

// withdrawing returns a pull request that must be closed first; nil if there is none.
func (d *decider) withdrawing() *intent.RolloutProposal {
	at := slices.IndexFunc(d.run.Proposals, func(p intent.RolloutProposal) bool { return p.State == intent.ProposalWithdrawing })
	if at < 0 {
		return nil
	}
	return &d.run.Proposals[at]
}

// rejected says which pull request people closed, or merged without the value; empty if none.
func (d *decider) rejected() string {
	for i := range d.run.Edits {
		e := &d.run.Edits[i]
		if !e.Set() || e.Revision != "" {
			continue
		}
		switch p := d.proposalOf(e.Pointer, false); {
		case p == nil:
		case p.State == intent.ProposalClosed:
			return fmt.Sprintf("the pull request #%d was closed without being merged", p.Request.Number)
		case p.State == intent.ProposalMerged:
			return fmt.Sprintf("the pull request #%d was merged, but %s does not have the value", p.Request.Number, e.Pointer)
		}
	}
	return ""
}

// keptByPeople says why people's decision on a pull request keeps a field from going back; empty if none does.
func (d *decider) keptByPeople(operations []document.Operation) string {
	for _, o := range operations {
		switch p := d.proposalOf(o.Path, true); {
		case p == nil:
		case p.State == intent.ProposalClosed:
			return fmt.Sprintf("the pull request #%d for going back was closed without being merged", p.Request.Number)
		case p.State == intent.ProposalMerged:
			return fmt.Sprintf("the pull request #%d for going back was merged, but %s does not have its earlier value", p.Request.Number, o.Path)
		}
	}
	return ""
}

// proposalWords says what a pull request waits for.
func proposalWords(p *intent.RolloutProposal) string {
	text := "for a pull request of " + p.Document + " to be opened"
	switch {
	case p.State == intent.ProposalWithdrawing && p.Request.Number == 0:
		text = "for a pull request of " + p.Document + " to be withdrawn"
	case p.State == intent.ProposalWithdrawing:
		text = fmt.Sprintf("for the pull request #%d to be closed: %s", p.Request.Number, p.Request.Link)
	case p.Request.Number != 0:
		text = fmt.Sprintf("for the pull request #%d to be merged: %s", p.Request.Number, p.Request.Link)
	}
	if p.Trouble != "" {
		text += "; the last try failed: " + p.Trouble
	}
	return text
}

// landings returns the pull requests to open, follow or close.
func (d *decider) landings() (list []Landing) {
	for i := range d.run.Proposals {
		p := &d.run.Proposals[i]
		isWithdrawn := p.State == intent.ProposalWithdrawing
		if !p.Pending() || d.Stop != nil && !isWithdrawn && !p.Back && p.Request.Number == 0 {
			continue // A stop lets nothing be set.
		}
		l := Landing{Key: p.Key, Document: p.Document, Host: p.Host, Request: p.Request.Number, Withdraw: isWithdrawn}
		l.Edit = document.Edit{Base: p.Base, Reason: p.Reason, Back: p.Back}
		for _, pointer := range p.Pointers {
			value := d.run.Value
			if e := d.editOf(pointer); p.Back && e != nil {
				value = e.Before
			}
			l.Edit.Operations = append(l.Edit.Operations, document.Operation{Path: pointer, Value: value})
		}
		list = append(list, l)
	}
	return list
}
