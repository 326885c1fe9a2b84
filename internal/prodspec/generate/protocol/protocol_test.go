package protocol_test

import (
	"bytes"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/work"
)

// FuzzRecords: whatever a program says, it gives whole assets or findings, never
// both, and an asset is what it says it is.
func FuzzRecords(f *testing.F) {
	for _, said := range []string{
		"", "{}", "{\"end\":{}}\n", "{\"end\":{\"assets\":1}}\n",
		`{"asset":{"id":"a","payload":{"@type":"lehr.intent.v1.Owner","owner":"x"}},"from":{"file":"a","line":1}}` + "\n" + `{"end":{"assets":"1"}}` + "\n",
		`{"asset":{"id":"a","payload":{"@type":"google.protobuf.Struct","value":{"a":[1,null,"x"]}}}}` + "\n" + `{"end":{"assets":"1"}}` + "\n",
		`{"finding":{"severity":"SEVERITY_ERROR","message":"m"}}` + "\n" + `{"end":{}}`,
	} {
		f.Add([]byte(said))
	}
	job := work.Job{Partition: "shop", Generator: "g", Language: work.WASM, Program: "g.wasm"}
	f.Fuzz(func(t *testing.T, said []byte) {
		result := protocol.Read(bytes.NewReader(said), &job, schema.Builtin(), 100_000)
		if len(result.Findings) > 0 && len(result.Assets)+len(result.Warnings) > 0 {
			t.Fatalf("both findings and assets: %+v", result)
		}
		for _, finding := range append(result.Findings, result.Warnings...) {
			if finding.Message == "" || finding.File == "" || finding.Line < 1 {
				t.Fatalf("a finding says too little: %+v", finding)
			}
		}
		for _, asset := range result.Assets {
			content, err := schema.Decode(asset.Body)
			if err != nil || content.ID != asset.ID || content.Payload.Type != asset.Type || intent.BodyDigest(asset.Body) != asset.Digest {
				t.Fatalf("an asset is not what it says: %+v (%v)", asset, err)
			}
			// As another generator's input it can be given back.
			text, err := protocol.Asset(schema.Builtin(), asset.Body)
			if err != nil {
				t.Fatal(err)
			}
			again := protocol.Read(bytes.NewReader([]byte(`{"asset":`+string(bytes.TrimSpace(text))+"}\n"+`{"end":{"assets":1}}`)), &job, schema.Builtin(), 1_000_000)
			if len(again.Assets) != 1 || again.Assets[0].Digest != asset.Digest {
				t.Fatalf("%s came back as %+v", text, again)
			}
		}
	})
}

func TestPathsOfInputs(t *testing.T) {
	for name, path := range map[string]string{"a.yaml": "a.yaml", "in/a.yaml": "in/a.yaml", "../shared/a.yaml": "shared/a.yaml", "/srv/a.yaml": "srv/a.yaml", "../../a/../b": "b"} {
		if got := protocol.FilePath(name); got != path {
			t.Errorf("%s is at %s, want %s", name, got, path)
		}
	}
	job := &work.Job{Assets: make([]work.Input, 11)}
	for name, index := range map[string]int{"0.json": 0, "10.json": 10, "11.json": -1, "-1.json": -1, "01.json": -1, "x": -1, "assets.json": -1} {
		if at, ok := protocol.AssetIndex(name, job); ok != (index >= 0) || ok && at != index {
			t.Errorf("%s is asset %d (%v), want %d", name, at, ok, index)
		}
	}
}

// TestEntryIsTold: its key, and its value as it is: no number loses digits.
func TestEntryIsTold(t *testing.T) {
	job := work.Job{Partition: "shop", Generator: "web", Program: "web.wasm", File: "services.yaml#web", Key: "web", Value: []byte(`{"n":9007199254740993}`)}
	said, err := protocol.Job(&job, "/assets.json")
	if want := `{"partition":"shop","generator":"web","assets":"/assets.json","key":"web","value":"{\"n\":9007199254740993}"}` + "\n"; err != nil || string(said) != want {
		t.Errorf("%v: it is told\n%s, want\n%s", err, said, want)
	}
	if place := protocol.Place(&job); place != "services.yaml" {
		t.Errorf("its place is %s", place)
	}
}

// TestLeftOutIsNeverLost: of more than are kept it is said that any asset may be among
// them, for a rule rests on which they are.
func TestLeftOutIsNeverLost(t *testing.T) {
	said := strings.Repeat(`{"finding":{"severity":"SEVERITY_WARNING","message":"m"}}`+"\n", 60) + `{"finding":{"severity":"SEVERITY_LEFT_OUT","message":"m","asset":"a"}}` + "\n" + `{"end":{}}`
	result := protocol.Read(strings.NewReader(said), &work.Job{Partition: "shop", Generator: "g"}, schema.Builtin(), 100_000)
	last := result.Warnings[len(result.Warnings)-1]
	if len(result.Findings) > 0 || !last.LeftOut || last.Asset != "" {
		t.Errorf("findings %+v, the last warning %+v", result.Findings, last)
	}
}
