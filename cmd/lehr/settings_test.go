package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"lehr.dev/internal/access"
	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/sdk/client"
)

// tried is one command of the table: how it is called, and what each setting does.
type tried struct {
	args string
	// obeys, in letters: s store, d database, v server, p partition, j JSON.
	obeys string
	// variables that are refused, in the same letters; a variable of what is obeyed is
	// obeyed, and any other has no bearing.
	refuses string
	// own are refused by the command in its own words.
	own string
	// quiet: which of those obeyed show in no request, since something else is asked
	// for first, or only sometimes.
	quiet string
}

// everySetting has every command. One that is new needs an entry.
var everySetting = map[string]tried{
	"init":                 {args: "DIR", obeys: "pj", quiet: "p"},
	"import":               {},
	"import postgres":      {args: "postgres://127.0.0.1:1/x --to OUT", obeys: "pj", quiet: "p"},
	"import sqlite":        {args: "FILE --to OUT", obeys: "pj", quiet: "p"},
	"import processes":     {args: "no-such-program --to OUT", obeys: "pj", quiet: "p"},
	"import manifests":     {args: "FILE --to OUT", obeys: "pj", quiet: "p"},
	"import kubernetes":    {args: "--kubeconfig none --to OUT", obeys: "pj", quiet: "p"},
	"import flux":          {args: "FILE --to OUT", obeys: "pj", quiet: "p"},
	"import terraform":     {args: "FILE --to OUT", obeys: "pj", quiet: "p"},
	"import argocd":        {args: "FILE --to OUT", obeys: "pj", quiet: "p"},
	"import helm":          {args: "FILE --cluster x --to OUT", obeys: "pj", quiet: "p"},
	"import keel":          {args: "FILE --to OUT", obeys: "pj", quiet: "p"},
	"import kargo":         {args: "FILE --to OUT", obeys: "pj", quiet: "p"},
	"import argo-rollouts": {args: "FILE --cluster x --to OUT", obeys: "pj", quiet: "p"},
	"import flagger":       {args: "FILE --cluster x --to OUT", obeys: "pj", quiet: "p"},
	"import http":          {args: "--endpoints none --endpoint x --resource y --to OUT", obeys: "pj", quiet: "p"},
	"import plugin":        {args: "false --to OUT", obeys: "pj", quiet: "p"},
	"build":                {args: "DEFINITION", obeys: "sdvj", quiet: "sdv"},
	"lint":                 {args: "DEFINITION", obeys: "sdvj", quiet: "sdv"},
	"schema":               {obeys: "j"},
	"plan":                 {args: "--head", obeys: "sdvpj"},
	"serve":                {obeys: "sdj"},
	"partition":            {},
	"partition add":        {args: "DEFINITION", obeys: "sdvj"},
	"partition remove":     {args: "one", obeys: "sdvpj"},
	"partition list":       {obeys: "sdvpj", quiet: "p"},
	"policy":               {},
	"policy show":          {obeys: "sdvpj"},
	"policy plan":          {args: "DEFINITION", obeys: "sdvj"},
	"document":             {},
	"document list":        {obeys: "sdvpj"},
	"document get":         {args: "knobs", obeys: "sdvpj"},
	"document create":      {args: "knobs --reason r", obeys: "sdvpj"},
	"document set":         {args: "knobs a=1 --reason r", obeys: "sdvpj"},
	"document unset":       {args: "knobs a --reason r", obeys: "sdvpj"},
	"document apply":       {args: "knobs JSON --reason r", obeys: "sdvpj"},
	"document edit":        {args: "knobs --reason r", obeys: "sdvpj"},
	"document history":     {args: "knobs", obeys: "sdvpj"},
	"document diff":        {args: "knobs a b", obeys: "sdvpj"},
	"document undo":        {args: "knobs a --reason r", obeys: "sdvpj"},
	"document delete":      {args: "knobs --reason r", obeys: "sdvpj"},
	"kubernetes":           {},
	"kubernetes rbac":      {args: "DEFINITION", obeys: "sdvj", quiet: "sdv"},
	"demo":                 {},
	"plugin":               {},
	"plugin test":          {args: "--example none.yaml -- none", obeys: "j"},
	"plugin new":           {args: "mine", obeys: "j"},
	"plugin generate":      {obeys: "j"},
	"sim":                  {args: "none.txtar", obeys: "j"},
	"why":                  {obeys: "sdvpj"},
	"timeline":             {args: "web", obeys: "sdvpj"},
	"notify":               {args: "--dry-run", obeys: "sdvpj"},
	"blame":                {args: "web", obeys: "sdvpj"},
	"find":                 {args: "deployment/web", obeys: "sdvpj"},
	"where":                {args: "3f2a91", obeys: "sdvpj"},
	"get":                  {args: "pins", obeys: "sdvpj"},
	"describe":             {args: "asset web", obeys: "sdvpj"},
	"watch":                {args: "reports --once", obeys: "sdvpj"},
	"top":                  {args: "--once", obeys: "sdvpj", quiet: "p"},
	"wait":                 {args: "--timeout 10ms", obeys: "sdvpj"},
	"diff":                 {args: "1 2", obeys: "sdvpj"},
	"judge":                {args: "none.csv", obeys: "j"},
	"workflow":             {},
	"workflow approve":     {args: "3", obeys: "sdvpj"},
	"workflow cancel":      {args: "3 --reason r", obeys: "sdvpj"},
	"workflow check":       {args: "none.yaml", obeys: "j"},
	"workflow draw":        {args: "none.yaml", obeys: "j"},
	"workflow history":     {args: "3", obeys: "sdvpj"},
	"workflow list":        {obeys: "sdvpj"},
	"workflow migrate":     {args: "3 --reason r", obeys: "sdvpj"},
	"workflow reject":      {args: "3 --reason r", obeys: "sdvpj"},
	"workflow retry":       {args: "3 --reason r", obeys: "sdvpj"},
	"workflow run":         {args: "promote --reason r", obeys: "sdvpj"},
	"workflow signal":      {args: "3 go_on", obeys: "sdvpj"},
	"workflow status":      {args: "3", obeys: "sdvpj"},
	"audit":                {},
	"audit verify":         {obeys: "sdpj", refuses: "v"},
	"audit export":         {obeys: "sdvp", quiet: "p"},
	"audit checkpoint":     {obeys: "sdvpj", quiet: "p"},
	"page":                 {obeys: "sdvj"},
	"export":               {obeys: "sdvp"},
	"verify-export":        {args: "FILE", obeys: "j"},
	"blob":                 {args: "blob:sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", obeys: "sdvp", quiet: "p"},
	"stop":                 {args: "--reason r", obeys: "sdvpj"},
	"resume":               {args: "--reason r", obeys: "sdvpj"},
	"hold":                 {args: "web --reason r", obeys: "sdvpj"},
	"unhold":               {args: "web --reason r", obeys: "sdvpj"},
	"retry":                {args: "web --reason r", obeys: "sdvpj"},
	"pin":                  {args: "web 1 --reason r", obeys: "sdvpj"},
	"unpin":                {args: "web --reason r", obeys: "sdvpj"},
	"rollout":              {},
	"rollout plan":         {args: "canary", obeys: "sdvpj"},
	"rollout status":       {args: "canary", obeys: "sdvpj"},
	"rollout history":      {args: "canary", obeys: "sdvpj"},
	"rollout record":       {args: "20261123T131500Z/canary@3/first/errors", obeys: "sdvp", quiet: "p"},
	"rollout start":        {args: "canary --reason r", obeys: "sdvpj"},
	"rollout pause":        {args: "canary --reason r", obeys: "sdvpj"},
	"rollout resume":       {args: "canary --reason r", obeys: "sdvpj"},
	"rollout abort":        {args: "canary --reason r", obeys: "sdvpj"},
	"rollout skip":         {args: "canary --reason r", obeys: "sdvpj"},
	"rollout promote":      {args: "canary --reason r", obeys: "sdvpj"},
	"rollout rollback":     {args: "canary --reason r", obeys: "sdvpj"},
	"rollout emergency":    {args: "canary --reason r", obeys: "sdvpj"},
	"rollout forgive":      {args: "canary --reason r", obeys: "sdvpj"},
	"rollout approve":      {args: "canary --reason r", obeys: "sdvpj"},
	"rollout reject":       {args: "canary --reason r", obeys: "sdvpj"},
	"rollout release":      {args: "canary --reason r", obeys: "sdvpj"},
	"approve":              {args: "web --reason r", obeys: "sdvpj"},
	"reject":               {args: "web --reason r", obeys: "sdvpj"},
	"override":             {args: "web --check calendar --for 1h --reason r", obeys: "sdvpj"},
	"disown":               {args: "web --reason r", obeys: "sdvpj"},
	"turndown":             {args: "web --reason r --yes", obeys: "sdvpj"},
	"label":                {args: "1 release=a", obeys: "sdvpj"},
	"auth":                 {},
	"auth login":           {obeys: "vj"},
	"auth logout":          {obeys: "vj", quiet: "v"},
	"auth whoami":          {obeys: "sdvj"},
	"auth can":             {args: "viewer", obeys: "sdvpj"},
	"auth token":           {},
	"auth token create":    {obeys: "sdvpj"},
	"auth token list":      {obeys: "sdvj"},
	"auth token revoke":    {args: "abc", obeys: "sdvj"},
	"backup":               {args: "OUT", obeys: "sj", refuses: "vp", own: "d"},
	"restore":              {args: "FILE", obeys: "sj", refuses: "vp", own: "d"},
	"store":                {},
	"store adopt":          {args: "--reason r", obeys: "sdj", refuses: "vp"},
	"store verify":         {obeys: "sdj", refuses: "vp"},
	"debug":                {},
	"debug bundle":         {args: "--list", obeys: "sdvj"},
	"version":              {obeys: "sdvj", quiet: "d"},
	"release":              {},
	"release abort":        {args: "1 --reason r", obeys: "sdvpj"},
	"release create":       {args: "payments=1.0 --reason r", obeys: "sdvpj"},
	"release hold":         {args: "1 --reason r", obeys: "sdvpj"},
	"release plan":         {args: "payments=1.0", obeys: "sdvpj"},
	"release resume":       {args: "1 --reason r", obeys: "sdvpj"},
	"release skip":         {args: "1 --reason r", obeys: "sdvpj"},
	"release status":       {args: "1", obeys: "sdvpj"},
	"delivery":             {},
	"delivery approve":     {args: "production 1.0 --reason r", obeys: "sdvpj"},
	"delivery changes":     {args: "production staging", obeys: "sdvpj"},
	"delivery history":     {args: "", obeys: "sdvpj"},
	"delivery figures":     {args: "", obeys: "sdvpj"},
	"delivery force":       {args: "production 1.0 --past people --reason r", obeys: "sdvpj"},
	"delivery hotfix":      {args: "1.0 --reason r", obeys: "sdvpj"},
	"delivery mark-bad":    {args: "1.0 --reason r", obeys: "sdvpj"},
	"delivery mark-good":   {args: "1.0 --reason r", obeys: "sdvpj"},
	"delivery pause":       {args: "production --reason r", obeys: "sdvpj"},
	"delivery pin":         {args: "production 1.0 --reason r", obeys: "sdvpj"},
	"delivery reject":      {args: "production 1.0 --reason r", obeys: "sdvpj"},
	"delivery restart":     {args: "production 1.0 --of people --reason r", obeys: "sdvpj"},
	"delivery resume":      {args: "production --reason r", obeys: "sdvpj"},
	"delivery roll-back":   {args: "production 1.0 --reason r", obeys: "sdvpj"},
	"delivery skip-to":     {args: "production 1.0 --reason r", obeys: "sdvpj"},
	"delivery unpin":       {args: "production --reason r", obeys: "sdvpj"},
	"delivery verdict":     {args: "staging smoke good --reason r", obeys: "sdvpj"},
}

