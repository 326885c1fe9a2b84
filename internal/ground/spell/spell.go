// Package spell finds the name that somebody probably meant.
package spell

import "strings"

// longest is how many bytes a name has that is compared.
const longest = 100

// Nearest returns the name among those known that differs least from the given one,
// whatever their case: in two letters at most, in a half of a shorter name, or in a third
// of a longer one. Of several as near it is the first by the alphabet. It is empty where
// none is near, and for a name of over 100 bytes.
func Nearest(name string, names []string) string {
	nearest, least := "", min(max(2, len(name)/3), len(name)/2)+1
	for _, candidate := range names {
		distance := Distance(name, candidate)
		if distance < least || distance == least && nearest != "" && candidate < nearest {
			nearest, least = candidate, distance
		}
	}
	return nearest
}

// Distance returns how many letters must be added, taken out, replaced or exchanged with
// their neighbour to make one name of the other (optimal string alignment), in bytes and
// whatever their case. Of names of over 100 bytes it is the length of the longer one.
func Distance(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	// Rows of the distances of all beginnings: of a less two letters, less one, and a.
	older, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older, last, row = last, row, older
		row[0] = i + 1
		for j := range len(b) {
			substitution := last[j]
			if a[i] != b[j] {
				substitution++
			}
			row[j+1] = min(substitution, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
