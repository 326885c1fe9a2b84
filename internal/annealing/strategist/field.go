package strategist

import (
	"context"
	"fmt"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// listing is what a rollout may select at an incarnation.
type listing struct {
	course *course.Course
	at     intent.IncarnationID
	assets map[intent.AssetID]intent.Digest
	// sorted are their ids; nil: they are not sorted yet.
	sorted []intent.AssetID
}

// contentOf names what a document was at a revision.
type contentOf struct{ document, revision string }

const (
	// mostKept contents of documents are kept, each of at most document.MaxBytes.
	mostKept = 20
	// mostPages of revisions are looked at for who set a field.
	revisionPage, mostPages = 100, 10
	// mostBesides are named of what an incarnation changed.
	mostBesides = 1000
)

// field gathers what a rollout by a document's field is decided by.
func (s *Strategist) field(ctx context.Context, v *view, c *course.Course, f *facts, st *state) (err error) {
	spec := c.Spec().Field
	f.Field = &conduct.Field{Document: spec.Document, Source: spec.Source, Refused: st.refused}
	for i := range f.Assets {
		f.Assets[i].Selected, f.Assets[i].Pointer = false, "" // It was pinned before the rollout set a field.
	}
	open := f.Run != nil && f.Run.State.Open()
	if !open && len(f.Orders) == 0 {
		st.refused = ""
		delete(s.listed, c.Name())
		return nil
	}
	if spec.InRepository {
		err = s.readRepository(v, f, spec)
	} else {
		err = s.readDocument(ctx, v, f)
	}
	if err != nil {
		return err
	}
	if f.Field.Assets, err = s.fieldAssets(ctx, v, c, f, st); err != nil {
		return err
	}
	if f.Field.Others, err = s.otherRuns(ctx, v, c); err != nil {
		return err
	}
	if open {
		newest, err := s.Store.ListCandidates(ctx, s.Partition, 1)
		if err != nil {
			return err
		}
		if len(newest) > 0 {
			f.Field.Candidate = &newest[0]
		}
	}
	if spec.InRepository {
		s.askRepository(ctx, v, f, spec)
		return nil
	}
	history := &history{document: spec.Document}
	f.Field.Since = func(revision, pointer string) conduct.Setting {
		lastSet, err := s.settingSince(ctx, history, revision, pointer)
		if err != nil {
			f.err = err
		}
		return lastSet
	}
	f.Field.Landing = func(revision string) (intent.IncarnationID, []intent.AssetID) {
		at, changed, err := s.landing(ctx, v, spec, revision, conduct.Older)
		if err != nil {
			f.err = err
		}
		return at, changed
	}
	return nil
}

// readDocument reads what the document is, was when the run began, and is in head.
func (s *Strategist) readDocument(ctx context.Context, v *view, f *facts) (err error) {
	name := f.Field.Document
	doc, err := s.Store.Document(ctx, s.Partition, name, "")
	switch {
	case fault.Is(err, fault.NotFound):
		f.Field.Problem = err.Error()
		return nil
	case err != nil:
		return err
	}
	if f.Field.Now, err = s.keep(name, doc); err != nil {
		return err
	}
	for _, source := range v.Covered {
		if source.Source == f.Field.Source {
			if f.Field.Head, err = s.documentAt(ctx, name, source.Revision); err != nil {
				return err
			}
		}
	}
	if f.Run != nil && f.Run.Base != "" {
		f.Field.Base, err = s.documentAt(ctx, name, f.Run.Base)
	}
	return err
}

// documentAt is what a document was; nil: nobody knows any more.
func (s *Strategist) documentAt(ctx context.Context, name, revision string) (*conduct.Content, error) {
	if cached := s.contents[contentOf{name, revision}]; cached != nil {
		return cached, nil
	}
	doc, err := s.Store.Document(ctx, s.Partition, name, revision)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.keep(name, doc)
}

func (s *Strategist) keep(name string, doc document.Document) (*conduct.Content, error) {
	key := contentOf{name, doc.Revision.ID}
	if cached := s.contents[key]; cached != nil {
		return cached, nil
	}
	value, err := document.Parse(doc.Content)
	if err != nil {
		return nil, err
	}
	if len(s.contents) >= mostKept {
		clear(s.contents)
	}
	s.contents[key] = &conduct.Content{Revision: doc.Revision.ID, Value: value}
	return s.contents[key], nil
}

// fieldAssets are those that the rollout selects at head, with all that is known of
// them.
func (s *Strategist) fieldAssets(ctx context.Context, v *view, c *course.Course, f *facts, st *state) (assets []conduct.Asset, err error) {
	members, err := s.list(ctx, v, c)
	if err != nil {
		return nil, err
	}
	for _, id := range members.sorted {
		a := conduct.Asset{ID: id, Head: members.assets[id]}
		t, err := s.targetOf(ctx, v, c, &a)
		if err != nil {
			return nil, err
		}
		if !t.selected {
			continue
		}
		v.contents[contentAt{v.Head.Sequence, id}] = a.Head
		if err := s.fill(ctx, v, c, f, st, &a); err != nil {
			return nil, err
		}
		assets = append(assets, a)
	}
	return assets, nil
}

// list brings what a rollout may select up to head, at cost ∝ what changed.
func (s *Strategist) list(ctx context.Context, v *view, c *course.Course) (*listing, error) {
	members := s.listed[c.Name()]
	if members == nil || members.course != c || members.at.Sequence > v.Head.Sequence {
		members = &listing{course: c, assets: map[intent.AssetID]intent.Digest{}}
	}
	if members.at == v.Head && members.sorted != nil {
		return members, nil
	}
	delete(s.listed, c.Name()) // Until it is whole.
	filter := store.AssetFilter{Type: c.Narrow().Type, Limit: 1000}
	for members.at.Sequence == 0 {
		page, err := s.Store.Members(ctx, v.Head, filter)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if filter.After = m.Asset; c.Wants(m.Asset, m.Type) {
				members.assets[m.Asset] = m.Effective
			}
		}
		if len(page) < filter.Limit {
			members.at = v.Head
		}
	}
	cursor := intent.AssetID("")
	for members.at != v.Head {
		page, err := s.Store.Changes(ctx, members.at, v.Head, cursor, filter.Limit)
		if err != nil {
			return nil, err
		}
		for _, change := range page {
			cursor = change.Asset
			if now := change.After; now != nil && c.Wants(now.Asset, now.Type) {
				members.assets[change.Asset] = now.Effective
			} else {
				delete(members.assets, change.Asset)
			}
		}
		if len(page) < filter.Limit {
			members.at = v.Head
		}
	}
	members.sorted = slices.Sorted(maps.Keys(members.assets))
	if members.sorted == nil {
		members.sorted = []intent.AssetID{}
	}
	s.listed[c.Name()] = members
	return members, nil
}

