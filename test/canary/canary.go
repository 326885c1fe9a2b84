// Package canary plants secrets where a test's servers could find some, and
// tells when one of them shows where none may (S13). Tests that run real
// servers give each its environment, and search all that it left and said
// before they end. A new place of secrets is a Plant, a new place where they
// could come to light a Search.
package canary

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Canaries are the secrets of one run.
type Canaries struct {
	mutex   sync.Mutex
	planted []planted
	// traces are what to look for, by the secret that they tell of.
	traces []trace
}

type planted struct{ place, secret string }

type trace struct {
	place, form string
	bytes       []byte
}

// half of a secret is as much as must not be seen: 12 letters and digits, that
// are 60 bits, and no encoding of texts changes them.
const half = 12

// Plant makes a secret for a place. Between its halves is what encodings
// escape.
func (c *Canaries) Plant(place string) string {
	secret := rand.Text()[:half] + `/"<&+ %é'` + rand.Text()[:half]
	c.Know(place, secret)
	return secret
}

// PlantWord makes one of letters and digits alone.
func (c *Canaries) PlantWord(place string) string {
	secret := rand.Text()[:half] + rand.Text()[:half]
	c.Know(place, secret)
	return secret
}

// Know takes a secret that others made, of 24 bytes at least.
func (c *Canaries) Know(place, secret string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.planted = append(c.planted, planted{place, secret})
	for _, part := range []string{secret[:half], secret[len(secret)-half:]} {
		c.traces = append(c.traces, traces(place, part)...)
	}
}

// traces are the forms in which a part of a secret may be found.
func traces(place, part string) (list []trace) {
	add := func(form string, b []byte) { list = append(list, trace{place, form, b}) }
	add("as it is", []byte(part))
	add("in small letters", []byte(strings.ToLower(part)))
	reversed := []byte(part)
	slices.Reverse(reversed)
	add("reversed", reversed)
	digits := hex.EncodeToString([]byte(part))
	add("in hexadecimal", []byte(digits))
	add("in hexadecimal", []byte(strings.ToUpper(digits)))
	add("as bytes", []byte(strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(part)), " ", ","), "[]")))
	add("as bytes", []byte(strings.Trim(fmt.Sprint([]byte(part)), "[]")))
	// In base64 it has three forms, by where it begins; the first and the last
	// signs hold bits of its neighbours.
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString([]byte(strings.Repeat("x", before) + part))
			add("in base64", []byte(text[(before*8+5)/6:len(text)-1]))
		}
	}
	return list
}

// Environment is one secret for each variable, as name=value.
func (c *Canaries) Environment(names ...string) (list []string) {
	for _, name := range names {
		list = append(list, name+"="+c.Plant("the environment's "+name))
	}
	return list
}

// Count is how many secrets are planted.
func (c *Canaries) Count() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.planted)
}

// Search fails a test when something shows a secret. It names the place that
// the secret was planted in, and says none of it.
func (c *Canaries) Search(t testing.TB, place string, content []byte) {
	t.Helper()
	for _, found := range c.find(content) {
		t.Errorf("S13: %s shows the secret of %s, %s", place, found.place, found.form)
	}
}

func (c *Canaries) find(content []byte) (list []trace) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	seen := map[string]bool{}
	for _, trace := range c.traces {
		if !seen[trace.place] && bytes.Contains(content, trace.bytes) {
			seen[trace.place] = true
			list = append(list, trace)
		}
	}
	return list
}

// SearchFolder searches all regular files below a folder, their names too, but
// those that a test keeps its secrets in.
func (c *Canaries) SearchFolder(t testing.TB, folder string, but ...string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // It went while others were looked at.
		}
		if err != nil {
			return err
		}
		if slices.Contains(but, path) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		c.Search(t, "the name "+entry.Name(), []byte(entry.Name()))
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		c.Search(t, path, content)
		return nil
	})
	if err != nil {
		t.Errorf("cannot search %s: %v", folder, err)
	}
}

// SearchArguments searches the command lines of a process and all below it:
// anybody on the machine can read them.
func (c *Canaries) SearchArguments(t testing.TB, pid int) {
	t.Helper()
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return // It has ended.
	}
	c.Search(t, fmt.Sprintf("the command line of process %d", pid), arguments)
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				c.SearchArguments(t, child)
			}
		}
	}
}
