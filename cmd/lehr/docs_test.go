package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/intent"
)

const repository = "../.."

// documents are the texts that people read, by path from the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, root := range []string{"README.md", "ARCHITECTURE.md", "docs"} {
		err := filepath.WalkDir(filepath.Join(repository, root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(repository, path)
			texts[name] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	// notInAnchors are the characters of a heading that its anchor does not have.
	notInAnchors = regexp.MustCompile(`[^\pL\pN _-]`)
	linkWithText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors of the headings of a page, as git hosts make them.
func anchors(text string) map[string]bool {
	found, counts := map[string]bool{}, map[string]int{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		plain := linkWithText.ReplaceAllString(match[1], "$1")
		anchor := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(plain)), ""), " ", "-")
		if n := counts[anchor]; n > 0 {
			found[fmt.Sprintf("%s-%d", anchor, n)] = true
		}
		counts[anchor]++
		found[anchor] = true
	}
	return found
}

// TestLinksOfDocumentsResolve: a link leads to a file, and to a heading that is there.
func TestLinksOfDocumentsResolve(t *testing.T) {
	links, headings := 0, 0
	texts := documents(t)
	for name, text := range texts {
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			target, anchor, _ := strings.Cut(match[1], "#")
			path := name
			if target != "" {
				path = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(repository, path)); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			}
			page, ok := texts[path]
			if !ok || anchor == "" {
				continue
			}
			if headings++; !anchors(page)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, match[1])
			}
		}
	}
	if headings < 50 {
		t.Errorf("only %d links to headings were found: is the pattern still right?", headings)
	}
	if links < 20 {
		t.Errorf("only %d links were found: is the pattern still right?", links)
	}
}

var namedTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z]+\b`)

// TestInvariantsNameRealTests: what is said to be shown by a test has one.
func TestInvariantsNameRealTests(t *testing.T) {
	var tests strings.Builder
	err := filepath.WalkDir(repository, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllString(documents(t)["ARCHITECTURE.md"], -1)
	for _, name := range named {
		if !strings.Contains(tests.String(), "\nfunc "+name+"(") {
			t.Errorf("ARCHITECTURE.md names %s, and there is no such test", name)
		}
	}
	if len(named) < 20 {
		t.Errorf("only %d tests are named", len(named))
	}
}

// TestCommandsOfDocumentsParse asks the program itself whether each command
// line that a document shows could be given.
func TestCommandsOfDocumentsParse(t *testing.T) {
	commands := 0
	for name, text := range documents(t) {
		for _, line := range commandLines(text) {
			commands++
			if problem := parses(words(line)[1:]); problem != "" {
				t.Errorf("%s shows %q: %s", name, line, problem)
			}
		}
	}
	if commands < 50 {
		t.Errorf("only %d commands were found: is the search still right?", commands)
	}
}

var fileBlock = regexp.MustCompile("(?s)```(?:yaml|python)\n# ([a-z./]+\\.(?:yaml|star))[^\n]*\n.*?```")

// TestWholeExampleBuilds builds the partition that docs/use/partition.md shows.
func TestWholeExampleBuilds(t *testing.T) {
	folder := t.TempDir()
	text := documents(t)["docs/use/partition.md"]
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, match := range fileBlock.FindAllStringSubmatch(text, -1) {
		_, content, _ := strings.Cut(match[0], "\n")
		write(match[1], strings.TrimSuffix(content, "```"))
	}
	write("services/two.yaml", "{name: two, site: west, text: second}\n")
	built, err := build(t.Context(), cli.BuildOptions{Definition: filepath.Join(folder, "lehr.yaml")})
	if err != nil || len(built.Findings) > 0 {
		t.Fatalf("it does not build: %v %v", err, built.Findings)
	}
	for _, asset := range built.Assets {
		if row := regexp.MustCompile(string(asset.ID) + " +[A-Z][a-z]+ +" + asset.Generator + " .*" + regexp.QuoteMeta(asset.Place)); !row.MatchString(text) {
			t.Errorf("the document does not show %s of %s at %s", asset.ID, asset.Generator, asset.Place)
		}
	}
	if len(built.Assets) != 4 {
		t.Errorf("it makes %d assets, the document shows 4", len(built.Assets))
	}
}

