package notify

import (
	"time"

	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/intent"
)

// State is all that a partition's notifications remember: what is so of which assets,
// what was told, and what is still to be delivered. It is stored together with how far
// the history was read, so that a restart neither loses nor repeats: the assets in
// shares, of which those are written that changed (store.go).
type State struct {
	// Cursor is the last past report that was read.
	Cursor uint64 `json:"cursor"`
	// Delivered is the last row of deliveries that was read; nil: no notification is of them.
	Delivered *uint64 `json:"delivered,omitempty"`
	// Workflows is how far runs of workflows were read; nil: no notification is of them.
	Workflows *WorkflowCursor `json:"workflows,omitempty"`
	// Known notifications, by name, with what they said.
	Known map[string]string `json:"known"`
	// Active is what each is so of; of the partition it is the empty asset.
	Active map[string]map[intent.AssetID]Active `json:"active,omitempty"`
	// Shares of the assets that are stored.
	Shares []share           `json:"shares,omitempty"`
	Groups map[string]*Group `json:"groups"`
	Outbox []*Delivery       `json:"outbox"`
	// Targets that fail, or to which messages were dropped.
	Targets map[string]*Target `json:"targets"`
	// touched are the shares that are not as they were stored.
	touched map[share]bool
}

// Active is one asset of which the condition is so.
type Active struct {
	Since time.Time `json:"since"`
	Text  string    `json:"text"`
	// Cause that it has in common with others, as it was found when the root began: heads
	// that leave its content as it is change nothing.
	Cause string `json:"cause"`
	Root  root   `json:"root,omitempty"`
	// Group that it is told of in; empty: it is not so long enough.
	Group string `json:"group,omitempty"`
	// Left is when it ceased to be so: soon it is forgotten, unless it is so again.
	Left time.Time `json:"left,omitzero"`
}

// Group is told of together.
type Group struct {
	ID    string `json:"id"`
	Rule  string `json:"rule"`
	Cause string `json:"cause"`
	// Opened is when the first of its assets was so for long enough.
	Opened time.Time `json:"opened"`
	// Told is when it was last, Times how often, and Grown: assets came since.
	Told  time.Time `json:"told,omitzero"`
	Times int       `json:"times"`
	Grown bool      `json:"grown,omitempty"`
	// Members of which it is so, as of the last tick; lingers: of some it just ceased to be.
	Members []intent.AssetID `json:"-"`
	lingers bool
}

// Message is what targets are told. Its ID is the same whenever it is sent.
type Message struct {
	ID        string             `json:"id"`
	Partition intent.PartitionID `json:"partition"`
	// Name of the notification, and Status: firing or resolved, or of a delivery or a workflow happened.
	Name   string `json:"name"`
	Status string `json:"status"`
	Cause  string `json:"cause"`
	// Title is all of it in one line.
	Title string    `json:"title"`
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
	// Times it was told of before.
	Times int `json:"times"`
	// Count of the assets, of which the first ones are named.
	Count  int         `json:"count"`
	Assets []Mentioned `json:"assets"`
	// Delivery is what happened to a version; nil: it is about something else.
	Delivery *Happened `json:"delivery,omitempty"`
	// Workflow is what happened in a run of one; nil: it is about something else.
	Workflow *RunEvent `json:"workflow,omitempty"`
	// Link to the page of it; of what waits for a person it opens the confirmation. Empty: the
	// server has no public URL, or each of the assets has its own.
	Link string `json:"link,omitempty"`
	// Links to what else waits for people in the partition, of a message about it.
	Links []string `json:"links,omitempty"`
	// Dropped are messages to the target that it never got, oldest first.
	Dropped int `json:"dropped,omitempty"`
}

// Mentioned is an asset in a message; of the partition it has no id.
type Mentioned struct {
	Asset intent.AssetID `json:"asset,omitempty"`
	Text  string         `json:"text"`
	Since time.Time      `json:"since"`
	// Link to its page; of one that waits for an approval it opens the confirmation of its plan.
	Link string `json:"link,omitempty"`
}

// Happened is what happened to a version, in a message.
type Happened struct {
	// Event is promoted, rolled-back, waiting, vetoed or failed.
	Event       deliveryhistory.Kind `json:"event"`
	Application string               `json:"application"`
	// Environment; empty: all.
	Environment string `json:"environment,omitempty"`
	Version     string `json:"version"`
	Digest      string `json:"digest,omitempty"`
	// Constraint that it waits for, or that it was found bad for; empty: none.
	Constraint string    `json:"constraint,omitempty"`
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	At         time.Time `json:"at"`
}

// Delivery is a message to one target that is not there yet.
type Delivery struct {
	Target  string  `json:"target"`
	Message Message `json:"message"`
	Tries   int     `json:"tries"`
	// Next is when it is tried.
	Next time.Time `json:"next"`
}

// Target is how deliveries to one went.
type Target struct {
	// Problem of the last try, since when; empty: it went well.
	Problem string    `json:"problem,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Dropped int       `json:"dropped,omitempty"`
	Sent    int       `json:"sent"`
	Last    time.Time `json:"last,omitzero"`
}

// NewState remembers nothing.
func NewState() *State {
	return &State{Known: map[string]string{}, Active: map[string]map[intent.AssetID]Active{}, Groups: map[string]*Group{}, Targets: map[string]*Target{}, touched: map[share]bool{}}
}
