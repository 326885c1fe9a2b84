package definition

import (
	"maps"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/archetype"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/sdk/generator/addon"
)

// Schema is the JSON Schema, of draft 2020-12, of a lehr.yaml, for editors. It
// has every key that the parser accepts and no other, and is no stricter than
// the parser: what a definition must be beyond it, Parse says.
func Schema() map[string]any {
	top := object(map[string]any{
		"lehr": map[string]any{"const": "v1"}, "partition": text(), "owner": text(), "mode": mode(), "modes": mapOf(mode()),
		"types": folder(false), "sources": mapOf(anySource()), "generate": mapOf(anyGenerator()), "validate": validationSchema(),
		"plugins": mapOf(object(map[string]any{"run": texts(), "dial": text(), "at_once": number(1)})), "models": texts(), "outputs": outputsSchema(), "checks": checksSchema(), "access": accessSchema(),
		"notifications": mapOf(notificationSchema()), "rollouts": mapOf(rolloutSchema()), "validations": validationsSchema(),
		"generations": mapOf(object(map[string]any{"assets": text(), "generator": text(), "suffix": enum([]string{"hash", "version"}), "keep": number(1)}, "assets", "generator", "suffix")),
		"delivery":    mapOf(deliverySchema()),
		"releases":    mapOf(releasesSchema()),
		"promotions":  promotionsSchema(),
		"workflows":   mapOf(object(map[string]any{"file": text()}, workflowKeys...)),
		"previews": mapOf(object(map[string]any{
			"branches": texts(), "of": text(), "pull_requests": text(), "assets": text(), "generator": text(), "expires": duration(), "at_most": number(1),
			"every": duration(), "link": text(), "statuses": text(),
		}, "assets", "generator")),
	}, "lehr", "partition", "sources", "generate")
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = "A partition of Lehr"
	return top
}

