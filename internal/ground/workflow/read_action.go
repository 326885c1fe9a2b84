package workflow

import (
	"net/url"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

func (r *reader) readAction(place string, node *yaml.Node) *Action {
	a := &Action{Line: node.Line}
	kinds, isRefused := 0, false
	kind := func(read func(*yaml.Node)) func(*yaml.Node) {
		return func(node *yaml.Node) {
			kinds++
			read(node)
		}
	}
	// notInPush is of a kind that a push has no use for: what else is wrong with it is no matter then.
	notInPush := func(key string, read func(*yaml.Node)) func(*yaml.Node) {
		return kind(func(node *yaml.Node) {
			if isRefused = r.refuseInPush(node, key); !isRefused {
				read(node)
			}
		})
	}
	r.mapping(node, "the action of "+place, keys{
		"edit":    notInPush("edit", func(node *yaml.Node) { a.Edit = r.readEdit(node) }),
		"task":    notInPush("task", func(node *yaml.Node) { a.Task = r.readTask(node) }),
		"ask":     kind(func(node *yaml.Node) { a.Ask = r.readCall(node, "ask", "GET") }),
		"tell":    kind(func(node *yaml.Node) { a.Tell = r.readCall(node, "tell", "POST") }),
		"person":  notInPush("person", func(node *yaml.Node) { a.Person = r.readPerson(node) }),
		"wait":    kind(func(node *yaml.Node) { a.Wait = r.readWait(node) }),
		"runs":    func(node *yaml.Node) { a.Runs = choice(r, node, "runs", AtMostOnce, AtLeastOnce) },
		"timeout": func(node *yaml.Node) { a.Timeout = r.duration(node, "timeout") },
		"outputs": func(node *yaml.Node) { a.Outputs = r.readOutputs(node, place) },
		"leaves":  func(node *yaml.Node) { a.Leaves, a.saysLeaves = r.texts(node, "leaves"), true },
		"undoes":  func(node *yaml.Node) { a.Undoes, a.saysLeaves = r.texts(node, "undoes"), true },
	})
	if kinds != 1 {
		r.fail(node, "write one of edit, task, ask, tell, person, wait; one state has one action", "the action of %s has %d kinds", place, kinds)
		return nil
	}
	if isRefused {
		return nil
	}
	r.checkKind(node, place, a)
	return a
}

// checkKind tells of keys that the action's kind has no use for, or lacks.
func (r *reader) checkKind(node *yaml.Node, place string, a *Action) {
	inside := a.Person != nil || a.Wait != nil
	switch {
	case !inside && a.Runs == "":
		r.fail(node, "add runs: at-most-once (never repeated, its outcome may be unknown) or runs: at-least-once", "the action of %s does not say how often it runs", place)
	case inside && a.Runs != "":
		r.fail(node, "leave runs out: nothing happens outside", "the action of %s is a %s", place, a.kind())
	case (inside || a.Edit != nil) && len(a.Outputs) > 0:
		r.fail(node, "leave outputs out", "the action of %s is a %s, which tells no outputs", place, a.kind())
	case a.Wait != nil && a.Timeout > 0:
		r.fail(node, "leave timeout out: the wait itself ends", "the action of %s is a wait", place)
	case !a.changes() && len(a.Leaves)+len(a.Undoes) > 0:
		r.fail(node, "leave leaves and undoes out", "the action of %s is %s, which changes nothing", place, a.kind())
	}
}

func (r *reader) require(node *yaml.Node, what string, fields ...string) {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] == "" {
			r.fail(node, "add "+fields[i]+":", "%s has no %s", what, fields[i])
		}
	}
}

func (r *reader) readEdit(node *yaml.Node) *Edit {
	e := &Edit{}
	r.mapping(node, "edit", keys{"document": r.into(&e.Document, "document"), "field": r.into(&e.Field, "field"), "value": r.into(&e.Value, "value")})
	r.require(node, "edit", "document", e.Document, "field", e.Field, "value", e.Value)
	r.checkField(node, e.Field)
	return e
}

