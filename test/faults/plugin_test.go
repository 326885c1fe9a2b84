package faults

func wrongProtocolPlugin([]string) int { return 0 }
func hungPlugin([]string) int          { return 0 }
func crashingPlugin([]string) int      { return 0 }
