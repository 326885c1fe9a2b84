// Command render-alone is for measurements: what Kustomize and Helm do by
// themselves with a folder, so many times, as text, without Lehr. It prints how many
// objects there were.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	render := map[string]func(folder string) ([]byte, error){"kustomize": kustomize, "helm": helm}
	times, objects := 0, 0
	if len(os.Args) == 4 && render[os.Args[1]] != nil {
		times, _ = strconv.Atoi(os.Args[3])
	}
	if times == 0 {
		fmt.Fprintln(os.Stderr, "usage: render-alone kustomize|helm FOLDER TIMES")
		os.Exit(1)
	}
	for range times {
		text, err := render[os.Args[1]](os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		objects += bytes.Count(append([]byte("\n"), text...), []byte("\nkind: "))
	}
	fmt.Println(objects)
}

// kustomize is kustomize build FOLDER/overlay.
func kustomize(folder string) ([]byte, error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(folder, "overlay"))
	if err != nil {
		return nil, err
	}
	return made.AsYaml()
}

// helm is helm template FOLDER/chart, but for reading what came of it.
func helm(folder string) ([]byte, error) {
	chart, err := loader.LoadDir(filepath.Join(folder, "chart"))
	if err != nil {
		return nil, err
	}
	values, err := util.ToRenderValues(chart, nil, common.ReleaseOptions{Name: "render", Namespace: "default", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, text := range rendered {
		all = append(all, text...)
	}
	return all, nil
}
