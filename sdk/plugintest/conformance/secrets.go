package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// Secret is one that both intents of the example name, by a reference
// (lehr.intent.v1.SecretRef) to a file.
type Secret struct {
	// File is the absolute path that the reference has. It holds at least 8 bytes beside
	// the newline at its end. The suite takes it away, writes other values into it, and
	// restores it in the end; should the suite be killed, it does not.
	File string
	// OpensOnly: the secret opens the target, as a password does, and is no part of what a
	// push brings about. Another value is no difference then.
	OpensOnly bool
}

// NamesSecret reports whether a reference of a message names the file at that path.
func NamesSecret(message proto.Message, path string) bool {
	named, _ := secretFiles(message)
	return named[path]
}

// mostSecret is the most bytes of a secret's file.
const mostSecret = 64 << 10

// leastSecret is the fewest bytes of a secret that is looked for: fewer stand in messages
// by chance.
const leastSecret = 8

// keptSecret is the file of a secret as it was when the suite began.
type keptSecret struct {
	content []byte
	mode    os.FileMode
}

// keepSecret reads the secret's file, and has its value looked for.
func (s *suite) keepSecret() error {
	secret := s.target.Secret
	if secret == nil {
		return nil
	}
	for _, example := range []proto.Message{s.target.First, s.target.Second} {
		if !NamesSecret(example, secret.File) {
			return fault.New(fault.Invalid, "the secret %s is named by no reference of an intent of the example", secret.File).
				WithHint("name it in both intents, as a file with this path")
		}
	}
	info, err := os.Stat(secret.File)
	if err != nil {
		return fmt.Errorf("the secret of the example: %w", err)
	}
	content, err := files.Read(secret.File, mostSecret)
	if err != nil {
		return fmt.Errorf("the secret of the example: %w", err)
	}
	value := bytes.TrimSuffix(content, []byte("\n"))
	if len(value) < leastSecret {
		return fault.New(fault.Invalid, "the secret %s has %d bytes, too few to be found where it must not be", secret.File, len(value)).
			WithHint("make it %d bytes or more", leastSecret)
	}
	s.secret = &keptSecret{content: content, mode: info.Mode().Perm()}
	s.leaks.add(value)
	return nil
}

// restoreSecret puts the secret's file back as it was.
func (s *suite) restoreSecret() {
	if s.secret != nil {
		_ = s.writeSecret(s.secret.content)
	}
}

// writeSecret replaces the file in one step, whatever stands there.
func (s *suite) writeSecret(content []byte) error {
	path := s.target.Secret.File
	temporary := path + ".conformance"
	if err := os.WriteFile(temporary, content, s.secret.mode); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Rename(temporary, path)
}

// rotateSecret writes a value that was never there.
func (s *suite) rotateSecret() error {
	var random [16]byte
	_, _ = rand.Read(random[:])
	value := []byte("rotated-" + hex.EncodeToString(random[:]))
	s.leaks.add(value)
	return s.writeSecret(value)
}

// needSecret says why secrets cannot be measured.
func (s *suite) needSecret() error {
	named, isNamed := secretFiles(s.target.First)
	switch {
	case s.secret != nil && !s.endpoint.isOurs():
		return skipped("it was started by somebody else, and may keep a secret for 30 s: secrets are measured with processes of the suite's own")
	case s.secret != nil:
		return nil
	case len(named) > 0:
		return skipped("the example names a secret in a file that may not be taken away: give one that may, by --secret-file (Target.Secret in Go)")
	case isNamed, hasReferences(s.target.First.ProtoReflect().Descriptor(), nil):
		return skipped(fmt.Sprintf("a %s can name secrets, and the example names none in a file: give one that does, and --secret-file (Target.Secret in Go)", s.report.Type))
	}
	return skipped(fmt.Sprintf("a %s has no references to secrets", s.report.Type))
}

// restart has a new process of the plugin, which has read no secret yet: a look may take
// what was read within 30 s.
func (s *suite) restart(ctx context.Context) error {
	s.endpoint.kill()
	s.disconnect()
	return s.connect(ctx)
}

