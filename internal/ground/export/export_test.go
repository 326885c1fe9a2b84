package export_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/export"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

func body(t testing.TB, id string, payload proto.Message) []byte {
	t.Helper()
	packed, err := schema.Builtin().Pack(payload)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _, err := schema.Builtin().Encode(intent.Asset{ID: intent.AssetID(id), Payload: packed})
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func owner(t testing.TB, id string) []byte { return body(t, id, &intentpb.Owner{Owner: "of " + id}) }

// of describes an incarnation of the bodies.
func of(t testing.TB, bodies [][]byte) export.Exported {
	t.Helper()
	var sum intent.Summing
	for _, b := range bodies {
		asset, err := schema.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(intent.MemberDigest{Asset: asset.ID, Digest: intent.BodyDigest(b)})
	}
	return export.Exported{Incarnation: "shop@7", Of: sum.Digest(), Schema: schema.Builtin().Digest()}
}

func write(out io.Writer, format export.Format, about export.Exported, bodies [][]byte) (export.Exported, error) {
	w, err := export.NewWriter(out, format, about, schema.Builtin().Files())
	if err != nil {
		return about, err
	}
	defer w.Close()
	for _, b := range bodies {
		if err := w.Add(b, intent.Digest{}); err != nil {
			return about, err
		}
	}
	return w.End()
}

var odd = []string{"a", "a.json", "a.json/b", "a.json/b.json/c", "a/b", "shop/" + strings.Repeat("x", 240), "z"}

func bodies(t testing.TB, ids ...string) (list [][]byte) {
	slices.Sort(ids)
	for _, id := range ids {
		list = append(list, owner(t, id))
	}
	return list
}

// Every format holds all assets, the same bytes each time, and reads back.
func TestEveryFormatComesBack(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	all := bodies(t, odd...)
	about := of(t, all)
	for _, format := range []export.Format{export.JSON, export.Proto, export.Tar} {
		var first, again bytes.Buffer
		said, err := write(&first, format, about, all)
		if err != nil || said.Count != len(all) || said.Digest != about.Of {
			t.Fatalf("%s: %+v, %v", format, said, err)
		}
		if _, err := write(&again, format, about, all); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Errorf("%s: other bytes the second time, %v", format, err)
		}
		var back [][]byte
		switch in := bufio.NewReader(&first); format {
		case export.JSON:
			for text, err := in.ReadBytes('\n'); err == nil; text, err = in.ReadBytes('\n') {
				canonical, err := schema.Builtin().ParseText(text)
				if err != nil {
					t.Fatal(err)
				}
				back = append(back, canonical)
			}
		case export.Proto:
			for {
				asset := &intentpb.Asset{}
				if err := protodelim.UnmarshalFrom(in, asset); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				canonical, err := schema.Builtin().Canonical(asset)
				if err != nil {
					t.Fatal(err)
				}
				back = append(back, canonical)
			}
		case export.Tar:
			if found, err := export.Verify(in); err != nil || found != said {
				t.Errorf("verifying it says %+v, %v, not %+v", found, err, said)
			}
			continue
		}
		if !slices.EqualFunc(back, all, bytes.Equal) {
			t.Errorf("%s: %d assets read back", format, len(back))
		}
	}
}

// An asset whose secrets were taken out counts as what it was.
func TestSecretsLeftOutDoNotChangeTheDigest(t *testing.T) {
	all := bodies(t, "a", "b")
	shown := body(t, "b", &intentpb.Owner{Owner: schema.Redacted})
	about := of(t, all)
	add := func(out io.Writer, digest intent.Digest) (export.Exported, error) {
		w, err := export.NewWriter(out, export.Tar, about, schema.Builtin().Files())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if err := errors.Join(w.Add(all[0], intent.Digest{}), w.Add(shown, digest)); err != nil {
			t.Fatal(err)
		}
		return w.End()
	}
	var out bytes.Buffer
	said, err := add(&out, intent.BodyDigest(all[1]))
	if err != nil || said.Digest != about.Of {
		t.Fatalf("%+v, %v", said, err)
	}
	if found, err := export.Verify(bytes.NewReader(out.Bytes())); err != nil || found != said {
		t.Errorf("verifying it says %+v, %v", found, err)
	}
	changed := repack(t, out.Bytes(), func(name, content string) (string, string) {
		return name, strings.Replace(content, `"(redacted)"`, `"(guessed)"`, 1)
	})
	if _, err := export.Verify(bytes.NewReader(changed)); !fault.Is(err, fault.Invalid) {
		t.Errorf("changed beside its secret: %v", err)
	}
	if _, err := add(io.Discard, intent.Digest{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("without its digest: %v", err)
	}
}

// An export that is not the incarnation does not end well.
func TestWhatIsNotTheIncarnationIsRefused(t *testing.T) {
	all := bodies(t, odd...)
	about := of(t, all)
	changed := slices.Clone(all)
	changed[3] = body(t, odd[3], &intentpb.Owner{Owner: "other"})
	swapped := slices.Clone(all)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	for name, given := range map[string][][]byte{
		"one missing": all[1:], "none": nil, "one changed": changed, "another order": swapped, "one twice": append(all[:1:1], all...),
		"one more": append(slices.Clone(all), owner(t, "zz")), "no asset": {[]byte("x")},
	} {
		for _, format := range []export.Format{export.JSON, export.Proto, export.Tar} {
			if _, err := write(io.Discard, format, about, given); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s as %s: %v", name, format, err)
			}
		}
	}
	about.Schema = intent.BodyDigest(nil)
	if _, err := write(io.Discard, export.Proto, about, all); !fault.Is(err, fault.Invalid) {
		t.Errorf("another schema: %v", err)
	}
	// What has no JSON is told, with what to do.
	strange := [][]byte{body(t, "strange", &durationpb.Duration{Seconds: math.MaxInt64})}
	_, err := write(io.Discard, export.JSON, of(t, strange), strange)
	if known, ok := errors.AsType[*fault.Error](err); !ok || !strings.Contains(known.Hint, "--format proto") {
		t.Errorf("no JSON: %v", err)
	}
	if _, err := write(io.Discard, export.Proto, of(t, strange), strange); err != nil {
		t.Errorf("as protobuf: %v", err)
	}
}

