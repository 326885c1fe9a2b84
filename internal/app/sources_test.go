package app_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/sources"
)

// TestSourcesMayBeKeptElsewhere: what is registered is at no place on the disk.
func TestSourcesMayBeKeptElsewhere(t *testing.T) {
	const home = "/nowhere/on/disk/"
	tree, p := sources.New(), newProduction()
	tree.Write(map[string]string{
		home + "lehr.yaml": strings.Replace(definition, "NAME", "one", 1), home + "web.star": program, home + "list.yaml": "- a\n",
	})
	begin(t, p, map[intent.PartitionID]string{"one": home + "lehr.yaml"}, func(o *app.Options) { o.Parts.Sources = tree })
	eventually(t, "it is enforced", func() bool { return p.has("a") })
	tree.Write(map[string]string{home + "list.yaml": "- a\n- b\n"})
	eventually(t, "a change is followed", func() bool { return p.has("b") })
}
