package main

import (
	"slices"
	"strings"
	"testing"

	"lehr.dev/sdk/generator/kubernetes"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// TestRemoteBases: what a kustomization names in another repository is read from the
// source that is that repository at that revision, however it is written.
func TestRemoteBases(t *testing.T) {
	isolate()
	origin := kubernetes.Origin{Source: "upstream", URL: "https://github.com/org/repo.git", Revision: commit}
	more := map[string]string{
		"upstream/deploy/base/kustomization.yaml": "resources: [svc.yaml, ../more]\n",
		"upstream/deploy/base/svc.yaml":           "apiVersion: v1\nkind: Service\nmetadata: {name: upstream}\n",
		"upstream/deploy/more/kustomization.yaml": "resources: [a.yaml]\n",
		"upstream/deploy/more/a.yaml":             "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: more}\n",
	}
	for _, text := range []string{
		"github.com/org/repo//deploy/base?ref=" + commit,
		"https://github.com/org/repo//deploy/base?ref=" + commit,
		"https://github.com/org/repo.git//deploy/base?ref=" + commit,
		"https://github.com/org/repo/deploy/base?ref=" + commit[:10],
		"git::https://GitHub.com/org/repo//deploy/base?version=" + commit,
		"ssh://git@github.com/org/repo//deploy/base?ref=" + commit,
		"git@github.com:org/repo//deploy/base?ref=" + commit + "&timeout=90s",
	} {
		more["overlays/prod/kustomization.yaml"] = "namePrefix: p-\nresources:\n- ../../base\n- \"" + text + "\"\n"
		objects, findings := build(files(more), "overlays/prod", settings, kubernetes.Origin{Source: "other", URL: "https://github.com/org/rep"}, origin)
		if len(findings) > 0 {
			t.Fatalf("%s: %+v", text, findings)
		}
		var ids []string
		for _, object := range objects {
			ids = append(ids, object.ID[strings.LastIndex(object.ID, "/")+1:]+" "+object.File)
		}
		if !slices.Contains(ids, "p-upstream upstream/deploy/base/svc.yaml") || !slices.Contains(ids, "p-more upstream/deploy/more/a.yaml") {
			t.Errorf("%s: %v", text, ids)
		}
	}
	// A source that has a folder of the repository, and one that follows a tag.
	more["overlays/prod/kustomization.yaml"] = "resources: ['https://git.example.com/a/b.git/prod/web?ref=v1']\n"
	more["part/web/kustomization.yaml"] = "resources: [../more.yaml]\n"
	more["part/more.yaml"] = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: more}\n"
	part := kubernetes.Origin{Source: "part", URL: "ssh://git@git.example.com/a/b.git", Directory: "prod", Revision: "v1"}
	if objects, findings := build(files(more), "overlays/prod", settings, part); len(findings) > 0 || len(objects) != 1 {
		t.Errorf("%+v, %+v", objects, findings)
	}
}

func TestRemoteBasesRefused(t *testing.T) {
	origin := kubernetes.Origin{Source: "upstream", URL: "https://github.com/org/repo", Revision: commit}
	inPart := origin
	inPart.Directory = "prod"
	for text, c := range map[string]struct {
		origin kubernetes.Origin
		says   string
	}{
		"github.com/org/repo//deploy?ref=main":            {origin, "wants main, and the source upstream is at " + commit},
		"github.com/org/repo//deploy":                     {origin, "wants what HEAD says, and the source upstream is at " + commit},
		"github.com/org/repo//deploy?ref=012345":          {origin, "wants 012345, and the source"},
		"github.com/org/repository//deploy?ref=" + commit: {origin, "is elsewhere: only declared files are read"},
		"gitlab.com/org/repo//deploy?ref=" + commit:       {origin, "is elsewhere: only declared files are read"},
		"github.com/org/repo//nowhere?ref=" + commit:      {origin, "is upstream/nowhere, which is not among the declared files"},
		"github.com/org/repo//../../base?ref=" + commit:   {origin, "which is not among the declared files"},
		"github.com/org/repo//deploy?ref=" + commit:       {inPart, "is not below the folder prod"},
	} {
		_, findings := build(files(map[string]string{
			"overlays/prod/kustomization.yaml":   "resources:\n- " + text + "\n",
			"upstream/deploy/kustomization.yaml": "resources: []\n",
		}), "overlays/prod", settings, c.origin)
		if len(findings) == 0 || !strings.Contains(findings[0].Message, c.says) || findings[0].Line != 2 {
			t.Errorf("%s: %+v, want %q", text, findings, c.says)
		}
	}
}

func TestRelativePath(t *testing.T) {
	for _, c := range [][3]string{{"overlays/prod", "upstream/a", "../../upstream/a"}, {".", "upstream", "upstream"}, {"a/b", "a/c", "../c"}, {"a", "a/c", "c"}, {"ab", "a/c", "../a/c"}} {
		if got := relativePath(c[0], c[1]); got != c[2] {
			t.Errorf("from %s to %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
