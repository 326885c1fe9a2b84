package world

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// OutputName is the output that real things have: an address, which is theirs alone.
const OutputName = "address"

// outputState is the address of one real thing.
type outputState struct {
	number int
	// changing: each look finds another one.
	changing bool
}

// OutputNews is what a plugin told of an asset in sync.
type OutputNews struct {
	Asset intent.AssetID
	Key   intent.ResourceKey
	// Replica whose plugin told it.
	Replica string
	// Value is JSON; empty: it told none, for nothing is there.
	Value string
}

// tellsOutputs reports whether a thing is of the type that has an address.
func (w *World) tellsOutputs(key intent.ResourceKey) bool {
	return w.options.Outputs != "" && strings.HasPrefix(string(key), "sim:"+w.options.Outputs+"/")
}

func (w *World) outputOf(key intent.ResourceKey) *outputState {
	state := w.outputs[key]
	if state == nil {
		state = &outputState{}
		w.outputs[key] = state
	}
	return state
}

// ChangeOutput gives a thing another address, that nothing ever had.
func (w *World) ChangeOutput(key intent.ResourceKey) { w.outputOf(key).number++ }

// KeepChanging gives a thing another address at each look, until Heal.
func (w *World) KeepChanging(key intent.ResourceKey, on bool) { w.outputOf(key).changing = on }

// Output is the address of a thing now, as JSON.
func (w *World) Output(key intent.ResourceKey) string {
	text, err := json.Marshal(strings.TrimPrefix(string(key), "sim:") + "-" + strconv.Itoa(w.outputOf(key).number))
	if err != nil {
		panic(err) // A text can be encoded.
	}
	return string(text)
}

// tellOutputs adds to an answer what the thing has, if it is in sync.
func (l *life) tellOutputs(wanted *wanted, state snapshot, diff *pluginpb.AssetDiff) *pluginpb.AssetDiff {
	w := l.world
	if !w.tellsOutputs(wanted.key) || diff.GetInSync() == nil || diff.GetAsset() != string(wanted.ID) {
		return diff
	}
	news := OutputNews{Asset: wanted.ID, Key: wanted.key, Replica: l.child.replica.Name()}
	if state.exists && !wanted.turndown {
		if own := w.outputOf(wanted.key); own.changing {
			own.number++
		}
		news.Value = w.Output(wanted.key)
		diff = proto.CloneOf(diff)
		diff.Outputs = []*pluginpb.Output{{Name: OutputName, Json: news.Value}}
	}
	if w.OnOutput != nil {
		w.OnOutput(news)
	}
	return diff
}

// Text is a field of an asset's payload as of an incarnation; empty: there is none.
func (w *World) Text(ctx context.Context, id intent.IncarnationID, asset intent.AssetID, field string) string {
	wanted, err := w.look(ctx, id, asset)
	if err != nil {
		return ""
	}
	if f := wanted.message.Descriptor().Fields().ByName(protoreflect.Name(field)); f != nil {
		return wanted.message.Get(f).String()
	}
	return ""
}
