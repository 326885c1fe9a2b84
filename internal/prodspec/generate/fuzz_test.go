package generate

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

// FuzzFrame: frames of a child are read as they were written, and no more of
// them than is allowed.
func FuzzFrame(f *testing.F) {
	var frame bytes.Buffer
	if err := write(&frame, frameResult, []byte(`{"assets":[]}`)); err != nil {
		f.Fatal(err)
	}
	f.Add(frame.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'R'})
	f.Add([]byte{0, 0, 0, 5, 'R', 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, wire []byte) {
		const limit = 1 << 10
		kind, payload, err := read(bytes.NewReader(wire), limit)
		if err != nil {
			return
		}
		if len(payload) > limit {
			t.Fatalf("a frame of %d bytes was taken", len(payload))
		}
		var again bytes.Buffer
		if err := write(&again, kind, payload); err != nil || !bytes.HasPrefix(wire, again.Bytes()) {
			t.Errorf("%x is written as %x: %v", wire, again.Bytes(), err)
		}
	})
}

// FuzzReply: what a child says that a run gave is taken whole, or not at all
// (S26).
func FuzzReply(f *testing.F) {
	for _, seed := range []string{`{}`, `{"assets":[{"id":"a"}]}`, `{"assets":[{"id":"a","type":"lehr.intent.v1.Owner","body":"CgFh"}]}`, `{"findings":[{}]}`, `{"reads":[{"kind":"file","name":"x"}],"assets":null}`, `[]`, `{"assets":[{"body":"//8="}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var result work.Result
		if json.Unmarshal(text, &result) != nil {
			return
		}
		made, err := recorder{set: schema.Builtin(), now: time.Unix(0, 0)}.record(intent.Digest{}, Job{Generator: "g"}, Result{Result: result})
		if err != nil || len(made.Findings) > 0 {
			return
		}
		if len(made.Assets) != len(result.Assets) || len(made.Refers) != len(made.Assets) {
			t.Fatalf("of %d assets, %d were taken, with the references of %d", len(result.Assets), len(made.Assets), len(made.Refers))
		}
		for _, asset := range made.Assets {
			if content, err := schema.Decode(asset.Body); err != nil || content.ID != asset.ID || intent.BodyDigest(asset.Body) != asset.Digest {
				t.Errorf("%s was taken: %v", asset.ID, err)
			}
		}
	})
}