var reportWord = regexp.MustCompile(`\t(?:State|Wait)\w+ +(?:State|WaitingKind) += "([a-z-]+)"`)

// TestEveryReasonIsExplained: whoever is on call finds each state and each
// kind of waiting in the operator's guide.
func TestEveryReasonIsExplained(t *testing.T) {
	text := documents(t)["docs/operate/operating.md"]
	source, err := os.ReadFile(filepath.Join(repository, "internal/ground/intent/report.go"))
	if err != nil {
		t.Fatal(err)
	}
	words := reportWord.FindAllStringSubmatch(string(source), -1)
	for _, word := range words {
		if !strings.Contains(text, "| `"+word[1]+"`") {
			t.Errorf("docs/operate/operating.md has no row for %q", word[1])
		}
	}
	if len(words) < 20 {
		t.Errorf("only %d states and kinds were found", len(words))
	}
}

// TestEveryFieldIsExplained: the payloads of Lehr's own plugins.
func TestEveryFieldIsExplained(t *testing.T) {
	text := documents(t)["docs/extend/plugins.md"]
	for _, payload := range []proto.Message{&commandpb.Command{}, &processpb.Job{}, &processpb.HealthCheck{}, &processpb.Update{}, &processpb.Schedule{}} {
		fields := payload.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			name := string(fields.Get(i).Name())
			if name != "tasks" && name != "keeper" && !strings.Contains(text, "`"+name) && !strings.Contains(text, "."+name+"`") {
				t.Errorf("docs/extend/plugins.md does not tell of %s", fields.Get(i).FullName())
			}
		}
	}
}

// TestEveryKeyIsExplained: what lehr.yaml may say.
func TestEveryKeyIsExplained(t *testing.T) {
	text, checks := documents(t)["docs/use/partition.md"], documents(t)["docs/use/checks.md"]
	// Kinds of a partition's own checks.
	kinds := map[string]bool{"denylist": true, "condition": true, "calendar": true, "query": true, "alerts": true, "peak": true, "rate": true, "partition": true, "train": true}
	var sections [][]string
	for _, file := range []string{"sections.go", "checks.go"} {
		source, err := os.ReadFile(filepath.Join(repository, "internal/prodspec/definition", file))
		if err != nil {
			t.Fatal(err)
		}
		sections = append(sections, regexp.MustCompile(`"([a-z.]+)", \[\]string\{([^}]+)\}`).FindAllStringSubmatch(string(source), -1)...)
	}
	for _, section := range sections {
		for _, key := range strings.Split(section[2], ", ") {
			key = strings.Trim(key, `"`)
			if kinds[section[1]] {
				if !strings.Contains(checks, "`"+key+"`") {
					t.Errorf("docs/use/checks.md does not tell of %s of a %s", key, section[1])
				}
			} else if key = section[1] + "." + key; !strings.Contains(text, "| `"+key) {
				t.Errorf("docs/use/partition.md has no row for %s", key)
			}
		}
	}
	if len(sections) < 6 {
		t.Errorf("only %d sections were found", len(sections))
	}
}

