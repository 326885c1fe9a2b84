package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	sdk "lehr.dev/sdk/serve" // serve is a function of this package
)

// zonesMain is a plugin that knows the type acme.dns.v1.Zone from the .proto
// files that a script defines: it keeps each zone as a file, written from the
// zone and the template that it reads, and notes each push in FOLDER.pushes.
// Usage: zones-plugin TYPES FOLDER.
func zonesMain() {
	set, err := zoneTypes(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "zones-plugin:", err)
		os.Exit(1)
	}
	os.Exit(sdk.Main(sdk.Plugin{Name: "zones", Version: "1", Resources: []sdk.Kind{zones{set, os.Args[2]}}}))
}

// zoneTypes compiles the types and registers them, as linked code would.
func zoneTypes(folder string) (*schema.Set, error) {
	text, err := os.ReadFile(filepath.Join(folder, "dns.proto"))
	if err != nil {
		return nil, err
	}
	compiled, findings := schema.Compile(context.Background(), []schema.SourceFile{{Path: "dns.proto", Text: text}}, nil)
	if len(findings) > 0 {
		return nil, errors.New(findings[0].Message)
	}
	for _, name := range compiled.Own {
		message, err := compiled.Set.New(name)
		if err != nil {
			return nil, err
		}
		if err := protoregistry.GlobalTypes.RegisterMessage(message.ProtoReflect().Type()); err != nil {
			return nil, err
		}
	}
	return compiled.Set, nil
}

type zones struct {
	set    *schema.Set
	folder string
}

func (z zones) Served() sdk.Served {
	return sdk.Served{Type: "acme.dns.v1.Zone", Guarantee: sdk.Unguarded}
}

// text is the zone's file.
func (z zones) text(asset sdk.Intent) (name, text string, err error) {
	zone, err := z.decode(asset.Payload)
	if err != nil {
		return "", "", err
	}
	reflected := zone.ProtoReflect()
	get := func(m proto.Message, field string) string {
		descriptor := m.ProtoReflect().Descriptor().Fields().ByTextName(field)
		if descriptor == nil { // Of an older or a newer type.
			return ""
		}
		return m.ProtoReflect().Get(descriptor).String()
	}
	if name = get(zone, "origin"); name == "" {
		name = get(zone, "name")
	}
	read, ok := asset.Reads[intent.AssetID(get(reflected.Interface(), "template"))]
	if !ok {
		return "", "", fmt.Errorf("zone %s reads no template", name)
	}
	template, err := z.decode(read.Payload)
	if err != nil {
		return "", "", err
	}
	records := template.ProtoReflect().Get(template.ProtoReflect().Descriptor().Fields().ByTextName("records")).List()
	var b strings.Builder
	for i := range records.Len() {
		fmt.Fprintf(&b, "%s.%s\n", records.Get(i).String(), name)
	}
	return name, b.String(), nil
}

// decode passes over fields of a newer type, as serve.For does.
func (z zones) decode(m sdk.Message) (proto.Message, error) {
	message, err := z.set.New(m.Type)
	if err == nil {
		err = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(m.Bytes, message)
	}
	return message, err
}

func (z zones) Diff(_ context.Context, assets []sdk.Intent) []sdk.Difference {
	differences := make([]sdk.Difference, len(assets))
	for i, asset := range assets {
		differences[i] = z.diff(asset)
	}
	return differences
}

func (z zones) diff(asset sdk.Intent) sdk.Difference {
	name, want, err := z.text(asset)
	if err != nil {
		return sdk.Difference{Reason: err.Error()}
	}
	d := sdk.Difference{ResourceKey: sdk.ResourceKey("zones:" + filepath.Join(z.folder, name)), Health: sdk.Health{State: sdk.Healthy}}
	is, err := os.ReadFile(filepath.Join(z.folder, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.Outcome, d.Plan = sdk.Differs, sdk.Plan{Action: sdk.ActionCreate, Changes: []sdk.FieldChange{{Path: "records", Target: want}}}
	case err != nil:
		return sdk.Difference{Reason: err.Error()}
	case string(is) != want:
		d.Outcome, d.Plan = sdk.Differs, sdk.Plan{Action: sdk.ActionUpdate, Changes: []sdk.FieldChange{{Path: "records", Current: string(is), Target: want}}}
	default:
		d.Outcome = sdk.InSync
	}
	return d
}

func (z zones) Push(ctx context.Context, push sdk.Push, permits sdk.Permits) sdk.Outcome {
	if d := z.diff(push.Asset); d.Plan.Digest() != push.Plan {
		return sdk.Outcome{Ending: sdk.Stale}
	}
	if err := permits.Effect(ctx); err != nil {
		return sdk.Outcome{Ending: sdk.Stopped, Reason: err.Error()}
	}
	name, text, err := z.text(push.Asset)
	if err == nil {
		err = os.WriteFile(filepath.Join(z.folder, name), []byte(text), 0o644)
	}
	if err == nil {
		err = note(z.folder+".pushes", name)
	}
	if err != nil {
		return sdk.Outcome{Ending: sdk.Failed, Reason: err.Error()}
	}
	return sdk.Outcome{Ending: sdk.Pushed}
}

func note(path, line string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, line)
	return errors.Join(err, file.Close())
}
