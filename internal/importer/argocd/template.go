package argocd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"
)

// mostText is what one template may give.
const mostText = 1 << 20

// expand fills the parameters into all texts of a value, keys included.
func expand(value any, fill func(string) (string, error)) (any, error) {
	switch value := value.(type) {
	case string:
		return fill(value)
	case []any:
		made := make([]any, len(value))
		for i, element := range value {
			var err error
			if made[i], err = expand(element, fill); err != nil {
				return nil, err
			}
		}
		return made, nil
	case map[string]any:
		made := make(map[string]any, len(value))
		for key, element := range value {
			filled, err := fill(key)
			if err != nil {
				return nil, err
			}
			if made[filled], err = expand(element, fill); err != nil {
				return nil, err
			}
		}
		return made, nil
	}
	return value, nil
}

var parameterPattern = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)

// fillFlat is the older language: {{name}} and {{path.basename}} of flat parameters. What is not
// known stays, as in Argo CD.
func fillFlat(parameters map[string]any) func(string) (string, error) {
	flat := map[string]string{}
	flatten(flat, "", parameters)
	return func(text string) (string, error) {
		return parameterPattern.ReplaceAllStringFunc(text, func(found string) string {
			name := parameterPattern.FindStringSubmatch(found)[1]
			if value, ok := flat[name]; ok {
				return value
			}
			return found
		}), nil
	}
}

// flatten names what lies within by paths with dots, and elements of lists by their number.
func flatten(into map[string]string, at string, value any) {
	join := func(key string) string {
		if at == "" {
			return key
		}
		return at + "." + key
	}
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			flatten(into, join(key), element)
		}
	case []any:
		for i, element := range value {
			flatten(into, join(fmt.Sprint(i)), element)
		}
	case nil:
		into[at] = ""
	default:
		into[at] = fmt.Sprint(value)
	}
}

// fillGo is text/template with the functions that Argo CD gives it.
func fillGo(parameters map[string]any, options []string) func(string) (string, error) {
	functions := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(functions, name)
	}
	functions["normalize"] = normalizeName
	functions["slugify"] = slugify
	functions["toYaml"] = toYAML
	functions["fromYaml"] = func(text string) (map[string]any, error) {
		value, err := parseYAML([]byte(text))
		made, _ := value.(map[string]any)
		return made, err
	}
	functions["fromYamlArray"] = func(text string) ([]any, error) {
		value, err := parseYAML([]byte(text))
		made, _ := value.([]any)
		return made, err
	}
	return func(text string) (string, error) {
		if !strings.Contains(text, "{{") {
			return text, nil
		}
		made, err := template.New("").Funcs(functions).Parse(text)
		if err != nil {
			return "", fmt.Errorf("the template %q: %w", shorten(text), err)
		}
		for _, option := range options {
			if !slices.Contains([]string{"missingkey=default", "missingkey=invalid", "missingkey=zero", "missingkey=error"}, option) {
				return "", fmt.Errorf("goTemplateOptions has %q, which is none", option)
			}
			made = made.Option(option)
		}
		out := limitedBuffer{}
		if err := made.Execute(&out, parameters); err != nil {
			return "", fmt.Errorf("the template %q: %w", shorten(text), err)
		}
		return out.String(), nil
	}
}

// limitedBuffer ends a template that writes without end.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostText {
		return 0, fmt.Errorf("it gives more than %d bytes", mostText)
	}
	return b.Buffer.Write(p)
}

func shorten(text string) string {
	if text = strings.Join(strings.Fields(text), " "); len(text) > 80 {
		return text[:80] + "…"
	}
	return text
}

var notInName = regexp.MustCompile(`[^a-z0-9-.]`)

// normalizeName is Argo CD's: a text as the name of a resource.
func normalizeName(text string) string {
	text = notInName.ReplaceAllString(strings.ToLower(text), "-")
	return strings.Trim(text[:min(len(text), 253)], "-.")
}

var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slugify is Argo CD's, with its arguments: how long it may be, whether it ends at a whole
// word, and the text.
func slugify(arguments ...any) string {
	most, isSmart, text := 50, false, ""
	for _, argument := range arguments {
		switch argument := argument.(type) {
		case int:
			most = argument
		case bool:
			isSmart = argument
		case string:
			text = argument
		}
	}
	slug := strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(slug) <= most {
		return slug
	}
	cut := slug[:most]
	if at := strings.LastIndex(cut, "-"); isSmart && at > 0 && slug[most] != '-' {
		cut = cut[:at]
	}
	return strings.Trim(cut, "-")
}

func toYAML(value any) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// fillText fills a value through its JSON, as Argo CD does it in the older language.
func fillValue(value map[string]any, fill func(string) (string, error)) (map[string]any, error) {
	made, err := expand(value, fill)
	if err != nil {
		return nil, err
	}
	fields, _ := made.(map[string]any)
	return fields, nil
}

// merged puts the fields of one value over those of another.
func merged(base, over map[string]any) map[string]any {
	made := make(map[string]any, len(base)+len(over))
	for key, value := range base {
		made[key] = value
	}
	for key, value := range over {
		below, ok := value.(map[string]any)
		was, wasMap := made[key].(map[string]any)
		if ok && wasMap {
			made[key] = merged(was, below)
		} else {
			made[key] = value
		}
	}
	return made
}

// copied is a value that shares nothing with another.
func copied(value map[string]any) map[string]any {
	var made map[string]any
	text, err := json.Marshal(value)
	if err != nil || json.Unmarshal(text, &made) != nil {
		return map[string]any{}
	}
	WholeNumbers(made)
	return made
}

// WholeNumbers makes the numbers of JSON that are whole integers again, within maps and lists.
func WholeNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = WholeNumbers(value[key])
		}
	case []any:
		for i := range value {
			value[i] = WholeNumbers(value[i])
		}
	case float64:
		if whole := int64(value); float64(whole) == value && whole < 1<<53 && whole > -1<<53 {
			return whole
		}
	}
	return value
}
