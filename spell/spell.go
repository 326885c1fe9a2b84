// Package spell finds the name that somebody probably meant.
package spell

import "strings"

// longest is how many bytes a name has that is compared.
const longest = 100

// Nearest returns the name among those known that differs least from the given one,
// whatever their case: in two letters at most, in a half of a shorter name, or in a third
// of a longer one. Of several as near it is the first by the alphabet. It is empty where
// none is near, and for a name of over 100 bytes.
func Nearest(name string, known []string) string {
	nearest, least := "", min(max(2, len(name)/3), len(name)/2)+1
	for _, candidate := range known {
		distance := Distance(name, candidate)
		if distance < least || distance == least && nearest != "" && candidate < nearest {
			nearest, least = candidate, distance
		}
	}
	return nearest
}

// Distance is the Levenshtein distance of two names in bytes, whatever their case. Names
// of over 100 bytes are as far apart as such names can be, and further.
func Distance(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal, row[j+1] = row[j+1], min(substitution, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
