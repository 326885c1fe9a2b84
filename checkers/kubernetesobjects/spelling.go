package main

import "strings"

// longestName that is compared: nobody misspells a longer one by a few letters.
const longestName = 80

// nearest is the known name that somebody who wrote a name probably meant; empty: none is near.
func nearest(name string, known []string) string {
	if len(name) > longestName {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(name)/3)
	for _, candidate := range known {
		if len(candidate) > longestName {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance counts the letters to add, to drop and to change, and neighbours to swap, between two texts
// (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
