//go:build race

package generate

import "os"

// raceRoom is what the race detector needs beside the limits of a child: memory for what it
// knows of each word, and a file for its report.
const raceRoom, raceWritten = 4 << 30, 1 << 20

// RaceEnvironment tells a child, which has no environment otherwise, where its reports of data
// races go.
func RaceEnvironment() []string {
	if value, ok := os.LookupEnv("GORACE"); ok {
		return []string{"GORACE=" + value}
	}
	return nil
}
