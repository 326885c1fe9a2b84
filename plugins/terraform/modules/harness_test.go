package modules

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/terraform/applykeeper"
	"lehr.dev/plugins/terraform/enginelist"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/building"
)

// The test's own program is the keepers'.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == applykeeper.Command {
		os.Exit(applykeeper.Keep(os.Stdin, os.Stdout))
	}
	code := m.Run()
	_ = os.RemoveAll(mirrorFolder)
	os.Exit(code)
}

// mirrorFolder is that of mirror, to be removed in the end.
var mirrorFolder string

// mirror is a folder with the provider of these tests, made once.
var mirror = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "lehr-mirror-")
	if err != nil {
		return "", err
	}
	mirrorFolder = folder
	program := building.Program{Of: "../testcloud", Flags: []string{"-ldflags", "-s -w"}}
	for _, registry := range []string{"registry.terraform.io", "registry.opentofu.org"} { // By default, of each engine.
		err = errors.Join(err, program.At(filepath.Join(folder, registry, "lehr/testcloud/1.0.0/linux_amd64/terraform-provider-testcloud_v1.0.0")))
	}
	return folder, err
})

// engineVariable names the engine to test, where it is not the Terraform in PATH: "make opentofu"
// has it name OpenTofu.
const engineVariable = "LEHR_TERRAFORM"

// terraform is a real engine, and its version. Tests are skipped where there is none.
func terraform(t *testing.T) (path, version string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	path, err := exec.LookPath(cmp.Or(os.Getenv(engineVariable), "terraform"))
	if err != nil {
		t.Skip("there is no terraform in PATH: install one from https://developer.hashicorp.com/terraform/install")
	}
	command := exec.Command(path, "version", "-json")
	command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull) // OpenTofu prints warnings of it before the JSON.
	text, err := command.Output()
	var told struct {
		Version string `json:"terraform_version"`
	}
	if err != nil || json.Unmarshal(text, &told) != nil {
		t.Fatalf("terraform version: %v\n%s", err, text)
	}
	return path, told.Version
}

const mainFile = `terraform {
  backend "local" {}
  required_providers {
    testcloud = { source = "lehr/testcloud" }
  }
}
provider "testcloud" {
  folder = var.folder
}
variable "folder" {}
variable "env" { default = "dev" }
variable "region" { default = "eu" }
variable "key" { default = "hunter2-planted" }
resource "testcloud_bucket" "logo" {
  name   = "logo"
  region = var.region
  env    = var.env
  key    = var.key
}
output "url" { value = testcloud_bucket.logo.url }
output "key" {
  value     = testcloud_bucket.logo.key
  sensitive = true
}
`

// site is a machine with one root module, and what Lehr keeps of it.
type site struct {
	t       *testing.T
	modules *Modules
	module  *terraformpb.Module
	// cloud is the folder of the provider, state the file of the local backend.
	folder, cloud, state string
	memos                []serve.Memo
	addons               []proto.Message
	pushes               int
	progress             []string
	// onSave is called before a memo is kept; an error refuses it.
	onSave func([]byte) error
}

