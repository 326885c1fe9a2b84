package explain

import (
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Current says what production was last found to be, next to the target.
type Current string

const (
	CurrentInSync  Current = "in-sync"
	CurrentDiffers Current = "differs"
	CurrentUnknown Current = "unknown"
	// CurrentUnseen: nobody looked, or nobody is to look.
	CurrentUnseen Current = "not-looked-at"
)

// Currents are all of them, the worst first.
func Currents() []Current {
	return []Current{CurrentUnknown, CurrentDiffers, CurrentUnseen, CurrentInSync}
}

// Standing is what an asset is to be, in the end and now, and what it is.
type Standing struct {
	// Desired is the newest incarnation, zero when that does not name the asset.
	Desired intent.IncarnationID
	// Target is what it follows now, and By why: "head", or the words of its pin.
	Target intent.IncarnationID
	By     string
	// Current is what was found At that time, and Differs the fields, at most
	// ten.
	Current Current
	Differs []string
	At      time.Time
}

// standing of the asset that is asked for.
func (f Facts) standing() Standing {
	report := f.Reports[f.Asset]
	s := Standing{By: "head", Target: f.Head, Current: currentOf(report), At: report.At}
	member, ok := f.Members[f.Asset]
	if ok {
		s.Desired = f.Head
	}
	if pin := f.pinOf(report); pin != nil {
		s.By = pin.Text
	}
	// What head did not change is followed there without a new report.
	if !report.Target.IsZero() && !(ok && s.By == "head" && member.Effective == report.Effective) {
		s.Target = report.Target
	}
	if _, pin := intent.Target(f.Head, f.Pins[f.Asset], f.Now); pin != nil && pin.Waits() {
		s.Target, s.By = intent.IncarnationID{}, fmt.Sprintf("none yet: the rollout %s has not let it go on", pin.Rollout())
	}
	if s.Current == CurrentDiffers {
		s.Differs = pathsOf(report.Plan)
	}
	return s
}

func currentOf(report intent.Report) Current {
	switch {
	case report.State == intent.StateInSync:
		return CurrentInSync
	case report.State == intent.StatePushing, report.State == intent.StateWaiting && report.Plan.Action != "":
		return CurrentDiffers
	case report.State == intent.StateWaiting:
		return CurrentUnknown
	default:
		return CurrentUnseen
	}
}

// pathsOf lists the fields that a push would change.
func pathsOf(plan intent.Plan) []string {
	const most = 10
	var paths []string
	for _, change := range plan.Changes[:min(len(plan.Changes), most)] {
		paths = append(paths, change.Path)
	}
	return paths
}
