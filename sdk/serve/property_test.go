package serve

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
)

func anyJob() *rapid.Generator[*processpb.Job] {
	word := rapid.SampledFrom([]string{"", "a", "b", "\x1b", "é\n"})
	return rapid.Custom(func(t *rapid.T) *processpb.Job {
		job := &processpb.Job{
			Name: word.Draw(t, "name"), Replicas: rapid.Uint32Range(0, 3).Draw(t, "replicas"),
			Args: rapid.SliceOfN(word, 0, 3).Draw(t, "args"), Env: rapid.MapOfN(word, word, 0, 3).Draw(t, "env"),
		}
		if rapid.Bool().Draw(t, "health") {
			job.Health = &processpb.HealthCheck{Path: word.Draw(t, "path")}
		}
		return job
	})
}

// Two messages have no changes exactly when they are equal, the changes do
// not depend on chance, and another target makes another plan.
func TestCompareSeesEveryDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		current, target, other := anyJob().Draw(t, "current"), anyJob().Draw(t, "target"), anyJob().Draw(t, "other")
		plan := func(target *processpb.Job) Plan {
			return Plan{Action: ActionUpdate, Changes: compare(current.ProtoReflect(), target.ProtoReflect())}
		}
		one := plan(target)
		if (len(one.Changes) == 0) != proto.Equal(current, target) {
			t.Fatalf("changes %+v", one.Changes)
		}
		if one.Digest() != plan(proto.CloneOf(target)).Digest() {
			t.Fatal("the same change has two digests")
		}
		if (one.Digest() == plan(other).Digest()) != proto.Equal(target, other) {
			t.Fatalf("targets %v and %v, plans %+v and %+v", target, other, one, plan(other))
		}
		seen := map[string]bool{}
		for _, change := range one.Changes {
			if path := intent.Shown(change.Path); seen[path] {
				t.Fatalf("%s twice", path)
			} else {
				seen[path] = true
			}
		}
	})
}

// Whatever arrives as content, decoding it neither panics nor finds another
// asset.
func FuzzDecodeAsset(f *testing.F) {
	f.Add([]byte("\n\x01a\x12\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		asset, err := decodeAsset("a", content)
		if err == nil && asset.ID != "a" {
			t.Errorf("decoded %q", asset.ID)
		}
		_ = readReferences(asset)
	})
}
