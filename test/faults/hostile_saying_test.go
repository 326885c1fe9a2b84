package faults

import (
	"fmt"
	"strings"
	"testing"
)

// Definitions are read in the server itself.
func TestHostileDefinitions(t *testing.T) {
	t.Parallel()
	h := newAttack(t, "definitions")
	whole := func(text string) func(*attack) {
		return func(h *attack) { h.put("lehr.yaml", tenantDefinition+text) }
	}
	derive := func(expression string) func(*attack) {
		return func(h *attack) {
			h.change("lehr.yaml", "plugins:", fmt.Sprintf("  own: {derive: Owner, owner: %q}\nplugins:", expression))
		}
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for letter := 'b'; letter < 'k'; letter++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", letter, letter, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", letter-1), 9), ", "))
	}
	const place = `lehr\.yaml`
	h.run([]hostile{
		{name: "10 MB", told: []string{place, `has \d+ bytes, at most 262144`, `split it`}, write: whole("# " + strings.Repeat("x", 9<<20))},
		{name: "keys without end", told: []string{place, `more than 20000 keys and values`, `several partitions`}, write: whole(repeat(22_000, "k%d:\n"))},
		{name: "many mistakes", told: []string{place, `unknown field k0`}, write: whole(repeat(5_000, "k%d: 1\n"))},
		{name: "an alias bomb", told: []string{place, `excessive aliasing`}, write: whole(bomb)},
		{name: "lists in lists", told: []string{place, `depth`}, write: whole("owner: " + strings.Repeat("[", 200_000))},
		{name: "no UTF-8", told: []string{place, `UTF-8`}, write: whole("owner: \"\xff\xfe\"\n")},
		{name: "zero bytes", told: []string{place, `control characters`}, write: whole("owner: a\x00b\n")},
		{name: "escapes in a key", told: []string{place, `unknown field`}, write: whole(`"\e[31m\u202Eowner": x` + "\n")},
		{name: "an anchor that holds itself", told: []string{place}, write: whole("owner: &a [*a]\n")},
		{name: "cut to nothing", told: []string{place, `does not define a partition`, `lehr init`}, write: func(h *attack) { h.put("lehr.yaml", "") }},
		{name: "two definitions", told: []string{place, `more than one document`}, write: whole("---\nlehr: v1\n")},
		{name: "another tenant's name", told: []string{place, `registered for tenant`}, write: func(h *attack) { h.change("lehr.yaml", "partition: tenant", "partition: definitions") }},
		{name: "a program elsewhere", told: []string{place, `not a \.star file in this folder`}, write: func(h *attack) { h.change("lehr.yaml", "starlark: web.star", "starlark: ../../etc/web.star") }},
		{name: "a pattern that leads out", told: []string{place}, write: func(h *attack) { h.change("lehr.yaml", `"**/*.yaml"`, `"../../**"`) }},
		{name: "a pattern of many stars", told: []string{place, `no file in .* matches`}, write: func(h *attack) {
			h.put("source/"+strings.Repeat("a/", 60)+"x.yaml", "a: 1")
			h.change("lehr.yaml", `"**/*.yaml"`, `"`+strings.Repeat("**/a/", 30)+`**/y.yaml"`)
		}},
		{name: "a generator of itself", told: []string{place, `web`}, write: func(h *attack) { h.change("lehr.yaml", "from: [service]", "from: [service, web]") }},

		{name: "an expression of 100 kB", told: []string{place, `at most 10000 are allowed`}, write: derive(strings.Repeat("'a' + ", 20_000) + "'a'")},
		{name: "an expression in parentheses", told: []string{place, `own\.owner`}, write: derive(strings.Repeat("(", 4_000) + "'a'" + strings.Repeat(")", 4_000))},
		{name: "comprehensions in comprehensions", told: []string{place, `own\.owner|cost|limit`},
			write: derive("[" + strings.TrimSuffix(strings.Repeat("1,", 1000), ",") + "].map(a, [1,2,3,4,5,6,7,8,9].map(b, [1,2,3,4,5,6,7,8,9].map(c, [1,2,3,4,5,6,7,8,9].map(d, a*b*c*d)))).size() > 0 ? 'a' : 'b'")},
		{name: "a text that doubles", told: []string{place, `own\.owner|cost|limit|bytes`},
			write: derive("[1,2,3,4,5,6,7,8].map(a, [1,2,3,4,5,6,7,8].map(b, asset.id + asset.id + asset.id)).size() > 0 ? " + strings.Repeat("asset.id + ", 800) + "'' : ''")},
		{name: "a pattern without end", told: []string{place}, write: derive("asset.id.matches('" + strings.Repeat("(a?){50}", 100) + "') ? 'a' : 'b'")},
		{name: "an expression of nothing", told: []string{place, `own\.owner`}, write: derive("nothing.at.all")},
	})
}

