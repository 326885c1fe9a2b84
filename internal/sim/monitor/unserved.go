package monitor

import (
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// unserved says what is wrong with a report of an asset, by whether head's policy binds a plugin to
// its type, or declares it a model; nothing: it is as it should be. What no plugin serves is
// compared with nothing, so it is in no case in sync (S11).
func (m *Monitor) unserved(asset intent.AssetID, kind intent.TypeName, report intent.Report) string {
	policy := m.policyAt(m.head)
	if policy == nil || kind == "" {
		return ""
	}
	bound := slices.ContainsFunc(policy.GetPlugins(), func(b *intentpb.PluginBinding) bool { return b.GetType() == string(kind) })
	model := kind.IsIntent() || slices.Contains(policy.GetModels(), string(kind))
	record, enforced := m.records[asset]
	enforced = enforced && !record.absent
	switch report.State {
	case intent.StateInSync:
		if !bound {
			return "is reported in sync, and no plugin is bound to its type"
		}
	case intent.StateModel:
		if bound || !model {
			return "is reported as a model, which its type is not"
		}
	case intent.StateUnserved:
		switch {
		case bound:
			return "is reported as unserved, and a plugin is bound to its type"
		case model:
			return "is reported as unserved, and its type is a model"
		case enforced:
			return "is reported as if no plugin had ever served it, and one did"
		}
	}
	return ""
}
