// Package secretpipe lets a plugin that is no program of Go use the resolver: it answers
// questions on a pair of pipes, in the plugin's own environment and under its user, so that
// references, refusals and digests are those of all plugins. A value goes to the plugin that
// asked, and nowhere else. The program lehr-secrets calls it; the package for Python starts
// that.
package secretpipe

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/secret/resolver"
)

const (
	// atOnce bounds the questions that wait for a secret; the package for Python has as
	// many threads for looks and for pushes together.
	atOnce = 400
	// maxPushes bounds the pushes that are remembered: twice what a plugin carries out.
	maxPushes = 400
	// documentWithin is how long the plugin may take to fetch a document.
	documentWithin = 10 * time.Second
)

// Serve answers the questions of r on w until r ends, which is when the plugin does. An
// error says that the two do not understand each other, or that w is gone.
func Serve(ctx context.Context, secrets *resolver.Resolver, r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{secrets: secrets, out: w, slots: make(chan struct{}, atOnce), pushes: map[string]*secret.Push{}, documents: map[uint64]chan fetched{}}
	for {
		var asked question
		body, err := readFrame(r, &asked)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.take(ctx, asked, body)
		}
		if err != nil {
			return err
		}
	}
}

// fetched is a document, or why there is none.
type fetched struct {
	content []byte
	failure string
}

type server struct {
	secrets *resolver.Resolver
	slots   chan struct{}

	// writing is held while a frame is written.
	writing sync.Mutex
	out     io.Writer

	mutex     sync.Mutex
	pushes    map[string]*secret.Push
	documents map[uint64]chan fetched
}

// take answers one question, or has it answered when the secret is read.
func (s *server) take(ctx context.Context, asked question, body []byte) error {
	switch {
	case asked.Resolve != nil:
		select {
		case s.slots <- struct{}{}:
			go func() {
				defer func() { <-s.slots }()
				s.resolve(ctx, asked.ID, *asked.Resolve)
			}()
			return nil
		default:
			return s.fail(asked.ID, fault.New(fault.Unavailable, "%d questions for secrets wait for an answer already", atOnce).WithHint("the next look asks again"))
		}
	case asked.Digest != nil:
		defer clear(body)
		return s.digest(asked.ID, *asked.Digest, body)
	case asked.Redact != nil:
		defer clear(body)
		return s.redact(asked.ID, *asked.Redact, body)
	case asked.Document != nil:
		s.mutex.Lock()
		waiter := s.documents[asked.ID]
		delete(s.documents, asked.ID)
		s.mutex.Unlock()
		if waiter != nil { // Who waited for it may have given up.
			waiter <- fetched{body, asked.Document.Failure}
		}
		return nil
	case asked.Ended != nil:
		s.mutex.Lock()
		delete(s.pushes, *asked.Ended)
		s.mutex.Unlock()
		return nil
	}
	return s.fail(asked.ID, fault.New(fault.Invalid, "the question %d asks nothing that is known here", asked.ID).WithHint("use the lehr-secrets of the Lehr that wrote the plugin's package"))
}

// send writes one answer, and overwrites its body.
func (s *server) send(head answer, body []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeFrame(s.out, head, body)
}

func (s *server) fail(id uint64, err error) error {
	return s.send(answer{ID: id, Failure: failureOf(err)}, nil)
}

// resolve answers with a value. That the plugin is gone is seen by whoever reads.
func (s *server) resolve(ctx context.Context, id uint64, asked resolve) {
	ref, err := decode(asked.naming)
	if err == nil {
		err = s.answerValue(ctx, id, asked, ref)
	}
	if err != nil {
		_ = s.fail(id, err)
	}
}

func (s *server) answerValue(ctx context.Context, id uint64, asked resolve, ref *intentpb.SecretRef) error {
	push, err := s.push(asked.Push)
	if err != nil {
		return err
	}
	value, err := s.secrets.Resolve(ctx, secret.Request{
		Partition: intent.PartitionID(asked.Partition), Asset: intent.AssetID(asked.Asset), Push: push,
		Blob: func(ctx context.Context, ref *intentpb.ExternalRef) ([]byte, error) { return s.document(ctx, id, ref) },
	}, ref)
	if err != nil {
		return err
	}
	defer value.Wipe()
	head := answer{ID: id, Digest: hexOf(value.Digest()), Words: value.Digest().Words()}
	if push != nil {
		head.Rotated = push.Rotated()
	}
	return s.send(head, bytes.Clone(value.Reveal()))
}

// push returns the push of that name, which begins when it is named first: what was read
// before does not count for it. A look is none.
func (s *server) push(name string) (*secret.Push, error) {
	if name == "" {
		return nil, nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	push := s.pushes[name]
	if push == nil {
		if len(s.pushes) >= maxPushes {
			return nil, fault.New(fault.Unavailable, "%d pushes that use secrets have not ended", len(s.pushes)).WithHint("the push is tried again")
		}
		push = secret.NewPush(time.Now())
		s.pushes[name] = push
	}
	return push, nil
}

// document has the plugin fetch a blob, for the question with that ID.
func (s *server) document(ctx context.Context, id uint64, ref *intentpb.ExternalRef) ([]byte, error) {
	waiter := make(chan fetched, 1)
	s.mutex.Lock()
	s.documents[id] = waiter
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.documents[id] == waiter {
			delete(s.documents, id)
		}
	}()
	if err := s.send(answer{ID: id, NeedsDocument: &blob{ref.GetUri(), ref.GetSha256()}}, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, documentWithin, fmt.Errorf("the plugin did not fetch it within %v", documentWithin))
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-waiter:
		if got.failure != "" {
			return nil, errors.New(got.failure)
		}
		return got.content, nil
	}
}

func (s *server) digest(id uint64, asked naming, value []byte) error {
	ref, err := decode(asked)
	if err != nil {
		return s.fail(id, err)
	}
	digest, err := s.secrets.DigestOf(intent.PartitionID(asked.Partition), ref, value)
	if err != nil {
		return s.fail(id, err)
	}
	return s.send(answer{ID: id, Digest: hexOf(digest), Words: digest.Words()}, nil)
}

// redact answers with each text, without the secrets that this process has read.
func (s *server) redact(id uint64, lengths []int, texts []byte) error {
	var redacted []byte
	made := make([]int, 0, len(lengths))
	for _, length := range lengths {
		if length < 0 || length > len(texts) {
			return fault.New(fault.Invalid, "the texts of question %d are shorter than it says", id)
		}
		text := secret.Redact(string(texts[:length]))
		texts, redacted, made = texts[length:], append(redacted, text...), append(made, len(text))
	}
	if len(redacted) > mostBody {
		clear(redacted)
		return s.fail(id, fault.New(fault.Invalid, "the texts have %d bytes without their secrets, more than the %d that a message may", len(redacted), mostBody))
	}
	return s.send(answer{ID: id, Redacted: made}, redacted)
}

func decode(asked naming) (*intentpb.SecretRef, error) {
	ref := &intentpb.SecretRef{}
	if err := proto.Unmarshal(asked.Ref, ref); err != nil {
		return nil, fault.New(fault.Invalid, "reading the reference to a secret of %s: %w", asked.Asset, err)
	}
	return ref, nil
}

func hexOf(digest secret.Digest) string { return hex.EncodeToString(digest[:]) }
