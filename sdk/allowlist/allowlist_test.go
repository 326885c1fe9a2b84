package allowlist_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/serve"
)

type folder struct {
	allowlist.Entry `yaml:",inline"`
	Path            string `yaml:"path"`
	Most            int    `yaml:"most"`
}

func (f folder) Check() error {
	if !filepath.IsAbs(f.Path) {
		return fmt.Errorf("path %q is not absolute: write the whole path", f.Path)
	}
	return nil
}

// host is an entry that needs no check of its own.
type host struct {
	allowlist.Entry `yaml:",inline"`
}

var kind = allowlist.Kind{Noun: "folder", Key: "shelf-folders", Entries: "folders", Flag: "folders", Page: "docs/shelf.md"}

const good = `shelf-folders: v1
folders:
- {name: shop, partitions: [shop, web], path: /srv/shop, most: 3}
- name: all
  partitions: ["*"]
  path: /srv/all
- {name: secret-plans, partitions: [other], path: /srv/other}
`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhoMayUseWhat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folders.yaml")
	write(t, path, good)
	list, err := allowlist.Open[folder](path, kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ partition, name, path, says string }{
		{"shop", "shop", "/srv/shop", ""}, {"web", "shop", "/srv/shop", ""}, {"web", "all", "/srv/all", ""}, {"other", "secret-plans", "/srv/other", ""},
		{"other", "shop", "", `not listed: partition other may use no folder "shop" (whoever operates the plugin adds it to the file that --folders names, with partitions: [other])`},
		{"shop", "shpo", "", "did you mean shop? Else"},
		{"shop", "", "", "not listed"}, {"shop", "*", "", "not listed"}, {"*", "shop", "", "not listed"}, {"", "shop", "", "not listed"},
		// What others may use is as unknown as what is not there, also by its spelling.
		{"shop", "secret-plan", "", "not listed"},
	} {
		entry, err := list.Permits(serve.PartitionID(c.partition), c.name)
		if c.says == "" && (err != nil || entry.Path != c.path) || c.says != "" && (!serve.IsKind(err, serve.Denied) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s, %s: %+v, %v", c.partition, c.name, entry, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret-plans") {
			t.Errorf("it tells of what others may use: %v", err)
		}
	}
	if entries, err := list.Entries(); err != nil || len(entries) != 3 || entries[0].Most != 3 {
		t.Errorf("%+v, %v", entries, err)
	}
}

func TestWhatIsWrongIsToldWithItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folders.yaml")
	for text, want := range map[string]string{
		"shelf-folders: v2\nfolders: []\n":                               "no list of folders of version v1",
		"shelf-folder: v1\n":                                             `folders.yaml:1: unknown key "shelf-folder" (did you mean shelf-folders?`,
		strings.Replace(good, "  path: /srv/all", "  paht: /srv/all", 1): `folders.yaml:6: unknown key "folders[1].paht" (did you mean path?`,
		strings.Replace(good, "most: 3", "most: many", 1):                `folders.yaml:3: folders[0].most is "many", not a whole number`,
		strings.Replace(good, `["*"]`, "all", 1):                         `folders.yaml:5: folders[1].partitions is "all", not a list`,
		good + "folders: []\n":                                           "already defined",
		strings.Replace(good, "name: all", "name: all\n  name: all", 1):  "already defined",
		strings.Replace(good, "path: /srv/all", "path: srv/all", 1):      `folders.yaml:4: folder "all": path "srv/all" is not absolute`,
		strings.Replace(good, `["*"]`, "[]", 1):                          `folders.yaml:4: folder "all": no partition may use it`,
		strings.Replace(good, `["*"]`, "[Not A Name]", 1):                `folders.yaml:4: folder "all":`,
		strings.Replace(good, "name: secret-plans", "name: shop", 1):     `folders.yaml:7: folder "shop": another folder has the same name`,
		strings.Replace(good, "name: secret-plans, ", "", 1):             "folders.yaml:7: folder \"\": it has no name",
		good + "---\nshelf-folders: v1\n":                                "more than one document",
		"shelf-folders: v1\nfolders: {name: shop}\n":                     "folders.yaml:2: folders is a mapping, not a list",
		"shelf-folders: v1\nfolders:\n- shop\n":                          "folders.yaml:3: folders[0] is \"shop\", not a mapping",
		"shelf-folders: v1\nfolders:\n-\n":                               "folders.yaml:3: an entry of folders is empty",
		"":                                                               "is no list of folders",
	} {
		write(t, path, text)
		list, err := allowlist.Open[folder](path, kind)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "docs/shelf.md") && !strings.Contains(want, "document") && !strings.Contains(want, "version") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if _, again := list.Permits("shop", "shop"); again == nil || again.Error() != err.Error() {
			t.Errorf("%q: it permits: %v", text, again)
		}
	}
	write(t, path, "shelf-folders: v1\n")
	if _, err := allowlist.Open[host](path, kind); err != nil {
		t.Errorf("an empty list: %v", err)
	}
	if err := os.Chmod(path, 0o606); err != nil {
		t.Fatal(err)
	}
	if _, err := allowlist.Open[host](path, kind); !serve.IsKind(err, serve.Denied) || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("one that everybody writes: %v", err)
	}
	if _, err := allowlist.Open[host](path+".gone", kind); !serve.IsKind(err, serve.Unavailable) || !strings.Contains(err.Error(), "--folders") {
		t.Errorf("one that is not there: %v", err)
	}
	none, err := allowlist.Open[host]("", kind)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Permits("shop", "shop"); !serve.IsKind(err, serve.Denied) || !strings.Contains(err.Error(), "starts it with --folders FILE") {
		t.Errorf("none: %v", err)
	}
}

// TestItCountsAsItIsNow: what changes counts at once, however fast, and what is wrong
// permits nothing, not even what it did before.
func TestItCountsAsItIsNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folders.yaml")
	write(t, path, good)
	list, err := allowlist.Open[folder](path, kind)
	if err != nil {
		t.Fatal(err)
	}
	permits := func() error {
		_, err := list.Permits("shop", "shop")
		return err
	}
	// Of the same size and within one tick of a coarse clock.
	other := strings.Replace(good, "partitions: [shop, web]", "partitions: [shoq, web]", 1)
	for i := range 50 {
		text, allowed := good, true
		if i%2 == 0 {
			text, allowed = other, false
		}
		write(t, path, text)
		if err := permits(); (err == nil) != allowed {
			t.Fatalf("after change %d: %v", i, err)
		}
	}
	write(t, path, good+"nonsense: 1\n")
	if err := permits(); !serve.IsKind(err, serve.Invalid) || !strings.Contains(err.Error(), `folders.yaml:8: unknown key "nonsense"`) {
		t.Errorf("of a wrong one: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := permits(); !serve.IsKind(err, serve.Unavailable) {
		t.Errorf("of none: %v", err)
	}
	// Renamed into place, with an old date: its inode tells.
	write(t, path+".new", good)
	old := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(path+".new", old, old), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	if err := permits(); err != nil {
		t.Error(err)
	}
}

func TestManyAsk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folders.yaml")
	write(t, path, good)
	list, err := allowlist.Open[folder](path, kind)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				// Others rename a good one into place: it is never not there, nor half.
				if _, err := list.Permits("shop", "shop"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		write(t, path+".new", good)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}
