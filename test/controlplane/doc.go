// Package controlplane fixes the version of the real API server that other tests build and
// start: those of plugins/kubernetes. It has no code of its own.
package controlplane
