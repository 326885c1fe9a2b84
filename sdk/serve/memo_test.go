package serve

import (
	"context"
	"errors"
	"strings"
	"testing"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
)

// TestWhatIsNoMemoOfTheAssetIsNotActedOn: Lehr's words are held to the protocol too.
func TestWhatIsNoMemoOfTheAssetIsNotActedOn(t *testing.T) {
	good := &pluginpb.AssetMemo{Asset: "a", ResourceKey: "k", Memo: []byte("x")}
	for name, c := range map[string]struct {
		memos []*pluginpb.AssetMemo
		says  string
	}{
		"none":             {nil, ""},
		"two in order":     {[]*pluginpb.AssetMemo{{Asset: "a", ResourceKey: "z", Memo: []byte("x")}, good}, ""},
		"of another asset": {[]*pluginpb.AssetMemo{good, {Asset: "b", ResourceKey: "j", Memo: []byte("x")}}, `a memo of "b" with a`},
		"a megabyte":       {[]*pluginpb.AssetMemo{{Asset: "a", ResourceKey: "k", Memo: make([]byte, 1<<20)}}, "1048576 bytes"},
		"no key":           {[]*pluginpb.AssetMemo{{Asset: "a", Memo: []byte("x")}}, "names no resource key"},
		"twice":            {[]*pluginpb.AssetMemo{good, good}, "two memos of a and k"},
		"five things":      {fiveMemos("a"), "5 memos of a, at most 4"},
		"empty":            {[]*pluginpb.AssetMemo{{Asset: "a", ResourceKey: "k"}}, "an empty one"},
	} {
		memos, err := decodeMemos("a", c.memos)
		switch {
		case c.says == "" && (err != nil || len(memos) != len(c.memos)):
			t.Errorf("%s: %q, %v", name, memos, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	memos, _ := decodeMemos("a", []*pluginpb.AssetMemo{{Asset: "a", ResourceKey: "z", Memo: []byte("2")}, {Asset: "a", ResourceKey: "b", Memo: []byte("1")}})
	if memos[0].Key != "b" || memos[1].Key != "z" {
		t.Errorf("the memos are not in the order of their keys: %q", memos)
	}
}

func fiveMemos(asset string) (memos []*pluginpb.AssetMemo) {
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		memos = append(memos, &pluginpb.AssetMemo{Asset: asset, ResourceKey: key, Memo: []byte("x")})
	}
	return memos
}

// TestAMemoOfAPushThatHasEndedIsNotSent: neither is one that Lehr never keeps.
func TestAMemoOfAPushThatHasEndedIsNotSent(t *testing.T) {
	memos := newMemoAnswers(nil, "p") // It has no stream to send on.
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errNoPermit)
	if err := memos.save(t.Context(), ended, intent.Memo{Key: "k", Bytes: []byte("x")}); !errors.Is(err, errNoPermit) {
		t.Errorf("%v", err)
	}
	if err := memos.save(t.Context(), t.Context(), intent.Memo{Key: "k", Bytes: make([]byte, intent.MaxMemoBytes+1)}); !errors.Is(err, ErrMemoRefused) {
		t.Errorf("%v", err)
	}
}

// TestAReadingIsOfItsMemos: what was read in the background by older memos is no answer.
func TestAReadingIsOfItsMemos(t *testing.T) {
	fingerprint := func(memos ...Memo) Digest {
		digest, err := fingerprintOf(Asset[*processpb.Job]{Payload: &processpb.Job{Name: "a"}, Memos: memos})
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	none, one, two := fingerprint(), fingerprint(Memo{Key: "k", Bytes: []byte("run 1")}), fingerprint(Memo{Key: "k", Bytes: []byte("run 2")})
	if none == one || one == two || none == two {
		t.Error("readings with different memos count as one")
	}
}
