package validate

// Forget what aggregates came to.
func (v *Validator) Forget() { v.tallies = nil }
