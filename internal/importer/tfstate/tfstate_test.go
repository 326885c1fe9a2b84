package tfstate

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/work"
)

const showJSON = `{"format_version":"1.0","terraform_version":"1.9.0","values":{"outputs":{"key":{"sensitive":true,"value":"hunter2"}},"root_module":{
 "resources":[
  {"address":"aws_vpc.main","mode":"managed","type":"aws_vpc","name":"main","provider_name":"registry.terraform.io/hashicorp/aws","values":{"cidr":"10.0.0.0/16","big":9007199254740993,"tags":{"a":"<b>"}},"sensitive_values":{"tags":{}}},
  {"address":"aws_db_instance.db[\"a\"]","mode":"managed","type":"aws_db_instance","name":"db","provider_name":"x","values":{"password":"hunter2","size":3,"inner":[{"a":"hunter2","b":1}],"name":"db"},"sensitive_values":{"inner":[{"a":true}]}},
  {"address":"data.aws_ami.a","mode":"data","type":"aws_ami","name":"a","values":{"x":"hunter2"}}],
 "child_modules":[{"address":"module.net","resources":[{"address":"module.net.aws_subnet.a[0]","mode":"managed","type":"aws_subnet","name":"a","values":{"id":"s-1"}}]}]}}}`

const rawJSON = `{"version":4,"terraform_version":"1.9.0","outputs":{"key":{"value":"hunter2","type":"string"}},"resources":[
 {"mode":"managed","type":"aws_vpc","name":"main","provider":"p","instances":[{"attributes":{"cidr":"10.0.0.0/16","big":9007199254740993,"tags":{"a":"<b>"}},"private":"hunter2"}]},
 {"mode":"managed","type":"aws_db_instance","name":"db","provider":"p","instances":[{"index_key":"a","attributes":{"password":"hunter2","size":3,"inner":[{"a":"hunter2","b":1}],"name":"db"},"sensitive_attributes":[[{"type":"get_attr","value":"inner"},{"type":"index","value":{"value":0,"type":"number"}},{"type":"get_attr","value":"a"}]]}]},
 {"module":"module.net","mode":"managed","type":"aws_subnet","name":"a","provider":"p","instances":[{"index_key":0,"attributes":{"id":"s-1"}},{"index_key":0,"deposed":"d1","attributes":{"id":"s-0"}}]},
 {"mode":"data","type":"aws_ami","name":"a","instances":[{"attributes":{"x":"hunter2"}}]}]}`

// TestBothForms: what is managed becomes an asset each, and no secret is copied.
func TestBothForms(t *testing.T) {
	for name, state := range map[string]string{"shown": showJSON, "raw": rawJSON} {
		p, err := Read([]byte(state))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(p.Files) != 3 {
			t.Errorf("%s: files %v", name, p.Files)
		}
		all := p.Definition + fmt.Sprint(p.LeftOut, p.Hints, p.Read)
		for file, text := range p.Files {
			all += string(text)
			var asset struct{ ID string }
			if err := json.Unmarshal(text, &asset); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if _, err := intent.ParseAssetID(asset.ID); err != nil || file != "resources/"+strings.TrimPrefix(asset.ID, "resource/")+".json" {
				t.Errorf("%s holds %s (%v)", file, asset.ID, err)
			}
		}
		if strings.Contains(all, "hunter2") {
			t.Errorf("%s: a secret was copied: %s", name, all)
		}
		vpc, db := string(p.Files["resources/aws_vpc.main.json"]), string(p.Files["resources/aws_db_instance.db-a.json"])
		if !strings.Contains(vpc, `9007199254740993`) || !strings.Contains(db, `\"name\":\"db\"`) || !strings.Contains(db, `"password"`) {
			t.Errorf("%s:\n%s\n%s", name, vpc, db)
		}
		if !strings.Contains(string(p.Files["resources/module.net.aws_subnet.a-0.json"]), `"address": "module.net.aws_subnet.a[0]"`) {
			t.Errorf("%s: %v", name, p.Files)
		}
		if left := fmt.Sprint(p.LeftOut); !strings.Contains(left, "aws_ami.a it is read, not managed") || !strings.Contains(left, "password it is sensitive") {
			t.Errorf("%s: left out %s", name, left)
		}
	}
}

// TestAssets: what is written is rendered as it stands.
func TestAssets(t *testing.T) {
	p, err := Read([]byte(showJSON))
	if err != nil {
		t.Fatal(err)
	}
	job := work.Job{Partition: "p", Generator: "resources", Language: work.Render, Program: "assets"}
	for _, file := range slices.Sorted(maps.Keys(p.Files)) {
		job.Files = append(job.Files, work.Input{Name: file})
	}
	result := render.Evaluate(schema.Builtin(), job, func(_ work.Kind, input work.Input) ([]byte, error) { return p.Files[input.Name], nil }, 1_000_000)
	if len(result.Assets) != 3 || len(result.Findings)+len(result.Warnings) > 0 || result.Assets[0].Type != "lehr.terraform.v1.Resource" {
		t.Errorf("%d assets: %+v", len(result.Assets), result.Findings)
	}
}

// TestNoState is refused, and nothing of it is said.
func TestNoState(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "no JSON that is known",
		"hunter2":                                "no JSON that is known",
		"{}":                                     "neither a state",
		`{"version":3}`:                          "of version 3 is not known",
		`{"version":4,"resources":[]}`:           "manages nothing",
		`{"format_version":"1.0"}`:               "manages nothing",
		`{"format_version":"1.0","values":null}`: "manages nothing",
		`{"format_version":"1.0","planned_values":{}}`: "a plan",
		`{"version":4} {}`: "followed by something else",
		`{"version":4,"resources":[{"mode":"managed","instances":[{}]}]}`: "without an address or a type",
		`{"version":4,"resources":"x"}`:                                   "no JSON that is known",
		strings.Repeat(`{"a":`, 20_000):                                   "no JSON that is known",
	} {
		if _, err := Read([]byte(text)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

// FuzzState: nothing crashes the reader, and a marked value is never copied.
func FuzzState(f *testing.F) {
	f.Add([]byte(showJSON))
	f.Add([]byte(rawJSON))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read(text)
		if err != nil {
			return
		}
		for file := range p.Files {
			if !filepath.IsLocal(file) {
				t.Errorf("it would write %s", file)
			}
		}
	})
}
