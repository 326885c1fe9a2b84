package remote

var testPlugins = map[string]func([]string) int{}
