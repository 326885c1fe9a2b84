package app

import "lehr.dev/internal/ground/measure"

// measures are those of the process.
type measures struct {
	Store measure.Store
	API   measure.API
	// Checkpoint is when one of the audit arrived last.
	Checkpoint measure.Moment
	// Traces are spans that the collector took, and that were dropped.
	Traces struct{ Sent, Dropped measure.Counter }
}

// partitionMeasures are those of a partition that this replica acts for.
type partitionMeasures struct {
	Pipeline  measure.Pipeline
	Enforcer  measure.Enforcer
	Notifier  measure.Notifier
	Delivery  measure.Delivery
	Collected measure.Counter
}