// stage is a folder in which commands are tried, with a server that answers all, and
// parts of the program that do nothing but note what they were asked for.
type stage struct {
	folder   string
	server   *httptest.Server
	mu       sync.Mutex
	asked    []string
	requests []proto.Message
}

const namedDatabase = "postgres://lehr@db.example/named"

func newStage(t *testing.T) *stage {
	s := &stage{folder: t.TempDir()}
	for name, content := range map[string]string{
		"lehr.yaml": "lehr: v1\npartition: one\n", "file": "{}", "document.json": "{}",
	} {
		if err := os.WriteFile(filepath.Join(s.folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	if err := (access.Rendezvous{URL: s.server.URL, Token: "launch"}).Write(s.store()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) store() string { return filepath.Join(s.folder, "named.db") }

func (s *stage) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
}

// ServeHTTP answers any call with a message whose fields all say something.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.note("server")
	service, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	method := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name))
	streams := method.IsStreamingServer()
	if streams && len(body) > 5 {
		body = body[5:]
	}
	request := dynamicpb.NewMessage(method.Input())
	_ = proto.Unmarshal(body, request)
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	if streams {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write([]byte("\x02\x00\x00\x00\x02{}"))
		return
	}
	answer := dynamicpb.NewMessage(method.Output())
	fill(answer, 4)
	content, _ := proto.Marshal(answer)
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	_, _ = w.Write(content)
}

