package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"lehr.dev/internal/cli"
	"lehr.dev/sdk/plugintest/conformance"
	sdk "lehr.dev/sdk/serve" // serve is a function here
	"lehr.dev/test/certificates"
	"lehr.dev/test/freeport"
)

// lehr runs a command of this program, in this process.
func lehr(t *testing.T, arguments ...string) (code int, out, problems string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), local(), cli.Terminal{Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }}, arguments)
	return code, stdout.String(), stderr.String()
}

// exampleFile has two intents for one entry of a register.
func exampleFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "example.yaml")
	text := "type: google.protobuf.Struct\npayload: {word: one}\n---\ntype: google.protobuf.Struct\npayload: {word: two}\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// register is a plugin whose production is one entry in memory. It cannot
// remove.
type register struct {
	entry *structpb.Struct
	lies  bool
}

func (r *register) Read(_ context.Context, assets []sdk.Asset[*structpb.Struct]) ([]sdk.State[*structpb.Struct], error) {
	states := make([]sdk.State[*structpb.Struct], len(assets))
	for i := range states {
		states[i] = sdk.State[*structpb.Struct]{Current: r.entry, Base: r.entry.String(), Key: "register:entry"}
	}
	return states, nil
}

func (r *register) Resolve(_ context.Context, asset sdk.Asset[*structpb.Struct]) (*structpb.Struct, error) {
	return asset.Payload, nil
}

func (r *register) Apply(ctx context.Context, change sdk.Change[*structpb.Struct], permit sdk.Permit) error {
	if err := permit.Effect(ctx); err != nil && !r.lies {
		return err
	}
	if r.lies {
		return errors.New("cannot\x1b[2J write")
	}
	r.entry = proto.CloneOf(change.Target)
	return nil
}

// listening serves the register on a socket, as somebody else would.
func listening(t *testing.T, r *register) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "lehr-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	p := sdk.Plugin{Name: "register", Version: "7", Resources: []sdk.Kind{sdk.For(r, sdk.Serving{Guarantee: sdk.CompareAndSet})}}
	go func() { _ = p.Serve(t.Context(), listener) }()
	return socket
}

func TestPluginTestOnASocket(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for permits to run out")
	}
	code, out, problems := lehr(t, "plugin", "test", "--socket", listening(t, &register{}), "--example", exampleFile(t))
	if code != 0 || problems != "" {
		t.Errorf("exit code %d, and it says %s", code, problems)
	}
	for _, want := range []string{
		"passed   create from nothing",
		"skipped  killed in the middle, the next push completes\n           it was started by somebody else",
		// What one process remembers is not measured as a guarantee.
		"skipped  guarantee class\n           class C is declared",
		"it cannot turn down, and says so: this plugin cannot turn down a google.protobuf.Struct",
		"register 7, google.protobuf.Struct: 20 passed, 12 skipped, 0 failed.",
		"Guarantee class: C declared, none measured.",
		"may still be there",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

func TestPluginTestFails(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for permits to run out")
	}
	code, out, _ := lehr(t, "plugin", "test", "-o", "json", "--socket", listening(t, &register{lies: true}), "--example", exampleFile(t))
	var reports []cli.PluginReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code != 1 || len(reports) != 1 || len(reports[0].Results) != len(conformance.Rules) {
		t.Fatalf("exit code %d, %+v", code, reports)
	}
	for _, result := range reports[0].Results {
		if result.Rule == "create from nothing" && (result.Outcome != "failed" || strings.Contains(result.Detail, "\x1b")) {
			t.Errorf("%+v", result)
		}
	}
}

func TestPluginTestSaysWhatIsMissing(t *testing.T) {
	example := exampleFile(t)
	for name, c := range map[string]struct {
		arguments []string
		says      string
	}{
		"no plugin":  {[]string{"--example", example}, "no plugin to test"},
		"no example": {[]string{"--", "/bin/true"}, "no example"},
		"both":       {[]string{"--socket", "s", "--example", example, "--", "/bin/true"}, "by one of them"},
		"no file":    {[]string{"--example", "nowhere.yaml", "--", "/bin/true"}, "nowhere.yaml"},
		"no secret":  {[]string{"--secret-opens-only", "--example", example, "--", "/bin/true"}, "--secret-file"},
		"no path":    {[]string{"--secret-file", "password", "--example", example, "--", "/bin/true"}, "no absolute path"},
		"not named":  {[]string{"--secret-file", "/tmp/password", "--example", example, "--", "/bin/true"}, "no example names the secret /tmp/password"},
		"no types":   {[]string{"--types", t.TempDir(), "--example", example, "--", "/bin/true"}, "no .proto file"},
	} {
		if code, _, problems := lehr(t, append([]string{"plugin", "test"}, c.arguments...)...); code != 1 || !strings.Contains(problems, c.says) {
			t.Errorf("%s: exit code %d, %q; want it to say %q", name, code, problems, c.says)
		}
	}
	for _, unreachable := range [][]string{{"--socket", "nowhere"}, {"--", "/nowhere/plugin"}, {"--", "/bin/false"}} {
		code, out, _ := lehr(t, append([]string{"plugin", "test", "--example", example}, unreachable...)...)
		if code != 1 || !strings.Contains(out, "failed   describe") || !strings.Contains(out, "the plugin did not come up") {
			t.Errorf("%v: exit code %d:\n%s", unreachable, code, out)
		}
	}
}

