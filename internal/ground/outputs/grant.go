package outputs

import (
	"encoding/json"
	"path"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// GrantFile is where a source that reads the outputs of another partition has what that
// grants, beside the document itself.
const GrantFile = "grants.json"

// Grant is what another partition lets one read, as patterns of path.Match; an empty list:
// all.
type Grant struct {
	Assets []string `json:"assets,omitempty"`
	Names  []string `json:"names,omitempty"`
}

// Grants are those that a partition has.
type Grants []Grant

// Offer is what one partition tells, and lets another read.
type Offer struct {
	// Document is the whole document of outputs; without a revision: there is none yet.
	Document document.Document
	Grants   Grants
}

// GrantsTo lists what a policy grants to a partition, in the order of the policy.
func GrantsTo(reader intent.PartitionID, policy *intentpb.Policy) Grants {
	grants := Grants{}
	for _, g := range policy.GetOutputGrants() {
		if matchesAny(g.GetTo(), string(reader)) {
			grants = append(grants, Grant{g.GetAssets(), g.GetNames()})
		}
	}
	return grants
}

// Allows reports whether an output may be read.
func (g Grants) Allows(asset intent.AssetID, name string) bool {
	return slices.ContainsFunc(g, func(one Grant) bool {
		return (len(one.Assets) == 0 || matchesAny(one.Assets, string(asset))) && (len(one.Names) == 0 || matchesAny(one.Names, name))
	})
}

func matchesAny(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matches, err := path.Match(pattern, text)
		return matches && err == nil
	})
}

// Granted is a document of outputs with only what the grants allow, as JSON. Of one that
// cannot be read nothing is granted, and the findings say what is wrong with it.
func Granted(content []byte, grants Grants) (json.RawMessage, []intent.Finding) {
	table, findings := Parse(content)
	if len(findings) > 0 {
		return nil, findings
	}
	allowed := map[intent.AssetID]map[string]json.RawMessage{}
	for asset, values := range table.Values.ByAsset() {
		for name, value := range values {
			if !grants.Allows(asset, name) {
				continue
			}
			if allowed[asset] == nil {
				allowed[asset] = map[string]json.RawMessage{}
			}
			allowed[asset][name] = value
		}
	}
	text, err := json.Marshal(allowed)
	if err != nil {
		panic(err) // Its values are JSON.
	}
	return text, nil
}
