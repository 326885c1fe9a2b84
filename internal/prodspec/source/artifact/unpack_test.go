package artifact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packing is an archive that is being made, entry by entry.
type packing struct {
	testing.TB
	buffer bytes.Buffer
	tar    *tar.Writer
}

func newPacking(t testing.TB) *packing {
	p := &packing{TB: t}
	p.tar = tar.NewWriter(&p.buffer)
	return p
}

func (p *packing) add(header tar.Header, content string) {
	p.Helper()
	if header.Mode == 0 {
		header.Mode = 0o644
	}
	if header.Typeflag == 0 {
		header.Typeflag = tar.TypeReg
	}
	header.Size = int64(len(content))
	if err := p.tar.WriteHeader(&header); err != nil {
		p.Fatal(err)
	}
	if _, err := p.tar.Write([]byte(content)); err != nil {
		p.Fatal(err)
	}
}

// close ends the archive, and compresses it.
func (p *packing) close() []byte {
	p.Helper()
	if err := p.tar.Close(); err != nil {
		p.Fatal(err)
	}
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(p.buffer.Bytes()); err != nil {
		p.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		p.Fatal(err)
	}
	return compressed.Bytes()
}

func small() Limits {
	return Limits{PackedBytes: 100_000, FileBytes: 1000, TotalBytes: 5000, Files: 10}
}

func TestUnpack(t *testing.T) {
	p := newPacking(t)
	p.add(tar.Header{Name: "./web/", Typeflag: tar.TypeDir}, "")
	p.add(tar.Header{Name: "./web/a.yaml"}, "a")
	p.add(tar.Header{Name: "web/templates/b.yaml"}, "")
	compressed := p.close()
	for name, archive := range map[string][]byte{"compressed": compressed, "plain": p.buffer.Bytes()} {
		files, err := Unpack("it", archive, small())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"web/a.yaml", "web/templates/b.yaml"}) || string(files["web/a.yaml"]) != "a" || files["web/templates/b.yaml"] == nil {
			t.Errorf("%s: files %v", name, names)
		}
	}
}

