package enforcer

import (
	"testing"
	"unsafe"
)

// TestAssetIsSmall: there may be a million, each in a class of allocations of
// its size. What only some need belongs into trouble, or into a map.
func TestAssetIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(asset{}); size > 144 {
		t.Errorf("an asset takes %d bytes, more than 144", size)
	}
}
