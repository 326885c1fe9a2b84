package definition_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// TestSchemaOfACommonPolicyHasTheKeysOfItsParser: an editor knows every key that the parser takes,
// and no other.
func TestSchemaOfACommonPolicyHasTheKeysOfItsParser(t *testing.T) {
	text, err := json.Marshal(definition.CommonSchema())
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	closed(objects, "", read)
	const rule = "lehr: v1\nrules:\n  a: "
	for path, template := range map[string]string{
		"":                                  "lehr: v1\nzzzzzzzz: x\n",
		".partitions{}":                     "lehr: v1\npartitions: {a: {zzzzzzzz: x}}\n",
		".rules{}":                          rule + "{zzzzzzzz: x}\n",
		".rules{}.for|":                     rule + "{for: {zzzzzzzz: x}}\n",
		".rules{}.allow":                    rule + "{allow: {zzzzzzzz: x}}\n",
		".rules{}.validate":                 rule + "{validate: {zzzzzzzz: x}}\n",
		".rules{}.validate.programs{}":      rule + "{validate: {programs: {p: {zzzzzzzz: x}}}}\n",
		".rules{}.defaults":                 rule + "{defaults: {zzzzzzzz: x}}\n",
		".rules{}.defaults.validate":        rule + "{defaults: {validate: {zzzzzzzz: x}}}\n",
		".rules{}.defaults.validate.shrink": rule + "{validate: {shrink: {zzzzzzzz: x}}}\n",
	} {
		object := objects[path]
		if object == nil {
			t.Errorf("the schema has no closed object at %s", path)
			continue
		}
		var keys []string
		for key := range object["properties"].(map[string]any) {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		_, findings := definition.ParseCommon("lehr-policy.yaml", []byte(template), schema.Builtin())
		found := false
		for _, f := range findings {
			_, list, ok := strings.Cut(f.Hint, "allowed: ")
			if !ok || !strings.Contains(f.Message, "zzzzzzzz") {
				continue
			}
			found = true
			if allowed := slices.Sorted(slices.Values(strings.Split(list, ", "))); !slices.Equal(allowed, keys) {
				t.Errorf("%s: the schema has %v, the parser takes %v", path, keys, allowed)
			}
		}
		if !found {
			t.Errorf("%s: nothing is said of an unknown key: %+v", path, findings)
		}
	}
	properties := func(node any) map[string]any { return node.(map[string]any)["properties"].(map[string]any) }
	rules := properties(read)["rules"].(map[string]any)["additionalProperties"]
	checks := properties(properties(rules)["checks"])
	if checks["budget"] == nil || checks["overrides"] != nil {
		t.Errorf("the checks of a rule are a partition's without overrides, and the schema has %v", checks)
	}
}
