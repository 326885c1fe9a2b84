// Package export writes an incarnation as one file for other programs, and
// checks such a file without a server. It asks nobody for anything: callers
// hand it canonical bytes one by one, and it believes none of them, as every
// export is verified against the incarnation's digest. package client reads
// the stream; cli calls both.
package export

import (
	"bufio"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// Format of an export.
type Format string

const (
	// JSON is one lehr.intent.v1.Asset a line, see schema.Text.
	JSON Format = "json"
	// Proto is one lehr.intent.v1.Asset after the other in its canonical bytes,
	// each after its length as a varint.
	Proto Format = "proto"
	// Tar has a file for each asset, the schema, and a manifest; Verify reads it.
	Tar Format = "tar"
)

// ParseFormat is Invalid for any other text.
func ParseFormat(text string) (Format, error) {
	switch format := Format(text); format {
	case JSON, Proto, Tar:
		return format, nil
	}
	return "", fault.New(fault.Invalid, "format %.80q is not known", text).WithHint("known are json, proto and tar")
}

// Exported says what an export holds.
type Exported struct {
	// Incarnation is its id, and Of its digest.
	Incarnation string        `json:"incarnation"`
	Of          intent.Digest `json:"incarnation_digest"`
	// Schema is the digest of the descriptor set.
	Schema intent.Digest `json:"schema"`
	// Filter by which assets were chosen; empty: all are here.
	Filter string `json:"filter,omitempty"`
	// Digest of the membership of what is here, without a filter Of, and how
	// many that are. They are known at the end.
	Digest intent.Digest `json:"digest"`
	Count  int           `json:"count"`
}

// Writer writes one export. What is in memory is one asset; a tar's manifest
// waits in a temporary file. Equal incarnations give equal bytes.
type Writer struct {
	exported Exported
	set      *schema.Set
	sum      intent.Summing
	last     intent.AssetID
	out      *bufio.Writer
	form     form
	// blobs that assets name, in the order in which they came; true: written.
	blobs map[intent.Digest]bool
	named []intent.Digest
}

// form is how assets are laid out.
type form interface {
	add(asset entry, body []byte) error
	end(about Exported) error
	// drop frees what the form holds, whether it came to its end or not.
	drop()
}

// NewWriter begins an export. Invalid when the schema, a descriptor set, is not
// the incarnation's.
func NewWriter(output io.Writer, format Format, exported Exported, descriptors []byte) (*Writer, error) {
	schemas, err := schema.FromFiles(descriptors)
	if err != nil {
		return nil, err
	}
	if schemas.Digest() != exported.Schema {
		return nil, fault.New(fault.Invalid, "exporting %s: its schema was sent as %s and is %s", exported.Incarnation, schemas.Digest().Short(), exported.Schema.Short())
	}
	w := &Writer{exported: exported, set: schemas, out: bufio.NewWriterSize(output, 1<<16), blobs: map[intent.Digest]bool{}}
	switch format {
	case JSON:
		w.form = lines{w.out, schemas}
	case Proto:
		w.form = delimited{w.out}
	default:
		w.form, err = newArchive(w.out, schemas)
	}
	return w, err
}

// Add writes the next asset, given in its canonical bytes, in the order of the
// ids. The digest is zero, or the asset's, when its secrets were taken out: then
// nothing tells whether the rest is as it was.
func (w *Writer) Add(body []byte, digest intent.Digest) error {
	asset, err := schema.Decode(body)
	if err != nil {
		return err
	}
	if asset.ID <= w.last {
		return fault.New(fault.Invalid, "exporting %s: asset %s came after %s", w.exported.Incarnation, asset.ID, w.last)
	}
	added := entry{ID: asset.ID, Type: asset.Payload.Type, Digest: intent.BodyDigest(body), File: fileOf(asset.ID)}
	if !digest.IsZero() {
		added.Digest, added.Redacted = digest, added.Digest
	}
	w.last = asset.ID
	w.exported.Count++
	w.sum.Add(intent.MemberDigest{Asset: asset.ID, Digest: added.Digest})
	if _, holds := w.form.(*archive); holds {
		named, err := blobsOf(w.set, asset)
		if err != nil {
			return err
		}
		for _, digest := range named {
			if _, ok := w.blobs[digest]; !ok {
				w.blobs[digest], w.named = false, append(w.named, digest)
			}
		}
	}
	return w.form.add(added, body)
}

// blobsOf are the blobs that an asset names.
func blobsOf(schemas *schema.Set, asset intent.Asset) (digests []intent.Digest, _ error) {
	externals, err := schemas.Externals(asset)
	for _, external := range externals {
		if digest, ok := intent.BlobDigest(external.URI); ok {
			digests = append(digests, digest)
		}
	}
	return digests, err
}

// Blobs are those that the assets so far name, and the format holds: Blob is to
// be called for each before the end.
func (w *Writer) Blobs() []intent.Digest { return w.named }

// Blob writes what one of Blobs names.
func (w *Writer) Blob(content []byte) error {
	digest := intent.BlobSum(content)
	written, ok := w.blobs[digest]
	if !ok || written {
		return fault.New(fault.Invalid, "exporting %s: the blob %s is not one that is to come", w.exported.Incarnation, digest)
	}
	w.blobs[digest] = true
	return w.form.(*archive).file(blobFolder+digest.String(), content)
}

// End verifies what was written, and completes it. An export that did not end
// is not to be used.
func (w *Writer) End() (Exported, error) {
	for _, digest := range w.named {
		if !w.blobs[digest] {
			return w.exported, fault.New(fault.Invalid, "exporting %s: the blob %s is missing", w.exported.Incarnation, digest)
		}
	}
	w.exported.Digest = w.sum.Digest()
	if err := w.exported.check(); err != nil {
		return w.exported, err
	}
	err := w.form.end(w.exported)
	if err == nil {
		err = w.out.Flush()
	}
	return w.exported, err
}

// Close frees what the writer holds, after End or instead of it.
func (w *Writer) Close() { w.form.drop() }

// check compares what is there with the incarnation, which is known of whole
// exports only.
func (e Exported) check() error {
	if e.Filter == "" && e.Digest != e.Of {
		return fault.New(fault.Invalid, "what was exported is not %s: its %d assets have the digest %s, not %s",
			e.Incarnation, e.Count, e.Digest, e.Of).WithHint("export it again; if that fails too, lehr store verify says what is damaged")
	}
	return nil
}

type lines struct {
	out *bufio.Writer
	set *schema.Set
}

func (l lines) add(_ entry, body []byte) error {
	text, err := textOf(l.set, body)
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(text, '\n'))
	return err
}
func (lines) end(Exported) error { return nil }
func (lines) drop()              {}

// textOf says what else there is for what has no JSON.
func textOf(schemas *schema.Set, body []byte) ([]byte, error) {
	text, err := schemas.Text(body)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%w", err).WithHint("--format proto holds any value")
	}
	return text, nil
}

type delimited struct{ out *bufio.Writer }

func (d delimited) add(_ entry, body []byte) error {
	_, err := d.out.Write(protowire.AppendVarint(nil, uint64(len(body))))
	if err == nil {
		_, err = d.out.Write(body)
	}
	return err
}
func (delimited) end(Exported) error { return nil }
func (delimited) drop()              {}
