package export

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/schema"
)

// Files of a tar that are larger than this are not Lehr's, in bytes.
const (
	mostSchema = 64 << 20
	mostText   = 16 << 20
)

// Verify reads a tar, recomputes every digest from the assets' own text, and
// compares them with its manifest, which must name just these files. In memory
// are 32 bytes an asset. Invalid names the first file that is not as it was
// written. What an asset was before its secrets were taken out only the manifest
// tells. Without a filter the root digest is the incarnation's; whether that
// is the right one only who knows it from elsewhere can tell.
func Verify(in io.Reader) (Exported, error) {
	v := verification{tar: tar.NewReader(in), blobs: map[intent.Digest]bool{}}
	for {
		header, err := v.tar.Next()
		if errors.Is(err, io.EOF) {
			return v.said, v.ended()
		}
		if err != nil {
			return v.said, fault.New(fault.Invalid, "this is no whole tar: %w", err).WithHint("verify what lehr export --format tar wrote, not compressed")
		}
		if err := v.file(header); err != nil {
			return v.said, err
		}
	}
}

type verification struct {
	tar *tar.Reader
	set *schema.Set
	// found are digests of the entries that the assets should have, in the order
	// of their ids.
	found []intent.Digest
	last  intent.AssetID
	sum   intent.Summing
	said  Exported
	done  bool
	// blobs that assets name; true: they are here.
	blobs map[intent.Digest]bool
}

func broken(name, format string, arguments ...any) error {
	return fault.New(fault.Invalid, "%s: "+format, append([]any{name}, arguments...)...).WithHint("this is not the export as it was written: export it again")
}

func (v *verification) file(header *tar.Header) error {
	name := intent.Shown(header.Name)
	switch {
	case header.Typeflag != tar.TypeReg:
		return broken(name, "it is no regular file")
	case v.done:
		return broken(name, "it comes after the manifest")
	case v.set == nil && header.Name != schemaFile, v.set != nil && header.Name == schemaFile:
		return broken(name, "the first file, and no other, is %s", schemaFile)
	case header.Name == schemaFile:
		content, err := v.read(name, header.Size, mostSchema)
		if err != nil {
			return err
		}
		if v.set, err = schema.FromFiles(content); err != nil {
			return broken(name, "%w", err)
		}
		return nil
	case header.Name == manifestFile:
		v.done = true
		return v.manifest()
	}
	if digest, is := strings.CutPrefix(header.Name, blobFolder); is {
		return v.blob(name, digest, header.Size)
	}
	text, err := v.read(name, header.Size, mostText)
	if err != nil {
		return err
	}
	return v.asset(header.Name, text)
}

func (v *verification) read(name string, size, most int64) ([]byte, error) {
	if size > most {
		return nil, broken(name, "it has %d bytes, at most %d are possible", size, most)
	}
	content, err := io.ReadAll(v.tar)
	if err != nil {
		return nil, broken(name, "it cannot be read: %w", err)
	}
	return content, nil
}

// blob is named by an asset before it, and is what its name says.
func (v *verification) blob(name, digest string, size int64) error {
	content, err := v.read(name, size, intent.MaxBlobBytes)
	if err != nil {
		return err
	}
	sum := intent.BlobSum(content)
	here, named := v.blobs[sum]
	switch {
	case sum.String() != digest:
		return broken(name, "its content has the digest %s", sum)
	case !named || here:
		return broken(name, "no asset names it, or it is here twice")
	}
	v.blobs[sum] = true
	return nil
}

func (v *verification) asset(name string, text []byte) error {
	shown := intent.Shown(name)
	body, err := v.set.ParseText(text)
	if err != nil {
		return broken(shown, "%w", err)
	}
	asset, err := schema.Decode(body)
	switch {
	case err != nil:
		return broken(shown, "%w", err)
	case fileOf(asset.ID) != name:
		return broken(shown, "it holds asset %s", asset.ID)
	case asset.ID <= v.last:
		return broken(shown, "it comes after %s", v.last)
	}
	named, err := blobsOf(v.set, asset)
	if err != nil {
		return broken(shown, "%w", err)
	}
	for _, digest := range named {
		if _, known := v.blobs[digest]; !known {
			v.blobs[digest] = false
		}
	}
	v.last = asset.ID
	v.found = append(v.found, entry{ID: asset.ID, Type: asset.Payload.Type, Digest: intent.BodyDigest(body), File: name}.held())
	return nil
}

// manifest compares one entry after the other with what was found.
func (v *verification) manifest() error {
	decoder := json.NewDecoder(v.tar)
	fields := map[string]any{
		"incarnation": &v.said.Incarnation, "incarnation_digest": &v.said.Of, "schema": &v.said.Schema, "filter": &v.said.Filter, "digest": &v.said.Digest, "count": &v.said.Count,
	}
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return broken(manifestFile, "it is no JSON object")
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return broken(manifestFile, "%w", err)
		}
		key, _ := token.(string)
		field, known := fields[key]
		switch {
		case key == "assets":
			err = v.entries(decoder)
		case known:
			err = decoder.Decode(field)
		default:
			return broken(manifestFile, "%.80q is not known", key)
		}
		if err != nil {
			return broken(manifestFile, "%w", err)
		}
	}
	return nil
}

func (v *verification) entries(decoder *json.Decoder) error {
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return errors.New("its assets are no list")
	}
	count := 0
	for ; decoder.More(); count++ {
		var said entry
		if err := decoder.Decode(&said); err != nil {
			return err
		}
		switch {
		case count >= len(v.found):
			return fault.New(fault.Invalid, "asset %.300q is not there", said.ID)
		case said.held() != v.found[count]:
			return fault.New(fault.Invalid, "asset %.300q is not what %.300q holds", said.ID, said.File)
		}
		v.sum.Add(intent.MemberDigest{Asset: said.ID, Digest: said.Digest})
	}
	if count < len(v.found) {
		return fault.New(fault.Invalid, "it names %d assets, and %d are there", count, len(v.found))
	}
	_, err := decoder.Token()
	return err
}

// held is the digest of an entry by what its file holds.
func (e entry) held() intent.Digest {
	content := e.Digest
	if !e.Redacted.IsZero() {
		content = e.Redacted
	}
	return intent.Sum("lehr.export.v1", []byte(e.ID), []byte(e.Type), content[:], []byte(e.File))
}

// ended compares the whole.
func (v *verification) ended() error {
	switch {
	case !v.done:
		return broken(manifestFile, "it is not there: the export did not end")
	case v.said.Schema != v.set.Digest():
		return broken(schemaFile, "its digest is %s, and the manifest says %s", v.set.Digest(), v.said.Schema)
	case v.said.Digest != v.sum.Digest() || v.said.Count != len(v.found):
		return broken(manifestFile, "it says %d assets of digest %s, and there are %d of %s", v.said.Count, v.said.Digest, len(v.found), v.sum.Digest())
	}
	for digest, here := range v.blobs {
		if !here {
			return broken(blobFolder+digest.String(), "an asset names it, and it is not there")
		}
	}
	return v.said.check()
}