func newSite(t *testing.T) *site {
	t.Helper()
	binary, version := terraform(t)
	providers, err := mirror()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	s := &site{t: t, folder: folder, cloud: filepath.Join(folder, "cloud"), state: filepath.Join(folder, "states", "one.tfstate"), onSave: func([]byte) error { return nil }}
	for _, one := range []string{s.cloud, filepath.Dir(s.state)} {
		if err := os.MkdirAll(one, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.module = &terraformpb.Module{
		Root: ".", Variables: map[string]string{"folder": s.cloud},
		Backend: map[string]*terraformpb.Setting{"path": {Source: &terraformpb.Setting_Value{Value: s.state}}},
	}
	s.file("main.tf", mainFile)
	s.modules = newModules(s.options(binary, version, providers, ""))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.mend()
		if err := keeper.Stop(ctx, s.subject().folder.LockPath()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// options of a plugin, with more of the engine's entry.
func (s *site) options(binary, version, providers, more string) Options {
	s.t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	s.write("key", string(key))
	list := s.write("secrets.yaml", "lehr-secrets: v1\nkey: "+filepath.Join(s.folder, "key")+"\nsecrets: []\n")
	path := s.write("engines.yaml", fmt.Sprintf("terraform-engines: v1\nengines:\n  - {name: default, partitions: [shop], binary: %s, version: %s, mirror: %s, locked_backends: true%s}\n", binary, version, providers, more))
	engines, err := allowlist.Open[enginelist.Engine](path, enginelist.Kind)
	if err != nil {
		s.t.Fatal(err)
	}
	return Options{
		Folder: filepath.Join(s.folder, "plugin"), Host: "here", Program: keeper.Self, Every: time.Minute, PlansAtOnce: 2, AppliesAtOnce: 2,
		Engines: engines, Secrets: resolver.New("lehr-terraform", list),
	}
}

func (s *site) write(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// file puts a file into the module.
func (s *site) file(path, text string) {
	sum := sha256.Sum256([]byte(text))
	file := &terraformpb.File{Path: path, Sha256: sum[:], Content: &terraformpb.File_Text{Text: text}}
	for i, one := range s.module.Files {
		if one.Path == path {
			s.module.Files[i] = file
			return
		}
	}
	s.module.Files = append(s.module.Files, file)
}

// edit replaces a text in main.tf.
func (s *site) edit(before, after string) {
	s.t.Helper()
	text := s.module.Files[0].GetText()
	if !strings.Contains(text, before) {
		s.t.Fatalf("main.tf has no %q", before)
	}
	s.file("main.tf", strings.ReplaceAll(text, before, after))
}

// fault has the provider go wrong: fail, panic or wait.
func (s *site) fault(verb, name, kind string) {
	s.write(filepath.Join("cloud", verb+"."+name+".fault"), kind)
}

// mend ends all faults.
func (s *site) mend() {
	faults, _ := filepath.Glob(filepath.Join(s.cloud, "*.fault"))
	for _, fault := range faults {
		_ = os.Remove(fault)
	}
}

// log is what the provider did.
func (s *site) log() []string {
	text, _ := os.ReadFile(filepath.Join(s.cloud, "log"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (s *site) count(line string) (n int) {
	for _, one := range s.log() {
		if one == line {
			n++
		}
	}
	return n
}

func (s *site) asset() serve.Intent {
	s.t.Helper()
	pack := func(message proto.Message) serve.Message {
		content, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			s.t.Fatal(err)
		}
		return serve.Message{Type: serve.TypeName(message.ProtoReflect().Descriptor().FullName()), Bytes: content}
	}
	asset := intent.Asset{ID: "terraform/net", Payload: pack(s.module)}
	for _, addon := range s.addons {
		asset.Addons = append(asset.Addons, pack(addon))
	}
	return serve.Intent{Asset: asset, Incarnation: serve.IncarnationID{Partition: "shop", Sequence: 1}, Memos: s.memos}
}

func (s *site) subject() subject {
	s.t.Helper()
	found, err := s.modules.subject(s.asset())
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// diff is a look, with the plan made at once.
func (s *site) diff() serve.Difference {
	s.t.Helper()
	if answer, isAnswered := s.modules.Prepare(s.t.Context(), s.asset()); isAnswered {
		return answer
	}
	return s.modules.Diff(s.t.Context(), []serve.Intent{s.asset()})[0]
}

// Effect and Cover permit all.
func (s *site) Effect(ctx context.Context) error          { return ctx.Err() }
func (s *site) Cover(ctx context.Context, _ string) error { return ctx.Err() }

func (s *site) pushOf(ctx context.Context, d serve.Difference) serve.Outcome {
	s.t.Helper()
	if d.Outcome != serve.Differs {
		s.t.Fatalf("nothing is to be pushed: %v, %s", d.Outcome, d.Reason)
	}
	s.pushes++
	return s.modules.Push(ctx, serve.Push{
		ID: serve.PushID(fmt.Sprintf("push-%d", s.pushes)), Asset: s.asset(), Plan: d.Plan.Digest(), Base: d.Base,
		Progress: func(text string) { s.progress = append(s.progress, text) }, SaveMemo: s.save,
	}, s)
}

func (s *site) save(_ context.Context, key serve.ResourceKey, bytes []byte) error {
	memo := serve.Memo{Key: key, Bytes: bytes}
	if err := memo.Check(); err != nil {
		return err
	}
	if err := s.onSave(bytes); err != nil {
		return err
	}
	s.memos = nil
	if len(bytes) > 0 {
		s.memos = []serve.Memo{memo}
	}
	return nil
}

func (s *site) mustPush() {
	s.t.Helper()
	if outcome := s.pushOf(s.t.Context(), s.diff()); outcome.Ending != serve.Pushed {
		s.t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	s.expect(serve.InSync)
}

// expect holds the difference to an outcome, with words in its reason or its plan.
func (s *site) expect(outcome intent.Outcome, words ...string) serve.Difference {
	s.t.Helper()
	d := s.diff()
	text := shown(d)
	if d.Outcome != outcome {
		s.t.Fatalf("outcome %v, want %v: %s", d.Outcome, outcome, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			s.t.Errorf("it does not say %q:\n%s", word, text)
		}
	}
	return d
}

func shown(d serve.Difference) string {
	text := d.Reason + "\n" + string(d.Plan.Action)
	for _, c := range d.Plan.Changes {
		mark := " "
		if c.Destructive {
			mark = "!"
		}
		text += fmt.Sprintf("\n%s %s: %s → %s (%s) [%s]", mark, c.Path, c.Current, c.Target, c.Reason, c.Writer)
	}
	return text
}

func (s *site) until(what string, isSo func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (s *site) turnDown() {
	s.addons = []proto.Message{&intentpb.Turndown{Reason: "not needed"}}
}
