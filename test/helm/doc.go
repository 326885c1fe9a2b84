// Package helm fixes the versions of the real Helm, both that people use, which a test of
// plugins/kubernetes builds and starts. It has no code of its own.
package helm
