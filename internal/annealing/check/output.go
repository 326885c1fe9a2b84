package check

import (
	"fmt"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/spell"
)

// MissingOutput is an output that the content asks for and that its asset did not tell.
type MissingOutput struct {
	outputs.ID
	// Available are the names of the outputs that the asset told since the enforcer began.
	Available []string
	// Reader is the partition that asks. Missing says why it is not there.
	Reader  intent.PartitionID
	Missing intentpb.ReadOutput_Missing
}

// output lets nothing be pushed whose content has a gap: what another asset is to tell is
// never guessed.
func output(f Facts) intent.Verdict {
	const name = "output"
	if len(f.Missing) == 0 {
		return intent.Passed(name, time.Time{})
	}
	waiting := intent.WaitingOn{Kind: intent.WaitOutput}
	var reasons []string
	for _, missing := range f.Missing {
		reasons = append(reasons, missing.reason())
		if missing.Partition == "" {
			waiting.Blockers = append(waiting.Blockers, missing.Asset)
		} else {
			waiting.Partition = missing.Partition
			waiting.Elsewhere = append(waiting.Elsewhere, missing.Asset)
		}
	}
	waiting.Reason = strings.Join(reasons, "; ")
	return intent.Waits(name, waiting)
}

func (m MissingOutput) reason() string {
	switch m.Missing {
	case intentpb.ReadOutput_MISSING_NO_SOURCE:
		return fmt.Sprintf("its content needs the output %s, and no source reads those of partition %s: add %s: {outputs: %s} to sources in lehr.yaml", m.ID, m.Partition, m.Partition, m.Partition)
	case intentpb.ReadOutput_MISSING_NOT_GRANTED:
		return fmt.Sprintf("its content needs the output %s, which partition %s does not grant: its lehr.yaml needs outputs: {grants: [{to: %s, assets: %s, names: %s}]}", m.ID, m.Partition, m.Reader, m.Asset, m.Name)
	}
	if len(m.Available) == 0 {
		return fmt.Sprintf("its content needs the output %s, which is not told yet", m.ID)
	}
	reason := fmt.Sprintf("its content needs the output %s, and %s tells %s", m.ID, m.Asset, strings.Join(m.Available, ", "))
	if nearest := spell.Nearest(m.Name, m.Available); nearest != "" {
		reason += fmt.Sprintf(": did you mean %s?", nearest)
	}
	return reason
}
