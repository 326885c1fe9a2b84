package judge

import (
	"cmp"
	"slices"
)

// Holm adjusts probabilities for how many there are: what is at most alpha after
// it is wrong in any of them at most with the probability alpha (Holm 1979). It
// asks nothing of how they depend on each other.
func Holm(probabilities []float64) []float64 {
	adjusted := make([]float64, len(probabilities))
	most := 0.0
	for i, at := range ascending(probabilities) {
		most = max(most, min(1, float64(len(probabilities)-i)*probabilities[at]))
		adjusted[at] = most
	}
	return adjusted
}

// BenjaminiHochberg adjusts probabilities so that of what is at most alpha after
// it a share of alpha is wrong, in the mean (Benjamini and Hochberg 1995): more is
// found than by Holm, and of many alarms some are false. It holds for what is
// independent or depends positively.
func BenjaminiHochberg(probabilities []float64) []float64 {
	adjusted := make([]float64, len(probabilities))
	least, order := 1.0, ascending(probabilities)
	for i, at := range slices.Backward(order) {
		least = min(least, float64(len(order))/float64(i+1)*probabilities[at])
		adjusted[at] = least
	}
	return adjusted
}

// ascending returns the places of values, the smallest first.
func ascending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}
