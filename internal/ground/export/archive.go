package export

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// What a tar holds, in this order: the schema, the assets, the blobs that they
// name, the manifest.
const (
	schemaFile   = "schema.binpb"
	assetFolder  = "assets/"
	blobFolder   = "blobs/"
	manifestFile = "manifest.json"
)

// entry is what the manifest says of one asset.
type entry struct {
	ID     intent.AssetID  `json:"id"`
	Type   intent.TypeName `json:"type"`
	Digest intent.Digest   `json:"digest"`
	File   string          `json:"file"`
	// Redacted is the digest of what the file holds, if secrets were taken out
	// of it.
	Redacted intent.Digest `json:"redacted,omitzero"`
}

// fileOf is an asset's place in the tar. A folder whose name would be that of
// a file gets a plus, which no id has: "a" and "a.json/b" may both be.
func fileOf(id intent.AssetID) string {
	folder, name := "", string(id)
	if slash := strings.LastIndexByte(name, '/'); slash >= 0 {
		folder, name = name[:slash+1], name[slash+1:]
	}
	return assetFolder + strings.ReplaceAll(folder, ".json/", ".json+/") + name + ".json"
}

// archive writes a tar. Its manifest comes last, as it says what there is.
type archive struct {
	tar     *tar.Writer
	set     *schema.Set
	scratch *os.File
	// entries goes to scratch.
	entries *bufio.Writer
	some    bool
}

func newArchive(w io.Writer, schemas *schema.Set) (*archive, error) {
	scratch, err := os.CreateTemp("", "lehr-export-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot make a temporary file for the manifest: %w", err).WithHint("TMPDIR names the folder")
	}
	a := &archive{tar: tar.NewWriter(w), set: schemas, scratch: scratch, entries: bufio.NewWriter(scratch)}
	if err := a.file(schemaFile, schemas.Files()); err != nil {
		a.drop()
		return nil, err
	}
	return a, nil
}

func (a *archive) header(name string, size int64) error {
	return a.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0),
	})
}

func (a *archive) file(name string, content []byte) error {
	err := a.header(name, int64(len(content)))
	if err == nil {
		_, err = a.tar.Write(content)
	}
	return err
}

func (a *archive) add(asset entry, body []byte) error {
	text, err := textOf(a.set, body)
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return fault.New(fault.Internal, "cannot render asset %s: %w", asset.ID, err)
	}
	indented.WriteByte('\n')
	if err := a.file(asset.File, indented.Bytes()); err != nil {
		return err
	}
	line, err := json.Marshal(asset)
	if err != nil {
		return err
	}
	if a.some {
		a.entries.WriteByte(',')
	}
	a.some = true
	a.entries.WriteByte('\n')
	_, err = a.entries.Write(line)
	return err
}

// end writes the manifest: what the export holds, with "assets", a list of
// entries, as its last field.
func (a *archive) end(exported Exported) error {
	head, err := json.MarshalIndent(exported, "", "  ")
	if err != nil {
		return err
	}
	head = append(bytes.TrimSuffix(head, []byte("\n}")), ",\n  \"assets\": ["...)
	const foot = "\n  ]\n}\n"
	if err := a.entries.Flush(); err != nil {
		return err
	}
	size, err := a.scratch.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := a.scratch.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := a.header(manifestFile, int64(len(head)+len(foot))+size); err != nil {
		return err
	}
	if _, err := io.Copy(a.tar, io.MultiReader(bytes.NewReader(head), a.scratch, strings.NewReader(foot))); err != nil {
		return err
	}
	return a.tar.Close()
}

func (a *archive) drop() {
	a.scratch.Close()
	os.Remove(a.scratch.Name())
}
