package outputs_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
)

var values = outputs.Values{
	{Asset: "db", Name: "host"}:                    json.RawMessage(`"a\"b\\ü"`),
	{Asset: "db", Name: "port"}:                    json.RawMessage(`9007199254740993`),
	{Asset: "db", Name: "on"}:                      json.RawMessage(`true`),
	{Asset: "db", Name: "list"}:                    json.RawMessage(`["x",1]`),
	{Partition: "net", Asset: "vpc/a", Name: "id"}: json.RawMessage(`"v-1"`),
}

// TestFill: each form, and what is refused.
func TestFill(t *testing.T) {
	for text, want := range map[string]string{
		"nothing":                              "nothing",
		"${output:db#host}":                    `a"b\ü`,
		"at ${output:db#port}/${output:db#on}": "at 9007199254740993/true",
		"$${output:db#port}":                   "${output:db#port}",
		"${output:db#absent} stays":            "${output:db#absent} stays",
		"${output:net//vpc/a#id}":              "v-1",
		"${other:db#port}":                     "${other:db#port}",
		`{"a": "${output:db#port}", "b":["${output:db#list}"],  "c": "x${output:db#host}"}`: `{"a": 9007199254740993, "b":[["x",1]],  "c": "xa\"b\\ü"}`,
		`{"a": "$${output:db#port}", "b": "${output:db#absent}"}`:                           `{"a": "${output:db#port}", "b": "${output:db#absent}"}`,
		`{no json, ${output:db#port}}`:                                                      `{no json, 9007199254740993}`,
	} {
		if got, _, err := outputs.Fill(text, values); err != nil || got != want {
			t.Errorf("%s becomes %s (%v), want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"x ${output:db#list}":          "is a list or an object",
		`{"a": "x ${output:db#list}"}`: "is a list or an object",
		`{"${output:db#host}": 1}`:     "the key",
		`{"a${output:db#host}" : 1}`:   "the key",
		"${output:db#host":             "has no }",
		"${output:DB#host}":            "is not of the form",
		"${output:}":                   "has no #",
	} {
		if got, _, err := outputs.Fill(text, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s becomes %s (%v), want an error with %q", text, got, err, want)
		}
	}
}

// TestUsesAreListed: known and unknown ones, each once.
func TestUsesAreListed(t *testing.T) {
	_, uses, err := outputs.Fill("${output:db#port} ${output:db#absent} ${output:db#port}", values)
	if err != nil {
		t.Fatal(err)
	}
	want := []outputs.Use{{ID: outputs.ID{Asset: "db", Name: "absent"}}, {ID: outputs.ID{Asset: "db", Name: "port"}, Known: true}}
	if got := outputs.Merge(uses); !reflect.DeepEqual(got, want) {
		t.Errorf("it asks for %v", got)
	}
}

// TestJSONStaysJSON: whatever texts a document has and are told, it is the document with its
// texts replaced, each by itself.
func TestJSONStaysJSON(t *testing.T) {
	id := outputs.ID{Asset: "db", Name: "o"}
	rapid.Check(t, func(t *rapid.T) {
		told, err := json.Marshal(rapid.String().Draw(t, "told"))
		if err != nil {
			t.Fatal(err)
		}
		known := outputs.Values{id: told}
		plain := rapid.StringMatching(`[ -#%-~é\n\t"\\]{0,6}`)
		texts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return plain.Draw(t, "before") + rapid.SampledFrom([]string{"", "${output:db#o}", "${output:db#absent}"}).Draw(t, "asks") + plain.Draw(t, "after")
		}), 1, 5).Draw(t, "texts")
		document, err := json.Marshal(map[string]any{"list": texts, "n": 1.5, "in": map[string]string{"x": texts[0]}})
		if err != nil {
			t.Fatal(err)
		}
		filled, _, err := outputs.Fill(string(document), known)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			List []string
			In   map[string]string
		}
		if err := json.Unmarshal([]byte(filled), &got); err != nil {
			t.Fatalf("%s is no JSON: %v", filled, err)
		}
		for i, text := range texts {
			var value string
			_ = json.Unmarshal(told, &value)
			want := strings.ReplaceAll(text, "${output:db#o}", value)
			if got.List[i] != want || i == 0 && got.In["x"] != want {
				t.Fatalf("%q became %q, want %q", text, got.List[i], want)
			}
		}
	})
}

