package check

import (
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// verification waits while something is verified in the asset's environment: what is pushed
// meanwhile would disturb it, and its result would be of neither what was nor what comes.
func verification(f Facts) intent.Verdict {
	v := f.Verification
	if v == nil {
		return intent.Passed("verification", time.Time{})
	}
	reason := fmt.Sprintf("the verification %s of version %s is under way in the environment %s of %s, until %s at the latest",
		v.Name, v.Version.Name, v.Environment, v.Application, v.Until.UTC().Format(time.RFC3339))
	if v.Head != f.Head {
		reason += fmt.Sprintf("; %s is new, and is compared with what is verified before anything of the partition is pushed", f.Head)
	}
	return intent.Waits("verification", intent.WaitingOn{Kind: intent.WaitVerification, Reason: reason})
}
