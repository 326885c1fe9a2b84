package generate

import (
	"context"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// holdBlobs notes what a run gives, and what its outputs name.
func (g *Graph) holdBlobs(run *Run, rec record) {
	for digest := range run.blobs {
		if delete(g.blobs[digest], run); len(g.blobs[digest]) == 0 {
			delete(g.blobs, digest)
		}
	}
	run.blobs, run.naming = nil, nil
	for _, blob := range rec.Blobs {
		if run.blobs == nil {
			run.blobs = map[intent.Digest]int{}
		}
		run.blobs[blob.Digest] = len(blob.Bytes)
		if g.blobs[blob.Digest] == nil {
			g.blobs[blob.Digest] = map[*Run]bool{}
		}
		g.blobs[blob.Digest][run] = true
	}
	for i := range rec.Names {
		if len(rec.Names[i]) > 0 {
			run.naming = append(run.naming, run.Outputs[i])
		}
	}
	delete(g.naming, run)
	if len(run.naming) > 0 {
		g.naming[run] = true
	}
}

// judgeBlobs finds assets that name what no generator gave, and blobs that are too
// large together.
func (g *Graph) judgeBlobs() (findings []intent.Finding) {
	named, total := map[intent.Digest]bool{}, 0
	for _, run := range inOrder(g.naming) {
		for i := range run.naming {
			output := &run.naming[i]
			finding := intent.Finding{Rule: "external", Severity: intent.Error, Asset: output.ID, File: output.File, Line: max(int(output.Line), 1)}
			for _, digest := range output.Blobs() {
				if len(g.blobs[digest]) == 0 && !g.provided[run.Generator] {
					finding.Message = fmt.Sprintf("asset %s names the blob %s, which no generator gives", output.ID, digest)
					finding.Hint = "give it in the same run, or let the generator that gives it make the asset"
					findings = append(findings, finding)
				}
				if named[digest] {
					continue
				}
				named[digest] = true
				for giver := range g.blobs[digest] {
					total += giver.blobs[digest]
					break
				}
				if total > intent.MaxPartitionBlobBytes && len(findings) == 0 {
					finding.Message = fmt.Sprintf("asset %s names a blob with which those of the partition have more than %d bytes", output.ID, intent.MaxPartitionBlobBytes)
					finding.Hint = "keep large content elsewhere, and name it by URI and digest"
					return append(findings, finding)
				}
			}
		}
	}
	return findings
}

// HasBlob reports whether a run gave it. What is provided may name one that was given before.
func (g *Graph) HasBlob(digest intent.Digest) bool { return len(g.blobs[digest]) > 0 }

// Blob returns what a run gave.
func (g *Graph) Blob(ctx context.Context, digest intent.Digest) ([]byte, error) {
	givers := inOrder(g.blobs[digest])
	if len(givers) == 0 {
		return nil, fault.New(fault.Internal, "no run gives the blob %s", digest)
	}
	rec, err := g.stored(ctx, givers[0])
	if err != nil {
		return nil, err
	}
	for _, blob := range rec.Blobs {
		if blob.Digest == digest && intent.BlobSum(blob.Bytes) == digest {
			return slices.Clip(blob.Bytes), nil
		}
	}
	return nil, fault.New(fault.Internal, "the stored run of %s does not hold the blob that it gave", givers[0].Generator)
}
