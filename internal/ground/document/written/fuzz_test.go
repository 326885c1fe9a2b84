package written_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/document/written"
)

// fields lists the paths of a value.
func fields(value any, path document.Path) (all []document.Path) {
	all = append(all, path)
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, fields(v[key], path.Then(key))...)
		}
	case []any:
		for i, inner := range v {
			all = append(all, fields(inner, path.Then(strconv.Itoa(i)))...)
		}
	}
	return all
}

func fuzz(f *testing.F, name string) {
	f.Fuzz(func(t *testing.T, text []byte, which uint, remove bool, to string) {
		value, err := written.Parse(name, text)
		if err != nil {
			return
		}
		before := document.Canonical(value)
		all := fields(value, nil)
		path := all[which%uint(len(all))]
		operation := document.Operation{Path: path.String()}
		if !remove {
			if operation.Value, err = document.Canonicalize([]byte(to)); err != nil {
				operation.Value = document.Canonical(to)
			}
		}
		content, err := document.Apply(before, []document.Operation{operation})
		if err != nil {
			return
		}
		wanted, err := document.Parse(content)
		if err != nil {
			t.Fatal(err)
		}
		edited, err := written.Edit(name, text, wanted)
		if err != nil {
			return // It is written so strangely that it is left alone.
		}
		again, err := written.Parse(name, edited)
		if err != nil || string(document.Canonical(again)) != string(content) {
			t.Fatalf("%q with %s of %q became %q, which says %s, %v, want %s", text, operation.Value, path, edited, document.Canonical(again), err, content)
		}
		// What is before and behind the field is as it was: comments too.
		if !remove && isScalar(at(value, path)) && isScalar(at(wanted, path)) {
			if kept, most := common(text, edited), len(text)-written.Extent(name, text, path); kept < most {
				t.Fatalf("setting %s of %q gives %q: %d bytes are as they were, want %d", path, text, edited, kept, most)
			}
		}
		if back, err := written.Edit(name, edited, value); err == nil {
			if again, err := written.Parse(name, back); err != nil || string(document.Canonical(again)) != string(before) {
				t.Fatalf("back from %q: %q, %v", edited, back, err)
			}
		}
	})
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func at(value any, path document.Path) any {
	for _, part := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			i, _ := strconv.Atoi(part)
			value = v[i]
		}
	}
	return value
}

// common is how many bytes two texts have in common at the beginning and the end.
func common(a, b []byte) (count int) {
	most := min(len(a), len(b))
	for count < most && a[count] == b[count] {
		count++
	}
	for end := 0; count < most && a[len(a)-1-end] == b[len(b)-1-end]; end++ {
		count++
	}
	return count
}

func FuzzYAML(f *testing.F) {
	for i, seed := range []string{
		"a: 1 # x\nb: {c: 'd', e: [1, 2]}\n", "- a: 1\n  b: |\n    text\n    more\n\n- c\n", "a:\nb: \"q\\\"\" # c\n# end", "x: &a 1\ny: *a\n", "a: b\n  c\n  d\ne: >-\n  folded\n",
		"? a\n: b\n", "{a: , b: }", "a: !!str 1\n", "---\na: 1\n...\n", "ä: ö # ü\n", "a:\r\n  b: 1\r\n", "- - 1\n  - 2\n-\n  - 3\n", "a: |+\n  x\n\n\nb: 1\n",
	} {
		f.Add([]byte(seed), uint(i), i%3 == 0, fmt.Sprint(i))
		f.Add([]byte(seed), uint(i+1), i%2 == 0, `{"n":[1,{}]}`)
		f.Add([]byte(seed), uint(i+2), false, "a text: it's # one")
	}
	fuzz(f, "a.yaml")
}

func FuzzJSON(f *testing.F) {
	for i, seed := range []string{`{"a": 1, "b": [1, 2 ,3]}`, "{\n  \"a\": {\n    \"b\": null\n  }\n}\n", `[]`, `[[1],{}]`, "\t{ \"a\" :true}\n"} {
		f.Add([]byte(seed), uint(i), i%2 == 0, fmt.Sprint(i))
		f.Add([]byte(seed), uint(i+1), false, `{"n":[1,{}]}`)
	}
	fuzz(f, "a.json")
}
