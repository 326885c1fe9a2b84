package bodydiff_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/plugins/http/bodydiff"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/http/profile"
)

func resource(t *testing.T) *profile.Resource {
	t.Helper()
	p, err := profile.Parse("p.yaml", []byte(`http-profile: v1
resources:
  thing:
    identity: {id: /id}
    read: {request: "GET /{id}", absent: [{status: 404}]}
    lists: {/rules: name, "/groups/*/members": id}
    whole: [/labels]
`))
	if err != nil {
		t.Fatal(err)
	}
	return p.Resources["thing"]
}

func object(t interface{ Fatalf(string, ...any) }, text string) map[string]any {
	value, err := jsonvalue.Object([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func TestOnlyOurFieldsAreCompared(t *testing.T) {
	for _, c := range []struct{ name, current, ours, changes, projected, whole, sent string }{
		{"other fields are production's", `{"a":1,"b":2}`, `{"a":1}`, ``, `{"a":1}`, `{"a":1,"b":2}`, `{"a":1}`},
		{"a field differs", `{"a":1,"b":2}`, `{"a":3}`, `body.a 1 3`, `{"a":1}`, `{"a":3,"b":2}`, `{"a":3}`},
		{"a field within", `{"a":{"x":1,"y":2}}`, `{"a":{"x":5}}`, `body.a.x 1 5`, `{"a":{"x":1}}`, `{"a":{"x":5,"y":2}}`, `{"a":{"x":5}}`},
		{"a missing object", `{}`, `{"a":{"x":5,"y":{}}}`, `body.a.x - 5; body.a.y - {}`, `{}`, `{"a":{"x":5,"y":{}}}`, `{"a":{"x":5,"y":{}}}`},
		{"an object where a text is", `{"a":"t"}`, `{"a":{"x":5}}`, `body.a "t" {"x":5}`, `{"a":"t"}`, `{"a":{"x":5}}`, `{"a":{"x":5}}`},
		{"null is absent", `{"a":null}`, `{"a":null,"b":null}`, ``, `{"a":null}`, `{}`, `{"a":null,"b":null}`},
		{"null removes", `{"a":7,"b":1}`, `{"a":null}`, `body.a 7 -`, `{"a":7}`, `{"b":1}`, `{"a":null}`},
		{"a list is a whole", `{"l":[1,2]}`, `{"l":[2,1]}`, `body.l [1,2] [2,1]`, `{"l":[1,2]}`, `{"l":[2,1]}`, `{"l":[2,1]}`},
		{"numbers are equal", `{"a":1.0}`, `{"a":1}`, ``, `{"a":1}`, `{"a":1}`, `{"a":1}`},
		{"integers are exact", `{"a":9007199254740992}`, `{"a":9007199254740993}`, `body.a 9007199254740992 9007199254740993`, `{"a":9007199254740992}`, `{"a":9007199254740993}`, `{"a":9007199254740993}`},
		{"a whole object", `{"labels":{"x":1,"y":2}}`, `{"labels":{"x":1}}`, `body.labels {"x":1,"y":2} {"x":1}`, `{"labels":{"x":1,"y":2}}`, `{"labels":{"x":1}}`, `{"labels":{"x":1}}`},
		{
			"a list with keys", `{"rules":[{"name":"theirs","p":1},{"name":"ours","p":2,"id":9}]}`, `{"rules":[{"name":"ours","p":3},{"name":"new","p":4}]}`,
			`body.rules.ours.p 2 3; body.rules.new.name - "new"; body.rules.new.p - 4`, `{"rules":[{"name":"ours","p":2}]}`,
			`{"rules":[{"name":"theirs","p":1},{"id":9,"name":"ours","p":3},{"name":"new","p":4}]}`, `{"rules":[{"name":"theirs","p":1},{"id":9,"name":"ours","p":3},{"name":"new","p":4}]}`,
		},
		{"a key that is no word", `{"a b":1}`, `{"a b":2}`, `body["a b"] 1 2`, `{"a b":1}`, `{"a b":2}`, `{"a b":2}`},
	} {
		r, current, ours := resource(t), object(t, c.current), object(t, c.ours)
		var changes []string
		for _, f := range bodydiff.Compare(r, current, ours) {
			changes = append(changes, fmt.Sprintf("%s %s %s", bodydiff.Path(f.Place), shown(f.Current, f.HasCurrent), shown(f.Target, f.HasNew)))
		}
		if got := strings.Join(changes, "; "); got != c.changes {
			t.Errorf("%s: changes %s, want %s", c.name, got, c.changes)
		}
		for what, pair := range map[string][2]string{
			"projected": {jsonvalue.Canonical(bodydiff.Project(r, current, ours)), c.projected},
			"whole":     {jsonvalue.Canonical(bodydiff.Overlay(r, current, ours)), c.whole},
			"sent":      {jsonvalue.Canonical(bodydiff.Ours(r, current, ours)), c.sent},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s is %s, want %s", c.name, what, pair[0], pair[1])
			}
		}
		if jsonvalue.Canonical(current) != jsonvalue.Canonical(object(t, c.current)) {
			t.Errorf("%s: the current body was changed", c.name)
		}
	}
}

func shown(value any, ok bool) string {
	if !ok {
		return "-"
	}
	return jsonvalue.Canonical(value)
}

// TestWhatIsSentWholeIsInSync: after a write of everything nothing differs any more, and
// no field that is not ours is another.
func TestWhatIsSentWholeIsInSync(t *testing.T) {
	r := resource(t)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaves := []*rapid.Generator[any]{rapid.Just(any("t")), rapid.Just(any(true)), rapid.Just(any(nil)), rapid.Just(any([]any{"x"}))}
		if depth > 0 {
			leaves = append(leaves, rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "labels", "c"}), value(depth-1), 0, 3), func(m map[string]any) any { return m }))
		}
		return rapid.OneOf(leaves...)
	}
	bodies := rapid.MapOfN(rapid.SampledFrom([]string{"a", "labels", "c", "d"}), value(2), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		current, ours := bodies.Draw(t, "current"), bodies.Draw(t, "ours")
		written := bodydiff.Overlay(r, current, ours)
		if left := bodydiff.Compare(r, written, ours); len(left) > 0 {
			t.Fatalf("%s over %s is %s, and differs: %v", jsonvalue.Canonical(ours), jsonvalue.Canonical(current), jsonvalue.Canonical(written), left)
		}
		for key, value := range current {
			if _, ok := ours[key]; !ok && !jsonvalue.Equal(written[key], value) {
				t.Fatalf("%s was changed", key)
			}
		}
	})
}

func TestElementsWithoutTheirKey(t *testing.T) {
	for text, want := range map[string]string{
		`{"rules":[{"name":"a"},{"name":"b"}]}`:                   "",
		`{"rules":[{"name":"a"},{"p":1}]}`:                        "/rules/1",
		`{"rules":[{"name":"a"},{"name":"a"}]}`:                   "/rules/1",
		`{"groups":{"g":{"members":[{"id":1},{"id":1}]}}}`:        "/groups/g/members/1",
		`{"other":[1,1],"groups":{"g":{"members":[{"id":"1"}]}}}`: "",
	} {
		if place, _ := bodydiff.MissingKey(resource(t), object(t, text)); place != want {
			t.Errorf("%s: %s, want %s", text, place, want)
		}
	}
}
