// Package versionlist is the file of versions that a source of versions gives to generators and to
// delivery: what can be deployed in its order, and beside it everything that cannot, with the cause.
// Nothing that the source has is left out without being counted. It is pure; sources write the file
// and delivery reads it.
package versionlist

import (
	"encoding/json"
	"time"

	"lehr.dev/internal/ground/commitgraph"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/ordering"
)

// Version is one version of an artifact.
type Version struct {
	// Version is what orders compare and people say: a tag of semver without its "v", a package's
	// version. No other version of a list has it.
	Version string `json:"version"`
	// Name by which the source finds it: a tag, a commit, a file.
	Name string `json:"name"`
	// Digest of what is deployed, or the commit; empty: the source gives none.
	Digest string `json:"digest"`
	// Created is when it was made; zero: not known.
	Created time.Time `json:"created,omitzero"`
	// Build is the number of the build that made it, or its place on a branch; 0: not known.
	Build uint64 `json:"build,omitempty"`
	Metadata
	// SignedBy are the names of the operator's keys by which it was verified.
	SignedBy []string `json:"signed_by,omitempty"`
}

// Metadata says where a version comes from. Others wrote it, so no decision of trust rests on it.
type Metadata struct {
	Commit      string `json:"commit,omitempty"`
	Author      string `json:"author,omitempty"`
	Message     string `json:"message,omitempty"`
	Branch      string `json:"branch,omitempty"`
	Status      string `json:"status,omitempty"`
	BuildURL    string `json:"build_url,omitempty"`
	PullRequest string `json:"pull_request,omitempty"`
	Repository  string `json:"repository,omitempty"`
}

// Cause is why a version is not among those that can be deployed.
type Cause string

// Causes. Those of an order leave a version in Unordered, all others in Refused.
const (
	// NotInOrder: the source's order has no place for it.
	NotInOrder Cause = "not-in-order"
	// Ambiguous: the source has several of its name, with different digests.
	Ambiguous Cause = "ambiguous"
	// Unsigned: no listed key signed it.
	Unsigned Cause = "unsigned"
	// Unattested: no listed key signed the attestation that is asked for.
	Unattested Cause = "unattested"
	// OtherBranch: its commit is not on the branch, or its branch is not known.
	OtherBranch Cause = "other-branch"
	// OtherStatus: its build did not end as asked for, or that is not known.
	OtherStatus Cause = "other-status"
	// NotRequested: it was not built of a pull or merge request, or that is not known.
	NotRequested Cause = "not-requested"
	// Unreadable: what the source says of it cannot be used.
	Unreadable Cause = "unreadable"
)

// Aside is a version that is listed and cannot be deployed by itself.
type Aside struct {
	Version
	Cause Cause `json:"cause"`
	// Reason for people.
	Reason string `json:"reason"`
}

// Withdrawn is a version that the source had and has no longer.
type Withdrawn struct {
	Version
	// Since is when that was noticed.
	Since time.Time `json:"since"`
	// MovedTo is the digest that its name leads to now; empty: the name is gone.
	MovedTo string `json:"moved_to,omitempty"`
}

// List is the file.
type List struct {
	// Versions that can be deployed, the newest first.
	Versions []Version `json:"versions"`
	// Unordered have no place in the source's order.
	Unordered []Aside `json:"unordered,omitempty"`
	// Refused did not pass a filter of the source.
	Refused []Aside `json:"refused,omitempty"`
	// Withdrawn were there before.
	Withdrawn []Withdrawn `json:"withdrawn,omitempty"`
	// Older counts versions beyond the limit, MoreUnordered and MoreRefused those that are not
	// listed there for the same reason, and Unmatched names that were not asked for.
	Older         int `json:"older,omitempty"`
	MoreUnordered int `json:"more_unordered,omitempty"`
	MoreRefused   int `json:"more_refused,omitempty"`
	Unmatched     int `json:"unmatched,omitempty"`
	// History are the commits that versions are made of and those before them, children first, of a
	// source that is a repository of git: the newest commitgraph.Most.
	History []commitgraph.Commit `json:"history,omitempty"`
}

// Parse reads a file. Invalid: it is none.
func Parse(text []byte) (List, error) {
	var l List
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fault.New(fault.Invalid, "it is no list of versions: %w", err).WithHint("name a source of versions, as docs/use/sources.md shows")
	}
	return l, nil
}

// Ordered is the version as orders compare it: by its version text, which differs from that of all
// others in a list that can be deployed.
func (v Version) Ordered() ordering.Version {
	return ordering.Version{Name: v.Version, Created: v.Created, Build: v.Build}
}

// Find returns the version of a name or a version text that can be deployed, and ok whether there
// is one.
func (l List) Find(name string) (found Version, ok bool) {
	for _, v := range l.Versions {
		if v.Name == name || v.Version == name {
			return v, true
		}
	}
	return Version{}, false
}