func TestPluginRulesAreListed(t *testing.T) {
	code, out, _ := lehr(t, "plugin", "test", "--list")
	if code != 0 || strings.Count(out, "\n") != 2*len(conformance.Rules) || !strings.Contains(out, "guarantee class\n  What it declares") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// A new plugin is written, generated again and built by the commands that its
// README names.
func TestPluginNew(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	folder := filepath.Join(t.TempDir(), "shelf")
	code, out, problems := lehr(t, "plugin", "new", "shelf", "--dir", folder, "--type", "acme.v1.Shelf", "--lehr", repository)
	if code != 0 || !strings.Contains(out, filepath.Join(folder, "proto/acme/v1/shelf.pb.go")) {
		t.Fatalf("exit code %d: %s%s", code, out, problems)
	}
	types := filepath.Join(folder, "proto/acme/v1/shelf.proto")
	text, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("string text = 3;"), []byte("string text = 3;\n  uint32 planks = 4;"), 1)
	if err := os.WriteFile(types, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, problems := lehr(t, "plugin", "generate", folder); code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}
	generated, err := os.ReadFile(filepath.Join(folder, "proto/acme/v1/shelf.pb.go"))
	if err != nil || !bytes.Contains(generated, []byte("Planks")) {
		t.Errorf("the new field is not in the generated code: %v", err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "./...")
	build.Dir, build.Env = folder, append(os.Environ(), "GOPROXY=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	if code, _, problems := lehr(t, "plugin", "new", "shelf", "--dir", folder); code != 1 || !strings.Contains(problems, "not empty") {
		t.Errorf("a second time: exit code %d, %s", code, problems)
	}
}

// dialledRegister serves a register by TLS, as another program would.
func dialledRegister(t *testing.T, servers, clients *certificates.Authority, r *register) string {
	t.Helper()
	address := freeport.Address(t)
	pair := servers.Issue(t, time.Now().Add(time.Hour), "plugin.example.com")
	listen := sdk.Listen{Address: address, Certificate: pair.Certificate, Key: pair.Key, ClientCA: clients.File, Clients: []string{"author.example.com"}}
	p := sdk.Plugin{Name: "register", Version: "7", Resources: []sdk.Kind{sdk.For(r, sdk.Serving{Guarantee: sdk.CompareAndSet})}}
	go func() { _ = p.ServeDialled(t.Context(), listen) }()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return address
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// A plugin server is held to the protocol where it is; with a second process
// of it the class is measured, and one address given twice is no second.
func TestPluginTestDials(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for permits to run out")
	}
	servers, clients := certificates.NewAuthority(t, "servers"), certificates.NewAuthority(t, "clients")
	author := clients.Issue(t, time.Now().Add(time.Hour), "author.example.com")
	first, second := dialledRegister(t, servers, clients, &register{}), dialledRegister(t, servers, clients, &register{})
	test := func(addresses ...string) (string, string) {
		arguments := []string{"plugin", "test", "--example", exampleFile(t), "--ca", servers.File, "--cert", author.Certificate, "--key", author.Key, "--server-name", "plugin.example.com"}
		for _, address := range addresses {
			arguments = append(arguments, "--dial", address)
		}
		_, out, problems := lehr(t, arguments...)
		return out, problems
	}
	for _, c := range []struct {
		addresses []string
		says      []string
	}{
		{[]string{first}, []string{"passed   create from nothing", "skipped  guarantee class\n           class C is declared", "give --dial twice"}},
		{[]string{first, first}, []string{"failed   guarantee class", "one and the same process"}},
		// Each of these has production of its own: what is measured is that.
		{[]string{first, second}, []string{"failed   guarantee class", "class C is declared, class N was measured"}},
	} {
		out, problems := test(c.addresses...)
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%q: it does not say %q:\n%s%s", c.addresses, want, out, problems)
			}
		}
	}
	author = servers.Issue(t, time.Now().Add(time.Hour), "author.example.com")
	if out, _ := test(first); !strings.Contains(out, "refused the certificate in") {
		t.Errorf("with a certificate of another authority:\n%s", out)
	}
	if _, problems := func() (string, string) {
		_, out, problems := lehr(t, "plugin", "test", "--example", exampleFile(t), "--dial", first)
		return out, problems
	}(); !strings.Contains(problems, "its own is always verified") {
		t.Errorf("without files: %s", problems)
	}
}
