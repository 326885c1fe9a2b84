// Package controlplane tests what reads Kubernetes clusters against a real API
// server, built from its source, and a real etcd.
package controlplane
