// Package manifests reads Kubernetes manifests that people have, or that kubectl
// printed, into a partition's files. It only reads, and leaves Secrets out (S13).
// cmd/lehr lists its kind.
package manifests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
	"lehr.dev/sdk/generator/kubernetes"
)

// MaxBytes of all manifests together.
const MaxBytes = 64 << 20

// Kind imports manifests.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "manifests", Arguments: "FILE|FOLDER…", Short: "Kubernetes manifests, from files",
		Long: `Read Kubernetes manifests, YAML or JSON, from files, from all .yaml, .yml and .json
files of folders and those below them, or, as -, from standard input:

  kubectl get deployments,services -o yaml | lehr import manifests - --cluster prod --to shop

A file is copied as it is where all of its objects are taken over. Secrets, and what
something else makes in the cluster, are left out. So is what is no object as it stands:
then the exit code is 2.`,
	}
	kind.Args.Least, kind.Args.Most = 1, -1
	kind.Bind = func(flags *pflag.FlagSet) importer.Reader {
		cluster := flags.String("cluster", "", "the name of the cluster that they are for; a part of their ids")
		namespace := flags.String("namespace", "default", "the namespace of objects that name none")
		scoped := flags.StringSlice("cluster-scoped", nil, "kinds of your own without a namespace, as KIND.GROUP")
		return func(_ context.Context, args []string) (importer.Import, error) {
			if *cluster == "" {
				return importer.Import{}, fault.New(fault.Invalid, "it is not said which cluster the manifests are for, and the ids of assets begin with its name").WithHint("add --cluster NAME")
			}
			read, err := gather(args)
			if err != nil {
				return importer.Import{}, err
			}
			converted, findings := kubernetes.Import(read, kubernetes.Settings{Cluster: *cluster, Namespace: *namespace, ClusterScoped: *scoped})
			return imported(converted, findings)
		}
	}
	return kind
}

func imported(converted kubernetes.Imported, findings []kubernetes.Finding) (importer.Import, error) {
	result := importer.Import{Definition: converted.Definition, Files: converted.Files}
	for _, f := range findings {
		result.Hints = append(result.Hints, fmt.Sprintf("%s:%d: %s; %s", f.File, f.Line, f.Message, f.Hint))
	}
	if len(converted.Objects) == 0 {
		return importer.Import{}, nothingToImport(converted.LeftOut)
	}
	for _, kind := range slices.Sorted(maps.Keys(converted.Objects)) {
		result.Read = append(result.Read, fmt.Sprintf("%s: %d", kind, converted.Objects[kind]))
	}
	for _, item := range converted.LeftOut {
		result.LeftOut = append(result.LeftOut, importer.LeftOut{What: item.What, Why: item.Why, Wrong: item.Wrong})
	}
	result.Hints = append(result.Hints, "no plugin is bound to Kubernetes objects: they are read and validated, and compared with the cluster once one is bound under plugins")
	return result, nil
}

// nothingToImport says why no object is left: the first cause, and how many others there are.
func nothingToImport(leftOut []kubernetes.LeftOut) error {
	const hint = "name files that hold Kubernetes objects other than Secrets"
	if len(leftOut) == 0 {
		return fault.New(fault.Invalid, "there is no object to import").WithHint(hint)
	}
	first := leftOut[0]
	more := ""
	if others := len(leftOut) - 1; others > 0 {
		more = fmt.Sprintf("; and %d more left out", others)
	}
	if first.Wrong {
		return fault.New(fault.Invalid, "there is no object to import: %s: %s%s", first.What, first.Why, more).WithHint("mend the file, and import it again")
	}
	return fault.New(fault.Invalid, "there is no object to import: %s: %s%s", first.What, first.Why, more).WithHint(hint)
}

// gather reads what the arguments name.
func gather(args []string) (list []kubernetes.Manifest, err error) {
	remaining := int64(MaxBytes)
	add := func(name string, source io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(source, remaining+1))
		if remaining -= int64(len(text)); remaining < 0 {
			return fault.New(fault.Invalid, "the manifests have more than %d MiB", MaxBytes>>20).WithHint("import them in parts")
		}
		list = append(list, kubernetes.Manifest{File: name, Text: text})
		return err
	}
	open := func(name string) error {
		file, err := files.Open(name)
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		if err != nil {
			return fault.New(fault.NotFound, "cannot read the manifests: %w", err).WithHint("name files or folders that are there, or - for standard input")
		}
		defer file.Close()
		return add(filepath.ToSlash(name), file)
	}
	for _, arg := range args {
		info, statErr := os.Stat(arg)
		switch {
		case arg == "-":
			err = add("stdin.yaml", os.Stdin)
		case statErr == nil && info.IsDir():
			err = openFolder(arg, open)
		default:
			err = open(arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// openFolder opens the manifests of a folder, in order.
func openFolder(folder string, open func(string) error) error {
	count, own := 0, files.Own()
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name))) {
			return err
		}
		if info, err := entry.Info(); err == nil && own.Has(info) {
			return nil // A store beside manifests is none of them.
		}
		count++
		return open(name)
	})
	if err == nil && count == 0 {
		return fault.New(fault.NotFound, "%s has no .yaml, .yml or .json file", folder).WithHint("name the folder that holds the manifests")
	}
	return err
}
