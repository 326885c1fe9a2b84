package conformance

import (
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// The example asset has First as its intent in one incarnation, Second in
// another, First with Turndown in a third, and is not in a fourth. In a fifth
// its neighbours are garbage, or never told.
const example = "example"

var (
	first   = incarnation(1)
	second  = incarnation(2)
	removed = incarnation(3)
	absent  = incarnation(4)
	garbled = incarnation(5)
)

func incarnation(sequence intent.Sequence) intent.IncarnationID {
	return intent.IncarnationID{Partition: "plugintest", Sequence: sequence}
}

type place struct{ incarnation, asset string }

// contents is the intent that the plugin is given.
type contents struct {
	mutex  sync.Mutex
	bodies map[place][]byte
	// silent places are never answered.
	silent map[place]bool
}

func newContents() *contents { return &contents{bodies: map[place][]byte{}, silent: map[place]bool{}} }

func (c *contents) put(at intent.IncarnationID, asset string, body []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.bodies[place{at.String(), asset}] = body
}

func (c *contents) putPayload(at intent.IncarnationID, asset string, payload proto.Message, addons ...proto.Message) error {
	message := &intentpb.Asset{Id: asset}
	var err error
	if message.Payload, err = anypb.New(payload); err != nil {
		return err
	}
	for _, addon := range addons {
		carried, err := anypb.New(addon)
		if err != nil {
			return err
		}
		message.Addons = append(message.Addons, carried)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	c.put(at, asset, body)
	return err
}

func (c *contents) silence(at intent.IncarnationID, asset string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.silent[place{at.String(), asset}] = true
}

// answer is what Lehr would answer; nil for silence.
func (c *contents) answer(need *pluginpb.Need) *pluginpb.Content {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	content := &pluginpb.Content{Partition: need.Partition, Incarnation: need.Incarnation}
	for _, asset := range need.Assets {
		at := place{need.Incarnation, asset.Asset}
		if c.silent[at] {
			continue
		}
		one := &pluginpb.AssetContent{Asset: asset.Asset}
		if body, ok := c.bodies[at]; ok {
			digest := intent.BodyDigest(body)
			one.Digest, one.Content = digest[:], body
			if string(asset.Known) == string(digest[:]) {
				one.Unchanged, one.Content = true, nil
			}
		} else {
			one.Refused = need.Incarnation + " has no asset " + asset.Asset
		}
		content.Assets = append(content.Assets, one)
	}
	if len(content.Assets) == 0 {
		return nil
	}
	return content
}