// fill sets fields to something, a few levels deep. There are no further pages.
func fill(m protoreflect.Message, deep int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case deep == 0 || field.ContainingOneof() != nil || field.Name() == "next" || field.Name() == "at" && field.Kind() == protoreflect.StringKind:
		case field.IsMap():
		case field.Kind() == protoreflect.MessageKind && field.IsList():
			fill(m.Mutable(field).List().AppendMutable().Message(), deep-1)
		case field.Kind() == protoreflect.MessageKind:
			fill(m.Mutable(field).Message(), deep-1)
		case field.IsList():
		case field.Kind() == protoreflect.StringKind:
			text := "one"
			switch field.Name() {
			case "store":
				text = namedDatabase
			case "content", "json", "payload":
				text = "{}"
			case "link", "digest", "token":
				text = strings.Repeat("ab", 32)
			}
			m.Set(field, protoreflect.ValueOfString(text))
		}
	}
}

// local is the real tree of commands, over parts that note what they were asked for.
func (s *stage) local() cli.Local {
	parts := local()
	noted := errors.New("noted")
	parts.StoreName = func(store string) string { return store }
	parts.Open = func(_ context.Context, store string, _ intent.Actor) (*client.Client, func() error, error) {
		s.note(store)
		return nil, nil, fault.New(fault.Unavailable, "noted")
	}
	parts.Serve = func(_ context.Context, o cli.ServeOptions, _ func(cli.Serving)) error {
		s.note(o.Store + o.Database)
		return noted
	}
	parts.VerifyAudit = func(_ context.Context, source cli.AuditSource) (audit.Report, error) {
		s.note(source.Store + " " + source.Database + " " + string(source.Partition))
		return audit.Report{}, nil
	}
	parts.Keeping = cli.Keeping{
		Adopt: func(_ context.Context, place cli.StorePlace, _ string, _ uint64, _ intent.Actor) (cli.Adopted, error) {
			s.note(place.Store + " " + place.Database)
			return cli.Adopted{}, nil
		},
		Verify: func(_ context.Context, place cli.StorePlace) (cli.Verified, error) {
			s.note(place.Store + " " + place.Database)
			return cli.Verified{}, nil
		},
		Backup: func(_ context.Context, store, _ string) (cli.Verified, error) {
			s.note(store)
			return cli.Verified{}, nil
		},
		Restore: func(_ context.Context, _, store string) (string, cli.Verified, error) {
			s.note(store)
			return "", cli.Verified{}, nil
		},
	}
	parts.Build = func(context.Context, cli.BuildOptions) (cli.Built, error) { return cli.Built{Partition: "one"}, nil }
	parts.Lint = parts.Build
	parts.ReferenceFields = func(context.Context, string, string, string) ([]schema.ReferenceField, []intent.Finding, error) {
		return nil, nil, nil
	}
	parts.JSONSchema = func(context.Context, string, string, string) (map[string]any, []intent.Finding, error) {
		return map[string]any{}, nil, nil
	}
	return parts
}

