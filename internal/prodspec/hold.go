package prodspec

import (
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
)

// heldBytes of contents are kept at once. What is beyond is read when a run
// asks for it, and may have changed by then.
const heldBytes = 64 << 20

// hold reads what changed since the last build at once, so that sources that
// change all the time can be built as they were read. It reports whether all
// was still there.
func (s *sources) hold(inputs generate.Inputs) (bool, error) {
	s.heldContents = map[intent.Digest][]byte{}
	bytes := 0
	read := func(previous, now []work.Input) error {
		for _, input := range now {
			if old, ok := work.Find(previous, input.Name); ok && old.Digest == input.Digest || bytes > heldBytes {
				continue
			}
			content, err := s.open(input)
			if err != nil {
				return err
			}
			s.heldContents[input.Digest] = content
			bytes += len(content)
		}
		return nil
	}
	err := read(s.builtInputs.Programs, inputs.Programs)
	for name, list := range inputs.Sources {
		if err == nil {
			err = read(s.builtInputs.Sources[name], list)
		}
	}
	if fault.Is(err, fault.Unavailable) {
		return false, nil
	}
	return err == nil, err
}
