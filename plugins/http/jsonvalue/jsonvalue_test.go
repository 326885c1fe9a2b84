package jsonvalue_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/plugins/http/jsonvalue"
)

func TestStrictJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:                    "",
		`{"a":1`:                     "ends before it is whole",
		``:                           "ends before it is whole",
		`[1,2`:                       "ends before it is whole",
		`{"a":1} x`:                  "follows the JSON value",
		`{"a":1}{"a":1}`:             "follows the JSON value",
		`{"a":1,"a":2}`:              `"a" is there twice`,
		`{"a":{"b":1,"b":1}}`:        `"b" is there twice`,
		`{"a":1,"\u0061":2}`:         `"a" is there twice`,
		`{1:2}`:                      "invalid character",
		"{\"a\":\"\xff\"}":           "not UTF-8",
		strings.Repeat("[", 1000):    "within more than",
		`<html>sign in</html>`:       "invalid character",
		`{"a":NaN}`:                  "invalid character",
		"\ufeff{}":                   "invalid character",
		`{"big":9007199254740993.0}`: "",
	} {
		_, err := jsonvalue.Parse([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	for text, want := range map[string]string{
		"9007199254740993": "9007199254740993", "9007199254740993.0": "9007199254740993", "1e3": "1000", "-0": "0", "0.10": "0.1", "1.5e1": "15",
		"0.00": "0", "12e-1": "1.2", "1e-3": "0.001", "-2.50": "-2.5", "1E+2": "100", "1e400": "1e400", "10e399": "1e400", "1e99999999999999999999": "1e99999999999999999999",
	} {
		value, err := jsonvalue.Parse([]byte(text))
		if err != nil || jsonvalue.Canonical(value) != want {
			t.Errorf("%s: %s, %v, want %s", text, jsonvalue.Canonical(value), err, want)
		}
	}
	a, _ := jsonvalue.Parse([]byte(`9007199254740993`))
	b, _ := jsonvalue.Parse([]byte(`9007199254740992`))
	if jsonvalue.Equal(a, b) {
		t.Error("two integers that differ only beyond a float64 are equal")
	}
}

// TestCanonicalTextIsRead: a canonical text is read as the value that it was made of.
func TestCanonicalTextIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,8})?(e-?[0-9]{1,3})?`).Draw(t, "number")
		key := rapid.String().Draw(t, "key")
		text := `{` + jsonvalue.Canonical(key) + `:[` + number + `,"<&>",null,true]}`
		first, err := jsonvalue.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := jsonvalue.Parse([]byte(jsonvalue.Canonical(first)))
		if err != nil || !jsonvalue.Equal(first, again) {
			t.Fatalf("%s became %s: %v", text, jsonvalue.Canonical(first), err)
		}
	})
}

func TestPointers(t *testing.T) {
	value, err := jsonvalue.Object([]byte(`{"a":{"b/c":[{"n":"x","s":1},{"n":"y"},{"m":"z"}]},"k":null}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"/a/b~1c/0/n": `"x"`, "/a/b~1c/*/n": `["x","y"]`, "/k": "null", "/a/b~1c/3": "-", "/a/b~1c/01": "-", "/none": "-", "/k/x": "-",
	} {
		p, err := jsonvalue.ParsePointer(text)
		if err != nil || p.String() != text {
			t.Fatal(text, p, err)
		}
		found, ok := p.Get(value)
		if got := jsonvalue.Canonical(found); ok && got != want || !ok && want != "-" {
			t.Errorf("%s: %s %v, want %s", text, got, ok, want)
		}
	}
	if _, err := jsonvalue.ParsePointer("a"); err == nil {
		t.Error("a pointer without / was taken")
	}
	copied := jsonvalue.Clone(value).(map[string]any)
	deleted, _ := jsonvalue.ParsePointer("/a/b~1c/*/n")
	deleted.Delete(copied)
	if got := jsonvalue.Canonical(copied); got != `{"a":{"b/c":[{"s":1},{},{"m":"z"}]},"k":null}` {
		t.Error(got)
	}
	set, _ := jsonvalue.ParsePointer("/new/deep")
	if err := set.Set(copied, "v"); err != nil || jsonvalue.Canonical(copied["new"]) != `{"deep":"v"}` {
		t.Error(err, copied)
	}
	wrong, _ := jsonvalue.ParsePointer("/a/b~1c/x")
	if err := wrong.Set(copied, 1); err == nil {
		t.Error("a field was set in a list")
	}
	if !(jsonvalue.Pointer{"a", "*"}).Covers(jsonvalue.Pointer{"a", "b", "c"}) || (jsonvalue.Pointer{"a", "b"}).Covers(jsonvalue.Pointer{"a"}) {
		t.Error("covers")
	}
}