// Types are compiled in children; what they gave is loaded by the server.
func TestHostileTypes(t *testing.T) {
	t.Parallel()
	h := newAttack(t, "types")
	proto := func(files ...string) func(*attack) {
		return func(h *attack) {
			for i := 0; i < len(files); i += 2 {
				h.put("types/"+files[i], files[i+1])
			}
			h.change("lehr.yaml", "sources:", "types: {dir: types}\nsources:")
		}
	}
	const head = "syntax = \"proto3\";\npackage tenant.v1;\n"
	h.run([]hostile{
		{name: "imports in a circle", told: []string{`types/[ab]\.proto`, `cycle`},
			write: proto("a.proto", head+"import \"b.proto\";", "b.proto", head+"import \"a.proto\";")},
		{name: "an import from outside", told: []string{`types/a\.proto`}, write: proto("a.proto", head+`import "../../../../etc/passwd";`)},
		{name: "a type of Lehr's", told: []string{`types/`}, write: proto("lehr/intent/v1/intent.proto", "syntax = \"proto3\";\npackage lehr.intent.v1;\nmessage Policy {}")},
		{name: "a type of protobuf's", told: []string{`types/`}, write: proto("google/protobuf/any.proto", "syntax = \"proto3\";\npackage google.protobuf;\nmessage Any {}")},
		{name: "ranges without end", told: []string{`types/a\.proto`}, write: proto("a.proto", "syntax = \"proto2\";\npackage tenant.v1;\nmessage A { extensions 4 to 900000000; }")},
		{name: "messages in messages", told: []string{`types`, `nesting depth`}, write: proto("a.proto", head+strings.Repeat("message A {", 5000)+strings.Repeat("}", 5000))},
		{name: "10 000 imports", told: []string{`types`}, write: proto("a.proto", head+repeat(10_000, "import \"x%d.proto\";\n"))},
		{name: "100 000 fields", told: []string{`types`}, write: proto("a.proto", head+"message A {"+strings.TrimSuffix(repeat(17_000, "int32 a%d = 1;"), "")+"}")},
		{name: "a name of 300 kB", told: []string{`types`}, write: proto("a.proto", head+"message "+strings.Repeat("A", 300_000)+" {}\nmessage "+strings.Repeat("A", 100_000)+" {}}")},
		{name: "no UTF-8", told: []string{`types/a\.proto`}, write: proto("a.proto", head+"// \xff\xfe\x00\nmessage A { string a = \"\xff\"; }")},
		{name: "more than a source of types may have", told: []string{`at most`}, write: proto("a.proto", "// "+strings.Repeat("x", 600_000))},
		{name: "a rule that is none", told: []string{`types/a\.proto`},
			write: proto("a.proto", head+`import "buf/validate/validate.proto";`+"\nmessage A { string a = 1 [(buf.validate.field).cel = {id: \"x\", message: \"\", expression: \""+strings.Repeat("(", 2000)+"\"}]; }")},
	})
}