// run runs a command with a setting of its own.
func (s *stage) run(t *testing.T, path, args string, environment map[string]string, flags ...string) (code int, out, errs string) {
	t.Helper()
	s.mu.Lock()
	s.asked, s.requests = nil, nil
	s.mu.Unlock()
	words := append(strings.Fields(path), flags...)
	for _, word := range strings.Fields(args) {
		switch word {
		case "DIR", "OUT":
			word = filepath.Join(t.TempDir(), "new")
		case "FILE":
			word = filepath.Join(s.folder, "file")
		case "JSON":
			word = filepath.Join(s.folder, "document.json")
		case "DEFINITION":
			word = filepath.Join(s.folder, "lehr.yaml")
		}
		words = append(words, word)
	}
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), s.local(), cli.Terminal{Out: &stdout, Err: &stderr, Getenv: func(name string) string {
		if name == "LEHR_CONFIG_DIR" {
			return s.folder
		}
		return environment[name]
	}}, words)
	return code, stdout.String(), stderr.String()
}

const ignores = "and would ignore it"

// everyCommand of the tree, by its path.
func everyCommand(root *cobra.Command, each func(path string, command *cobra.Command)) {
	for _, command := range root.Commands() {
		if command.Name() == "help" || command.Name() == "completion" || strings.HasPrefix(command.Name(), "__") {
			continue
		}
		_, path, _ := strings.Cut(command.CommandPath(), " ")
		each(path, command)
		everyCommand(command, each)
	}
}

