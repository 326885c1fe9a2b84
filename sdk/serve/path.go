package serve

import "strings"

// covers reports whether a path pattern names the path or something above it:
// "clusters" covers "clusters[2].weight", and "[*]" stands for any index or
// key.
func covers(pattern, path string) bool {
	for pattern != "" {
		if strings.HasPrefix(pattern, "[*]") && strings.HasPrefix(path, "[") {
			end := indexEnd(path)
			if end < 0 {
				return false
			}
			pattern, path = pattern[3:], path[end:]
			continue
		}
		if path == "" || pattern[0] != path[0] {
			return false
		}
		pattern, path = pattern[1:], path[1:]
	}
	return path == "" || path[0] == '.' || path[0] == '['
}

func coveredByAny(patterns []string, path string) bool {
	for _, pattern := range patterns {
		if covers(pattern, path) {
			return true
		}
	}
	return false
}

// indexEnd is where the index or quoted key at the start of the path ends.
func indexEnd(path string) int {
	quoted := false
	for i := 1; i < len(path); i++ {
		switch {
		case quoted && path[i] == '\\':
			i++
		case path[i] == '"':
			quoted = !quoted
		case path[i] == ']' && !quoted:
			return i + 1
		}
	}
	return -1
}
