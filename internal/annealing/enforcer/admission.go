package enforcer

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// admission is a push that every check lets pass, before the store.
type admission struct {
	asset *asset
	// served is the plugin that said what differs, and is to push.
	served *served
	// keys of the places that it took.
	keys []string
	// guarded are the protections that are asked while it is under way.
	guarded []protection
	// asksAfter: something is to be asked after it.
	asksAfter bool
	store.Admission
}

// closing is the end of a push, before the store.
type closing struct {
	asset  *asset
	result plugin.PushResult
	store.Closing
}

// sighting is an asset seen in sync, before the store.
type sighting struct {
	asset  *asset
	report intent.Report
	store.Enforced
}
