package definition

import (
	"cmp"
	"encoding/json"
	"slices"

	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/sdk/generator/kubernetes"
)

// kustomizeFormat is the renderer whose files name others by the address of their
// repository.
const kustomizeFormat = "kustomize"

// originsKey is the option by which it is told where sources come from. Lehr alone
// gives it, so that nothing else can be said to lie at an address.
const originsKey = "origins"

// tellOrigins tells the renderer of Kustomize which repositories its sources are, and at
// which revisions: remote bases are found there.
func tellOrigins(generators []Generator, sources []Source) {
	for i := range generators {
		g := &generators[i]
		if g.Language != work.Render || g.Program != kustomizeFormat {
			continue
		}
		for _, s := range sources {
			if s.Remote == nil || s.Remote.Git == nil || !slices.Contains(g.Sources, s.Name) {
				continue
			}
			git := s.Remote.Git
			// A structure of texts can be encoded.
			text, _ := json.Marshal(kubernetes.Origin{
				Source: s.Name, URL: source.GitURL(git.URL, "."), Directory: git.Directory, Revision: cmp.Or(git.Commit, git.Tag, git.Branch),
			})
			g.Arguments = append(g.Arguments, "--"+originsKey+"="+string(text))
		}
	}
}
