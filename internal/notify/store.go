package notify

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// BlobKind is that of all that a partition's state is stored in, and BlobName of what
// is not of single assets.
const BlobKind, BlobName = "notifications", "state"

const (
	// shares of a notification's assets.
	shares = 64
	// maxStored bounds what one value may unpack to, in bytes.
	maxStored = 64 << 20
)

// share is a part of a notification's assets that is stored by itself.
type share struct {
	Rule string `json:"rule"`
	At   int    `json:"at"`
}

func shareOf(rule string, asset intent.AssetID) share {
	return share{rule, int(crc32.ChecksumIEEE([]byte(asset)) % shares)}
}

func (s share) name() string { return fmt.Sprintf("active/%s/%d", s.Rule, s.At) }

// set what is so of an asset.
func (s *State) set(rule string, asset intent.AssetID, active Active) {
	s.Active[rule][asset] = active
	s.touched[shareOf(rule, asset)] = true
}

// unset an asset of which it is not so any more.
func (s *State) unset(rule string, asset intent.AssetID) {
	delete(s.Active[rule], asset)
	s.touched[shareOf(rule, asset)] = true
}

// touch all shares of a notification: they may be stored, of one that was before.
func (s *State) touch(rule string) {
	for at := range shares {
		s.touched[share{rule, at}] = true
	}
}

// Rows are what is to be stored, by name; nil: it is to be stored no more. Once they
// are, Saved is called.
func (s *State) Rows() (map[string][]byte, error) {
	parts := map[share]map[intent.AssetID]Active{}
	for touched := range s.touched {
		parts[touched] = nil
	}
	for rule, assets := range s.Active {
		for asset, active := range assets {
			at := shareOf(rule, asset)
			if !s.touched[at] {
				continue
			}
			if parts[at] == nil {
				parts[at] = map[intent.AssetID]Active{}
			}
			parts[at][asset] = active
		}
	}
	stored := map[share]bool{}
	for _, at := range s.Shares {
		stored[at] = true
	}
	rows := map[string][]byte{}
	for at, part := range parts {
		if part == nil {
			delete(stored, at)
			rows[at.name()] = nil
			continue
		}
		stored[at] = true
		var err error
		if rows[at.name()], err = pack(part); err != nil {
			return nil, err
		}
	}
	s.Shares = slices.SortedFunc(maps.Keys(stored), func(a, b share) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.At, b.At)) })
	whole := *s
	whole.Active = nil
	var err error
	rows[BlobName], err = pack(whole)
	return rows, err
}

// Saved says that the rows were stored.
func (s *State) Saved() { clear(s.touched) }

func pack(value any) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return nil, fault.New(fault.Internal, "storing what was told: %w", err)
	}
	err := w.Close()
	return packed.Bytes(), err
}

// errUnreadable is of what was stored and cannot be understood.
var errUnreadable = errors.New("it is damaged, or of another version")

func unpack(data []byte, target any) error {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxStored)).Decode(target)
	}
	if err != nil {
		return fault.New(fault.Internal, "what was told cannot be read: %w", fmt.Errorf("%w: %w", errUnreadable, err))
	}
	return nil
}

// Blobs is where states are stored.
type Blobs interface {
	GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error)
}

// LoadDeliveries is Load without the assets of which something is so.
func LoadDeliveries(ctx context.Context, blobs Blobs, partition intent.PartitionID) (*State, error) {
	s := NewState()
	data, err := blobs.GetBlob(ctx, partition, BlobKind, BlobName)
	if fault.Is(err, fault.NotFound) {
		return s, nil
	}
	if err == nil {
		err = unpack(data, s)
	}
	return s, err
}

// Load what a partition's notifier remembers; nothing, when none was there yet.
func Load(ctx context.Context, blobs Blobs, partition intent.PartitionID) (*State, error) {
	s, err := LoadDeliveries(ctx, blobs, partition)
	if err != nil {
		return nil, err
	}
	for rule := range s.Active {
		s.touch(rule) // It is from when all was stored in one.
	}
	for rule := range s.Known {
		if s.Active[rule] == nil {
			s.Active[rule] = map[intent.AssetID]Active{}
		}
	}
	for _, at := range s.Shares {
		data, err := blobs.GetBlob(ctx, partition, BlobKind, at.name())
		if fault.Is(err, fault.NotFound) {
			err = fault.New(fault.Internal, "what was told cannot be read: %w", fmt.Errorf("%w: %s is not there", errUnreadable, at.name()))
		}
		part := map[intent.AssetID]Active{}
		if err == nil {
			err = unpack(data, &part)
		}
		if err != nil {
			return nil, err
		}
		if s.Active[at.Rule] == nil {
			s.Active[at.Rule] = map[intent.AssetID]Active{}
		}
		maps.Copy(s.Active[at.Rule], part)
	}
	return s, nil
}