// Generators run in children.
func TestHostileGenerators(t *testing.T) {
	t.Parallel()
	h := newAttack(t, "generators")
	program := func(body string) func(*attack) {
		return func(h *attack) { h.put("web.star", "def generate(ctx):\n"+body) }
	}
	// with adds lines to the usual program.
	with := func(lines string) func(*attack) {
		return func(h *attack) {
			h.change("web.star", "    service = yaml(", lines+"    service = yaml(")
		}
	}
	id := func(id string) func(*attack) {
		return with(fmt.Sprintf("    asset(%q, lehr.intent.v1.Owner(owner = \"a\"))\n", id))
	}
	// besides gives one asset more.
	besides := func(id string) func(*attack) {
		return func(h *attack) {
			h.change("web.star", "return resources + jobs", fmt.Sprintf("return [asset(%q, lehr.intent.v1.Owner(owner = \"x\"))] + resources + jobs", id))
		}
	}
	module := func(content string) func(*attack) {
		return func(h *attack) {
			h.put("web.wasm", content)
			h.change("lehr.yaml", "starlark: web.star", "wasm: web.wasm")
		}
	}
	const place = `web\.star`
	h.run([]hostile{
		{name: "a text that doubles", told: []string{place, `256 MB`}, write: program("    x = \"ab\"\n    for _ in range(60):\n        x = x + x\n    return []\n")},
		{name: "recursion", told: []string{place, `recursively`}, write: func(h *attack) {
			h.put("web.star", "def down(n):\n    return down(n + 1)\n\ndef generate(ctx):\n    return down(0)\n")
		}},
		{name: "a program of parentheses", told: []string{place}, write: program("    return " + strings.Repeat("(", 100_000) + "\n")},
		{name: "a list that holds itself", told: []string{place}, write: program("    x = []\n    x.append(x)\n    return x\n")},
		{name: "a text of deep data", told: []string{place}, write: program("    x = []\n    for _ in range(1000000):\n        x = [x]\n    return str(x)\n")},
		{name: "too much output", told: []string{place, `more than 10000000 bytes`},
			write: with("    for i in range(200):\n        asset(\"big/%d\" % i, lehr.intent.v1.Owner(owner = \"x\" * 140000))\n")},
		{name: "too much of one", told: []string{place, `at most 150000 are allowed`}, write: with("    asset(\"big\", lehr.intent.v1.Owner(owner = \"x\" * 151000))\n")},
		{name: "assets without end", told: []string{place}, write: with("    for i in range(100000000):\n        asset(\"many/%d\" % i, lehr.intent.v1.Owner(owner = \"x\"))\n")},
		{name: "an id twice", told: []string{place, `resource/t`, `twice`}, write: besides("resource/t")},
		{name: "an id of look-alikes", told: []string{place, `id`}, write: id("r\u0435source/t")},
		{name: "an id that runs backwards", told: []string{place, `id`}, write: id("resource/\u202et")},
		{name: "an id of escapes", told: []string{place, `id`}, write: id("resource/\x1b[31m")},
		{name: "an id that leads up", told: []string{place, `id`}, write: id("../../etc/passwd")},
		{name: "an id of 4 kB", told: []string{place, `id`}, write: id(strings.Repeat("x", 4096))},
		{name: "an id of nothing", told: []string{place, `id`}, write: id("")},
		{name: "the policy's id", told: []string{`lehr/policy`}, write: besides("lehr/policy")},
		{name: "the clock", told: []string{place, `undefined: time`}, write: program("    return [time.now()]\n")},
		{name: "chance", told: []string{place, `undefined: random`}, write: program("    return [random()]\n")},
		{name: "a file of the machine's", told: []string{place, `not a declared file`}, write: program("    return yaml(\"/proc/self/environ\")\n")},
		{name: "a file of another tenant's", told: []string{place, `not a declared file`}, write: program("    return yaml(\"../good/service.yaml\")\n")},
		{name: "words that move a cursor", told: []string{place, `fail: \\x1b|fail: .*\\u202e`}, write: program("    fail(\"\\x1b]0;owned\\x07\\x1b[2J \\u202e gnp.exe\")\n")},
		{name: "many words", told: []string{place}, write: program("    fail(\"x\" * 5000000)\n")},
		{name: "a module that is none", told: []string{`web\.wasm`, `no module of WebAssembly`}, write: module("hello")},
		{name: "a module that does not end", told: []string{`web\.wasm`, `longer than 10s`},
			write: module("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x09\x01\x07\x00\x03\x40\x0c\x00\x0b\x0b")},
		{name: "a program that nobody allowed", told: []string{`web\.sh`, `nobody said that partition tenant may`}, write: func(h *attack) {
			h.put("web.sh", "#!/bin/sh\ntouch /tmp/owned\n")
			h.change("lehr.yaml", "starlark: web.star", "command: [./web.sh]")
		}},
		{name: "prints without end", told: []string{place}, write: program("    for i in range(100000000):\n        print(\"x\" * 1000)\n    return []\n")},
	})
}
