package pgschema

import (
	"context"
	"slices"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
)

// Remove drops what the statements declare, the last first, and nothing that
// depends on it.
func (e *Engine) Remove(ctx context.Context, request database.Request, push database.Push) error {
	return e.change(ctx, request, push, func(ctx context.Context, s *session, wanted *catalog) error {
		current, err := s.readReal(ctx, wanted)
		if err != nil {
			return err
		}
		w := &walk{session: s, push: push, current: current, wanted: wanted}
		for _, sequences := range []bool{false, true} { // defaults of tables rest on sequences
			for _, one := range slices.Backward(request.Statements) {
				if (one.Kind == statement.Sequence) != sequences {
					continue
				}
				for _, text := range w.drops(one) {
					if err := w.do(ctx, text); err != nil {
						return err
					}
				}
			}
		}
		return s.forget(ctx)
	})
}

// drops removes what a statement declares, if it is there.
func (w *walk) drops(one statement.Statement) []string {
	switch r := w.current.relations[one.Name]; {
	case one.Kind == statement.Table && r != nil:
		return []string{"drop table " + quote(one.Name)}
	case one.Kind == statement.View && r != nil:
		return []string{"drop view " + quote(one.Name)}
	case one.Kind == statement.Enum || one.Kind == statement.Domain || one.Kind == statement.Sequence:
		// A sequence that a column owned is gone with it.
		word := map[statement.Kind]string{statement.Enum: "type", statement.Domain: "domain", statement.Sequence: "sequence if exists"}[one.Kind]
		if _, there := w.current.parts[database.Key(one.Kind, one.Name)]; there {
			return []string{"drop " + word + " " + quote(one.Name)}
		}
	case one.Kind == statement.Constraint:
		// Tables may refer to each other.
		if table := w.current.relations[one.Tables[0]]; table != nil && table.constraints[one.Name].kind == "f" {
			return []string{"alter table " + quote(one.Tables[0]) + " drop constraint " + quote(one.Name)}
		}
	case one.Kind == statement.Trigger:
		if _, there := w.current.triggers[one.Tables[0]+"."+one.Name]; there {
			return []string{"drop trigger " + quote(one.Name) + " on " + quote(one.Tables[0])}
		}
	case one.Kind == statement.Function:
		var texts []string
		for name := range w.current.functions {
			if declaredBy(one, name) {
				texts = append(texts, dropFunction(name))
				delete(w.current.functions, name)
			}
		}
		slices.Sort(texts)
		return texts
	}
	return nil
}
