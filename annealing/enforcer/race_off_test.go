//go:build !race

package enforcer

const underRace = false
