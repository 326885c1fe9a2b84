package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// of is a snapshot of assets in memory.
type of map[intent.AssetID][]byte

func (o of) Incarnation(context.Context, intent.IncarnationID) (intent.Incarnation, error) {
	return intent.Incarnation{Schema: schema.Builtin().Digest()}, nil
}

func (o of) Content(_ context.Context, _ intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	if body, ok := o[asset]; ok {
		return intent.Member{}, body, nil
	}
	return intent.Member{}, nil, fault.New(fault.NotFound, "no such asset")
}

func (of) Changes(context.Context, intent.IncarnationID, intent.IncarnationID, intent.AssetID, int) ([]store.Change, error) {
	return nil, nil
}

func (of) EdgesFrom(context.Context, intent.IncarnationID, intent.AssetID) ([]store.Edge, error) {
	return nil, nil
}

func encoded(t *testing.T, message proto.Message) []byte {
	t.Helper()
	payload, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := schema.Builtin().Encode(intent.Asset{ID: "a", Payload: intent.Message{Type: intent.TypeName(message.ProtoReflect().Descriptor().FullName()), Bytes: payload}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// silent is a plugin that counts what it is asked.
type silent struct {
	plugin.Plugin
	asked []intent.AssetID
}

func (s *silent) Describe() (plugin.Description, error) { return plugin.Description{}, nil }

func (s *silent) Diff(_ context.Context, request plugin.DiffRequest) (list []intent.Difference, _ error) {
	s.asked = append(s.asked, request.Assets...)
	for _, asset := range request.Assets {
		list = append(list, intent.Difference{Asset: asset, Outcome: intent.InSync})
	}
	return list, nil
}

func (s *silent) Push(_ context.Context, push plugin.Push) plugin.PushResult {
	s.asked = append(s.asked, push.Asset)
	return plugin.PushResult{Ending: plugin.Pushed}
}

// S24: where an access policy is given, a plugin does for a partition only what the
// operator lists: the program, its arguments, the secrets and the addresses that its
// assets name.
func TestPluginsDoWhatIsListed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "servers.yaml")
	if err := os.WriteFile(file, []byte(`plugin-servers: v1
programs:
- {run: [lehr-sqlschema, --quiet], partitions: [shop], secrets: [{file: /run/db}, {env: LEHR_DB}], addresses: ["postgres://db/shop", "127.0.0.1:2019"]}
- {run: [lehr-sqlschema], partitions: [zoo]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := readServers(file)
	if err != nil {
		t.Fatal(err)
	}
	password := func(s *intentpb.SecretRef, database string) []byte {
		return encoded(t, &sqlschemapb.Schema{Database: database, Sql: "CREATE TABLE t (a int)", Password: s})
	}
	in := func(path string) *intentpb.SecretRef {
		return &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: path}}
	}
	assets := of{
		"good":         password(in("/run/db"), "postgres://db/shop"),
		"variable":     password(&intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: "LEHR_DB"}}, "postgres://db/shop"),
		"token":        password(in("/data/lehr.db.server.json"), "postgres://db/shop"),
		"detour":       password(in("/run/../run/db"), "postgres://db/shop"),
		"environment":  password(&intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: "LEHR_DATABASE"}}, "postgres://db/shop"),
		"store":        encoded(t, &sqlschemapb.Schema{Database: "sqlite:/data/lehr.db", Sql: "CREATE TABLE t (a int)"}),
		"other":        password(in("/run/db"), "postgres://db.other/shop"),
		"balancer":     encoded(t, &caddypb.Balancer{Admin: "127.0.0.1:2019", Name: "b", Listen: []string{":80"}}),
		"balancer-too": encoded(t, &caddypb.Balancer{Admin: "169.254.169.254:80", Name: "b", Listen: []string{":80"}}),
	}
	p := &pool{allowed: list, strict: true, assets: assets, schemas: newSchemas(nil)}
	inner := &silent{}
	at := func(partition intent.PartitionID, run ...string) listed {
		return listed{Plugin: inner, pool: p, partition: partition, binding: &intentpb.PluginBinding{Run: run}}
	}
	shop := at("shop", "lehr-sqlschema", "--quiet")
	for asset, may := range map[intent.AssetID]bool{
		"good": true, "variable": true, "balancer": true, "gone": true,
		"token": false, "detour": false, "environment": false, "store": false, "other": false, "balancer-too": false,
	} {
		inner.asked = nil
		found, err := shop.Diff(t.Context(), plugin.DiffRequest{Incarnation: intent.IncarnationID{Partition: "shop"}, Assets: []intent.AssetID{asset}})
		if err != nil {
			t.Fatal(err)
		}
		if refused := found[0].Outcome == intent.Unknown && strings.Contains(found[0].Reason, "list of plugins"); len(found) != 1 || refused == may || (len(inner.asked) == 1) != may {
			t.Errorf("%s: %+v, its plugin is asked of %v", asset, found, inner.asked)
		}
		inner.asked = nil
		if pushed := shop.Push(t.Context(), plugin.Push{Asset: asset}); (pushed.Ending == plugin.Pushed) != may || (len(inner.asked) == 1) != may {
			t.Errorf("a push of %s: %+v", asset, pushed)
		}
	}
	for _, other := range []listed{at("shop", "lehr-sqlschema"), at("shop", "lehr-sqlschema", "--quiet", "x"), at("zoo", "lehr-sqlschema", "--quiet"), at("shop", "/bin/sh", "-c", "id"), at("shop", "./lehr-sqlschema", "--quiet")} {
		inner.asked = nil
		_, described := other.Describe()
		_, diffed := other.Diff(t.Context(), plugin.DiffRequest{Incarnation: intent.IncarnationID{}, Assets: []intent.AssetID{"good"}})
		pushed := other.Push(t.Context(), plugin.Push{Asset: "good"})
		if !fault.Is(described, fault.Denied) || !fault.Is(diffed, fault.Denied) || pushed.Ending != plugin.Failed || len(inner.asked) > 0 {
			t.Errorf("%v of %s: %v, %v, %+v, asked of %v", other.binding.Run, other.partition, described, diffed, pushed, inner.asked)
		}
	}
	// Nothing is listed by default; and without an access policy nobody asks.
	p.allowed = &servers{}
	if _, err := shop.Describe(); !fault.Is(err, fault.Denied) {
		t.Error("without a list:", err)
	}
	if _, ok := (&pool{allowed: list, strict: true}).bound("shop", &intentpb.PluginBinding{Run: []string{"x"}}).(listedChild); !ok {
		t.Error("the list is not asked")
	}
	for text, want := range map[string]string{
		"programs: [{run: [], partitions: [a]}]":                         "names no program",
		"programs: [{run: [a]}]":                                         "no partition",
		"programs: [{run: [a], partitions: [a], secrets: [{}]}]":         "in one place",
		"programs: [{run: [a], partitions: [a], folder: x}]":             "folder",
		"programs: [{run: [a], partitions: [a], secrets: [{path: /x}]}]": "path",
	} {
		if err := os.WriteFile(file, []byte("plugin-servers: v1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readServers(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestConfinedWhereSomebodyElseDecides: with an access policy sources lie where their
// definition does, and where the operator lists for the partition.
func TestConfinedWhereSomebodyElseDecides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(file, []byte("sources: v1\nfolders: [{path: /srv/shared, partitions: [shop]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &elsewhere{}
	if err := e.read(file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		access, partition, definition, want string
	}{
		{"", "shop", "/home/shop/lehr.yaml", "anywhere"},
		{"access.yaml", "shop", "/home/shop/lehr.yaml", "/home/shop /srv/shared"},
		{"access.yaml", "zoo", "/home/zoo/lehr.yaml", "/home/zoo"},
		{"access.yaml", "zoo", "https://git.example.com/zoo.git//prod/lehr.yaml", ""},
		{"access.yaml", "zoo", "/git/zoo.git//prod/lehr.yaml", "/git/zoo.git"},
	} {
		got := "anywhere"
		if folders := e.optionsOf(Options{Store: "lehr.db", Access: c.access}, intent.PartitionID(c.partition), c.definition).Folders(); folders != nil {
			got = strings.Join(folders, " ")
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
