package document_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
)

func TestCanonical(t *testing.T) {
	for text, want := range map[string]string{
		` { "b" : 1, "a":[true,null , "x"] } `: `{"a":[true,null,"x"],"b":1}`,
		`9007199254740993123456789`:            `9007199254740993123456789`,
		`-0`:                                   `0`,
		`-0.0`:                                 `0`,
		`1.50`:                                 `1.5`,
		`1e2`:                                  `100`,
		`"<a>&\u0007é\ud83d\ude00"`:            `"<a>&\u0007é😀"`,
		`{}`:                                   `{}`,
	} {
		got, err := document.Canonicalize([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		``, `{`, `[1`, `{"a":1,"a":2}`, `1 2`, `1e400`, `nul`, "\"\xff\"", `{"a":}`, `01`, `NaN`, strings.Repeat("[", 70) + strings.Repeat("]", 70),
		`"` + strings.Repeat("x", document.MaxBytes) + `"`, strings.Repeat("1", 2000),
	} {
		if got, err := document.Canonicalize([]byte(text)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.40q: %.40s, %v", text, got, err)
		}
	}
	pretty := "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x\"\n}\n"
	value, err := document.Parse([]byte(`{"b":"x","a":[1,{}]}`))
	if got := string(document.Pretty(value)); err != nil || got != pretty {
		t.Errorf("%s, %v", got, err)
	}
}

func op(path, value string) document.Operation {
	if value == "" {
		return document.Operation{Path: path}
	}
	return document.Operation{Path: path, Value: json.RawMessage(value)}
}

func TestApply(t *testing.T) {
	const content = `{"clusters":{"a":{"version":"1"}},"list":[1,2],"odd/key~":0}`
	for _, c := range []struct {
		operations []document.Operation
		want       string
	}{
		{[]document.Operation{op("/clusters/a/version", `"2"`)}, `{"clusters":{"a":{"version":"2"}},"list":[1,2],"odd/key~":0}`},
		{[]document.Operation{op("/clusters/b/version", `"2"`), op("/clusters/a", "")}, `{"clusters":{"b":{"version":"2"}},"list":[1,2],"odd/key~":0}`},
		{[]document.Operation{op("/list/-", `3`), op("/list/0", ""), op("/odd~1key~0", "")}, `{"clusters":{"a":{"version":"1"}},"list":[2,3]}`},
		{[]document.Operation{op("", `[1]`)}, `[1]`},
		{[]document.Operation{op("/list/1", `{"x":1}`), op("/list/1/y", `2`)}, `{"clusters":{"a":{"version":"1"}},"list":[1,{"x":1,"y":2}],"odd/key~":0}`},
	} {
		got, err := document.Apply([]byte(content), c.operations)
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v, want %s", c.operations, got, err, c.want)
		}
	}
	for says, operations := range map[string][]document.Operation{
		"no operations":       nil,
		"cannot be removed":   {op("/nothing", "")},
		"neither a map":       {op("/clusters/a/version/x", `1`)},
		"names no element":    {op("/list/2", `1`)},
		"of the list at /lis": {op("/list/01", ``)},
		"does not begin":      {op("list", `1`)},
		"neither 0 nor 1":     {op("/~2", `1`)},
		"whole document":      {op("", "")},
		"no value":            {op("/x", `{`)},
		"would have":          {op("/x", `"`+strings.Repeat("x", document.MaxBytes-1)+`"`)},
	} {
		if _, err := document.Apply([]byte(content), operations); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v does not say %q", operations, err, says)
		}
	}
}

// values draws a document's value.
func values(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 5
		if depth == 0 {
			most = 3
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return json.Number(rapid.SampledFrom([]string{"0", "1", "12345678901234567890"}).Draw(t, "number"))
		case 1:
			return rapid.SampledFrom([]string{"", "x", "a/b~c"}).Draw(t, "text")
		case 2:
			return rapid.Bool().Draw(t, "flag")
		case 3:
			return nil
		case 4:
			return rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "list")
		}
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c/d", ""}), values(depth-1), 0, 3).Draw(t, "map")
	})
}

