package pgschema

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// Apply brings what is there to what the statements declare.
func (e *Engine) Apply(ctx context.Context, request database.Request, push database.Push) error {
	return e.change(ctx, request, push, func(ctx context.Context, s *session, wanted *catalog) error {
		words, claims := database.Told(wanted.words())
		if !maps.Equal(words, push.Wanted) {
			return fmt.Errorf("%w: the statements mean something else now: %s", serve.ErrStale, database.Left(push.Wanted, words))
		}
		current, err := s.readReal(ctx, wanted)
		if err != nil {
			return err
		}
		w := &walk{session: s, push: push, current: current, wanted: wanted}
		if err := w.walk(ctx); err != nil {
			return err
		}
		after, err := s.readReal(ctx, wanted)
		if err != nil {
			return err
		}
		if left := database.Left(after.words(), wanted.words()); left != "" {
			return serve.Errorf(serve.Internal, "the change of %s would not lead to what the sql declares, and was rolled back: %s", s.place, left).
				WithHint("change this object by hand; then nothing differs")
		}
		return s.remember(ctx, push.ID, claims)
	})
}

// walk goes from what is there to what is wanted, within the transaction.
type walk struct {
	session         *session
	push            database.Push
	current, wanted *catalog
	// before is all that was there on what is declared, whoever made it: what
	// goes with a view or a function that is made again comes back with it.
	before *catalog
	// fresh are the tables, views and sequences that this push makes: what
	// statements say of them later is run as it is written.
	fresh map[string]bool
}

