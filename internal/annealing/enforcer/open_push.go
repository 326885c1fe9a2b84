package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// push is a push under way or in doubt.
type push struct {
	id     intent.PushID
	target intent.IncarnationID
	// effective content, and the plan, that it carries out.
	effective, plan intent.Digest
	// approved: approvals were used up for it.
	approved bool
	admitted time.Time
	budgets  []string
	// rates are the keys of limits that it counts under.
	rates    []string
	progress string
	// effect is E of the plugin that was told of it; 0: not known.
	effect time.Duration
	// protectionRun of protections; nil: none.
	protectionRun *protectionRun
	// doubt: its end was lost, for that reason, and it may still be running.
	doubt      bool
	lostReason string
	// settles is when it can be running no more, at the latest; zero: when its plugin is gone, which nobody
	// foresees.
	settles   time.Time
	pushTrace *pushTrace
}

// settledEnding closes a push whose end was lost.
const settledEnding plugin.Ending = store.EndingSettled
