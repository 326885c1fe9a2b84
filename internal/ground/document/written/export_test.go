package written

import (
	"strconv"

	"lehr.dev/internal/ground/document"
)

// Extent is how many bytes a scalar has in a file.
func Extent(name string, text []byte, path document.Path) int {
	n, err := parse(name, text)
	if err != nil {
		panic(err)
	}
	for _, part := range path {
		if n.kind == list {
			i, _ := strconv.Atoi(part)
			n = n.values[i]
			continue
		}
		for i, key := range n.keys {
			if key.value == part {
				n = n.values[i]
				break
			}
		}
	}
	return n.end - n.start
}
