package fetch

import (
	"fmt"
	"testing"

	"lehr.dev/internal/prodspec/source"
)

// BenchmarkGit: a repository of 5000 files of 1 kB is read for the first time;
// looked at though nothing changed; and read after a change of one file.
func BenchmarkGit(b *testing.B) {
	o := newOrigin(b)
	content := make([]byte, 1000)
	for i := range content {
		content[i] = 'a' + byte(i%23)
	}
	for i := range 5000 {
		o.Write(fmt.Sprintf("%d/%d.yaml", i%100, i), fmt.Sprint(i, string(content)))
	}
	o.Commit("Begin")
	remote := source.Remote{Git: &source.Git{URL: o.Folder, Branch: "main"}}
	read := func(b *testing.B, r *reader) {
		b.Helper()
		if r.folder == nil {
			folder, err := Open(r.options, "service", "/home/service", r.remote, r.files, r.limits)
			if err != nil {
				b.Fatal(err)
			}
			folder.every, r.folder = 0, folder
		}
		if r.folder.try(b.Context()); r.folder.failure != nil {
			b.Fatal(r.folder.failure)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			r := newReader(b, remote, "**/*.yaml")
			read(b, r)
			r.folder.Close()
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		r := newReader(b, remote, "**/*.yaml")
		read(b, r)
		for b.Loop() {
			read(b, r)
		}
	})
	b.Run("one change", func(b *testing.B) {
		r := newReader(b, remote, "**/*.yaml")
		read(b, r)
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			o.Write("0/0.yaml", fmt.Sprint("change ", i))
			o.Commit("Change one")
			b.StartTimer()
			read(b, r)
		}
	})
}