func object(properties map[string]any, required ...string) map[string]any {
	o := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

// mapOf has any keys.
func mapOf(value map[string]any) map[string]any {
	return map[string]any{"type": "object", "additionalProperties": value}
}

func listOf(item map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": item}
}

func anyOf(kinds ...any) map[string]any { return map[string]any{"anyOf": kinds} }

func enum(words []string) map[string]any { return map[string]any{"enum": words} }

func text() map[string]any { return map[string]any{"type": "string", "minLength": 1} }

// texts are as parser.texts takes them.
func texts() map[string]any {
	list := listOf(text())
	list["minItems"] = 1
	return anyOf(text(), list)
}

func number(least int) map[string]any {
	return map[string]any{"type": "integer", "minimum": least}
}

func duration() map[string]any {
	return map[string]any{"type": "string", "pattern": `^([0-9]+d|\+?([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)([0-9.]+(ns|us|µs|μs|ms|s|m|h))*)$`}
}

func percent() map[string]any {
	return map[string]any{"type": "string", "pattern": "^0*(100|[0-9]{1,2})%$"}
}

// expression is any scalar, as for parser.expression.
func expression() map[string]any {
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}

func mode() map[string]any { return enum([]string{"enforce", "observe", "off"}) }

// folder is a source on the server's machine, or the types'.
func folder(patterns bool) map[string]any {
	properties := map[string]any{"dir": text(), "files": texts()}
	if patterns {
		return object(properties, "files")
	}
	return object(properties)
}

func anySource() map[string]any {
	list := []any{folder(true)}
	secret := object(map[string]any{"env": text(), "file": text()})
	for _, kind := range kinds {
		properties := map[string]any{kind.name: text()}
		if kind.name == "sql" {
			properties["sql"] = anyOf(text(), secret)
		}
		for _, key := range kind.keys {
			switch key {
			case "every":
				properties[key] = duration()
			case "files":
				properties[key] = texts()
			case "token", "key", "known_hosts":
				properties[key] = secret
			case "empty":
				properties[key] = map[string]any{"type": "boolean"}
			case "keep":
				properties[key] = texts()
			case "limit":
				properties[key] = map[string]any{"type": "integer", "minimum": 1, "maximum": source.MostVersions}
			case "order":
				properties[key] = orderSchema()
			case "fields":
				properties[key] = metadataSchema()
			default:
				properties[key] = text()
			}
		}
		list = append(list, object(properties, kind.name))
	}
	return anyOf(list...)
}

// metadataSchema says where metadata of a version is found.
func metadataSchema() map[string]any {
	properties := map[string]any{}
	for _, name := range source.MetadataFields {
		properties[name] = text()
	}
	return object(properties)
}

func anyGenerator() map[string]any {
	var list []any
	for _, language := range []work.Language{work.Starlark, work.WASM, work.Native, work.Model, work.Render} {
		properties := map[string]any{string(language): text(), "from": texts(), "for_each": forEach()}
		switch language {
		case work.WASM:
			properties["args"] = texts()
		case work.Native:
			properties[string(language)] = texts()
		case work.Model:
			properties[string(language)] = enum(archetype.Names())
		case work.Render:
			properties[string(language)], properties["with"] = enum(work.FormatNames()), withSchema()
		}
		list = append(list, object(properties, string(language), "from"))
	}
	for _, known := range addon.All() {
		name, kind := known.Name, derivableAs(known)
		properties := map[string]any{"derive": enum([]string{name, addonPackage + name}), "where": expression()}
		required := append([]string{"derive"}, kind.required...)
		for _, field := range kind.fields {
			if properties[field] = expression(); field == "edges" {
				properties[field] = listOf(edgeSchema())
			}
		}
		if kind.entries != "" {
			properties[kind.entries] = mapOf(expression())
			required = append(required, kind.entries)
		}
		list = append(list, object(properties, required...))
	}
	return anyOf(append(list, resolverSchema())...)
}

// withSchema is a renderer's options. Of addons it says which there are, and of their values
// nothing: the parser does.
func withSchema() map[string]any {
	properties := map[string]any{"where": expression()}
	for _, name := range addon.Names() {
		properties[name], properties[addonPackage+name] = map[string]any{}, map[string]any{}
	}
	entry := object(properties)
	return map[string]any{"type": "object", "properties": map[string]any{addonsKey: anyOf(entry, listOf(entry))}, "additionalProperties": texts()}
}

func edgeSchema() map[string]any {
	return object(map[string]any{
		"rule": enum(slices.Sorted(maps.Keys(edgeRules))), "on": expression(), "when": expression(), "at_least": expression(), "serves": text(), "expects": text(),
	}, "rule", "on")
}

func validationSchema() map[string]any {
	rule := map[string]any{}
	for _, key := range ruleFields {
		switch key {
		case "id", "http", "sql", "database":
			rule[key] = text()
		case "severity":
			rule[key] = enum(slices.Sorted(maps.Keys(ruleSeverities)))
		case "scope":
			rule[key] = enum(slices.Sorted(maps.Keys(ruleScopes)))
		case "parameters":
			rule[key] = mapOf(expression())
		case "arguments":
			rule[key] = listOf(expression())
		case "command":
			rule[key] = texts()
		case "timeout", "keep":
			rule[key] = duration()
		default:
			rule[key] = expression()
		}
	}
	return object(map[string]any{
		"shrink": object(map[string]any{"max": percent(), "changed": percent(), "floor": number(0), "over": duration()}),
		"rules":  listOf(object(rule, "id", "must")), "programs": mapOf(checkerSchema()),
	})
}

// checkerSchema is a checking program: one of three.
func checkerSchema() map[string]any {
	var list []any
	for _, program := range checkerPrograms {
		properties := map[string]any{
			program: text(), "from": texts(), "types": texts(), "for_each": enum([]string{"file"}), "severity": enum(slices.Sorted(maps.Keys(ruleSeverities))),
		}
		switch program {
		case string(work.WASM):
			properties["args"] = texts()
		case string(work.Native):
			properties[program] = texts()
		default:
			properties[program], properties["with"] = enum(work.CheckNames()), mapOf(texts())
		}
		list = append(list, object(properties, program, "from"))
	}
	return anyOf(list...)
}

// CommonSchema is the JSON Schema of a lehr-policy.yaml, as Schema is that of a lehr.yaml.
func CommonSchema() map[string]any {
	labels := mapOf(text())
	top := object(map[string]any{
		"lehr": map[string]any{"const": "v1"}, "register": texts(),
		"partitions": mapOf(object(map[string]any{"owner": text(), "labels": labels})),
		"rules":      mapOf(commonRuleSchema(labels)),
	}, "lehr")
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = "A common policy of Lehr"
	return top
}

func commonRuleSchema(labels map[string]any) map[string]any {
	allow := map[string]any{}
	for _, name := range allowanceFields {
		allow[name] = texts()
	}
	program := map[string]any{
		"check": enum(work.CheckNames()), "with": mapOf(texts()), "types": texts(), "severity": enum(slices.Sorted(maps.Keys(ruleSeverities))),
		"from": anyOf(enum([]string{AllSources, AllGenerators}), listOf(enum([]string{AllSources, AllGenerators}))),
	}
	validation := validationSchema()["properties"].(map[string]any)
	checks := checksSchema()
	delete(checks["properties"].(map[string]any), "overrides")
	whole, defaults := Schema()["properties"].(map[string]any), map[string]any{}
	for _, name := range defaultFields {
		defaults[name] = whole[name]
	}
	defaults["validate"] = object(map[string]any{"shrink": validation["shrink"]})
	defaults["generate"] = mapOf(resolverSchema())
	return object(map[string]any{
		"owner": text(), "reason": text(), "mode": enum(slices.Sorted(maps.Keys(commonModes))),
		"for":         anyOf(enum([]string{"all"}), object(map[string]any{"partition": texts(), "owner": texts(), "labels": labels})),
		"checks":      checks,
		"overridable": texts(),
		"validate":    object(map[string]any{"shrink": validation["shrink"], "rules": validation["rules"], "programs": mapOf(object(program, "check"))}),
		"defaults":    object(defaults),
		"allow":       object(allow),
	}, "owner", "for")
}

func checksSchema() map[string]any {
	checks := object(map[string]any{
		"budget":    object(map[string]any{"scope": text(), "in_flight": number(1), "unhealthy": number(1)}, "scope", "in_flight"),
		"turndown":  object(map[string]any{"in_flight": number(1)}, "in_flight"),
		"approval":  object(map[string]any{"quorum": number(1), "expires": duration()}),
		"overrides": object(map[string]any{"allow": texts(), "longest": duration()}),
	})
	var own []any
	for _, kind := range ownChecks() {
		properties := map[string]any{"where": expression(), "rollbacks": map[string]any{"type": "boolean"}}
		for _, key := range append([]string{kind.key}, kind.keys...) {
			properties[key] = checkField(key)
		}
		own = append(own, object(properties, kind.key))
	}
	checks["additionalProperties"] = anyOf(own...)
	return checks
}

func notificationSchema() map[string]any {
	return object(map[string]any{
		"of": enum([]string{"assets", "partition", "delivery", "workflow"}), "when": expression(), "for": duration(), "repeat": duration(), "to": texts(),
		"text": text(), "group": text(), "resolved": map[string]any{"type": "boolean"},
	}, "when", "to")
}

func rolloutSchema() map[string]any {
	field := object(map[string]any{"document": text(), "field": text(), "pull_request": text()}, "document", "field")
	return object(map[string]any{
		"select": expression(), "by": anyOf(enum([]string{"pins"}), field), "stages": stagesSchema(), "emergency": stagesSchema(), "rollback": stagesSchema(), "validate": texts(),
		"on_bad": enum(slices.Sorted(maps.Keys(onBads))), "newer": enum(slices.Sorted(maps.Keys(newers))), "patience": duration(), "after": texts(),
	}, "select", "stages")
}

func stagesSchema() map[string]any {
	window := map[string]any{}
	for _, key := range windowKeys {
		window[key] = checkField(key)
	}
	stages := listOf(object(map[string]any{
		"name": map[string]any{"type": []string{"string", "integer"}}, "scopes": texts(), "where": expression(), "rest": map[string]any{"const": true},
		"by": map[string]any{"type": "string", "pattern": grouping.String()}, "order": texts(), "parallel": number(1), "count": number(1), "percent": percent(),
		"factor": map[string]any{"type": "number"}, "most": number(1), "delay": duration(), "soak": duration(), "window": object(window, "zone"), "plugin": text(),
		"approval": object(map[string]any{"quorum": number(1), "roles": texts(), "expires": duration()}),
	}))
	stages["minItems"] = 1
	return stages
}

// checkField is a key of a partition's own check.
func checkField(key string) map[string]any {
	switch key {
	case "min_age", "over", "keep", "per", "for", "timeout", "every", "longest":
		return duration()
	case "at_most":
		return number(1)
	case "by":
		return enum(slices.Sorted(maps.Keys(rateBys)))
	case "in_sync":
		return percent()
	case "message", "zone", "holidays", "prometheus", "alertmanager", "query", "alerts", "dimension", "scope", "partition", "train", "environment", "http", "plugin":
		return text()
	case "below", "above", "headroom":
		return map[string]any{"type": "number"}
	case "command":
		return texts()
	case "during":
		return enum(slices.Sorted(maps.Keys(durings)))
	case "after":
		return object(map[string]any{"delay": duration(), "duration": duration()})
	case "silenced", "inhibited", "before":
		return map[string]any{"type": "boolean"}
	case "absent":
		return enum(slices.Sorted(maps.Keys(absences)))
	case "labels":
		return mapOf(expression())
	case "open":
		recurring := object(map[string]any{"rrule": text(), "start": text(), "for": duration()}, "rrule")
		return anyOf(text(), recurring, listOf(anyOf(text(), recurring)))
	case "freezes":
		return listOf(object(map[string]any{"from": text(), "until": text(), "reason": text()}, "from"))
	case "of":
		return enum(slices.Sorted(maps.Keys(ages)))
	case "deny":
		entries := listOf(object(map[string]any{"version": text(), "commit": map[string]any{"type": []string{"string", "integer"}}, "source": text(), "reason": text()}, "reason"))
		entries["minItems"] = 1
		return entries
	default:
		return expression()
	}
}

func accessSchema() map[string]any {
	roles := map[string]any{}
	for _, role := range []intent.Role{intent.Viewer, intent.Editor, intent.Approver, intent.Operator} {
		roles[string(role)] = texts()
	}
	return object(roles)
}

// forEach is a word, or where the keys are.
func forEach() map[string]any {
	return anyOf(enum([]string{"file", "key"}), object(map[string]any{"key": text(), "by": text()}, "key"))
}