// TestEveryRecordIsExplained: the verbs of the audit.
func TestEveryRecordIsExplained(t *testing.T) {
	text := documents(t)["docs/operate/audit.md"]
	source, err := os.ReadFile(filepath.Join(repository, "internal/store/storetest/audited.go"))
	if err != nil {
		t.Fatal(err)
	}
	verbs := regexp.MustCompile(`Verb: "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1)
	for _, verb := range verbs {
		if !strings.Contains(text, "`"+verb[1]+"`") {
			t.Errorf("docs/operate/audit.md does not tell of %q", verb[1])
		}
	}
	if len(verbs) < 25 {
		t.Errorf("only %d verbs were found", len(verbs))
	}
}

func TestWrongCommandsAreFound(t *testing.T) {
	for _, wrong := range []string{
		"lehr frobnicate", "lehr stop a b --reason x", "lehr get assets --colour", "lehr get things",
		"lehr wait --timeout soon", "lehr partition forget shop",
	} {
		if parses(words(wrong)[1:]) == "" {
			t.Errorf("%q passes", wrong)
		}
	}
}

var inline = regexp.MustCompile("`(lehr [^`]+)`")

// commandLines are the lines of sh blocks that call lehr, those of console
// blocks after a prompt, and inline code.
func commandLines(text string) []string {
	var found []string
	block := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if fence, ok := strings.CutPrefix(line, "```"); ok {
			if block == "" {
				block = fence + " "
			} else {
				block = ""
			}
			continue
		}
		switch block {
		case "":
			for _, match := range inline.FindAllStringSubmatch(line, -1) {
				found = append(found, match[1])
			}
			continue
		case "sh ":
		case "console ":
			var prompted bool
			if line, prompted = strings.CutPrefix(line, "$ "); !prompted {
				continue
			}
		default:
			continue
		}
		line = strings.TrimPrefix(line, "bin/")
		if strings.HasPrefix(line, "lehr ") {
			found = append(found, line)
		}
	}
	return found
}

// words splits a line as a shell would, up to a comment or another command.
func words(line string) []string {
	var list []string
	word, quote, inWord := strings.Builder{}, rune(0), false
	end := func() {
		if inWord {
			list = append(list, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ':
			end()
		case strings.ContainsRune("|>&;", r), r == '#' && !inWord:
			end()
			return list
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return list
}

// parses says why a command line could not be given, or nothing.
func parses(args []string) string {
	root := cli.Command(local())
	command, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	if err := command.ParseFlags(rest); err != nil {
		return err.Error()
	}
	given := command.Flags().Args()
	if !command.Runnable() && len(given) > 0 {
		return "there is no such command"
	}
	if slices.ContainsFunc(given, func(word string) bool { return strings.HasPrefix(word, "…") }) {
		return "" // The text leaves the rest to the reader.
	}
	if err := command.ValidateArgs(given); err != nil {
		return err.Error()
	}
	if command.ValidArgsFunction != nil && len(given) > 0 && given[0] != strings.ToUpper(given[0]) {
		nouns, _ := command.ValidArgsFunction(command, nil, "")
		if !slices.ContainsFunc(nouns, func(noun cobra.Completion) bool { return noun == given[0] || isOne(noun, given[0]) }) {
			return "there is no kind " + given[0]
		}
	}
	return ""
}

// isOne reports whether a word is the singular of a noun.
func isOne(noun, word string) bool { return noun == word+"s" || noun == word+"es" }

// What a page names as shown by a test is a test, every row names one, and no
// fuzzer is forgotten.
func TestThreatsNameTheirTests(t *testing.T) {
	for page, rows := range map[string]string{"design/threat-model.md": "threat", "design/bad-input.md": "tried"} {
		t.Run(page, func(t *testing.T) { namesTests(t, page, rows) })
	}
}

func namesTests(t *testing.T, page, rows string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllStringSubmatch(string(source), -1) {
			tests[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(text), -1)
	for _, name := range named {
		if !tests[name] {
			t.Errorf("%s names %s, which is no test", page, name)
		}
	}
	for name := range tests {
		if strings.HasPrefix(name, "Fuzz") && page == "design/bad-input.md" && !slices.Contains(named, name) {
			t.Errorf("%s does not name %s", page, name)
		}
	}
	if len(named) < 40 {
		t.Errorf("only %d tests are named", len(named))
	}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && !strings.Contains(cells[1], "---") && strings.TrimSpace(cells[1]) != rows && !strings.Contains(cells[3], "Test") {
			t.Errorf("no test stands beside %q", strings.TrimSpace(cells[1]))
		}
	}
}

var lintBlock = regexp.MustCompile("(?s)```console\n\\$ lehr lint rules\n(.*?)```")

// TestRulesOfTheDocumentHold lints the rules that docs/use/partition.md shows, and
// compiles those that ask outside.
func TestRulesOfTheDocumentHold(t *testing.T) {
	folder := t.TempDir()
	havePlugins(t, "lehr-process")
	text := documents(t)["docs/use/partition.md"]
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := 0
	definition := ""
	for _, match := range fileBlock.FindAllStringSubmatch(text, -1) {
		name, ok := strings.CutPrefix(match[1], "rules/")
		if !ok {
			continue
		}
		files++
		_, content, _ := strings.Cut(match[0], "\n")
		if content = strings.TrimSuffix(content, "```"); name == "lehr.yaml" {
			definition = content
		}
		write(name, content)
	}
	shown := lintBlock.FindStringSubmatch(text)
	if files != 3 || shown == nil {
		t.Fatalf("the document has %d files and what is said of them: %q", files, shown)
	}
	var out strings.Builder
	code := cli.Run(t.Context(), cli.Local{Lint: lint}, cli.Terminal{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, []string{"lint", folder})
	if out.String() != shown[1] || code != 1 {
		t.Errorf("the document shows\n%s\nlint says (%d)\n%s", shown[1], code, out.String())
	}
	_, outside, _ := strings.Cut(text, "### Asking something outside")
	_, outside, _ = strings.Cut(outside, "```yaml\n")
	outside, policy, _ := strings.Cut(outside, "```")
	before, _, _ := strings.Cut(definition, "validate:")
	write("lehr.yaml", before+outside)
	_, policy, _ = strings.Cut(policy, "```yaml\n")
	policy, _, _ = strings.Cut(policy, "```")
	write("checks.yaml", policy)
	built, err := lint(t.Context(), cli.BuildOptions{Definition: filepath.Join(folder, "lehr.yaml"), ExternalChecks: filepath.Join(folder, "checks.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range built.Findings {
		if f.Severity == intent.Error {
			t.Errorf("%+v", f)
		}
	}
	if !slices.ContainsFunc(built.Findings, func(f intent.Finding) bool {
		return f.Severity == intent.Holding && strings.Contains(f.Message, "rule in-inventory has no answer")
	}) {
		t.Errorf("no answer is no hold: %+v", built.Findings)
	}
}

// havePlugins has programs of these names be in PATH, as where Lehr is installed.
func havePlugins(t *testing.T, names ...string) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// TestEveryPageIsListed: docs/README.md leads to every page, and the index of decisions to each.
func TestEveryPageIsListed(t *testing.T) {
	pages := documents(t)
	for name := range pages {
		index := "docs/README.md"
		if strings.HasPrefix(name, "docs/design/decisions/") {
			index = "docs/design/decisions/README.md"
		}
		path, ok := strings.CutPrefix(name, filepath.Dir(index)+"/")
		if !ok || name == index || path == "design/decisions/README.md" {
			continue
		}
		if !strings.Contains(pages[index], "]("+path+")") {
			t.Errorf("%s does not list %s", index, name)
		}
	}
}

// TestDecisionsAreDated: each decision says when it was made, and whether it holds.
func TestDecisionsAreDated(t *testing.T) {
	dated := regexp.MustCompile(`^# \d{4}: [A-Z].*\n\n\*\d{4}-\d{2}-\d{2}, (accepted|overtaken).*\*\n`)
	for name, text := range documents(t) {
		if strings.HasPrefix(name, "docs/design/decisions/0") && !dated.MatchString(text) {
			t.Errorf("%s does not begin with its number, its topic, its date and its status", name)
		}
	}
}