// otherRuns are the open runs of other rollouts that set fields of the same document.
func (s *Strategist) otherRuns(ctx context.Context, v *view, c *course.Course) (list []conduct.Other, err error) {
	for _, name := range v.names {
		run, ok := v.runs[name]
		if !ok || name == c.Name() || !run.State.Open() || len(run.Value) == 0 {
			continue
		}
		entry := conduct.Other{Rollout: name, Run: run.Run, Began: run.Began, Queued: run.State == intent.RolloutQueued}
		for _, e := range run.Edits {
			if e.Document == c.Spec().Field.Document && e.Set() {
				entry.Pointers = append(entry.Pointers, e.Pointer)
			}
		}
		if otherCourse := v.courses[name]; otherCourse != nil && !otherCourse.ByPins() && otherCourse.Spec().Field.Document == c.Spec().Field.Document {
			members, err := s.list(ctx, v, otherCourse)
			if err != nil {
				return nil, err
			}
			for _, id := range members.sorted {
				t, err := s.targetOf(ctx, v, otherCourse, &conduct.Asset{ID: id, Head: members.assets[id]})
				if err != nil {
					return nil, err
				}
				if t.selected {
					entry.Pointers = append(entry.Pointers, t.pointer)
				}
			}
		}
		list = append(list, entry)
	}
	return list, nil
}

// history are the newest revisions of a document, as far as one decision has asked for them:
// it asks of each of its fields.
type history struct {
	document string
	list     []document.Revision
	whole    bool
}

