package artifact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Unpack reads the files of an archive of tar, which gzip may have compressed, by
// their paths. Links, devices, paths that lead out of the archive, a path twice and
// whatever is beyond the limits are refused: what is left out would be taken for
// removed.
func Unpack(subject string, archive []byte, limits Limits) (map[string][]byte, error) {
	if err := limits.CheckPacked(subject, int64(len(archive))); err != nil {
		return nil, err
	}
	var stream io.Reader = bytes.NewReader(archive)
	if bytes.HasPrefix(archive, []byte{0x1f, 0x8b}) {
		compressed, err := gzip.NewReader(stream)
		if err != nil {
			return nil, broken(subject, err)
		}
		stream = compressed
	}
	u := &unpacking{subject: subject, limits: limits, files: map[string][]byte{}}
	// Headers count too, so that no archive of empty files goes on for ever.
	u.stream = &io.LimitedReader{R: stream, N: limits.TotalBytes + int64(limits.Files)*2048}
	if err := u.all(); err != nil {
		return nil, err
	}
	if len(u.files) == 0 {
		return nil, fault.New(fault.Invalid, "%s holds no file", subject).WithHint("nothing is taken for empty: pack its files again")
	}
	return u.files, nil
}

func broken(subject string, err error) error {
	return fault.New(fault.Invalid, "%s cannot be unpacked: %w", subject, err).WithHint("it must be an archive of tar, compressed by gzip or not at all")
}

// unpacking reads one archive.
type unpacking struct {
	subject string
	limits  Limits
	stream  *io.LimitedReader
	files   map[string][]byte
	total   int64
}

func (u *unpacking) all() error {
	archive := tar.NewReader(u.stream)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return u.rest()
		}
		if err != nil {
			return u.failed(err)
		}
		if err := u.entry(header, archive); err != nil {
			return err
		}
	}
}

// rest reads to the end, where gzip verifies its sum.
func (u *unpacking) rest() error {
	if _, err := io.Copy(io.Discard, u.stream); err != nil {
		return u.failed(err)
	}
	return nil
}

// failed says that the archive is broken, or that it was cut off at the limit.
func (u *unpacking) failed(err error) error {
	if u.stream.N <= 0 {
		return u.tooMuch()
	}
	return broken(u.subject, err)
}

func (u *unpacking) tooMuch() error {
	return fault.New(fault.Invalid, "%s has more than %d bytes when it is unpacked, which is the most that is read", u.subject, u.limits.TotalBytes).
		WithHint("leave out of the package what is not rendered")
}

func (u *unpacking) entry(header *tar.Header, content io.Reader) error {
	name := strip(header.Name)
	refuse := func(format string, hint string) error {
		return fault.New(fault.Invalid, "%s holds %s, which "+format, u.subject, intent.Shown(brief(header.Name))).WithHint("%s", hint)
	}
	switch header.Typeflag {
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg:
	case tar.TypeSymlink, tar.TypeLink:
		return refuse("is a link", "pack the file that it names in its place")
	default:
		return refuse("is no regular file", "pack regular files only")
	}
	if err := checkPath(u.subject, name); err != nil {
		return err
	}
	_, duplicate := u.files[name]
	switch {
	case duplicate:
		return refuse("is in it twice", "pack each file once")
	case header.Size > u.limits.FileBytes:
		return fault.New(fault.Invalid, "%s holds %s of %d bytes, and at most %d are read", u.subject, intent.Shown(brief(header.Name)), header.Size, u.limits.FileBytes).
			WithHint("split it, or leave it out")
	case len(u.files) >= u.limits.Files:
		return fault.New(fault.Invalid, "%s holds more than %d files", u.subject, u.limits.Files).WithHint("split it")
	}
	if u.total += header.Size; u.total > u.limits.TotalBytes {
		return u.tooMuch()
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return u.failed(err)
	}
	if IsPointer(text) {
		return refuse("is a pointer of git-lfs: its content is not in the package", "fetch it (git lfs pull) before packing")
	}
	u.files[name] = text
	return nil
}

// checkPath refuses a path that leads out of the artifact.
func checkPath(subject, name string) error {
	if fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\\x00") {
		return nil
	}
	return fault.New(fault.Invalid, "%s holds %s, which leads out of it or is no path", subject, intent.Shown(brief(name))).
		WithHint("pack paths that are relative and have no ..")
}

// pointer is how a file begins that git-lfs keeps elsewhere.
var pointer = []byte("version https://git-lfs.github.com/spec/v1\n")

// MostPointer is how many bytes a pointer of git-lfs has at most.
const MostPointer = 1024

// IsPointer reports whether a file is one that git-lfs left in the place of another.
func IsPointer(content []byte) bool { return bytes.HasPrefix(content, pointer) }

// brief is a path of strangers, for people.
func brief(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Below is the files of one folder of an archive, by their paths in it; ok: there is
// no file outside of it.
func Below(files map[string][]byte, folder string) (inside map[string][]byte, ok bool) {
	inside = make(map[string][]byte, len(files))
	for name, content := range files {
		rest, ok := strings.CutPrefix(name, folder+"/")
		if !ok {
			return nil, false
		}
		inside[rest] = content
	}
	return inside, true
}

// top is the folder in which an archive's files lie; empty: not in one.
func top(files map[string][]byte) string {
	for name := range files {
		folder, _, ok := strings.Cut(name, "/")
		if ok {
			return folder
		}
		return ""
	}
	return ""
}