// repack writes a tar anew, with what change makes of each file.
func repack(t *testing.T, whole []byte, change func(name, content string) (string, string)) []byte {
	t.Helper()
	var out bytes.Buffer
	in, w := tar.NewReader(bytes.NewReader(whole)), tar.NewWriter(&out)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, _ := io.ReadAll(in)
		name, text := change(header.Name, string(content))
		if name == "" {
			continue
		}
		header.Name, header.Size = name, int64(len(text))
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(text))
	}
	w.Close()
	return out.Bytes()
}

// A tar that is not as it was written is found, wherever it was changed.
func TestChangedTarsAreFound(t *testing.T) {
	all := bodies(t, odd...)
	var whole bytes.Buffer
	if _, err := write(&whole, export.Tar, of(t, all), all); err != nil {
		t.Fatal(err)
	}
	in := func(file, old, text string) func(string, string) (string, string) {
		return func(name, content string) (string, string) {
			if name == file {
				if !strings.Contains(content, old) {
					t.Fatalf("%s does not hold %q", file, old)
				}
				content = strings.ReplaceAll(content, old, text)
			}
			return name, content
		}
	}
	without := func(file string) func(string, string) (string, string) {
		return func(name, content string) (string, string) {
			if name == file {
				name = ""
			}
			return name, content
		}
	}
	for name, change := range map[string]func(string, string) (string, string){
		"as it was, laid out otherwise": in("assets/a.json", "  ", "\t"),
		"a value":                       in("assets/a.json", "of a", "of b"),
		"an id":                         in("assets/z.json", `"z"`, `"y"`),
		"a file less":                   without("assets/a/b.json"),
		"no schema":                     without("schema.binpb"),
		"no manifest":                   without("manifest.json"),
		"a schema of another":           in("schema.binpb", "lehr/caddy", "lehr/daddy"),
		"a root digest":                 in("manifest.json", of(t, all).Of.String(), of(t, all[1:]).Of.String()),
		"a type in the manifest":        in("manifest.json", "v1.Owner", "v1.Labels"),
		"a count":                       in("manifest.json", `"count": 7`, `"count": 8`),
		"a field more":                  in("manifest.json", `"schema":`, `"colour": 1, "schema":`),
		"no JSON":                       in("manifest.json", `{`, `[`),
		"a file of another's name": func(name, content string) (string, string) {
			return strings.Replace(name, "assets/a/b.json", "assets/../../b.json", 1), content
		},
	} {
		found, err := export.Verify(bytes.NewReader(repack(t, whole.Bytes(), change)))
		if good := strings.HasPrefix(name, "as it was"); good != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	for cut := 0; cut < whole.Len()-1024-512; cut += 511 {
		if _, err := export.Verify(bytes.NewReader(whole.Bytes()[:cut])); err == nil {
			t.Errorf("cut after %d of %d bytes, it passes", cut, whole.Len())
		}
	}
}

// What is in memory does not grow with the incarnation.
func TestExportsAreWrittenInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 000 assets")
	}
	t.Setenv("TMPDIR", t.TempDir())
	const count = 100_000
	content := strings.Repeat("x", 1000)
	each := func(do func(b []byte)) {
		for i := range count {
			do(body(t, fmt.Sprintf("shop/service-%06d", i), &intentpb.Owner{Owner: content}))
		}
	}
	about := export.Exported{Incarnation: "shop@1", Schema: schema.Builtin().Digest()}
	var sum intent.Summing
	each(func(b []byte) {
		asset, _ := schema.Decode(b)
		sum.Add(intent.MemberDigest{Asset: asset.ID, Digest: intent.BodyDigest(b)})
	})
	about.Of = sum.Digest()
	w, err := export.NewWriter(io.Discard, export.Tar, about, schema.Builtin().Files())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, done := live(), 0
	each(func(b []byte) {
		if err := w.Add(b, intent.Digest{}); err != nil {
			t.Fatal(err)
		}
		if done++; done%25_000 == 0 {
			if grown := int64(live()) - int64(before); grown > 8<<20 {
				t.Errorf("after %d assets it holds %d bytes more", done, grown)
			}
		}
	})
	if said, err := w.End(); err != nil || said.Count != count {
		t.Fatalf("%+v, %v", said, err)
	}
}
