package modules

import (
	"fmt"
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
)

// A sensitive output is told to nobody, and read out of the state by whoever may run the engine,
// as it is now; what is asked about and is not there is an error that says so.
func TestASensitiveOutputIsReadWhereItLies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, err := s.modules.ReadOutput(t.Context(), "shop", "terraform/net", "key"); !serve.IsKind(err, serve.NotFound) || !strings.Contains(err.Error(), "was not planned on this machine") {
		t.Errorf("before it was planned: %v", err)
	}
	s.mustPush()
	if told := fmt.Sprintf("%s", s.diff().Outputs); strings.Contains(told, "hunter2") || !strings.Contains(told, "cloud://eu/logo") {
		t.Errorf("outputs are %s", told)
	}
	for name, want := range map[string]string{"key": "hunter2-planted", "url": "cloud://eu/logo"} {
		if value, err := s.modules.ReadOutput(t.Context(), "shop", "terraform/net", name); err != nil || string(value) != want {
			t.Errorf("%s is %q, %v", name, value, err)
		}
	}
	s.module.Variables["key"] = "hunter3-planted"
	s.mustPush()
	if value, err := s.modules.ReadOutput(t.Context(), "shop", "terraform/net", "key"); err != nil || string(value) != "hunter3-planted" {
		t.Errorf("after a rotation it is %q, %v", value, err)
	}
	if _, err := s.modules.ReadOutput(t.Context(), "shop", "terraform/net", "none"); !serve.IsKind(err, serve.NotFound) || !strings.Contains(err.Error(), `no output "none"`) {
		t.Error(err)
	}
	if _, err := s.modules.ReadOutput(t.Context(), "other", "terraform/net", "key"); err == nil {
		t.Error("another partition reads it")
	}
	s.nothingLeft()
}
