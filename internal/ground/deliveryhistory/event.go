// Package deliveryhistory says what became of the versions of an application, of the rows that
// delivery keeps: what happened that people want to hear of, and figures over a time. It is pure;
// the notifier, the server and whoever delivers ask it.
package deliveryhistory

import (
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Kind of an event.
type Kind string

// Kinds of events.
const (
	// Promoted: the environment's field was set to the version, which does not go back.
	Promoted Kind = "promoted"
	// RolledBack: the environment's field was set to a version that goes back.
	RolledBack Kind = "rolled-back"
	// Waiting: the version waits for people, who are asked from now on.
	Waiting Kind = "waiting"
	// Vetoed: a person, a rollout or a program found the version bad.
	Vetoed Kind = "vetoed"
	// Failed: the environment did not converge with the version, in one attempt.
	Failed Kind = "failed"
)

// Event is something that happened to a version.
type Event struct {
	// Number of the row, which grows within the partition.
	Number      uint64
	Kind        Kind
	At          time.Time
	Application string
	// Environment that it happened in; empty: in all.
	Environment string
	Version     intent.VersionName
	// Constraint that it waits for, or that it was found bad for; empty: none.
	Constraint string
	// By whom it was found bad or set; Reason says why.
	By     intent.Actor
	Reason string
}

// EventOf returns the event that a row is about; ok: it is about one.
func EventOf(row *intent.DeliveryRecord) (e Event, ok bool) {
	e = Event{
		Number: row.Number, At: row.At, Application: row.Application, Environment: row.Environment, Version: row.Version, Constraint: row.Constraint, By: row.By, Reason: row.Reason,
	}
	switch row.Kind {
	case intent.DeliveryPromotion:
		e.Kind = Promoted
		if row.Back {
			e.Kind = RolledBack
		}
	case intent.DeliveryWait:
		e.Kind = Waiting
		return e, row.Constraint != "" && row.Cause == intent.CauseNeedsPeople
	case intent.DeliveryLanding:
		e.Kind, e.Reason = Waiting, fmt.Sprintf("the pull request #%d is to be merged or closed: %s", row.Request.Number, row.Request.Link)
		return e, row.Cause == intent.CauseNeedsPeople
	case intent.DeliveryVeto:
		if e.Kind = Vetoed; row.Request.Number != 0 {
			e.By = intent.Actor{Name: "whoever decided at the git host", Origin: intent.ServerOrigin}
			return e, true
		}
		e.Kind, e.By = Vetoed, intent.Actor{Name: "rollout " + row.Rollout, Origin: intent.ServerOrigin}
	case intent.DeliveryResult, intent.DeliveryVote:
		e.Kind = Vetoed
		return e, !row.Good
	case intent.DeliveryAct:
		e.Kind = Vetoed
		return e, row.Act == intent.ActMarkBad
	case intent.DeliveryAttempt:
		e.Kind = Failed
	default:
		return e, false
	}
	return e, true
}

// Words say the event in one line.
func (e Event) Words() string {
	version := e.Version.Name + " of " + e.Application
	place := "everywhere"
	if e.Environment != "" {
		place = "in " + e.Environment
	}
	switch e.Kind {
	case Promoted, RolledBack:
		return e.Reason // It names both.
	case Waiting:
		return fmt.Sprintf("%s waits for people %s: %s", version, place, e.Reason)
	case Vetoed:
		text := fmt.Sprintf("%s is found bad %s by %s", version, place, e.By.Name)
		if e.Constraint != "" {
			text += " (" + e.Constraint + ")"
		}
		return text + ": " + e.Reason
	}
	return fmt.Sprintf("%s did not converge %s: %s", version, place, e.Reason)
}
