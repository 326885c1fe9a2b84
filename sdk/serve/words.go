package serve

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// The words of Lehr that plugins speak, so that a plugin imports nothing of
// Lehr's but this package and its generated messages.
type (
	AssetID       = intent.AssetID
	PartitionID   = intent.PartitionID
	IncarnationID = intent.IncarnationID
	TypeName      = intent.TypeName
	PushID        = intent.PushID
	ResourceKey   = intent.ResourceKey
	Digest        = intent.Digest
	Message       = intent.Message
	Plan          = intent.Plan
	Action        = intent.Action
	FieldChange   = intent.FieldChange
	Difference    = intent.Difference
	Impact        = intent.Impact
	Output        = intent.Output
	Memo          = intent.Memo
	Health        = intent.Health
	Served        = plugin.Served
	Guarantee     = plugin.Guarantee
	Ending        = plugin.Ending
)

const (
	Unknown = intent.Unknown
	InSync  = intent.InSync
	Differs = intent.Differs
	Pending = intent.Pending

	ActionCreate  = intent.ActionCreate
	ActionUpdate  = intent.ActionUpdate
	ActionReplace = intent.ActionReplace
	ActionDelete  = intent.ActionDelete

	Healthy       = intent.Healthy
	Unhealthy     = intent.Unhealthy
	HealthUnknown = intent.HealthUnknown

	Fenced        = plugin.Fenced
	CompareAndSet = plugin.CompareAndSet
	Unguarded     = plugin.Unguarded

	Pushed  = plugin.Pushed
	Failed  = plugin.Failed
	Stale   = plugin.Stale
	Stopped = plugin.Stopped
)
