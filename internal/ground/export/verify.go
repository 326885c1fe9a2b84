package export

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
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
func Verify(source io.Reader) (Exported, error) {
	v := verification{tar: tar.NewReader(source), blobs: map[intent.Digest]bool{}}
	for {
		header, err := v.tar.Next()
		if errors.Is(err, io.EOF) {
			return v.claimed, v.checkEnd()
		}
		if err != nil {
			return v.claimed, fault.New(fault.Invalid, "this is no whole tar: %w", err).WithHint("verify what lehr export --format tar wrote, not compressed")
		}
		if err := v.file(header); err != nil {
			return v.claimed, err
		}
	}
}

type verification struct {
	tar *tar.Reader
	set *schema.Set
	// expected are digests of the entries that the assets should have, in the order
	// of their ids.
	expected []intent.Digest
	last     intent.AssetID
	sum      intent.Summing
	claimed  Exported
	complete bool
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
	case v.complete:
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
		v.complete = true
		return v.manifest()
	}
	if digest, ok := strings.CutPrefix(header.Name, blobFolder); ok {
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
	present, ok := v.blobs[sum]
	switch {
	case sum.String() != digest:
		return broken(name, "its content has the digest %s", sum)
	case !ok || present:
		return broken(name, "no asset names it, or it is here twice")
	}
	v.blobs[sum] = true
	return nil
}

func (v *verification) asset(name string, text []byte) error {
	label := intent.Shown(name)
	body, err := v.set.ParseText(text)
	if err != nil {
		return broken(label, "%w", err)
	}
	asset, err := schema.Decode(body)
	switch {
	case err != nil:
		return broken(label, "%w", err)
	case fileOf(asset.ID) != name:
		return broken(label, "it holds asset %s", asset.ID)
	case asset.ID <= v.last:
		return broken(label, "it comes after %s", v.last)
	}
	named, err := blobsOf(v.set, asset)
	if err != nil {
		return broken(label, "%w", err)
	}
	for _, digest := range named {
		if _, ok := v.blobs[digest]; !ok {
			v.blobs[digest] = false
		}
	}
	v.last = asset.ID
	v.expected = append(v.expected, entry{ID: asset.ID, Type: asset.Payload.Type, Digest: intent.BodyDigest(body), File: name}.contentDigest())
	return nil
}

// manifest compares one entry after the other with what was found.
func (v *verification) manifest() error {
	decoder := json.NewDecoder(v.tar)
	fields := map[string]any{
		"incarnation": &v.claimed.Incarnation, "incarnation_digest": &v.claimed.Of, "schema": &v.claimed.Schema, "filter": &v.claimed.Filter, "digest": &v.claimed.Digest, "count": &v.claimed.Count,
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
		field, ok := fields[key]
		switch {
		case key == "assets":
			err = v.entries(decoder)
		case ok:
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
		var claimed entry
		if err := decoder.Decode(&claimed); err != nil {
			return err
		}
		switch {
		case count >= len(v.expected):
			return fault.New(fault.Invalid, "asset %.300q is not there", claimed.ID)
		case claimed.contentDigest() != v.expected[count]:
			return fault.New(fault.Invalid, "asset %.300q is not what %.300q holds", claimed.ID, claimed.File)
		}
		v.sum.Add(intent.MemberDigest{Asset: claimed.ID, Digest: claimed.Digest})
	}
	if count < len(v.expected) {
		return fault.New(fault.Invalid, "it names %d assets, and %d are there", count, len(v.expected))
	}
	_, err := decoder.Token()
	return err
}

// contentDigest is the digest of an entry by what its file holds.
func (e entry) contentDigest() intent.Digest {
	content := e.Digest
	if !e.Redacted.IsZero() {
		content = e.Redacted
	}
	return intent.Sum("lehr.export.v1", []byte(e.ID), []byte(e.Type), content[:], []byte(e.File))
}

// checkEnd compares the whole.
func (v *verification) checkEnd() error {
	switch {
	case !v.complete:
		return broken(manifestFile, "it is not there: the export did not end")
	case v.claimed.Schema != v.set.Digest():
		return broken(schemaFile, "its digest is %s, and the manifest says %s", v.set.Digest(), v.claimed.Schema)
	case v.claimed.Digest != v.sum.Digest() || v.claimed.Count != len(v.expected):
		return broken(manifestFile, "it says %d assets of digest %s, and there are %d of %s", v.claimed.Count, v.claimed.Digest, len(v.expected), v.sum.Digest())
	}
	for digest, present := range v.blobs {
		if !present {
			return broken(blobFolder+digest.String(), "an asset names it, and it is not there")
		}
	}
	return v.claimed.check()
}
