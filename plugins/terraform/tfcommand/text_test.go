package tfcommand

import "testing"

func TestPlainIsOneLineWithoutFrameAndColour(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mno state\x1b[0m\x1b[0m\n":         "no state",
		"[1;31mno state[0m":                        "no state",
		"╷\n│ Error: a[0] is\n│   wrong [none]\n╵": "Error: a[0] is wrong [none]",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
