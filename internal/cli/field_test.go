package cli

import "testing"

func TestFieldAndValue(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                         {"", ""},
		"Owner":                    {"Owner", ""},
		"Job.version=1.2":          {"Job.version", "1.2"},
		"Owner.owner=a=b]=c[":      {"Owner.owner", "a=b]=c["},
		"Labels.labels[a=b]":       {"Labels.labels[a=b]", ""},
		"Labels.labels[a=b]=c=d":   {"Labels.labels[a=b]", "c=d"},
		`Labels.labels["a"]=x]=[y`: {`Labels.labels["a"]`, "x]=[y"},
	} {
		if field, value := fieldAndValue(text); field != want[0] || value != want[1] {
			t.Errorf("%s is %q with %q, want %q", text, field, value, want)
		}
	}
}