// TestEverySettingIsObeyedOrRefused: no command ignores a flag that all commands
// have, or a variable that would have narrowed what it acts on.
func TestEverySettingIsObeyedOrRefused(t *testing.T) {
	root := cli.Command(local())
	known := map[string]bool{}
	everyCommand(root, func(path string, command *cobra.Command) {
		known[path] = true
		entry, ok := everySetting[path]
		if !ok {
			t.Errorf("lehr %s has no entry in everySetting: say what it does with each setting, there and in obediences of package cli", path)
			return
		}
		if !command.HasSubCommands() {
			t.Run(path, func(t *testing.T) { tryEvery(t, path, entry) })
		}
	})
	for path := range everySetting {
		if !known[path] {
			t.Errorf("there is no command lehr %s", path)
		}
	}
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains([]string{"store", "database", "server", "partition", "output", "json", "help"}, flag.Name) {
			t.Errorf("no command says what it does with --%s, which all have", flag.Name)
		}
	})
}

func tryEvery(t *testing.T, path string, entry tried) {
	t.Chdir(t.TempDir())
	for letter, setting := range map[string]struct{ flag, value, variable string }{
		"s": {"store", "", "LEHR_STORE"}, "d": {"database", namedDatabase, "LEHR_DATABASE"},
		"v": {"server", "", "LEHR_SERVER"}, "p": {"partition", "one", "LEHR_PARTITION"},
	} {
		s := newStage(t)
		value := setting.value
		switch letter {
		case "s":
			value = s.store()
		case "v":
			value = s.server.URL
		}
		obeys := strings.Contains(entry.obeys, letter)
		own := letter == "p" && slices.Contains([]string{"serve", "sim", "plugin test", "kubernetes rbac"}, path)
		elsewhere := map[string]string{"LEHR_TOKEN": "lehr_x"}
		if letter == "p" && strings.Contains(entry.obeys, "v") {
			elsewhere["LEHR_SERVER"] = s.server.URL
		}
		if !own {
			code, out, errs := s.run(t, path, entry.args, elsewhere, "--"+setting.flag, value)
			s.judge(t, "--"+setting.flag, letter, value, entry, obeys, !obeys, code, out+errs)
			if code, _, errs := s.run(t, path, entry.args, elsewhere, "--"+setting.flag, ""); code == 0 || len(s.asked) > 0 {
				t.Errorf("an empty --%s is taken, and asks for %q: %s", setting.flag, s.asked, errs)
			}
		}
		environment := map[string]string{setting.variable: value}
		for name, value := range elsewhere {
			environment[name] = value
		}
		refused := strings.Contains(entry.refuses+entry.own, letter)
		code, out, errs := s.run(t, path, entry.args, environment)
		s.judge(t, setting.variable, letter, value, entry, obeys, refused, code, out+errs)
	}
	s := newStage(t)
	environment := map[string]string{"LEHR_TOKEN": "lehr_x"}
	if strings.Contains(entry.obeys, "v") {
		environment["LEHR_SERVER"] = s.server.URL
	}
	for _, flags := range [][]string{{"--output", "json"}, {"--json"}} {
		if local := slices.Contains([]string{"export", "blob", "rollout record"}, path); local && len(flags) == 2 {
			continue // Theirs names a file.
		}
		code, out, errs := s.run(t, path, entry.args, environment, flags...)
		switch {
		case !strings.Contains(entry.obeys, "j"):
			if code == 0 || !strings.Contains(errs, ignores) || len(s.asked) > 0 {
				t.Errorf("%q is not refused: exit code %d, asked %q\n%s%s", flags, code, s.asked, out, errs)
			}
		case strings.Contains(errs, ignores):
			t.Errorf("%q is refused: %s", flags, errs)
		case !areJSON(out):
			t.Errorf("with %q it prints what is no JSON (exit code %d):\n%s%s", flags, code, out, errs)
		}
	}
}

