//go:build !lehr_poison

package prodspec

// poison does nothing, save in the build in which tests show that an input which
// ends its process is quarantined.
func poison(string) {}
