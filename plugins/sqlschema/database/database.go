// Package database is what the resource asks of a database engine, in words
// that both engines share. It holds contracts and the pure rules about
// objects: how they are named, and which changes of them destroy something.
// The engines' packages implement Engine; package schemas calls them.
package database

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/statement"
)

// Objects are objects in words, by kind and name: "column plays.year" is
// "integer, not null".
type Objects map[string]string

// Managed is the key of the objects that an asset has claimed, as it is kept
// with the version.
const Managed = "managed objects"

// Request is a part of a database that one asset is about.
type Request struct {
	// Asset names the asset and its partition.
	Asset string
	// URL is where the database is, without a password.
	URL string
	// Password is empty if there is none. It is shown nowhere (S13).
	Password string
	// Schema is the PostgreSQL schema.
	Schema, Version               string
	SQL                           string
	Statements                    []statement.Statement
	LockTimeout, StatementTimeout time.Duration
}

// Sight is what was seen, and changed nothing (S21).
type Sight struct {
	// Current is what is there of what the statements declare, and what the
	// asset claimed with its last push. Nothing at all is an empty one.
	Current Objects
	// Wanted is what the statements declare, as the engine understands them.
	Wanted Objects
	// Recorded is whether the database remembers a push of the asset, Version
	// what it then declared.
	Recorded bool
	Version  string
	// Base changes when the objects do, even when they change back.
	Base string
	// Instance names the database for ever, however it is reached.
	Instance string
	// Rows are the tables that hold rows.
	Rows map[string]bool
}

// Push is an admitted change.
type Push struct {
	ID string
	// Base and Wanted are those of the sight that it was decided on.
	Base   string
	Wanted Objects
	// Effect is asked before each statement, and before the commit.
	Effect   func(context.Context) error
	Progress func(string)
}

// Engine is a kind of database. What it changes it changes in one transaction
// that first compares the base: serve.ErrStale when it moved.
type Engine interface {
	Look(context.Context, Request) (Sight, error)
	Apply(context.Context, Request, Push) error
	// Remove drops exactly the objects that the statements declare.
	Remove(context.Context, Request, Push) error
}

// Key names an object.
func Key(kind statement.Kind, name string) string { return string(kind) + " " + name }

// Claims are the tables, views, functions, types and sequences among objects: what no two
// assets may declare.
func Claims(objects Objects) []string {
	var claims []string
	for key := range objects {
		switch kind, _, _ := strings.Cut(key, " "); statement.Kind(kind) {
		case statement.Table, statement.View, statement.Function, statement.Enum, statement.Domain, statement.Sequence:
			claims = append(claims, key)
		}
	}
	slices.Sort(claims)
	return claims
}

// ClaimWords writes claims as they are kept and shown.
func ClaimWords(claims []string) string { return strings.Join(claims, "; ") }

// Overlap refuses what another asset has claimed in the same database.
func Overlap(wanted Objects, other, claimed string) error {
	theirs := strings.Split(claimed, "; ")
	for _, claim := range Claims(wanted) {
		if slices.Contains(theirs, claim) {
			return fmt.Errorf("the %s is managed by the asset %s, and two assets would undo each other: declare it in one of them", claim, other)
		}
	}
	return nil
}

// maxWord and maxKey are how long what is told may be; the longer ends in its
// digest, so that two different objects never look the same.
const (
	maxWord = 1000
	maxKey  = 200
)

// Told is what is told of objects, with what they claim among them. claims is
// that in full.
func Told(objects Objects) (told Objects, claims string) {
	claims = ClaimWords(Claims(objects))
	told = maps.Clone(objects)
	told[Managed] = claims
	return Bound(told), claims
}

// Bound shortens long names and words.
func Bound(objects Objects) Objects {
	bounded := make(Objects, len(objects))
	for key, word := range objects {
		bounded[shorten(key, maxKey)] = shorten(word, maxWord)
	}
	return bounded
}

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s… (%d bytes, sha256 %s)", strings.ToValidUTF8(text[:most/2], ""), len(text), hex.EncodeToString(digest[:8]))
}

// maxTold is how many bytes are told of one asset's objects.
const maxTold = 700_000

// Fits refuses more objects than can be told.
func Fits(objects Objects) error {
	size := 0
	for key, word := range objects {
		size += len(key) + len(word) + 8
	}
	if size > maxTold {
		return fmt.Errorf("the declared tables have %d objects with %d bytes in words, and %d is the most: divide them among several assets", len(objects), size, maxTold)
	}
	return nil
}

// MaxObjects bounds what is read of one asset's tables.
const MaxObjects = 5000

// Left names the objects in which two sights differ, at most three of them.
func Left(current, wanted Objects) string {
	var left []string
	for _, key := range slices.Sorted(maps.Keys(union(current, wanted))) {
		if current[key] != wanted[key] {
			left = append(left, fmt.Sprintf("%s is %q, wanted %q", key, clip(current[key]), clip(wanted[key])))
		}
	}
	if more := len(left) - 3; more > 0 {
		left = append(left[:3], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(left, "; ")
}

func clip(word string) string {
	if len(word) > 200 {
		return strings.ToValidUTF8(word[:200], "") + "…"
	}
	return word
}

func union(a, b Objects) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}