// What a stranger can put into an archive to reach what is not in it, or to fill a
// machine.
func TestUnpackRefuses(t *testing.T) {
	for says, fill := range map[string]func(p *packing){
		"holds ../../etc/passwd, which leads out of it": func(p *packing) { p.add(tar.Header{Name: "../../etc/passwd"}, "x") },
		"holds web/../../x, which leads out of it":      func(p *packing) { p.add(tar.Header{Name: "web/../../x"}, "x") },
		"holds /etc/passwd, which leads out of it":      func(p *packing) { p.add(tar.Header{Name: "/etc/passwd"}, "x") },
		`holds a\..\b, which leads out of it`:           func(p *packing) { p.add(tar.Header{Name: `a\..\b`}, "x") },
		"holds web/a, which is a link": func(p *packing) {
			p.add(tar.Header{Name: "web/a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")
		},
		"holds web/b, which is a link":                func(p *packing) { p.add(tar.Header{Name: "web/b", Typeflag: tar.TypeLink, Linkname: "web/a"}, "") },
		"holds web/c, which is no regular file":       func(p *packing) { p.add(tar.Header{Name: "web/c", Typeflag: tar.TypeChar}, "") },
		"holds ./web/d, which is in it twice":         func(p *packing) { p.add(tar.Header{Name: "web/d"}, "x"); p.add(tar.Header{Name: "./web/d"}, "y") },
		"holds web/e, which is a pointer of git-lfs":  func(p *packing) { p.add(tar.Header{Name: "web/e"}, string(pointer)+"oid sha256:1\nsize 9\n") },
		"holds web/f of 1001 bytes, and at most 1000": func(p *packing) { p.add(tar.Header{Name: "web/f"}, strings.Repeat("x", 1001)) },
		"holds more than 10 files": func(p *packing) {
			for i := range 11 {
				p.add(tar.Header{Name: fmt.Sprint("web/", i)}, "")
			}
		},
		"has more than 5000 bytes when it is unpacked": func(p *packing) {
			for i := range 6 {
				p.add(tar.Header{Name: fmt.Sprint("web/", i)}, strings.Repeat("x", 900))
			}
		},
		"holds no file": func(p *packing) { p.add(tar.Header{Name: "web/", Typeflag: tar.TypeDir}, "") },
	} {
		p := newPacking(t)
		fill(p)
		if _, err := Unpack("it", p.close(), small()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	p := newPacking(t)
	p.add(tar.Header{Name: "web/a"}, "x")
	whole := p.close()
	// A bomb: 64 MB of zeros, a thousand to one.
	var bomb bytes.Buffer
	writer := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 64 {
		_, _ = writer.Write(zeros)
	}
	writer.Close()
	for says, archive := range map[string][]byte{
		"cannot be unpacked":                       whole[:len(whole)-10],
		"cannot be unpacked: unexpected EOF":       []byte("\x1f\x8bno"),
		"holds no file":                            bomb.Bytes(),
		"has 100001 bytes, and at most 100000 are": make([]byte, 100_001),
	} {
		if _, err := Unpack("it", archive, small()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	p := newPacking(f)
	p.add(tar.Header{Name: "web/a"}, "x")
	f.Add(p.close())
	f.Add(p.buffer.Bytes())
	f.Fuzz(func(t *testing.T, archive []byte) {
		files, err := Unpack("it", archive, small())
		total := 0
		for name, content := range files {
			if total += len(content); checkPath("it", name) != nil || len(content) > 1000 {
				t.Errorf("%q of %d bytes", name, len(content))
			}
		}
		if err == nil && (len(files) == 0 || len(files) > 10 || total > 5000) {
			t.Errorf("%d files of %d bytes", len(files), total)
		}
	})
}

// real is a file that Helm 4.3.1, GnuPG or cosign 2.6.5 has made.
func real(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestChartThatHelmPacked(t *testing.T) {
	archive := real(t, "charts/web-1.2.3.tgz")
	files, meta, err := Chart("it", archive, "web", "1.2.3", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"Chart.yaml", "templates/configmap.yaml", "values.yaml"}) || meta.Name != "web" {
		t.Errorf("%+v with %v", meta, names)
	}
	for _, other := range [][2]string{{"web", "1.2.4"}, {"shop", "1.2.3"}} {
		if _, _, err := Chart("it", archive, other[0], other[1], DefaultLimits()); err == nil || !strings.Contains(err.Error(), `is the chart "web" "1.2.3" by its Chart.yaml, and not `+other[0]+" "+other[1]) {
			t.Errorf("%v", err)
		}
	}
}

func TestIndexThatHelmMade(t *testing.T) {
	releases, err := ParseIndex("index", real(t, "charts/index.yaml"), "web")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"1.2.3": "1.2.3", "~1.2": "1.2.4", "*": "1.3.0", ">=1.2 <1.2.4": "1.2.3", "^1": "1.3.0", "v1.2.3": "1.2.3"} {
		wanted, err := ParseRange(text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Choose("index", "web", releases, wanted)
		if err != nil || r.Version != want || !IsDigest(r.Digest) || r.Time().IsZero() {
			t.Errorf("%s: %+v, %v, want %s", text, r, err, want)
		}
		if archive := real(t, "charts/"+r.URLs[0]); Verify("it", r.Digest, archive) != nil {
			t.Errorf("%s has the digest %s", r.URLs[0], Digest(archive))
		}
	}
	for text, says := range map[string]string{
		"apiVersion: v1\nentries: {web: [{version: 1.0.0, urls: [a]}, {version: 1.0.0, urls: [b]}]}": "twice",
		"apiVersion: v1\nentries: {web: [{version: 1.0.0}]}":                                         "does not say where",
		"apiVersion: v1\nentries: {web: [{version: 1.0.0, urls: [a], digest: md5}]}":                 "none of SHA-256",
		"apiVersion: v1\nentries: {web: [{version: 2.0.0, urls: [a]}]}":                              "no version of the chart web that is 1.0.0",
		"apiVersion: v1\nentries: {}":                                                                "has no chart web",
		"<html>":                                                                                     "is no index of charts",
		"apiVersion: v1\nentries: {web: 1}":                                                          "cannot be read",
	} {
		wanted, _ := ParseRange("1.0.0")
		releases, err := ParseIndex("index", []byte(text), "web")
		if err == nil {
			_, err = Choose("index", "web", releases, wanted)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestRanges(t *testing.T) {
	wanted, err := ParseRange("^1.2")
	if err != nil {
		t.Fatal(err)
	}
	if newest, _ := wanted.Newest([]string{"1.2.0", "1.10.0", "2.0.0", "1.11.0-rc.1", "latest", "1.10.0+b", "1.10.0+a"}); newest != "1.10.0+b" {
		t.Errorf("newest %s", newest)
	}
	if _, ok := wanted.Newest([]string{"latest", "1.1.9"}); ok {
		t.Error("there is a newest")
	}
	if _, err := ParseRange("newest"); err == nil {
		t.Error("a word is a constraint")
	}
	if tag := TagOf("1.0.0+b.1"); tag != "1.0.0_b.1" || VersionOfTag(tag) != "1.0.0+b.1" {
		t.Errorf("tag %s", tag)
	}
}
