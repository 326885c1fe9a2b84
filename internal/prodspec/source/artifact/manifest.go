package artifact

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
)

// Media types of manifests and layers.
const (
	indexType      = "application/vnd.oci.image.index.v1+json"
	chartType      = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	provenanceType = "application/vnd.cncf.helm.chart.provenance.v1.prov"
	signingType    = "application/vnd.dev.cosign.simplesigning.v1+json"
	// titled names the file that a layer is.
	titled = "org.opencontainers.image.title"
	// unpacked says that a titled layer is an archive of a folder.
	unpacked = "io.deis.oras.content.unpack"
	created  = "org.opencontainers.image.created"
)

// Manifest of an artifact.
type Manifest struct {
	MediaType   string            `json:"mediaType"`
	Config      Layer             `json:"config"`
	Layers      []Layer           `json:"layers"`
	Annotations map[string]string `json:"annotations"`
}

// Layer is a blob that a manifest names.
type Layer struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
}

// mostLayers of one artifact.
const mostLayers = 100

// ParseManifest reads a manifest, and holds all its layers together to the limit of
// one archive.
func ParseManifest(subject string, text []byte, limits Limits) (Manifest, error) {
	var m Manifest
	err := json.Unmarshal(text, &m)
	switch {
	case err != nil:
	case m.MediaType == indexType || strings.Contains(m.MediaType, "manifest.list"):
		err = errors.New("it is an index of several, as of images for several platforms")
	case len(m.Layers) == 0:
		err = errors.New("it has no layers")
	case len(m.Layers) > mostLayers:
		err = errors.New("it has more than 100 layers")
	}
	if err != nil {
		return m, fault.New(fault.Invalid, "%s has no manifest that is read: %w", subject, err).WithHint("push it with helm push, oras push or flux push artifact")
	}
	total := int64(0)
	for _, layer := range m.Layers {
		if !IsDigest(layer.Digest) || layer.Size < 0 {
			return m, fault.New(fault.Invalid, "%s has a layer with the digest %.100q and %d bytes", subject, layer.Digest, layer.Size).WithHint("push it again")
		}
		if err := limits.CheckPacked(subject, layer.Size); err != nil {
			return m, err
		}
		total += layer.Size
	}
	return m, limits.CheckPacked(subject, total)
}

// Time at which it was made; zero: it does not say it.
func (m Manifest) Time() time.Time { return Release{Created: m.Annotations[created]}.Time() }

// Chart is the layer with the chart, and that with its provenance, where it has one.
func (m Manifest) Chart(subject string) (chart Layer, provenance *Layer, err error) {
	found := 0
	for _, layer := range m.Layers {
		switch layer.MediaType {
		case chartType:
			chart, found = layer, found+1
		case provenanceType:
			provenance = &layer
		}
	}
	if found != 1 {
		return chart, nil, fault.New(fault.Invalid, "%s has %d layers that are charts, and a chart has one", subject, found).
			WithHint("push it with helm push; another artifact is read with artifact: in place of chart:")
	}
	return chart, provenance, nil
}

// Kind says how the files of a piece are found in its content.
type Kind string

const (
	// Archive is of tar, whose files are those of the artifact.
	Archive Kind = "archive"
	// PackedChart is of tar, with the chart in one folder.
	PackedChart Kind = "chart"
	// File is one, by Path.
	File Kind = "file"
)

// Piece of what was packed: content by its digest, and which files it gives.
type Piece struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	Kind   Kind   `json:"kind"`
	Path   string `json:"path,omitempty"`
}

// Pieces are the layers of an artifact: archives of tar, and single files with a
// title.
func (m Manifest) Pieces(subject string) ([]Piece, error) {
	var pieces []Piece
	for _, layer := range m.Layers {
		piece := Piece{Digest: layer.Digest, Size: layer.Size, Kind: File, Path: layer.Annotations[titled]}
		isTar := strings.HasSuffix(layer.MediaType, "tar+gzip") || strings.HasSuffix(layer.MediaType, ".tar") || strings.HasSuffix(layer.MediaType, "tar.gzip")
		switch {
		case isTar && (piece.Path == "" || layer.Annotations[unpacked] == "true"):
			piece.Kind, piece.Path = Archive, ""
		case piece.Path != "":
		default:
			return nil, fault.New(fault.Invalid, "%s has a layer of the type %.200q, which is neither an archive of tar nor a file with a title", subject, layer.MediaType).
				WithHint("push its files with oras push or flux push artifact")
		}
		pieces = append(pieces, piece)
	}
	return pieces, nil
}

// Assemble puts the files of all pieces together, of which content gives each by its
// digest. A path that two of them have is refused.
func Assemble(subject string, pieces []Piece, limits Limits, content func(Piece) ([]byte, error)) (map[string][]byte, error) {
	files, total := map[string][]byte{}, int64(0)
	for _, piece := range pieces {
		body, err := content(piece)
		if err != nil {
			return nil, err
		}
		some, err := piece.files(subject, body, limits)
		if err != nil {
			return nil, err
		}
		for name, text := range some {
			if _, ok := files[name]; ok {
				return nil, fault.New(fault.Invalid, "%s has the file %.200q in two layers", subject, name).WithHint("push each file once")
			}
			total += int64(len(text))
			files[name] = text
		}
		if total > limits.TotalBytes || len(files) > limits.Files {
			return nil, fault.New(fault.Invalid, "%s has %d files of %d bytes, and at most %d of %d are read", subject, len(files), total, limits.Files, limits.TotalBytes).WithHint("split it")
		}
	}
	return files, nil
}

func (p Piece) files(subject string, body []byte, limits Limits) (map[string][]byte, error) {
	if p.Kind != File {
		files, err := Unpack(subject, body, limits)
		if err != nil || p.Kind == Archive {
			return files, err
		}
		inside, ok := Below(files, top(files))
		if !ok {
			return nil, fault.New(fault.Invalid, "%s is no chart: its files do not lie in one folder", subject).WithHint("pack it with helm package")
		}
		return inside, nil
	}
	name := strip(p.Path)
	if err := checkPath(subject, name); err != nil {
		return nil, err
	}
	if int64(len(body)) > limits.FileBytes {
		return nil, fault.New(fault.Invalid, "%s holds %.200q of %d bytes, and at most %d are read", subject, name, len(body), limits.FileBytes).WithHint("split it, or leave it out")
	}
	return map[string][]byte{name: body}, nil
}