// TestChanges lead from what is stored to what is current, and are none where both agree.
func TestChanges(t *testing.T) {
	value := rapid.SampledFrom([]string{`1`, `"a"`, `[1]`, `{"x":2}`})
	table := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c~/d"}), value, 0, 3)
	encode := func(m map[string]string) map[string]json.RawMessage {
		raw := map[string]json.RawMessage{}
		for name, text := range m {
			raw[name] = json.RawMessage(text)
		}
		return raw
	}
	rapid.Check(t, func(t *rapid.T) {
		stored, current := encode(table.Draw(t, "stored")), encode(table.Draw(t, "current"))
		const asset = intent.AssetID("a/b")
		content := []byte(`{"other":{"x":1}}`)
		if len(stored) > 0 {
			text, _ := json.Marshal(map[string]any{"other": map[string]int{"x": 1}, string(asset): stored})
			content = text
		}
		operations := outputs.Changes(asset, stored, current)
		if same := len(outputs.ChangedNames(stored, current)) == 0; same != (len(operations) == 0) {
			t.Fatalf("%d operations, and what changed is nothing: %t", len(operations), same)
		}
		if len(operations) > 0 {
			var err error
			if content, err = document.Apply(content, operations); err != nil {
				t.Fatal(err)
			}
		}
		var got map[string]map[string]json.RawMessage
		if err := json.Unmarshal(content, &got); err != nil {
			t.Fatal(err)
		}
		if len(outputs.ChangedNames(got[string(asset)], current)) > 0 || string(got["other"]["x"]) != "1" {
			t.Fatalf("it is %s", content)
		}
	})
}

// TestParse: what a person may have written, with its line.
func TestParse(t *testing.T) {
	table, findings := outputs.Parse([]byte("{\n \"db\": {\n  \"port\": 1\n }\n}"))
	id := outputs.ID{Asset: "db", Name: "port"}
	if len(findings) > 0 || string(table.Values[id]) != "1" || table.Lines[id] != 3 {
		t.Errorf("%v, %v", table, findings)
	}
	for content, want := range map[string]string{
		`{"Bad": {}}`:        "is not of the form",
		`{"db": 1}`:          "a map belongs at /db",
		`[]`:                 "a map belongs at /",
		`{"db": {"a b": 1}}`: "is not of the form",
		`{`:                  "cannot be read",
	} {
		if _, findings := outputs.Parse([]byte(content)); len(findings) != 1 || !strings.Contains(findings[0].Message, want) || findings[0].Line < 1 || findings[0].Hint == "" {
			t.Errorf("%s: %+v, want %q", content, findings, want)
		}
	}
}

// TestDamper: three changes at once, then ever longer pauses, until it was calm.
func TestDamper(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	var d outputs.Damper
	var pauses []time.Duration
	for range 12 {
		until := d.Until(now)
		if until.IsZero() {
			until = now
		}
		pauses = append(pauses, until.Sub(now))
		now = until
		d.Note(now)
	}
	minutes := time.Minute
	want := []time.Duration{0, 0, 0, minutes, 2 * minutes, 4 * minutes, 8 * minutes, 16 * minutes, 32 * minutes, outputs.Calm, outputs.Calm, outputs.Calm}
	if !reflect.DeepEqual(pauses, want) {
		t.Errorf("pauses are %v, want %v", pauses, want)
	}
	if now = now.Add(outputs.Calm + time.Second); !d.Until(now).IsZero() {
		t.Error("after an hour of calm it is damped still")
	}
	for range 6 {
		d.Note(now.Add(365 * 24 * time.Hour)) // By a clock that was wrong.
	}
	if !d.Until(now).IsZero() {
		t.Error("what changed at a time that is ahead is damped until then")
	}
	d = outputs.Damper{}
	if d.Note(now); d.Changes != 1 {
		t.Errorf("%d changes after the calm", d.Changes)
	}
}
