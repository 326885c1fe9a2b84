package modules

import (
	"context"
	"sync"
	"time"

	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/serve"
)

// endInterval is how often it is looked whether an apply has ended.
const endInterval = 500 * time.Millisecond

type identity struct {
	partition serve.PartitionID
	asset     serve.AssetID
}

// ends are applies under way that no push waits for.
type ends struct {
	mutex   sync.Mutex
	awaited map[identity]workfolder.Asset
}

func newEnds() *ends { return &ends{awaited: map[identity]workfolder.Asset{}} }

// await has the end of an asset's apply hinted.
func (e *ends) await(asset serve.Intent, folder workfolder.Asset) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.awaited[identity{asset.Incarnation.Partition, asset.ID}] = folder
}

// Watch implements serve.Watcher.
func (e *ends) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	ticker := time.NewTicker(endInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		for _, id := range e.takeEnded() {
			hint(id.partition, id.asset)
		}
	}
}

func (e *ends) takeEnded() (ended []identity) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for id, folder := range e.awaited {
		if isLive, err := keeper.IsLocked(folder.LockPath()); err == nil && isLive {
			continue
		}
		ended = append(ended, id)
		delete(e.awaited, id)
	}
	return ended
}
