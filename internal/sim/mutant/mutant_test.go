package mutant

import (
	"maps"
	"slices"
	"testing"
)

func TestRead(t *testing.T) {
	tests := []struct {
		list string
		want []string
	}{
		{list: ""},
		{list: "one", want: []string{"one"}},
		{list: "one,two", want: []string{"one", "two"}},
		{list: " one ,, two,", want: []string{"one", "two"}},
	}
	for _, test := range tests {
		if got := slices.Sorted(maps.Keys(read(test.list))); !slices.Equal(got, test.want) {
			t.Errorf("%q switches %v, want %v", test.list, got, test.want)
		}
	}
}

func TestOn(t *testing.T) {
	defer func(before map[string]bool) { switched = before }(switched)
	switched = read("one")
	if !On("one") || On("two") || On("") {
		t.Error("not exactly the one named is on")
	}
	switched = read("")
	if On("one") || On("") {
		t.Error("one is on though none is named")
	}
}
