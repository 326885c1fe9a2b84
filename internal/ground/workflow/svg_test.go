package workflow

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// drawnDefinition has a transition to the right, one that leads back, a state that none leads to,
// and texts that are no XML.
const drawnDefinition = `workflow: v1
name: drawn
machines:
  ask:
    initial: asking
    states:
      asking: {action: {person: {question: 'Is 1 < 2 & "so"?', roles: [approver]}, timeout: 1h}}
      given: {end: success}
      refused: {end: failure}
      alone: {end: neutral}
    transitions:
      - {from: asking, to: given, on: approved}
      - {from: asking, to: refused, on: [refused, expired]}
      - {from: refused, to: asking, when: 'cancelled && attempts < 2'}
`

// TestDrawSVG: a picture is XML that has each state, each transition and what they say, and marks
// the state of a run.
func TestDrawSVG(t *testing.T) {
	definition, findings := Read("drawn", []byte(drawnDefinition))
	if definition == nil {
		t.Fatal(findings)
	}
	picture := definition.DrawSVG(map[string]string{"ask": "given"})
	classes, text := map[string]int{}, ""
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v\n%s", err, picture)
		}
		switch token := token.(type) {
		case xml.StartElement:
			for _, attribute := range token.Attr {
				if attribute.Name.Local == "class" && token.Name.Local == "g" {
					classes[attribute.Value]++
				}
			}
		case xml.CharData:
			text += string(token) + "\n"
		}
	}
	for class, want := range map[string]int{"state initial": 1, "state success current": 1, "state failure": 1, "state neutral": 1, "transition": 3} {
		if classes[class] != want {
			t.Errorf("%d of the class %q, want %d: %v", classes[class], class, want, classes)
		}
	}
	for _, want := range []string{`Is 1 < 2 & "so"?`, "asking → refused  on refused, expired", "cancelled && attempts < 2", "alone"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(definition.DrawSVG(nil), `current"`) {
		t.Error("without a run a state is marked")
	}
	if drawn := definition.Draw(map[string]string{"ask": "given"}); !strings.Contains(drawn, "● [given]") || !strings.Contains(drawn, "> [asking]") {
		t.Errorf("as text it does not mark the run's state:\n%s", drawn)
	}
}
