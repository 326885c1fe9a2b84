package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	generatorpb "lehr.dev/gen/lehr/generator/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator"
	"lehr.dev/sdk/generator/kubernetes"
)

// said is a finding as tests compare it.
type said struct {
	asset, field, message, hint string
	warning                     bool
}

func (s said) String() string {
	return fmt.Sprintf("%s %s: %s\n  %s", s.asset, s.field, s.message, s.hint)
}

// judge runs the check over what manifests give, as Lehr reads them; definitions are files beside.
func judge(t *testing.T, arguments []string, definitions map[string]string, manifests ...kubernetes.Manifest) []said {
	t.Helper()
	objects, _ := kubernetes.Read(manifests, kubernetes.Settings{Cluster: "eu", Namespace: "shop"})
	files := fstest.MapFS{}
	assets := &generatorpb.AssetList{}
	for i, o := range objects {
		packed, err := anypb.New(o.Payload)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("assets/%d.json", i)
		text, err := protojson.Marshal(&intentpb.Asset{Id: o.ID, Payload: packed})
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
		assets.Assets = append(assets.Assets, &generatorpb.AssetList_Entry{Id: o.ID, Type: objectType, Path: name[len("assets/"):]})
	}
	text, err := protojson.Marshal(assets)
	if err != nil {
		t.Fatal(err)
	}
	files["assets/list"] = &fstest.MapFile{Data: text}
	for name, text := range definitions {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	var out bytes.Buffer
	in := generator.NewInput(&generatorpb.Job{Partition: "shop", Assets: "assets/list"}, arguments, files)
	if err := generator.Run(check, in, protoregistry.GlobalTypes, &out); err != nil {
		t.Fatal(err)
	}
	return findingsOf(t, out.Bytes())
}

func findingsOf(t *testing.T, lines []byte) (all []said) {
	t.Helper()
	for _, line := range bytes.Split(bytes.TrimSpace(lines), []byte("\n")) {
		var record struct {
			Finding *struct{ Severity, Asset, Field, Message, Hint string }
			From    struct{ File string }
		}
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatal(err)
		}
		if f := record.Finding; f != nil {
			all = append(all, said{f.Asset + record.From.File, f.Field, f.Message, f.Hint, f.Severity == "SEVERITY_WARNING"})
		}
	}
	return all
}
