package liteschema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// walk goes from what is there to what is wanted, within the transaction.
type walk struct {
	*session
	push            database.Push
	current, wanted *catalog
	// worked is what worked before anything was changed.
	worked map[string]bool
	// lost are the texts of others' triggers that went with a view, by view.
	lost map[string][]string
	// orphans is how many rows of a table had no parent before the first table
	// was made anew; nil: none was.
	orphans map[string]int64
}

// Apply brings what is there to what the statements declare.
func (Engine) Apply(ctx context.Context, request database.Request, push database.Push) error {
	return change(ctx, request, push, func(ctx context.Context, w *walk) error {
		words, err := w.wanted.words()
		if err != nil {
			return err
		}
		told, claims := database.Told(words)
		if !maps.Equal(told, push.Wanted) {
			return fmt.Errorf("%w: the statements mean something else now: %s", serve.ErrStale, database.Left(push.Wanted, told))
		}
		if _, err := w.claimed(ctx, words); err != nil {
			return err
		}
		if err := w.walk(ctx); err != nil {
			return err
		}
		if err := w.verify(ctx); err != nil {
			return err
		}
		return w.remember(ctx, push.ID, claims)
	})
}

// Remove drops what the statements declare, the last first.
func (Engine) Remove(ctx context.Context, request database.Request, push database.Push) error {
	return change(ctx, request, push, func(ctx context.Context, w *walk) error {
		if words, err := w.wanted.words(); err != nil {
			return err
		} else if _, err := w.claimed(ctx, words); err != nil {
			return err
		}
		for _, one := range slices.Backward(request.Statements) {
			if text := w.drop(one); text != "" {
				if err := w.do(ctx, text); err != nil {
					return err
				}
			}
		}
		if err := w.childless(ctx); err != nil {
			return err
		}
		if err := w.stillWorks(ctx); err != nil {
			return err
		}
		return w.forget(ctx)
	})
}

// drop removes what a statement declares, if it is there. Indexes go with
// their tables.
func (w *walk) drop(one statement.Statement) string {
	switch one.Kind {
	case statement.Table:
		if t := w.current.tables[fold(one.Name)]; t != nil {
			return "DROP TABLE " + quote(t.name)
		}
	case statement.View:
		if v, there := w.current.views[fold(one.Name)]; there {
			return "DROP VIEW " + quote(v.name)
		}
	case statement.Trigger:
		if t, there := w.current.triggers[fold(one.Tables[0])+"."+fold(one.Name)]; there {
			return "DROP TRIGGER " + quote(t.name)
		}
	}
	return ""
}

// change runs one change in one transaction that has the write lock and has
// compared the base.
func change(ctx context.Context, request database.Request, push database.Push, apply func(context.Context, *walk) error) error {
	want, err := wanted(ctx, request)
	if err != nil {
		return err
	}
	if err := push.Effect(ctx); err != nil {
		return err
	}
	s, err := open(ctx, request, true)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.run(ctx, "BEGIN IMMEDIATE"); err != nil {
		return s.explain("taking the write lock", err)
	}
	if err := s.within(ctx, push, want, apply); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = s.conn.ExecContext(ctx, "ROLLBACK") // closing rolls back as well
		return err
	}
	return nil
}

func (s *session) within(ctx context.Context, push database.Push, want *catalog, apply func(context.Context, *walk) error) error {
	base, err := s.base(ctx)
	if err != nil {
		return err
	}
	if base != push.Base {
		return fmt.Errorf("%w: the schema of %s was changed since the plan was made (%s, was %s); nothing was done", serve.ErrStale, s.file.path, base, push.Base)
	}
	w := &walk{session: s, push: push, wanted: want}
	if w.current, err = s.current(ctx, want); err != nil {
		return err
	}
	if w.worked, err = s.works(ctx); err != nil {
		return err
	}
	if err := apply(ctx, w); err != nil {
		return err
	}
	if err := push.Effect(ctx); err != nil {
		return err
	}
	return s.explain("committing", s.run(ctx, "COMMIT"))
}

