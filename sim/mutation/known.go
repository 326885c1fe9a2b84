package mutation

// Known are seeds whose run finds a mutant, as the hunt wrote them.
var Known = map[string]uint64{}
