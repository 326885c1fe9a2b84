package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/generator/kubernetes"
	"lehr.dev/sdk/serve"
)

// TestManifestsOfOthersGoUp: each object of manifests that others wrote is accepted by a real
// cluster and then in sync, or refused with the cluster's reason, which is listed.
func TestManifestsOfOthersGoUp(t *testing.T) {
	corpus := os.Getenv("LEHR_CORPUS")
	if corpus == "" {
		t.Skip("LEHR_CORPUS names no folder with manifests")
	}
	objects := readCorpus(t, corpus)
	if len(objects) < 50 {
		t.Fatalf("there are %d objects", len(objects))
	}
	p := plane.Start(t)
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	c.kind = kindOf(t, c.list)
	p.Wait("the namespace default", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/default", "", nil)
		return err
	})
	accepted := 0
	var refused []string
	for _, o := range objects {
		asset := c.asset(o)
		d := c.diff(asset)
		name := fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
		// A hook is in sync once its Job has ended, and nothing runs Jobs here.
		holds := func(d serve.Difference) bool {
			return d.Outcome == serve.InSync || d.Outcome == serve.Pending && o.Kind == "Job"
		}
		if holds(d) {
			accepted++ // Two files have it.
			continue
		}
		reason := notes(d)
		if d.Outcome == serve.Differs {
			outcome := c.push(asset, d, permits{})
			if outcome.Ending == serve.Pushed {
				if after := c.diff(asset); !holds(after) {
					t.Errorf("%s was accepted, and is then %v %s\n%s", name, after.Outcome, after.Reason, changes(after))
				}
				accepted++
				continue
			}
			reason += " " + outcome.Reason
		} else {
			reason += d.Reason
		}
		// Its own kind is not there: its controller's definitions are not in the corpus.
		if !strings.Contains(reason, "the cluster has no kind "+o.Kind) {
			t.Errorf("%s is %v, and refused: %s", name, d.Outcome, reason)
		}
		refused = append(refused, name+": "+strings.TrimSpace(reason))
	}
	t.Logf("%d accepted, %d refused:\n%s", accepted, len(refused), strings.Join(refused, "\n"))
	if accepted < 35 { // Those of the boutique alone.
		t.Errorf("%d of %d were accepted", accepted, len(objects))
	}
}

// readCorpus reads the plain manifests of a folder, namespaces first. What is not plain is for
// Helm or Kustomize.
func readCorpus(t *testing.T, folder string) (objects []*kubernetespb.Object) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.Contains(text, []byte("{{")) || !bytes.Contains(text, []byte("apiVersion:")) {
			return err
		}
		found, _ := kubernetes.Read([]kubernetes.Manifest{{File: path, Text: text}}, kubernetes.Settings{Cluster: "real", Namespace: "default"})
		for _, o := range found {
			objects = append(objects, o.Payload)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(objects, func(a, b *kubernetespb.Object) int {
		rank := map[string]int{"Namespace": -1}
		return rank[a.Kind] - rank[b.Kind]
	})
	return objects
}
