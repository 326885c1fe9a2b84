package tfplan

import (
	"fmt"
	"strconv"
	"strings"
)

// reasons are Terraform's for what it does, in the words of its own display.
var reasons = map[string]string{
	"replace_because_tainted":           "it is tainted, so it must be replaced",
	"replace_by_request":                "its replacement was asked for",
	"replace_by_triggers":               "it is replaced because of replace_triggered_by",
	"delete_because_no_resource_config": "it is not in the configuration",
	"delete_because_no_module":          "its module is not in the configuration",
	"delete_because_wrong_repetition":   "its resource uses another of count and for_each than it did, or none",
	"delete_because_count_index":        "its index is out of the range of count",
	"delete_because_each_key":           "its key is not in the map of for_each",
	"delete_because_no_move_target":     "it was moved to what is not in the configuration",
	"read_because_config_unknown":       "its configuration is not known before the apply",
	"read_because_dependency_pending":   "it depends on what has changes pending",
	"read_because_check_nested":         "a check reads it again",
	"replace_because_cannot_update":     "it cannot be changed in place",
}

// reason of a change, with what happened outside.
func (s *showing) reason(r ResourceChange) string {
	reason := reasons[r.ActionReason]
	if reason == "" {
		reason = strings.ReplaceAll(r.ActionReason, "_", " ")
	}
	if r.ActionReason == "replace_because_cannot_update" && len(r.Change.ReplacePaths) > 0 {
		var forced []string
		for _, path := range r.Change.ReplacePaths {
			forced = append(forced, pathOf(path))
		}
		reason += ": forced by " + strings.Join(forced, ", ")
	}
	if drift, ok := s.drift[r.Address]; ok && kindOf(drift.Actions) == deleted && kindOf(r.Change.Actions) == created {
		reason = strings.TrimSuffix("it was deleted outside of Terraform; intent has not moved; "+reason, "; ")
	}
	return clip(reason, mostText)
}

// pathOf writes a path as flatten does.
func pathOf(parts []any) string {
	var out strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			switch {
			case !plainKey.MatchString(part):
				out.WriteString("[" + strconv.Quote(part) + "]")
			case out.Len() == 0:
				out.WriteString(part)
			default:
				out.WriteString("." + part)
			}
		case float64:
			fmt.Fprintf(&out, "[%d]", int(part))
		default:
			fmt.Fprintf(&out, "[%v]", part)
		}
	}
	return out.String()
}
