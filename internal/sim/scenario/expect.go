package scenario

import (
	"fmt"
	"regexp"
	"strings"
)

// expect finds a text in the output, after what was expected before; blanks
// are as good as each other.
func (p *player) expect(text string) error {
	lines := strings.Split(p.output, "\n")
	for at := p.matched; at < len(lines); at++ {
		if strings.Contains(flat(lines[at]), flat(text)) {
			p.matched = at + 1
			return nil
		}
	}
	return fmt.Errorf("the output does not have it, in this order")
}

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// stdout holds the output to a pattern.
func (p *player) stdout(list []string, not bool) error {
	if len(list) != 1 {
		return fmt.Errorf("write stdout 'pattern'")
	}
	pattern, err := regexp.Compile("(?m)" + list[0])
	if err != nil {
		return err
	}
	switch ok := pattern.MatchString(p.output); {
	case ok && not:
		return fmt.Errorf("the output has it")
	case !ok && !not:
		return fmt.Errorf("the output does not have it")
	}
	return nil
}
