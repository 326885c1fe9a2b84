package generate

import (
	"testing"
	"unsafe"
)

// TestOutputIsSmall: a partition may have a million. What is the same for many
// belongs into Make, what few have into more.
func TestOutputIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Output{}); size > 72 {
		t.Errorf("an output takes %d bytes, more than 72", size)
	}
}