func (r *reader) readTask(node *yaml.Node) *Task {
	t := &Task{}
	r.mapping(node, "task", keys{
		"asset": r.into(&t.Asset, "asset"), "document": r.into(&t.Document, "document"),
		"field": r.into(&t.Field, "field"), "value": r.into(&t.Value, "value"),
	})
	r.require(node, "task", "asset", t.Asset)
	if (t.Document == "") != (t.Field == "") || (t.Field == "") != (t.Value == "") {
		r.fail(node, "write document, field and value, or none of them where the asset is due by itself", "task says in part which field makes it due")
	}
	r.checkField(node, t.Field)
	return t
}

// checkField holds the field of a document to what documents can have.
func (r *reader) checkField(node *yaml.Node, field string) {
	if field == "" {
		return
	}
	if _, err := document.ParsePath(field); err != nil {
		r.fail(node, `write it like /clusters/a/version`, "%v", err)
	}
}

func (r *reader) readCall(node *yaml.Node, kind, method string) *Call {
	c := &Call{Method: method}
	known := keys{"url": r.into(&c.URL, "url")}
	if kind == "tell" {
		known["body"] = r.into(&c.Body, "body")
		known["method"] = func(node *yaml.Node) { c.Method = choice(r, node, "method", "POST", "PUT", "PATCH", "DELETE") }
	}
	if r.definition.ForPush {
		known["endpoint"] = r.into(&c.Endpoint, "endpoint")
	}
	r.mapping(node, kind, known)
	r.require(node, kind, "url", c.URL)
	if r.definition.ForPush {
		r.checkPath(node, kind, c)
		return c
	}
	// The host is what the operator lists: no value chooses it.
	host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(c.URL, "https://"), "http://"), "/")
	address, err := url.Parse(placeholder.ReplaceAllString(c.URL, "x"))
	if c.URL != "" && (err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" || strings.Contains(host, "$") || address.User != nil) {
		hint := "write https://HOST/PATH; placeholders may stand after the host"
		if strings.HasPrefix(c.URL, "/") {
			hint += "; a definition that a push runs is read with lehr workflow check --for-push"
		}
		r.fail(node, hint, "%.100q is no address to %s", c.URL, kind)
	}
	return c
}

func (r *reader) readPerson(node *yaml.Node) *Person {
	p := &Person{Quorum: 1}
	r.mapping(node, "person", keys{
		"question": r.into(&p.Question, "question"),
		"roles":    func(node *yaml.Node) { p.Roles = r.roles(node) },
		"quorum":   func(node *yaml.Node) { p.Quorum = r.whole(node, "quorum") },
	})
	r.require(node, "person", "question", p.Question)
	if len(p.Roles) == 0 {
		r.fail(node, "add roles: [ROLE] that may answer", "person names no roles")
	}
	return p
}

// roles that people can have in a partition.
func (r *reader) roles(node *yaml.Node) []string {
	names := r.texts(node, "roles")
	for _, name := range names {
		if _, err := intent.ParseRole(name); err != nil && name != "" {
			var known []string
			for _, role := range intent.Roles() {
				known = append(known, string(role))
			}
			r.fail(node, suggest(name, known), "%.100q is not a role", name)
		}
	}
	return names
}

func (r *reader) readWait(node *yaml.Node) *Wait {
	w := &Wait{}
	r.mapping(node, "wait", keys{
		"for": func(node *yaml.Node) { w.For = r.duration(node, "for") },
		"until": func(node *yaml.Node) {
			w.Until = r.text(node, "until")
			if _, err := time.Parse(time.RFC3339, w.Until); err != nil && !(len(placeholders(w.Until)) == 1 && placeholder.ReplaceAllString(w.Until, "") == "") {
				r.fail(node, "write 2026-11-28T14:00:00Z, or one placeholder such as ${inputs.begin}", "until is %.100q, no time", w.Until)
			}
		},
	})
	if (w.For > 0) == (w.Until != "") {
		r.fail(node, "write for: 30m or until: TIME", "wait needs either for or until")
	}
	return w
}
