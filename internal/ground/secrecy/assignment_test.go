package secrecy

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNoAssignmentIsPassedOver: where the pattern finds a name of a secret before a sign,
// the look that spares most texts the pattern finds it too.
func TestNoAssignmentIsPassedOver(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"password", "PGPASSWORD", "token", "api", "key", "Key", "secret", "x", "9", "-", "_", ".", " ", "\t", "\n", "=", ":", ":=", "=>", `"`, "'", "[", ",", "hunter2hunter2", "ü", "\xff",
	})
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, piece := range rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces") {
			text += piece
		}
		// Few random texts have an assignment: half of them are given one.
		if rapid.Bool().Draw(t, "assigns") {
			text += rapid.SampledFrom([]string{" password=", " api_key: \"", "\nPGPASSWORD := '", "[token=>"}).Draw(t, "assignment") + "hunter2hunter2" + pieces.Draw(t, "end")
		}
		for _, at := range assignment.FindAllStringSubmatchIndex(text, -1) {
			if name := text[at[2]:at[3]]; Name(name) {
				if found++; !assignsSecret(text) {
					t.Fatalf("in %q the pattern finds the name %q", text, name)
				}
			}
		}
	})
	if found == 0 {
		t.Error("no text had an assignment of a secret")
	}
}

// TestHintsMissNothing: a text is found for each of the beginnings that a form has.
func TestHintsMissNothing(t *testing.T) {
	const tail = "0123456789abcdefABCDEF0123456789abcdefABCDEF"
	for _, text := range []string{
		"AKIA0123456789ABCDEF", "ASIA0123456789ABCDEF", "ghp_" + tail, "gho_" + tail, "ghu_" + tail, "ghs_" + tail, "ghr_" + tail,
		"sk_live_" + tail, "rk_test_" + tail, "whsec_" + tail, "dop_v1_" + tail[:10] + tail[:6] + tail[:10] + tail[:10] + tail[:10], "Bearer " + tail, "basic " + tail,
	} {
		if kind, ok := Text("it is " + text + " here"); !ok {
			t.Errorf("%q is taken for no secret", text)
		} else if Redact(text) == text {
			t.Errorf("%q is %s, and is shown", text, kind)
		}
	}
}
