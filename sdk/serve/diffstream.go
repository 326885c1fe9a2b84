package serve

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// resultBytes is about the size of one message of results.
const resultBytes = 1 << 20

// diffStream answers the batches of one stream.
type diffStream struct {
	*service
	stream pluginpb.PluginService_DiffServer
	// sending is held while a message is sent.
	sending sync.Mutex
	asker   *asker
}

func (s *service) Diff(stream pluginpb.PluginService_DiffServer) error {
	d := &diffStream{service: s, stream: stream}
	d.asker = newAsker(s.heldIntents, s.histories, connection(stream.Context()), func(need *pluginpb.Need) error {
		return d.send(&pluginpb.DiffResponse{Message: &pluginpb.DiffResponse_Need{Need: need}})
	})
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		switch message := request.Message.(type) {
		case *pluginpb.DiffRequest_Batch:
			d.asker.recordChanges(message.Batch)
			d.watching.recordAsked(d.asker.connection, message.Batch)
			go d.answer(message.Batch, time.Now())
		case *pluginpb.DiffRequest_Content:
			d.asker.deliver(message.Content)
		}
	}
}

func (d *diffStream) send(response *pluginpb.DiffResponse) error {
	d.sending.Lock()
	defer d.sending.Unlock()
	return d.stream.Send(response)
}

// answer compares one batch, that came then, and sends the results, in as many messages
// as their size asks for.
func (d *diffStream) answer(batch *pluginpb.DiffBatch, requestTime time.Time) {
	results, size := &pluginpb.DiffResults{Batch: batch.Batch}, 0
	flush := func() {
		_ = d.send(&pluginpb.DiffResponse{Message: &pluginpb.DiffResponse_Results{Results: results}})
		results, size = &pluginpb.DiffResults{Batch: batch.Batch}, 0
	}
	for i, difference := range d.compare(batch, requestTime) {
		diff := encodeDifference(batch.Assets[i], difference, requestTime)
		length := proto.Size(diff)
		if length > maxMessage/2 {
			diff = encodeDifference(batch.Assets[i], unknown(fmt.Errorf("the difference has %d bytes, more than a message may carry", length)), requestTime)
			length = 0
		}
		if size += length; size > resultBytes {
			flush()
			size = length
		}
		results.Diffs = append(results.Diffs, diff)
	}
	flush()
}

// compare returns one difference for each asset of the batch, in order.
func (d *diffStream) compare(batch *pluginpb.DiffBatch, requestTime time.Time) []Difference {
	differences := make([]Difference, len(batch.Assets))
	incarnation, err := intent.ParseIncarnationID(batch.Incarnation)
	if err != nil {
		for i := range differences {
			differences[i] = unknown(err)
		}
		return differences
	}
	ids := make([]AssetID, len(batch.Assets))
	for i, asset := range batch.Assets {
		ids[i] = AssetID(asset)
	}
	assets, failures := d.asker.intents(d.stream.Context(), incarnation, ids)
	var start time.Time
	if batch.MaxAge != nil {
		start = requestTime.Add(-max(0, batch.MaxAge.AsDuration()))
	}
	memos := memosByAsset(batch.Memos)
	byType := map[TypeName][]int{}
	for i := range assets {
		assets[i].ReadSince = start
		if failures[i] == nil {
			assets[i].Memos, failures[i] = decodeMemos(ids[i], memos[ids[i]])
		}
		if failures[i] != nil {
			differences[i] = unknown(failures[i])
			continue
		}
		byType[assets[i].Payload.Type] = append(byType[assets[i].Payload.Type], i)
	}
	for name, places := range byType {
		d.compareType(name, places, assets, differences)
	}
	return differences
}

func (d *diffStream) compareType(name TypeName, places []int, assets []Intent, differences []Difference) {
	some := assets
	if len(places) < len(assets) {
		some = make([]Intent, len(places))
		for i, place := range places {
			some[i] = assets[place]
		}
	}
	var results []Difference
	err := d.unserved(name)
	if err == nil {
		err = protect("Diff", some[0].ID, func() error {
			if results = d.kinds[name].Diff(d.stream.Context(), some); len(results) != len(some) {
				return fmt.Errorf("Diff returned %d differences for %d assets: a defect of the plugin", len(results), len(some))
			}
			return nil
		})
	}
	for i, place := range places {
		if err != nil {
			differences[place] = unknown(err)
		} else {
			differences[place] = heedsTurndown(some[i], results[i])
		}
	}
}

func (s *service) unserved(name TypeName) error {
	if s.kinds[name] == nil {
		return fmt.Errorf("plugin %s does not serve the type %s", s.plugin.Name, name)
	}
	return nil
}