// at is the revision at a place, the newest being 0; false: there is none, or it is too
// long ago to be looked for.
func (p *history) at(ctx context.Context, s *Strategist, place int) (document.Revision, bool, error) {
	for place >= len(p.list) && !p.whole && len(p.list) < mostPages*revisionPage {
		cursor := ""
		if n := len(p.list); n > 0 {
			cursor = p.list[n-1].ID
		}
		page, err := s.Store.DocumentRevisions(ctx, s.Partition, p.document, cursor, revisionPage)
		if err != nil {
			return document.Revision{}, false, err
		}
		p.list, p.whole = append(p.list, page...), len(page) < revisionPage
	}
	if place >= len(p.list) {
		return document.Revision{}, false, nil
	}
	return p.list[place], true, nil
}

// settingSince finds the newest revision after another that set a field.
func (s *Strategist) settingSince(ctx context.Context, p *history, revision, pointer string) (lastSet conduct.Setting, err error) {
	for place := 0; ; place++ {
		r, ok, err := p.at(ctx, s, place)
		if err != nil || !ok || revision != "" && !conduct.Older(revision, r.ID) {
			return lastSet, err
		}
		if lastSet, ok, err := settingOf(r, pointer); err != nil || ok {
			return lastSet, err
		}
	}
}

// settingOf is a revision that set a field; ok: it did.
func settingOf(r document.Revision, pointer string) (setting conduct.Setting, ok bool, err error) {
	isDirect := slices.ContainsFunc(r.Changes, func(c document.Change) bool { return c.Path == pointer }) // Far cheaper, and mostly so.
	var touched []document.Change
	if !isDirect {
		if touched, err = document.Touches(r.Changes, []string{pointer}); err != nil {
			return setting, false, err
		}
	}
	if !isDirect && len(touched) == 0 && !r.More {
		return setting, false, nil
	}
	setting = conduct.Setting{Revision: r.ID, By: r.By, Description: fmt.Sprintf("%s at %s (revision %s)", r.By.Name, r.At.UTC().Format("2006-01-02T15:04:05Z"), r.ID)}
	if r.Reason != "" {
		setting.Description += ", saying: " + r.Reason
	}
	return setting, true, nil
}

// landing finds the incarnation that was the first to have a revision of the document,
// and what it changed.
func (s *Strategist) landing(ctx context.Context, v *view, spec *intentpb.DocumentField, revision string, isBefore func(a, b string) bool) (at intent.IncarnationID, changed []intent.AssetID, err error) {
	list, err := s.Store.Incarnations(ctx, s.Partition, v.Head.Sequence+1, mostOlder)
	if err != nil {
		return at, nil, err
	}
	var first *intent.Incarnation
	for i := range list {
		hasRevision := slices.ContainsFunc(list[i].Sources, func(source intent.SourceRevision) bool {
			return source.Source == spec.Source && !isBefore(source.Revision, revision)
		})
		if !hasRevision {
			break
		}
		first = &list[i]
	}
	if first == nil {
		return at, nil, nil
	}
	page, err := s.Store.Changes(ctx, first.Parent, first.ID, "", mostBesides)
	if fault.Is(err, fault.NotFound) {
		return first.ID, nil, nil // Its parent is not retained.
	}
	for _, change := range page {
		changed = append(changed, change.Asset)
	}
	return first.ID, changed, err
}

// edit a document as a rollout asks. What is refused is tried again when the rollout is
// looked at next; what somebody else edited meanwhile is read first.
func (s *Strategist) edit(ctx context.Context, v *view, name string, st *state, e conduct.Editing) (edited bool, err error) {
	s.Runtime.Point("rollout edit")
	result, err := s.Store.SetFields(ctx, s.lease, v.Revision, e.Document, e.Edit, intent.RolloutHolder(name))
	switch {
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound):
		st.refused = err.Error()
		return false, nil
	case err != nil:
		return false, err
	}
	st.refused = ""
	s.Log.Info("a rollout edited a document", "partition", s.Partition, "rollout", name, "document", e.Document, "revision", result.Revision.ID)
	return true, nil
}