// TestChangesLeadBothWays: what Compare finds leads from one content to the
// other and back, and reverting what nobody touched is going back.
func TestChangesLeadBothWays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a := document.Canonical(values(3).Draw(r, "a"))
		b := document.Canonical(values(3).Draw(r, "b"))
		changes, err := document.Compare(a, b)
		if err != nil {
			r.Fatal(err)
		}
		if (len(changes) == 0) != (string(a) == string(b)) {
			r.Fatalf("%s and %s: %v", a, b, changes)
		}
		back, err := document.Before(b, changes)
		if err != nil || string(back) != string(a) {
			r.Fatalf("from %s by %v: %s, %v, want %s", b, changes, back, err, a)
		}
		reverted, touched, err := document.Revert(b, a, b)
		if err != nil || len(touched) > 0 || string(reverted) != string(a) {
			r.Fatalf("reverting %s to %s: %s, %v, %v", b, a, reverted, touched, err)
		}
		var operations []document.Operation
		for _, c := range changes {
			operations = append(operations, document.Operation{Path: c.Path, Value: c.After})
		}
		if len(operations) > 0 {
			forth, err := document.Apply(a, operations)
			if err != nil || string(forth) != string(b) {
				r.Fatalf("from %s by %v: %s, %v, want %s", a, changes, forth, err, b)
			}
		}
	})
}

func TestRevertTouchesOnlyWhatWasChanged(t *testing.T) {
	const before, after = `{"a":1,"b":{"x":1},"l":[1,2]}`, `{"a":2,"b":{"x":1,"y":2},"l":[1,3]}`
	for now, want := range map[string]string{
		`{"a":2,"b":{"x":9,"y":2},"l":[1,3],"c":1}`: `{"a":1,"b":{"x":9},"c":1,"l":[1,2]}`,
		`{"a":3,"b":{"x":1,"y":2},"l":[1,3]}`:       "/a",
		`{"a":2,"b":{"x":1},"l":[1,3]}`:             "/b/y",
		`{"a":2,"b":7,"l":[1,3]}`:                   "/b/y",
		`{"a":2,"b":{"x":1,"y":2},"l":[0,3,1]}`:     "/l/1",
	} {
		got, touched, err := document.Revert([]byte(now), []byte(before), []byte(after))
		if said := string(got) + strings.Join(touched, " "); err != nil || said != want {
			t.Errorf("%s: %s, %v, want %s", now, said, err, want)
		}
	}
	if got, touched, err := document.Revert(nil, []byte(before), nil); err != nil || string(got) != before || touched != nil {
		t.Errorf("bringing back what was deleted: %s %v %v", got, touched, err)
	}
}

// FuzzPath: what is read is printed as it was, and names what it set.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"", "/", "/a/b", "/a~1b/~0", "/~2", "a", "//", "/0/-", "/\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := document.ParsePath(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if path.String() != text {
			t.Fatalf("%q is printed as %q", text, path)
		}
		set := []document.Operation{{Path: text, Value: json.RawMessage(`"here"`)}}
		content, err := document.Apply(nil, set)
		if slices.Contains(path, "-") {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("behind the last of no list: %s, %v", content, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if again, err := document.Apply(content, set); err != nil || string(again) != string(content) {
			t.Fatalf("set twice: %s, then %s, %v", content, again, err)
		}
	})
}

// FuzzValue: what is read is printed so that it is read as the same, in one form.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,"x"]}`, `1e5`, `{"a":1,"a":1}`, `"\ud800"`, `[[[]]]`, `-0`, "\"\x7f\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := document.Canonicalize(text)
		if err != nil {
			return
		}
		twice, err := document.Canonicalize(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%q, then %q, %v", once, twice, err)
		}
		value, err := document.Parse(once)
		if err != nil {
			t.Fatal(err)
		}
		if pretty, err := document.Canonicalize(document.Pretty(value)); err != nil || string(pretty) != string(once) {
			t.Fatalf("%q, pretty %q, %v", once, pretty, err)
		}
	})
}
