//go:build race

package enforcer

// underRace: the detector is at work, and everything takes several times as long.
const underRace = true
