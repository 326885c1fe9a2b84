// Package opentofu fixes the version of OpenTofu that the tests of plugins/terraform run when
// they are asked to ("make opentofu"). It has no code of its own.
package opentofu
