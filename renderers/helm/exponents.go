package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/sdk/generator/kubernetes"
)

// exponents warns of texts in which a chart wrote an integer of its values with an
// exponent, 3.56e+08, as Helm does with those of more than six digits.
func exponents(values map[string]any, objects []kubernetes.Object) (findings []kubernetes.Finding) {
	written := map[string]string{}
	for at, value := range numbers(values, "") {
		if text := fmt.Sprint(value); strings.Contains(text, "e+") {
			written[text] = at
		}
	}
	if len(written) == 0 {
		return nil
	}
	for _, o := range objects {
		var fields any
		if json.Unmarshal([]byte(o.Payload.Json), &fields) != nil {
			continue
		}
		for _, number := range slices.Sorted(maps.Keys(written)) {
			if at := holds(fields, number, ""); at != "" {
				findings = append(findings, kubernetes.Finding{
					File: o.File, Warning: true,
					Message: fmt.Sprintf("%s of %s %s holds the value %s as Helm writes large numbers, with an exponent", at, o.Payload.Kind, o.Payload.Name, written[number]),
					Hint:    "quote the number in the values, or write it in the template by | int64",
				})
			}
		}
	}
	return findings
}

// numbers are the whole numbers among values, by their paths.
func numbers(value any, at string) map[string]float64 {
	found := map[string]float64{}
	switch value := value.(type) {
	case float64:
		if value == float64(int64(value)) {
			found[at] = value
		}
	case []any:
		for i, element := range value {
			maps.Copy(found, numbers(element, fmt.Sprintf("%s[%d]", at, i)))
		}
	case map[string]any:
		for key, element := range value {
			maps.Copy(found, numbers(element, strings.TrimPrefix(at+"."+key, ".")))
		}
	}
	return found
}

// holds is the path of the first text that holds another.
func holds(value any, text, at string) string {
	switch value := value.(type) {
	case string:
		if strings.Contains(value, text) {
			return at
		}
	case []any:
		for i, element := range value {
			if found := holds(element, text, fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if found := holds(value[key], text, strings.TrimPrefix(at+"."+key, ".")); found != "" {
				return found
			}
		}
	}
	return ""
}
