package strategist

import (
	"context"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// The strategist visits a document in a repository in the background. A decision rests on the last
// visit. If it needs to know more, it is made after the next visit.

// inRepository reports whether a rollout sets fields of a document in a repository.
func (f *facts) inRepository() bool { return f.Spec.GetField().GetInRepository() }

// proposed returns what the last visits observed of the pull requests of a run.
func (s *Strategist) proposed(run *intent.Rollout) map[string]conduct.Proposed {
	found := map[string]conduct.Proposed{}
	for i := range run.Proposals {
		p := &run.Proposals[i]
		last, ok := s.visits.Last(p.Document)
		if !ok || !p.Pending() {
			continue
		}
		o, ok := last.Outcomes[p.Key]
		switch {
		case ok:
			q := conduct.Proposed{Request: o.PullRequest, Merged: o.Merged, Closed: o.Closed, Withdrawn: o.Withdrawn}
			if o.Err != nil && !fault.Is(o.Err, fault.Conflict) {
				q.Trouble = o.Err.Error()
			}
			if fault.Is(o.Err, fault.NotFound) && p.State == intent.ProposalWithdrawing {
				q.Withdrawn = true // Head does not name the document any more, so Lehr cannot close it.
			}
			found[p.Key] = q
		case last.Err != nil:
			found[p.Key] = conduct.Proposed{Trouble: last.Err.Error()}
		}
	}
	return found
}

// readRepository fills in what the last visit found of a document: its content now, when the run
// began, and in head.
func (s *Strategist) readRepository(v *view, f *facts, spec *intentpb.DocumentField) (err error) {
	name, field := spec.Document, f.Field
	field.InRepository, field.Host = true, spec.PullRequest
	if s.Repositories == nil {
		field.Problem = "this server opens no repositories"
		return nil
	}
	last, ok := s.visits.Last(name)
	switch {
	case !ok:
		f.unread = s.latest[name] == nil
	case last.Err != nil:
		field.Refused = "it cannot be read: " + last.Err.Error()
		if last.Acted() || fault.Is(last.Err, fault.NotFound) {
			delete(s.latest, name) // It may have changed.
		}
		if s.latest[name] == nil {
			field.Problem = last.Err.Error()
			return nil
		}
	default:
		if s.latest[name], err = s.keep(name, last.Document); fault.Is(err, fault.Invalid) {
			field.Problem = err.Error()
			return nil
		}
		if o, ok := last.Outcomes[f.Name]; ok && o.Err != nil && !fault.Is(o.Err, fault.Conflict) {
			field.Refused = o.Err.Error()
		}
	}
	if err != nil || f.unread {
		return err
	}
	field.Now = s.latest[name]
	for _, source := range v.Covered {
		if source.Source == spec.Source {
			if field.Head, err = s.contentAtCommit(f, name, source.Revision); err != nil {
				return err
			}
		}
	}
	if f.Run != nil && f.Run.Base != "" {
		field.Base, err = s.contentAtCommit(f, name, f.Run.Base)
	}
	return err
}

// contentAtCommit returns the content of a document at a commit; nil if it is not known yet or never
// will be.
func (s *Strategist) contentAtCommit(f *facts, name, commit string) (*conduct.Content, error) {
	if cached := s.contents[contentOf{name, commit}]; cached != nil {
		return cached, nil
	}
	past, ok := s.visits.At(name, commit)
	if !ok {
		f.isUnread(s, name)
		return nil, nil
	}
	if past.Missing != nil {
		return nil, nil
	}
	past.Document.Revision.ID = commit // Questions about history name this commit.
	content, err := s.keep(name, past.Document)
	if fault.Is(err, fault.Invalid) {
		return nil, nil
	}
	return content, err
}

// isUnread notes that an answer is not known yet, and why, if the last visit failed to get it.
func (f *facts) isUnread(s *Strategist, name string) {
	f.unread = true
	if last, ok := s.visits.Last(name); ok && last.Unread() {
		f.unreadable = "its history cannot be read"
		if last.Err != nil {
			f.unreadable = last.Err.Error()
		}
	}
}

// decide returns what a rollout does. If a fact cannot be read, waiting does not help: the decision is
// made without it, and says so.
func (f *facts) decide() (decision conduct.Decision) {
	if !f.unread {
		decision = conduct.Decide(f.Facts)
	}
	if f.unreadable != "" {
		f.Field.Problem = f.unreadable
		decision = conduct.Decide(f.Facts)
		f.unread = false
	}
	return decision
}

// askRepository gives the decision access to the history of a document.
func (s *Strategist) askRepository(ctx context.Context, v *view, f *facts, spec *intentpb.DocumentField) {
	name := spec.Document
	f.Field.Older = func(a, b string) bool {
		includes, ok := s.visits.Includes(name, a, b)
		if !ok {
			f.isUnread(s, name)
		}
		return !ok || !includes
	}
	f.Field.Since = func(revision, pointer string) (setting conduct.Setting) {
		if f.Run == nil || f.Run.Base == "" {
			return setting
		}
		list, ok := s.visits.Since(name, f.Field.Now.Revision, f.Run.Base)
		if !ok {
			f.isUnread(s, name)
			return setting
		}
		for _, r := range list {
			if r.ID == revision {
				break
			}
			setting, ok, err := settingOf(r, pointer)
			if err != nil {
				f.err = err
			}
			if ok {
				return setting
			}
		}
		return setting
	}
	f.Field.Landing = func(revision string) (intent.IncarnationID, []intent.AssetID) {
		at, changed, err := s.landing(ctx, v, spec, revision, f.Field.Older)
		if err != nil {
			f.err = err
		}
		return at, changed
	}
}

// awaitVisit returns a decision to do nothing until a visit to the rollout's repository is over.
func (s *Strategist) awaitVisit(ctx context.Context, v *view, name string, st *state) conduct.Decision {
	decision := conduct.Decision{Seen: st.observations, Next: s.Runtime.Now().Add(leastPause)}
	for _, document := range s.visited(v, name, &decision) {
		decision.Next = sooner(decision.Next, s.Runtime.Now().Add(s.visits.Go(ctx, document)))
	}
	return decision
}

// visited returns the documents in repositories that are visited for a rollout.
func (s *Strategist) visited(v *view, name string, decision *conduct.Decision) (documents []string) {
	run, ok := v.runs[name]
	if c := v.courses[name]; c != nil && c.Spec().GetField().GetInRepository() && (ok && run.State.Open() || len(v.orders[name]) > 0) {
		documents = append(documents, c.Spec().GetField().GetDocument())
	}
	for _, l := range decision.Landings {
		documents = append(documents, l.Document)
	}
	slices.Sort(documents)
	return slices.Compact(documents)
}

// land gives the landings of a rollout to the next visits.
func (s *Strategist) land(ctx context.Context, v *view, name string, decision *conduct.Decision) {
	if s.Repositories == nil {
		return
	}
	add := func(l landing.Landing) {
		l.Owner, l.Actor, l.Decided = name, intent.RolloutHolder(name), s.decided(v.Revision, l)
		s.visits.Add(l)
	}
	if c := v.courses[name]; decision.Edit != nil && c != nil && c.Spec().GetField().GetInRepository() {
		add(landing.Landing{ID: name, Document: decision.Edit.Document, Edit: decision.Edit.Edit})
	}
	for _, l := range decision.Landings {
		add(landing.Landing{ID: l.Key, Key: l.Key, Document: l.Document, Host: l.Host, Request: l.Request, Withdraw: l.Withdraw, Edit: l.Edit})
	}
	for _, document := range s.visited(v, name, decision) {
		if decision.Step.Run.Name != "" {
			s.visits.Hurry(document) // There may be a new landing, or a change to look at.
		}
		decision.Next = sooner(decision.Next, s.Runtime.Now().Add(s.visits.Go(ctx, document)))
	}
}

// decided returns a function that reports whether a landing may still be carried out: the lease is
// held, and for a landing that sets something, the partition has not changed since the decision.
func (s *Strategist) decided(revision uint64, l landing.Landing) func(context.Context) bool {
	lease := s.lease
	return func(ctx context.Context) bool {
		if err := s.Store.Check(ctx, lease); err != nil {
			return false
		}
		if l.Withdraw || l.Request != 0 {
			return true
		}
		p, err := s.Store.Partition(ctx, s.Partition)
		return err == nil && p.Revision == revision
	}
}
