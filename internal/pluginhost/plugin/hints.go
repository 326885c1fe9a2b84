package plugin

import (
	"context"

	"lehr.dev/internal/ground/intent"
)

// Hinting is a Plugin that may tell by itself which assets have changed. A hint is never
// a fact: it makes Lehr look sooner, and only the answer to that look counts.
type Hinting interface {
	Plugin
	// WatchHints calls take with what the plugin hints about the assets of a partition,
	// first at once with how its hints stand. It returns when ctx ends, or when the
	// plugin is left for good; whoever still wants hints calls it again. There is one
	// call of take at a time, in the order of what happened. take must return at once,
	// and must not call the plugin.
	WatchHints(ctx context.Context, partition intent.PartitionID, take func(Hints))
}

// Hints is what became of a plugin's hints.
type Hints struct {
	// Reliable: the plugin watches production, and each hint about what it was asked
	// arrives, until this is told to be false. What was hinted in between is lost.
	Reliable bool
	// Assets that may have changed. The plugin was asked about each since it was
	// connected.
	Assets []intent.AssetID
}

// HintCounts are how many hints of a plugin came to what, since it was first used.
type HintCounts struct {
	// Taken were handed to those who act for their partitions.
	Taken uint64
	// Foreign were dropped: the plugin was not asked about their assets.
	Foreign uint64
	// Flood were dropped: there were more than a plugin may give.
	Flood uint64
}
