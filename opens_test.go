package lehr

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// opensItself are the files that open others by the system's own calls, and why nobody else
// names these. Whoever opens what somebody names does so by package files: a pipe would be
// waited for, and a device read for ever (decision 0070).
var opensItself = map[string]string{
	"internal/access/rendezvous.go":                "makes a new file beside its store",
	"internal/app/checkpoint.go":                   "appends, after files.CheckPlace",
	"internal/cli/import.go":                       "makes a new file",
	"internal/cli/init.go":                         "makes a new file",
	"internal/cli/sim.go":                          "writes a trace",
	"sdk/plugintest/testbed/testbed.go":            "reads /proc",
	"sdk/subprocess/guard.go":                      "reads /proc",
	"internal/ground/files/files.go":               "is what opens them",
	"internal/ground/files/lite/lite.go":           "looks before it opens",
	"sdk/generator/generator.go":                   "is run in a sandbox, with a time",
	"internal/importer/processes/proc.go":          "reads /proc",
	"internal/pluginhost/remote/lock.go":           "locks a file of its own",
	"plugins/caddy/balancer/admin.go":              "reads /etc/machine-id",
	"plugins/kubernetes/plane/plane.go":            "reads the certificate that the API server made, in tests",
	"plugins/process/job/health.go":                "reads /proc",
	"plugins/process/job/job.go":                   "reads /etc/machine-id",
	"plugins/process/job/port.go":                  "reads /proc",
	"plugins/process/job/process.go":               "reads /proc",
	"plugins/process/job/start.go":                 "logs into a folder of its own",
	"plugins/process/schedule/keep.go":             "keeps records in a folder of its own",
	"plugins/process/schedule/record.go":           "keeps records in a folder of its own",
	"plugins/sqlschema/liteschema/look.go":         "reads /etc/machine-id",
	"sdk/keeper/keeper.go":                         "logs where the plugin says",
	"sdk/keeper/lock.go":                           "reads its own lock",
	"plugins/task/runrecord/folder.go":             "keeps records in a folder of its own",
	"plugins/task/runrecord/items.go":              "keeps records in a folder of its own",
	"plugins/terraform/applykeeper/applykeeper.go": "logs into a folder of its own",
	"plugins/terraform/applykeeper/leftstate.go":   "reads a folder of its own",
	"plugins/terraform/applykeeper/redact.go":      "reads a folder of its own",
	"plugins/terraform/applykeeper/record.go":      "keeps records in a folder of its own",
	"plugins/terraform/modules/look.go":            "reads a folder of its own",
	"plugins/terraform/tfcommand/init.go":          "reads a folder of its own",
	"plugins/terraform/testcloud/store.go":         "keeps the cloud of tests",
	"plugins/terraform/workfolder/backend.go":      "reads a folder of its own",
	"plugins/terraform/workfolder/copyinit.go":     "copies folders of its own",
	"plugins/terraform/workfolder/current.go":      "keeps a record in a folder of its own",
	"plugins/terraform/workfolder/workfolder.go":   "lays modules out in a folder of its own",
	"checkers/kubernetesobjects/tablegen/main.go":  "reads modules that it downloads, and writes the tables",
	"internal/prodspec/generate/allowance/use.go":  "reads /proc",
	"internal/prodspec/generate/child.go":          "reads /proc",
	"internal/prodspec/generate/native/process.go": "reads /proc",
	"internal/prodspec/source/fetch/content.go":    "reads what it keeps itself, by its digest",
	"internal/prodspec/source/fetch/past.go":       "reads its own mirror",
	"internal/prodspec/source/fetch/sweep.go":      "locks its own mirror",
	"internal/sim/mutation/weave.go":               "reads Lehr's own source",
	"internal/store/braked/file.go":                "writes, after files.CheckPlace",
	"internal/store/relational/witness.go":         "writes, after files.CheckPlace",
	"internal/store/sqlite/backup.go":              "writes the copy that it has just made",
	"internal/store/sqlite/lock.go":                "locks, after files.CheckPlace",
	"internal/store/sqlite/log.go":                 "SQLite's own log, after files.CheckPlace",
	"internal/store/sqlite/open.go":                "opens the store, after files.CheckPlace",
}

// TestWhatSomebodyNamesIsOpenedByPackageFiles, or its file says why not.
func TestWhatSomebodyNamesIsOpenedByPackageFiles(t *testing.T) {
	apart := []string{"examples", "internal/demo", "gen", "scripts", "test", "testdata", "tools"}
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if entry.IsDir() {
			for _, folder := range apart {
				if path == folder || entry.Name() == "testdata" || entry.Name() == ".git" {
					return fs.SkipDir
				}
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := selector.X.(*ast.Ident)
			if !ok || of.Name != "os" {
				return true
			}
			switch selector.Sel.Name {
			case "Open", "OpenFile", "ReadFile", "Create":
				if used[path] = true; opensItself[path] == "" {
					t.Errorf("%s: os.%s opens what somebody may name: use package files, or say in opensItself why not", path, selector.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range opensItself {
		if !used[path] {
			t.Errorf("%s opens nothing by itself any more: take it out of opensItself", path)
		}
	}
}
