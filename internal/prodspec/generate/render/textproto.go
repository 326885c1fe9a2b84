package render

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/generate/manifest"
)

var (
	severalAssets = regexp.MustCompile(`(?m)^\s*assets\b`)
	textError     = regexp.MustCompile(`\(line (\d+):(\d+)\): (.*)`)
)

// textproto reads a lehr.intent.v1.Asset, or an AssetFile, in protobuf's text
// format.
func (r *assetReader) textproto(name string, text []byte) error {
	file := &intentpb.AssetFile{Assets: []*intentpb.Asset{{}}}
	var target proto.Message = file.Assets[0]
	lines := []int{1}
	if severalAssets.Match(text) {
		file.Assets, target = nil, file
		lines = entries(text)
	}
	if err := (prototext.UnmarshalOptions{Resolver: r.set.Types()}).Unmarshal(text, target); err != nil {
		line, column, message := 1, 0, err.Error()
		if at := textError.FindStringSubmatch(message); at != nil {
			line, _ = strconv.Atoi(at[1])
			column, _ = strconv.Atoi(at[2])
			message = at[3]
		}
		r.output.At(name, line).Field(column, "").Error("write a lehr.intent.v1.Asset, or several as assets { … }; a payload is payload { [some.v1.Type] { … } }", "not a textproto of assets: %s", message)
		return nil
	}
	if len(file.Assets) == 0 {
		r.output.At(name, 1).Error("restore its content; to take something away, remove it by name", "%s is empty", name)
	}
	for i, asset := range file.Assets {
		line, at := 1, ""
		if i < len(lines) {
			line = lines[i]
		}
		if target == file {
			at = manifest.Index("assets", i)
		}
		if err := r.anyAsset(name, line, at, asset); err != nil {
			return err
		}
	}
	return nil
}

// anyAsset judges an asset whose payload and addons are in Any.
func (r *assetReader) anyAsset(name string, line int, at string, asset *intentpb.Asset) error {
	fine := true
	say := func(field, hint, format string, arguments ...any) {
		fine = false
		r.output.At(name, line).Field(0, manifest.Join(at, field)).Error(hint, format, arguments...)
	}
	read := func(field string, m proto.Message, err error) proto.Message {
		if e, ok := errors.AsType[*fault.Error](err); ok {
			say(field, e.Hint, "%s", e.Message)
			return nil
		}
		err = r.rules.Validate(m)
		invalid, ok := errors.AsType[*protovalidate.ValidationError](err)
		if err != nil && !ok {
			say(field, "mend the rules of the type", "%s cannot be validated: %s", field, err)
		}
		if !ok {
			return m
		}
		slices.SortStableFunc(invalid.Violations, func(a, b *protovalidate.Violation) int {
			return cmp.Compare(protovalidate.FieldPathString(a.Proto.GetField()), protovalidate.FieldPathString(b.Proto.GetField()))
		})
		for _, violation := range invalid.Violations {
			path := protovalidate.FieldPathString(violation.Proto.GetField())
			say(manifest.Join(field, path), "mend the field", "%s: %s", manifest.Join(field, path), violation.Proto.GetMessage())
		}
		return m
	}
	if asset.GetId() == "" {
		say("id", `write id: "some/asset"`, "the asset has no id")
	}
	if asset.GetPayload() == nil {
		say("payload", "write payload { [some.v1.Type] { … } }", "the asset has no payload")
		return nil
	}
	payload, err := r.unpack(asset.GetPayload())
	payload = read("payload", payload, err)
	var addons []proto.Message
	for i, packed := range asset.GetAddons() {
		addon, err := r.unpack(packed)
		addons = append(addons, read(manifest.Index("addons", i), addon, err))
	}
	if !fine {
		return nil
	}
	return r.give(name, line, 0, at, asset.GetId(), payload, addons)
}

// entries are the lines of the fields named assets at the top.
func entries(text []byte) (lines []int) {
	line, depth, word := 1, 0, strings.Builder{}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if depth == 0 && ('a' <= c && c <= 'z' || c == '_') {
			word.WriteByte(c)
			continue
		}
		if word.String() == "assets" {
			lines = append(lines, line)
		}
		word.Reset()
		switch c {
		case '\n':
			line++
		case '{', '<', '[':
			depth++
		case '}', '>', ']':
			depth--
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			for i++; i < len(text) && text[i] != c && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return lines
}