// walk first drops what is in the way, then goes along the statements, for
// each rests only on those before it.
func (w *walk) walk(ctx context.Context) (err error) {
	if w.before, err = w.everything(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{w.dropTriggers, w.dropViews, w.dropConstraints, w.dropIndexes}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	w.fresh = map[string]bool{}
	statements := w.session.request.Statements
	for _, one := range statements {
		// Defaults of tables that are there already need them.
		if one.Kind == statement.Sequence {
			w.fresh[one.Name] = w.current.parts[database.Key(one.Kind, one.Name)].definition == ""
			if err := w.part(ctx, one); err != nil {
				return err
			}
		}
	}
	for _, one := range statements {
		if err := w.statement(ctx, one); err != nil {
			return err
		}
	}
	return w.grant(ctx)
}

// do runs one statement under a permit.
func (w *walk) do(ctx context.Context, text string) error {
	if err := w.push.Effect(ctx); err != nil {
		return err
	}
	w.push.Progress(clip(text))
	return w.session.explain(clip(text), w.session.run(ctx, text))
}

// try runs one statement; when it fails with one of the codes, another way.
func (w *walk) try(ctx context.Context, text string, codes []string, otherwise func() error) error {
	if err := w.push.Effect(ctx); err != nil {
		return err
	}
	s := w.session
	if err := s.run(ctx, "savepoint lehr_try"); err != nil {
		return s.explain("setting a savepoint", err)
	}
	err := s.run(ctx, text)
	if err != nil && slices.Contains(codes, code(err)) {
		if err := s.run(ctx, "rollback to savepoint lehr_try"); err != nil {
			return s.explain("going back to a savepoint", err)
		}
		return otherwise()
	}
	w.push.Progress(clip(text))
	return s.explain(clip(text), err)
}

func clip(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 160 {
		return strings.ToValidUTF8(text[:160], "") + "…"
	}
	return text
}

func (w *walk) dropTriggers(ctx context.Context) error {
	for name, definition := range w.current.triggers {
		if definition == w.wanted.triggers[name] {
			continue
		}
		table, trigger := w.triggerNames(name)
		if err := w.do(ctx, "drop trigger "+quote(trigger)+" on "+quote(table)); err != nil {
			return err
		}
		delete(w.current.triggers, name)
	}
	return nil
}

func (w *walk) triggerNames(key string) (table, trigger string) {
	for _, one := range w.session.request.Statements {
		if one.Kind == statement.Trigger && one.Tables[0]+"."+one.Name == key {
			return one.Tables[0], one.Name
		}
	}
	table, trigger, _ = strings.Cut(key, ".")
	return table, trigger
}

// dropViews drops the declared views when a column that they may show is
// dropped or changes its type. They are made again.
func (w *walk) dropViews(ctx context.Context) error {
	inTheWay := false
	for name, is := range w.current.relations {
		if want := w.wanted.relations[name]; want != nil && !is.view {
			for _, column := range is.columns {
				target := find(want.columns, column.name)
				inTheWay = inTheWay || target == nil || target.kind != column.kind || target.collation != column.collation || target.generated != column.generated
			}
		}
	}
	if !inTheWay {
		return nil
	}
	return w.dropViewsFrom(ctx, 0)
}

// dropViewsFrom drops the views declared by the statements from the place on,
// the last first.
func (w *walk) dropViewsFrom(ctx context.Context, place int) error {
	for _, one := range slices.Backward(w.session.request.Statements[place:]) {
		if is := w.current.relations[one.Name]; one.Kind == statement.View && is != nil {
			if err := w.do(ctx, "drop view "+quote(one.Name)); err != nil {
				return err
			}
			delete(w.current.relations, one.Name)
			for name := range w.current.triggers {
				if table, _ := w.triggerNames(name); table == one.Name {
					delete(w.current.triggers, name)
				}
			}
		}
	}
	return nil
}

// dropConstraints drops foreign keys first: they rest on the others.
func (w *walk) dropConstraints(ctx context.Context) error {
	for _, foreign := range []bool{true, false} {
		for _, table := range slices.Sorted(maps.Keys(w.current.relations)) {
			is, want := w.current.relations[table], w.wanted.relations[table]
			for _, name := range slices.Sorted(maps.Keys(is.constraints)) {
				if (is.constraints[name].kind == "f") != foreign || is.constraints[name] == want.constraints[name] {
					continue
				}
				if err := w.do(ctx, "alter table "+quote(table)+" drop constraint "+quote(name)); err != nil {
					return err
				}
				delete(is.constraints, name)
			}
		}
	}
	return nil
}

func (w *walk) dropIndexes(ctx context.Context) error {
	for _, table := range slices.Sorted(maps.Keys(w.current.relations)) {
		is, want := w.current.relations[table], w.wanted.relations[table]
		for _, name := range slices.Sorted(maps.Keys(is.indexes)) {
			if is.indexes[name] == want.indexes[name] {
				continue
			}
			if err := w.do(ctx, "drop index "+quote(name)); err != nil {
				return err
			}
			delete(is.indexes, name)
		}
	}
	return nil
}

// statement sees to it that what one statement declares is there.
func (w *walk) statement(ctx context.Context, one statement.Statement) error {
	switch one.Kind {
	case statement.Table:
		if w.current.relations[one.Name] == nil {
			w.fresh[one.Name] = true
			return w.do(ctx, one.Text)
		}
		return w.alter(ctx, one.Name)
	case statement.Index:
		is := w.current.relations[one.Tables[0]]
		if is != nil {
			if _, there := is.indexes[one.Name]; there {
				return nil
			}
		}
		return w.do(ctx, one.Text)
	case statement.View:
		return w.view(ctx, one)
	case statement.Function:
		return w.functions(ctx, one)
	case statement.Enum, statement.Domain:
		return w.part(ctx, one)
	case statement.Owner:
		return w.owner(ctx, one)
	case statement.Preset:
		if w.fresh[one.Tables[0]] {
			return w.do(ctx, one.Text)
		}
	case statement.Constraint:
		is := w.current.relations[one.Tables[0]]
		if is != nil {
			if _, there := is.constraints[one.Name]; there {
				return nil
			}
		}
		return w.do(ctx, one.Text)
	case statement.Trigger:
		key := one.Tables[0] + "." + one.Name
		if _, there := w.current.triggers[key]; !there {
			return w.do(ctx, one.Text)
		}
	}
	return nil
}

// view makes a view, or changes it in place where that is possible.
func (w *walk) view(ctx context.Context, one statement.Statement) error {
	is, want := w.current.relations[one.Name], w.wanted.relations[one.Name]
	if is != nil && is.definition == want.definition && is.options == want.options {
		return nil
	}
	text := "create or replace view " + quote(one.Name) + " " + with(want.options) + " as " + want.definition
	if is == nil {
		w.fresh[one.Name] = true
		return w.remake(ctx, one.Name, text)
	}
	return w.try(ctx, text, []string{"42P16"}, func() error {
		place := slices.IndexFunc(w.session.request.Statements, func(other statement.Statement) bool { return other.Line == one.Line && other.Name == one.Name })
		if err := w.dropViewsFrom(ctx, place); err != nil {
			return err
		}
		return w.remake(ctx, one.Name, text)
	})
}

// remake makes a view, with the owner and the triggers of others that it had.
func (w *walk) remake(ctx context.Context, view, text string) error {
	if err := w.do(ctx, text); err != nil {
		return err
	}
	was := w.before.relations[view]
	if was == nil {
		return nil
	}
	if was.owner != w.session.conn.Config().User {
		if err := w.do(ctx, "alter view "+quote(view)+" owner to "+quote(was.owner)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.before.triggers)) {
		if _, declared := w.wanted.triggers[name]; declared || !strings.HasPrefix(name, view+".") {
			continue
		}
		definition, _, _ := strings.Cut(w.before.triggers[name], enabledNote)
		if err := w.do(ctx, definition); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) functions(ctx context.Context, one statement.Statement) error {
	for _, name := range slices.Sorted(maps.Keys(w.wanted.functions)) {
		is, there := w.current.functions[name]
		want := w.wanted.functions[name]
		if !declaredBy(one, name) || there && is.definition == want.definition {
			continue
		}
		err := w.try(ctx, want.definition, []string{"42P13"}, func() error {
			if err := w.do(ctx, dropFunction(name)); err != nil {
				return err
			}
			return w.do(ctx, want.definition)
		})
		if err != nil {
			return err
		}
		w.current.functions[name] = want
	}
	return nil
}

// declaredBy reports whether a function of that name and arguments may be the
// statement's. Those of one name are made together.
func declaredBy(one statement.Statement, name string) bool {
	return strings.HasPrefix(name, one.Name+"(")
}

func dropFunction(name string) string {
	plain, arguments, _ := strings.Cut(name, "(")
	return "drop function " + quote(plain) + "(" + arguments
}

// everything reads what there is on what is declared, whoever made it.
func (w *walk) everything(ctx context.Context) (*catalog, error) {
	of := w.session.declared()
	of.functions = map[string]bool{}
	for name := range w.wanted.functions {
		of.functions[name] = true
	}
	return w.session.read(ctx, w.session.request.Schema, of)
}

// grant gives the rights that are declared, and those that were lost when
// something was made again.
func (w *walk) grant(ctx context.Context) error {
	after, err := w.everything(ctx)
	if err != nil {
		return err
	}
	has := after.grants
	needs := maps.Clone(w.before.grants)
	for p := range needs {
		if strings.HasPrefix(p.object, "function ") && w.wanted.functions[strings.TrimPrefix(p.object, "function ")].definition == "" ||
			p.column != "" && !strings.HasPrefix(p.object, "function ") && find(w.wanted.relations[p.object].columns, p.column) == nil {
			delete(needs, p)
		}
	}
	for p, passOn := range w.wanted.grants {
		needs[p] = needs[p] || passOn
	}
	for p, passOn := range needs {
		if has, there := has[p]; there && (has || !passOn) {
			continue
		}
		if err := w.do(ctx, p.grant(passOn)); err != nil {
			return err
		}
	}
	return nil
}

func find(columns []column, name string) *column {
	for i := range columns {
		if columns[i].name == name {
			return &columns[i]
		}
	}
	return nil
}
