package main

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"lehr.dev/checkers/kubernetesobjects/builtin"
)

// structure judges the fields of a mapping by its struct. Status is what clusters write.
func (c *checker) structure(value any, kind builtin.Struct, name string, path []string) {
	fields, ok := value.(map[string]any)
	if !ok {
		c.wrong(path, "write the fields of it", "is %s, and a mapping is wanted", formOf(value))
		return
	}
	for _, key := range sortedKeys(fields) {
		code, ok := kind.Fields[key]
		switch {
		case ok && (len(path) == 0 && key == "status" || fields[key] == nil):
		case ok:
			c.value(fields[key], code, with(path, key))
			c.oneOf(fields[key], name, key, with(path, key))
		default:
			c.unknownField(key, sortedKeys(kind.Fields), path)
		}
	}
	for _, key := range kind.Required {
		if fields[key] == nil && isRequired(name, key, kind.Fields[key]) {
			c.wrong(path, "write it", "has no %s, and Kubernetes refuses it without one", key)
		}
	}
}

func (c *checker) unknownField(key string, known []string, path []string) {
	hint := "remove it: kubectl explain says which fields there are"
	if near := nearest(key, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	c.wrong(with(path, key), hint, "Kubernetes %s knows no such field here", c.settings.version.Name)
}

// value judges one by the code of its type.
func (c *checker) value(value any, code string, path []string) {
	if value == nil {
		return
	}
	if inner, ok := strings.CutPrefix(code, "[]"); ok {
		elements, ok := value.([]any)
		if !ok {
			c.wrong(path, "write a list: - before each element", "is %s, and a list is wanted", formOf(value))
			return
		}
		for i, element := range elements {
			c.value(element, inner, with(path, strconv.Itoa(i)))
		}
		return
	}
	if inner, ok := strings.CutPrefix(code, "{}"); ok {
		entries, ok := value.(map[string]any)
		if !ok {
			c.wrong(path, "write KEY: VALUE for each entry", "is %s, and a mapping is wanted", formOf(value))
			return
		}
		for _, key := range sortedKeys(entries) {
			c.value(entries[key], inner, with(path, key))
		}
		return
	}
	if name, ok := strings.CutPrefix(code, "#"); ok {
		c.structure(value, c.settings.version.Type(name), name, path)
		return
	}
	c.scalar(value, code, path)
}

func (c *checker) scalar(value any, code string, path []string) {
	switch code {
	case "any":
	case "string", "time":
		c.string(value, path)
	case "bytes":
		c.bytes(value, path)
	case "bool":
		if _, ok := value.(bool); !ok {
			c.wrong(path, "write true or false, without quotes", "is %s, and true or false is wanted", formOf(value))
		}
	case "int32", "int64", "number":
		c.number(value, code, path)
	case "int-or-string":
		if _, ok := value.(string); !ok {
			c.number(value, "int32", path)
		}
	case "quantity":
		c.quantity(value, path)
	}
}

func (c *checker) string(value any, path []string) {
	if _, ok := value.(string); ok {
		return
	}
	hint := "quote it"
	if number, ok := value.(json.Number); ok && isLabel(path) {
		c.wrong(path, "quote what is meant: YAML reads 1.10 as 1.1", "is the number %s, and a text is wanted", number)
		return
	}
	if _, ok := value.(map[string]any); ok {
		hint = "write a text"
	}
	c.wrong(path, hint, "is %s, and a text is wanted", formOf(value))
}

func (c *checker) bytes(value any, path []string) {
	written, ok := value.(string)
	if !ok {
		c.string(value, path)
	} else if _, err := base64.StdEncoding.DecodeString(written); err != nil {
		c.wrong(path, "write the content in base64: base64 -w0 FILE", "is not base64")
	}
}

func (c *checker) number(value any, code string, path []string) {
	number, ok := value.(json.Number)
	if !ok {
		hint := "write a number"
		if written, isText := value.(string); isText {
			if _, err := strconv.ParseFloat(written, 64); err == nil {
				hint = "write it without quotes"
			}
		}
		c.wrong(path, hint, "is %s, and a number is wanted", formOf(value))
		return
	}
	if code == "number" {
		return
	}
	whole, err := number.Int64()
	switch {
	case err != nil:
		c.wrong(path, "write a whole number", "is no whole number of 64 bits")
	case code == "int32" && (whole > math.MaxInt32 || whole < math.MinInt32):
		c.wrong(path, "write a smaller number", "is a number of more than 32 bits")
	}
}

func (c *checker) quantity(value any, path []string) {
	written, ok := value.(string)
	if number, isNumber := value.(json.Number); isNumber {
		written, ok = number.String(), true
	}
	if !ok {
		c.wrong(path, "write a quantity, such as 500m or 1Gi", "is %s, and a quantity is wanted", formOf(value))
		return
	}
	quantity, err := resource.ParseQuantity(written)
	if err != nil {
		hint := "write a number and one of m, k, M, G, T, Ki, Mi, Gi, Ti, or none"
		if near := nearQuantity(written); near != "" {
			hint = "did you mean " + near + "?"
		}
		c.wrong(path, hint, "%.63q is no quantity", written)
		return
	}
	key := path[len(path)-1]
	if (key == "memory" || key == "storage" || key == "ephemeral-storage") && strings.HasSuffix(written, "m") && quantity.MilliValue()%1000 != 0 {
		c.warn(path, "did you mean "+strings.TrimSuffix(written, "m")+"M?", "%q is a fraction of a byte: m is a thousandth", written)
	}
}

// nearQuantity is what 1GiB, 512MB or 2gb probably mean; empty: nobody knows.
func nearQuantity(written string) string {
	number := strings.TrimRight(written, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(written, number)))
	suffix := map[string]string{
		"kib": "Ki", "mib": "Mi", "gib": "Gi", "tib": "Ti", "ki": "Ki", "mi": "Mi", "gi": "Gi", "ti": "Ti",
		"kb": "k", "mb": "M", "gb": "G", "tb": "T", "g": "G", "t": "T", "k": "k", "b": "",
	}
	found, ok := suffix[unit]
	if _, err := resource.ParseQuantity(number + found); !ok || err != nil {
		return ""
	}
	return number + found
}

// formOf is what a value is, without the value: it may be secret.
func formOf(value any) string {
	switch value.(type) {
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "a truth value"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "empty"
}

// isLabel reports whether a path leads to a label, which is no secret.
func isLabel(path []string) bool {
	return len(path) > 1 && slices.Contains([]string{"labels", "matchLabels", "selector", "nodeSelector"}, path[len(path)-2])
}
