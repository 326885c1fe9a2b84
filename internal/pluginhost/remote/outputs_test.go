package remote

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
)

func output(t *testing.T, name string, value any) *pluginpb.Output {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return &pluginpb.Output{Name: name, Json: string(text)}
}

// TestOutputsAreChecked: what is within limits is taken in order, as canonical JSON; all
// else is refused as a whole, with what is wrong.
func TestOutputsAreChecked(t *testing.T) {
	list, problem := checkOutputs([]*pluginpb.Output{
		output(t, "zone", "eu"), {Name: "port", Json: " 9007199254740993"}, output(t, "on", true), output(t, "hosts", []any{"a", "b"}), output(t, "ratio", 0.5), output(t, "at", map[string]any{"b": 1, "a": "x"}),
	})
	var text strings.Builder
	for _, o := range list {
		fmt.Fprintf(&text, "%s=%s ", o.Name, o.Value)
	}
	if want := `at={"a":"x","b":1} hosts=["a","b"] on=true port=9007199254740993 ratio=0.5 zone="eu" `; text.String() != want || problem != "" {
		t.Errorf("taken are %s (%s), want %s", text.String(), problem, want)
	}
	many := make([]*pluginpb.Output, 65)
	for i := range many {
		many[i] = output(t, fmt.Sprintf("o%d", i), i)
	}
	large := []*pluginpb.Output{}
	for i := range 5 {
		large = append(large, output(t, fmt.Sprintf("o%d", i), strings.Repeat("x ", 1900)))
	}
	for want, told := range map[string][]*pluginpb.Output{
		"65 outputs, at most 64": many,
		"bytes, at most 16000":   large,
		"bytes, at most 4000":    {output(t, "a", strings.Repeat("x ", 2_500))},
		"has no value":           {output(t, "a", nil)},
		"a cannot be taken":      {{Name: "a", Json: "NaN"}},
		"not of the form":        {output(t, "a b", 1)},
		"from 1 to 100":          {output(t, "", 1)},
		"the output a twice":     {output(t, "a", 1), output(t, "a", 1)},
		"looks like a secret":    {output(t, "password", "hunter2hunter2")},
	} {
		if list, problem := checkOutputs(told); !strings.Contains(problem, want) || list != nil {
			t.Errorf("it takes %d, and says %q, want %q", len(list), problem, want)
		}
	}
}
