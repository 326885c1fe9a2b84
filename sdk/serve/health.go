package serve

import "slices"

const healthType TypeName = "lehr.intent.v1.Health"

// IsJudged reports whether the asset has a Health addon, whose expression looks at the
// current state. A plugin whose current state leaves out what tells how a thing fares, such as
// a status, may add that then.
func (a Asset[T]) IsJudged() bool { return isJudged(a.Addons) }

// IsJudged reports whether the asset has a Health addon. See Asset.IsJudged.
func (i Intent) IsJudged() bool { return isJudged(i.Addons) }

func isJudged(addons []Message) bool {
	return slices.ContainsFunc(addons, func(addon Message) bool { return addon.Type == healthType })
}
