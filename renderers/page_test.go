package renderers_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	shownBlock = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	shownName  = regexp.MustCompile(`^# (\S+\.\w+)\n`)
)

// playPage lays the files that a page shows, runs its commands with output, and compares that.
func playPage(t *testing.T, lehr, name string, change func(string) string) {
	t.Helper()
	page, err := os.ReadFile("../docs/use/" + name)
	if err != nil {
		t.Fatal(err)
	}
	folder, files, commands := t.TempDir(), map[string]string{}, 0
	blocks := shownBlock.FindAllStringSubmatch(string(page), -1)
	for _, block := range blocks {
		if named := shownName.FindStringSubmatch(block[2]); named != nil {
			files[filepath.Join(folder, named[1])] = change(block[2])
		}
	}
	lay(t, files)
	for _, block := range blocks {
		if block[1] != "console" {
			continue
		}
		commands++
		line, want, _ := strings.Cut(strings.TrimPrefix(block[2], "$ "), "\n")
		command := exec.CommandContext(t.Context(), "sh", "-ec", line)
		command.Dir = folder
		command.Env = append(os.Environ(), "PATH="+filepath.Dir(lehr)+":"+os.Getenv("PATH"), "HOME="+folder, "XDG_CACHE_HOME="+folder)
		got, err := command.CombinedOutput()
		if err != nil || string(got) != want {
			t.Errorf("%s: the page shows\n%s\nand %s prints (%v)\n%s", name, want, line, err, got)
		}
	}
	if len(files) == 0 || commands == 0 {
		t.Errorf("%s shows %d files and %d commands", name, len(files), commands)
	}
}

// TestImportPages does what the pages for people who come from Argo CD and Helm tell.
func TestImportPages(t *testing.T) {
	lehr := programs(t)
	playPage(t, lehr, "from-argocd.md", func(text string) string { return text })
	template := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: {{ .Values.size | quote }}}\n"
	manifest := `---\n# Source: web/templates/web.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: \"3\"}\n`
	record := `{"name": "web", "namespace": "shop", "version": 1, "info": {"status": "deployed"}, "config": {"size": 3}, "manifest": "` + manifest + `",
"chart": {"metadata": {"apiVersion": "v2", "name": "web", "version": "1.2.3"}, "values": {"size": 1},
"templates": [{"name": "templates/web.yaml", "data": "` + base64.StdEncoding.EncodeToString([]byte(template)) + `"}]}}`
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(record)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(packed.Bytes())))
	playPage(t, lehr, "from-helm.md", func(text string) string { return strings.Replace(text, "release: RELEASE", "release: "+data, 1) })
}