// do runs one statement under a permit.
func (w *walk) do(ctx context.Context, text string, arguments ...any) error {
	if err := w.push.Effect(ctx); err != nil {
		return err
	}
	about := strings.Join(strings.Fields(text), " ")
	if len(about) > 160 {
		about = strings.ToValidUTF8(about[:160], "") + "…"
	}
	w.push.Progress(about)
	return w.explain(about, w.run(ctx, text, arguments...))
}

// walk first drops what is in the way, then goes along the statements, for
// each rests only on those before it.
func (w *walk) walk(ctx context.Context) error {
	w.lost = map[string][]string{}
	for _, some := range []struct {
		kind          string
		current, want map[string]object
	}{
		{"TRIGGER", w.current.triggers, w.wanted.triggers},
		{"VIEW", w.current.views, w.wanted.views},
		{"INDEX", w.current.indexes, w.wanted.indexes},
	} {
		for _, name := range slices.Sorted(maps.Keys(some.current)) {
			if same(some.current[name].text, some.want[name].text) {
				continue
			}
			if err := w.forgetTriggers(ctx, some.current[name]); err != nil {
				return err
			}
			if err := w.do(ctx, "DROP "+some.kind+" "+quote(some.current[name].name)); err != nil {
				return err
			}
			delete(some.current, name)
		}
	}
	for _, one := range w.request.Statements {
		if err := w.statement(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// forgetTriggers takes note of the triggers that go with a view.
func (w *walk) forgetTriggers(ctx context.Context, view object) error {
	if view.kind != "view" {
		return nil
	}
	all, err := w.objects(ctx)
	for _, one := range all {
		if one.kind != "trigger" || fold(one.table) != fold(view.name) {
			continue
		}
		key := fold(one.table) + "." + fold(one.name)
		if _, declared := w.wanted.triggers[key]; !declared {
			w.lost[fold(view.name)] = append(w.lost[fold(view.name)], one.text)
		}
		delete(w.current.triggers, key)
	}
	return err
}

// same compares two definitions by their words.
func same(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	one, err := statement.Scan(statement.SQLite, a)
	two, errToo := statement.Scan(statement.SQLite, b)
	return err == nil && errToo == nil && write(one) == write(two)
}

// statement sees to it that what one statement declares is there, with the
// text that SQLite itself made of it.
func (w *walk) statement(ctx context.Context, one statement.Statement) error {
	name := fold(one.Name)
	switch one.Kind {
	case statement.Table:
		if w.current.tables[name] == nil {
			return w.do(ctx, w.wanted.tables[name].text)
		}
		return w.table(ctx, w.current.tables[name], w.wanted.tables[name])
	case statement.Index:
		return w.missing(ctx, w.current.indexes, w.wanted.indexes, name)
	case statement.View:
		if err := w.missing(ctx, w.current.views, w.wanted.views, name); err != nil {
			return err
		}
		for _, trigger := range w.lost[name] {
			if err := w.do(ctx, trigger); err != nil {
				return err
			}
		}
	case statement.Trigger:
		return w.missing(ctx, w.current.triggers, w.wanted.triggers, fold(one.Tables[0])+"."+name)
	}
	return nil
}

func (w *walk) missing(ctx context.Context, current, want map[string]object, name string) error {
	if _, there := current[name]; there {
		return nil
	}
	return w.do(ctx, want[name].text)
}

// verify reads what was made: it is exactly what is wanted, nothing that
// worked is broken, and no row has lost its parent.
func (w *walk) verify(ctx context.Context) error {
	after, err := w.session.current(ctx, w.wanted)
	if err != nil {
		return err
	}
	is, err := after.words()
	if err != nil {
		return err
	}
	want, err := w.wanted.words()
	if err != nil {
		return err
	}
	if left := database.Left(is, want); left != "" {
		return serve.Errorf(serve.Internal, "the change of %s would not lead to what the sql declares, and was rolled back: %s", w.file.path, left).
			WithHint("change this object by hand; then nothing differs")
	}
	if w.orphans != nil {
		if err := w.noNewOrphans(ctx); err != nil {
			return err
		}
	}
	return w.stillWorks(ctx)
}