// judge what became of a setting.
func (s *stage) judge(t *testing.T, named, letter, value string, entry tried, obeys, refused bool, code int, said string) {
	t.Helper()
	if refused {
		if code == 0 || !strings.Contains(said, ignores) && !strings.Contains(entry.own, letter) || len(s.asked) > 0 {
			t.Errorf("%s is not refused: exit code %d, asked %q\n%s", named, code, s.asked, said)
		}
		return
	}
	if strings.Contains(said, ignores) {
		t.Errorf("%s is refused: %s", named, said)
	}
	if !obeys {
		return
	}
	if letter == "p" {
		s.judgePartition(t, named, entry, said)
		return
	}
	if strings.Contains(entry.quiet, letter) {
		return
	}
	obeyed := slices.ContainsFunc(s.asked, func(asked string) bool { return asked == "server" && letter != "d" || strings.Contains(asked, value) })
	if letter == "d" && strings.Contains(said, value) {
		obeyed = true // No server of it is here, and that is said.
	}
	if !obeyed {
		t.Errorf("%s shows nowhere: asked %q\n%s", named, s.asked, said)
	}
}

// judgePartition: whatever is asked for is in the partition that was named.
func (s *stage) judgePartition(t *testing.T, named string, entry tried, said string) {
	t.Helper()
	seen := slices.ContainsFunc(s.asked, func(asked string) bool { return strings.HasSuffix(asked, " one") })
	for _, request := range s.requests {
		m := request.ProtoReflect()
		if field := m.Descriptor().Fields().ByName("partition"); field != nil {
			if got := m.Get(field).String(); got != "one" {
				t.Errorf("with %s, %s is asked for partition %q", named, m.Descriptor().Name(), got)
			}
			seen = true
		}
		text := protojson.Format(request)
		seen = seen || strings.Contains(text, `"one"`) || strings.Contains(text, `"one@`)
	}
	if !seen && !strings.Contains(entry.quiet, "p") {
		t.Errorf("%s shows in no request: %v\n%s", named, s.requests, said)
	}
}

