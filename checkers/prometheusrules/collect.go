package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/sdk/generator"
)

// found is what was given that has to do with rules.
type found struct {
	rules []*ruleText
	tests []*testFile
}

// ruleText is a rule file: a file, or the text of an asset.
type ruleText struct {
	// names by which tests may name it.
	names []string
	text  []byte
	// loose: what is no field of a rule file is another's, such as the operator's.
	loose bool
	// at returns where a line of it is told of; 0: all of it.
	at func(out *generator.Output, line int) *generator.Output
}

// hasGroups is how the text of a rule file begins somewhere, and hasTests that of a test file.
var (
	hasGroups = regexp.MustCompile(`(?m)^groups[ \t]*:`)
	hasTests  = regexp.MustCompile(`(?m)^(rule_files|tests)[ \t]*:`)
)

// collect takes rule files, test files and the texts of assets that have rules.
func collect(in *generator.Input, out *generator.Output) (found, error) {
	var all found
	files, err := in.Files()
	if err != nil {
		return all, err
	}
	assets, err := in.Assets()
	if err != nil {
		return all, err
	}
	for _, name := range files {
		if !slices.Contains([]string{".yaml", ".yml", ".rules", ".json"}, path.Ext(name)) {
			continue
		}
		text, err := in.Read(name)
		if err != nil {
			return all, err
		}
		at := func(out *generator.Output, line int) *generator.Output { return out.At(name, max(line, 1)) }
		switch {
		case hasTests.Match(text):
			all.tests = append(all.tests, &testFile{name: name, text: text})
		case hasGroups.Match(text) || path.Ext(name) == ".rules":
			all.rules = append(all.rules, &ruleText{names: []string{name}, text: text, at: at})
		}
	}
	for _, asset := range assets {
		text, err := in.Text(asset)
		if err != nil {
			return all, err
		}
		if err := all.asset(asset, text, out); err != nil {
			return all, fmt.Errorf("the asset %s: %w", asset.ID, err)
		}
	}
	return all, nil
}

// asset takes the texts of an asset that are rule files, and the rules of a PrometheusRule.
func (f *found) asset(asset generator.Asset, text []byte, out *generator.Output) error {
	var content struct {
		Payload map[string]any `json:"payload"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return err
	}
	object, isText := content.Payload["json"].(string)
	if asset.Type != "lehr.kubernetes.v1.Object" || !isText {
		f.texts(asset.ID, "payload", content.Payload)
		return nil
	}
	var parsed map[string]any
	if err := json.Unmarshal([]byte(object), &parsed); err != nil {
		return err
	}
	if parsed["kind"] != "PrometheusRule" {
		f.texts(asset.ID, "payload.json", parsed)
		return nil
	}
	spec, err := yaml.Marshal(parsed["spec"])
	if err != nil {
		return err
	}
	if !hasGroups.Match(spec) {
		out.About(asset.ID, "payload.json.spec.groups", "", 0).Error("write spec: {groups: [...]}, or remove the object", "a PrometheusRule without groups")
		return nil
	}
	rules := assetText(asset.ID, "payload.json.spec", string(spec))
	rules.loose = true
	f.rules = append(f.rules, rules)
	return nil
}

// texts walks through what an asset holds.
func (f *found) texts(id, field string, value any) {
	switch value := value.(type) {
	case string:
		if hasGroups.MatchString(value) && !hasTests.MatchString(value) {
			f.rules = append(f.rules, assetText(id, field, value))
		}
	case map[string]any:
		for _, key := range sortedKeys(value) {
			at := field + "." + key
			if strings.ContainsAny(key, ".[]") {
				at = fmt.Sprintf("%s[%q]", field, key)
			}
			before := len(f.rules)
			f.texts(id, at, value[key])
			for _, rules := range f.rules[before:] {
				rules.names = append(rules.names, key)
			}
		}
	case []any:
		for i := range value {
			f.texts(id, fmt.Sprintf("%s[%d]", field, i), value[i])
		}
	}
}

func sortedKeys(values map[string]any) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// assetText is a rule file that an asset holds.
func assetText(id, field, text string) *ruleText {
	return &ruleText{
		names: []string{id}, text: bytes.TrimSpace([]byte(text)),
		at: func(out *generator.Output, line int) *generator.Output {
			return out.About(id, field, strings.TrimSpace(text), line)
		},
	}
}
