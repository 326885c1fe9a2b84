package main

import (
	"fmt"
	"os"
	"strings"
)

// hugePagesFiles hold the kernel's settings for memory that asked for nothing, as
// "always [madvise] never": the word in brackets is in force. The second one is for memory
// that processes share, as PostgreSQL's do.
var hugePagesFiles = []string{
	"/sys/kernel/mm/transparent_hugepage/enabled",
	"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
}

// useHugePages lets all programs have huge pages, by one of the settings, until restore is
// called. Go's runtime does not ask for them, and a run of the tests starts thousands of
// processes: on a virtual machine whose hypervisor keeps page tables itself, that saves a
// third of the computing, and of shared memory a sixth of what the tests of PostgreSQL compute.
// It reports whether it changed the setting: that takes root, and where it fails, the run is
// slower and else the same.
func useHugePages(path string) (restore func(), changed bool) {
	nothing := func() {}
	text, err := os.ReadFile(path)
	if err != nil {
		return nothing, false
	}
	_, after, _ := strings.Cut(string(text), "[")
	before, _, ok := strings.Cut(after, "]")
	if !ok || before == "always" || os.WriteFile(path, []byte("always"), 0o644) != nil {
		return nothing, false
	}
	return func() {
		if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "stages: the setting of huge pages stays \"always\", and was %q: %v\n", before, err)
		}
	}, true
}