// secretUnreadable takes the secret away in two ways.
func (s *suite) secretUnreadable(ctx context.Context) error {
	if err := s.needSecret(); err != nil {
		return err
	}
	defer s.restoreSecret()
	baseline, err := s.ensure(ctx, first)
	if err != nil {
		return err
	}
	update, err := s.diff(ctx, second)
	if err != nil {
		return err
	}
	path := s.target.Secret.File
	for _, damage := range []struct {
		is  string
		way func() error
	}{
		{"is missing", func() error { return os.Remove(path) }},
		{"cannot be read, for its file is a folder", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
	} {
		if err := damage.way(); err != nil {
			return err
		}
		err := s.restart(ctx)
		if err == nil {
			err = s.refusesToGuess(ctx, update)
		}
		if err != nil {
			return fmt.Errorf("while its secret %s: %w", damage.is, err)
		}
		if err := s.writeSecret(s.secret.content); err != nil {
			return err
		}
	}
	if err := s.restart(ctx); err != nil {
		return err
	}
	return s.unchanged(ctx, baseline, "a secret that could not be read for a while")
}

// refusesToGuess looks at the example and pushes it while its secret cannot be read.
func (s *suite) refusesToGuess(ctx context.Context, update intent.Difference) error {
	d, err := s.asOfNow(ctx, s.line, first)
	switch {
	case err != nil:
		return err
	case d.Outcome == intent.InSync:
		return errors.New("it says in sync: what is not known is unknown")
	case d.Outcome == intent.Differs:
		return fmt.Errorf("it says that the example differs (%s): what is not known is unknown", fields(d))
	case !strings.Contains(d.Reason, filepath.Base(s.target.Secret.File)):
		return fmt.Errorf("it says unknown, and its reason (%.300q) does not name the reference", d.Reason)
	}
	end, err := s.push(ctx, update, nil)
	if err == nil && end.Ending == plugin.Pushed {
		err = errors.New("it says that it pushed")
	}
	return err
}

// secretRotated gives the secret other values while the example is in sync, and between a
// plan and its push.
func (s *suite) secretRotated(ctx context.Context) error {
	if err := s.needSecret(); err != nil {
		return err
	}
	defer s.restoreSecret()
	if _, err := s.ensure(ctx, first); err != nil {
		return err
	}
	if s.target.Secret.OpensOnly {
		return s.doorRotated(ctx)
	}
	planned, err := s.rotated(ctx)
	if err != nil {
		return err
	}
	if err := s.rotateSecret(); err != nil {
		return err
	}
	end, err := s.push(ctx, planned, nil)
	if err != nil {
		return err
	}
	if end.Ending != plugin.Stale {
		return fmt.Errorf("the secret was rotated between a plan and its push, and the push ended as %s, want stale: an approval is of one value", end)
	}
	if err := s.restart(ctx); err != nil {
		return err
	}
	current, err := s.diff(ctx, first)
	switch {
	case err != nil:
		return err
	case current.Outcome != intent.Differs || !bytes.Equal(current.Current, planned.Current):
		return fmt.Errorf("a push that was stale, for the secret was rotated, changed production: now it is %s %s", outcomeName(current.Outcome), fields(current))
	case current.Plan.Digest() == planned.Plan.Digest():
		return errors.New("two values of the secret have one and the same plan: an approval of one lets the other through")
	}
	if _, err := s.goTo(ctx, first); err != nil {
		return err
	}
	return s.takeBackSecret(ctx)
}

// rotated gives the secret another value, and returns the difference that this is.
func (s *suite) rotated(ctx context.Context) (intent.Difference, error) {
	err := s.rotateSecret()
	if err == nil {
		err = s.restart(ctx)
	}
	if err != nil {
		return intent.Difference{}, err
	}
	d, err := s.diff(ctx, first)
	if err == nil && d.Outcome != intent.Differs {
		err = errors.New("the secret has another value, and the example is in sync: a rotation is a difference, by a digest of the value")
	}
	return d, err
}

// doorRotated rotates a secret that only opens the target: with a value that does not, all
// that may be said is unknown, or what was said before.
func (s *suite) doorRotated(ctx context.Context) error {
	err := s.rotateSecret()
	if err == nil {
		err = s.restart(ctx)
	}
	if err != nil {
		return err
	}
	d, err := s.asOfNow(ctx, s.line, first)
	if err == nil && d.Outcome == intent.Differs {
		err = fmt.Errorf("the secret, which only opens the target, has another value, and the example differs: %s", fields(d))
	}
	if err != nil {
		return err
	}
	if err := s.takeBackSecret(ctx); err != nil {
		return err
	}
	return remark("it only opens the target, so another value is no difference")
}

// takeBackSecret restores the secret's value, and brings the example in sync with it.
func (s *suite) takeBackSecret(ctx context.Context) error {
	err := s.writeSecret(s.secret.content)
	if err == nil {
		err = s.restart(ctx)
	}
	if err == nil {
		_, err = s.ensure(ctx, first)
	}
	return err
}

// secretHidden tells whether a value was found anywhere since the suite began.
func (s *suite) secretHidden(context.Context) error {
	if s.secret == nil {
		return s.needSecret()
	}
	return s.leaks.judge()
}

var referenceName = (*intentpb.SecretRef)(nil).ProtoReflect().Descriptor().FullName()

// secretFiles returns the paths of files that references of a message name, and whether it has
// references at all.
func secretFiles(message proto.Message) (named map[string]bool, isNamed bool) {
	named = map[string]bool{}
	_ = protorange.Range(message.ProtoReflect(), func(values protopath.Values) error {
		last := values.Index(-1)
		reference, ok := last.Value.Interface().(protoreflect.Message)
		if !ok || reference.Descriptor().FullName() != referenceName {
			return nil
		}
		isNamed = true
		if field := reference.Descriptor().Fields().ByName("file"); field != nil && reference.Has(field) {
			named[reference.Get(field).String()] = true
		}
		return nil
	})
	return named, isNamed
}

// hasReferences reports whether a message of the type can have references to secrets.
func hasReferences(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen == nil {
		seen = map[protoreflect.FullName]bool{}
	}
	name := message.FullName()
	if name == referenceName || seen[name] {
		return name == referenceName
	}
	seen[name] = true
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if inner := field.Message(); inner != nil && hasReferences(inner, seen) {
			return true
		}
	}
	return false
}