// areJSON reports whether a text is empty or one value of JSON after another.
func areJSON(text string) bool {
	values := json.NewDecoder(strings.NewReader(text))
	for {
		var value any
		if err := values.Decode(&value); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// TestWhatAStopIsAbout: a stop is as wide as what names it, and so is its end.
func TestWhatAStopIsAbout(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, test := range map[string]struct {
		args, variable string
		// about is the partition that is asked for; refused: nothing is.
		about   string
		refused bool
	}{
		"nothing":                     {},
		"an argument":                 {args: "one", about: "one"},
		"a flag":                      {args: "-p one", about: "one"},
		"a variable":                  {variable: "one", about: "one"},
		"an argument, and a variable": {args: "two", variable: "one", about: "two"},
		"a flag, and a variable":      {args: "-p two", variable: "one", about: "two"},
		"the same twice":              {args: "one -p one", about: "one"},
		"two":                         {args: "one -p two", refused: true},
		"all":                         {args: "--all", variable: "one"},
		"all, and one":                {args: "one --all", refused: true},
		"all, and a flag":             {args: "-p one --all", refused: true},
		"an empty flag":               {args: "--partition=", refused: true},
		"the flag twice":              {args: "-p one -p two", about: "two"},
	} {
		for _, command := range []string{"stop", "resume"} {
			t.Run(command+" "+name, func(t *testing.T) {
				s := newStage(t)
				code, out, errs := s.run(t, command, test.args+" --reason r", map[string]string{"LEHR_TOKEN": "lehr_x", "LEHR_SERVER": s.server.URL, "LEHR_PARTITION": test.variable})
				asked := 0
				for _, request := range s.requests {
					m := request.ProtoReflect()
					if field := m.Descriptor().Fields().ByName("partition"); field != nil {
						if asked++; m.Get(field).String() != test.about {
							t.Errorf("it is asked of %q", m.Get(field))
						}
					}
				}
				if (code != 0) != test.refused || (asked == 0) != test.refused {
					t.Errorf("exit code %d, %d requests\n%s%s", code, asked, out, errs)
				}
			})
		}
	}
	s := newStage(t)
	environment := map[string]string{"LEHR_TOKEN": "lehr_x", "LEHR_SERVER": s.server.URL}
	for args, command := range map[string]string{
		"":                    "hold",
		"one@3 release=a":     "label",
		"one@3 two@4":         "diff",
		"assets --at one@3":   "get",
		"incarnation one@3":   "describe",
		"web one@3 -p two":    "pin",
		"--candidate one@~ab": "approve",
		"partition one":       "describe",
	} {
		words := args + " --reason r"
		if command == "get" || command == "describe" || command == "diff" {
			words = args
		}
		flags := []string{"--partition", "two"}
		if args == "" {
			flags = append(flags, "")
		}
		if code, out, errs := s.run(t, command, words, environment, flags...); code != 1 || len(s.requests) > 0 && command != "describe" {
			t.Errorf("lehr %s %s -p two: exit code %d, %d requests\n%s%s", command, args, code, len(s.requests), out, errs)
		}
	}
}

// TestAFlagNamesTheStoreBeforeAVariable: a store that a flag names is the one that is
// adopted, verified and copied.
func TestAFlagNamesTheStoreBeforeAVariable(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, args := range map[string]string{"store adopt": "--reason r", "store verify": "", "backup": "OUT", "restore": "FILE", "audit verify": ""} {
		s := newStage(t)
		code, out, errs := s.run(t, path, args, map[string]string{"LEHR_DATABASE": namedDatabase}, "--store", s.store())
		if code != 0 || len(s.asked) != 1 || strings.TrimSpace(s.asked[0]) != s.store() {
			t.Errorf("lehr %s --store: exit code %d, worked on %q\n%s%s", path, code, s.asked, out, errs)
		}
	}
}
