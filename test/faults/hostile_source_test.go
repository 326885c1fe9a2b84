package faults

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// sparse makes a file of a size without its bytes.
func (h *attack) sparse(name string, size int64) {
	h.Helper()
	file, err := os.Create(h.at(name))
	if err == nil {
		err = file.Truncate(size)
		file.Close()
	}
	h.must(err)
}

func TestHostileSources(t *testing.T) {
	t.Parallel()
	h := newAttack(t, "sources")
	link := func(target, name string) func(*attack) {
		return func(h *attack) { h.must(os.Symlink(target, h.at(name))) }
	}
	h.run([]hostile{
		{name: "a named pipe", told: []string{`pipe\.yaml is a named pipe, not a regular file`, `remove it`},
			write: func(h *attack) { h.must(syscall.Mkfifo(h.at("source/pipe.yaml"), 0o600)) }},
		{name: "a socket", told: []string{`socket\.yaml is a socket`, `remove it`}, write: func(h *attack) {
			descriptor, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			h.must(err)
			defer syscall.Close(descriptor)
			// A path of a socket is short; that of a test's folder may not be.
			folder, err := os.Open(h.at("source"))
			h.must(err)
			defer folder.Close()
			listener, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/socket.yaml", folder.Fd()))
			h.must(err)
			listener.(*net.UnixListener).SetUnlinkOnClose(false)
			listener.Close()
		}},
		{name: "a link to a device", told: []string{`zero\.yaml is a link that leads out`, `replace the link`}, write: link("/dev/zero", "source/zero.yaml")},
		{name: "a link out", told: []string{`passwd\.yaml is a link that leads out`}, write: link("../../../../../../../../etc/passwd", "source/passwd.yaml")},
		{name: "a link to the server's store", told: []string{`store\.yaml is a link that leads out`}, write: func(h *attack) { link(h.store, "source/store.yaml")(h) }},
		{name: "links in a circle", told: []string{`(one|two)\.yaml`, `too many levels of symbolic links`}, write: func(h *attack) {
			link("two.yaml", "source/one.yaml")(h)
			link("one.yaml", "source/two.yaml")(h)
		}},
		{name: "a link to its own folder", write: link(".", "source/again")},
		{name: "a link to nothing", told: []string{`none\.yaml cannot be read`}, write: link("nothing.yaml", "source/none.yaml")},
		{name: "a file of a terabyte", told: []string{`large\.yaml has 1099511627776 bytes, at most 10000000`, `split it`},
			write: func(h *attack) { h.sparse("source/large.yaml", 1<<40) }},
		{name: "more bytes than a source may have", told: []string{`matching files of \d+ bytes, at most \d+ of 256000000`, `narrow the patterns`}, write: func(h *attack) {
			for i := range 30 {
				h.sparse(fmt.Sprintf("source/large%d.yaml", i), 9_000_000)
			}
		}},
		{name: "a folder in the manifest's place", told: []string{`no file in .*source matches`, `restore`}, write: func(h *attack) {
			h.must(os.Remove(h.at("source/service.yaml")))
			h.must(os.MkdirAll(h.at("source/service.yaml/x.yaml"), 0o755))
		}},
		{name: "names that move a cursor", write: func(h *attack) {
			h.put("source/\x1b]0;owned\x07\x1b[2J.yaml", "a: 1")
			h.put("source/\u202elmay.exe.yaml", "a: 1")
			h.put("source/line\nbreak.yaml", "a: 1")
		}},
		{name: "a name that is no UTF-8", write: func(h *attack) { h.put("source/\xff\xfe.yaml", "a: 1") }},
		{name: "folders in folders", write: func(h *attack) {
			h.must(os.MkdirAll(h.at("source/"+strings.Repeat("d/", 300)), 0o755))
		}},
		{name: "a file that is always being written", write: func(h *attack) {
			const what = "a file that is always being written"
			path, done := h.at("source/growing.yaml"), make(chan struct{})
			var writing sync.WaitGroup
			writing.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
					if err != nil {
						return
					}
					if n%1000 == 0 {
						_ = file.Truncate(0)
					}
					fmt.Fprintf(file, "key%d: %s\n", n, strings.Repeat("x", 1000))
					file.Close()
				}
			})
			h.besides(what)
			close(done)
			writing.Wait()
		}},
		{name: "100 000 files", write: func(h *attack) {
			for i := range 100_000 {
				h.must(os.WriteFile(h.at(fmt.Sprintf("source/f%d.yaml", i)), nil, 0o600))
			}
		}},
	})
}

// Manifests are read in a generator's child.
func TestHostileManifests(t *testing.T) {
	t.Parallel()
	h := newAttack(t, "manifests")
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for letter := 'b'; letter < 'z'; letter++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", letter, letter, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", letter-1), 9), ", "))
	}
	manifest := func(text string) func(*attack) {
		return func(h *attack) { h.put("source/service.yaml", text) }
	}
	const place = `source/service\.yaml`
	h.run([]hostile{
		{name: "an alias bomb", told: []string{place, `not valid YAML: .*excessive aliasing`, `mend`}, write: manifest(bomb)},
		{name: "an anchor that holds itself", told: []string{place, `contains itself|not valid`}, write: manifest("a: &a [*a]\n")},
		{name: "lists in lists", told: []string{place, `not valid YAML: .*depth`}, write: manifest("a: " + strings.Repeat("[", 100_000))},
		{name: "mappings in mappings", told: []string{place, `not valid YAML`}, write: manifest(strings.Repeat("{a: ", 100_000))},
		{name: "no UTF-8", told: []string{place, `is no UTF-8`}, write: manifest("values: \"\xff\xfe\x80\"\n")},
		{name: "zero bytes", told: []string{place, `not valid YAML: .*control characters`}, write: manifest("values: a\x00b\n")},
		{name: "escapes", told: []string{place, `not valid YAML: .*control characters`}, write: manifest("values: \x1b[31mred\n")},
		{name: "UTF-16, which YAML may be", told: []string{`web\.star:\d+`, `string`}, write: manifest("\xff\xfev\x00a\x00")},
		{name: "a mark of bytes' order, and nothing", told: []string{place}, write: manifest("\xef\xbb\xbf")},
		{name: "10 MB of keys", told: []string{`took longer than 10s|256 MB|needed more than`}, write: manifest(repeat(700_000, "k%d: 1\n"))},
		{name: "merge keys", told: []string{place, `merge`}, write: manifest("a: &a {x: 1}\nvalues:\n  <<: *a\n")},
		{name: "the same key twice", told: []string{place, `already defined`}, write: manifest("values: {}\nvalues: {}\n")},
		{name: "a number beyond all", told: []string{`web\.star|service\.yaml`}, write: manifest("values: 1e999999999\n")},
		{name: "a text of its own language", told: []string{place, `the tag !!python/object/apply:os\.system is not known`}, write: manifest("values: !!python/object/apply:os.system [reboot]\n")},
	})
}
