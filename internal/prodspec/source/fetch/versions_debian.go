package fetch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source/artifact"
)

// mostRelease is how many bytes a signed list of indexes has at most.
const mostRelease = 4 << 20

func (l *look) listDebian(ctx context.Context) error {
	remote := l.remote
	got, err := l.guard.get(ctx, request{url: remote.Debian, login: remote.Login, most: l.limits.TotalBytes / 2})
	if err != nil {
		return err
	}
	var signedBy []string
	for _, key := range l.keys {
		if err := l.verifyRelease(ctx, key, got.body); err != nil {
			return err
		}
		signedBy = append(signedBy, key.name)
	}
	var index io.Reader = bytes.NewReader(got.body)
	switch path.Ext(remote.Debian) {
	case ".gz":
		if index, err = gzip.NewReader(index); err != nil {
			return unreadable(remote.Debian, errors.New("it is not compressed as its name says"))
		}
	case "":
	default:
		return fault.New(fault.Invalid, "%s is neither Packages nor Packages.gz", quoted(remote.Debian)).WithHint("name one of these")
	}
	limited := &io.LimitedReader{R: index, N: l.limits.TotalBytes}
	err = stanzas(limited, func(fields map[string]string) error { return l.addPackage(fields, signedBy) })
	if limited.N <= 0 {
		return tooLarge(remote.Debian, l.limits.TotalBytes)
	}
	if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok {
		err = unreadable(remote.Debian, err)
	}
	return err
}

func (l *look) addPackage(fields map[string]string, signedBy []string) error {
	if fields["Package"] != l.remote.Package {
		return nil
	}
	if fields["Version"] == "" || fields["SHA256"] == "" {
		return errors.New("an entry has no Version or SHA256")
	}
	if _, ok := l.matches(fields["Version"]); !ok {
		return nil
	}
	v := versionlist.Version{Version: fields["Version"], Name: fields["Filename"], Digest: "sha256:" + fields["SHA256"], SignedBy: signedBy}
	l.apply(&v, func(place string) string { return fields[place] })
	l.add(v)
	return nil
}

// verifyRelease verifies that an index is one that a signed Release of its repository names, as
// apt does (SecureApt): InRelease, else Release with Release.gpg.
func (l *look) verifyRelease(ctx context.Context, key trusted, index []byte) error {
	root, name, err := releaseOf(l.remote.Debian)
	if err != nil {
		return err
	}
	at := func(file string) request {
		return request{url: root + file, login: l.remote.Login, most: mostRelease}
	}
	var text []byte
	inline, err := l.guard.get(ctx, at("InRelease"))
	switch {
	case err == nil:
		text, err = key.VerifyClearsigned(inline.body)
	case notThere(err):
		text, err = l.verifyDetached(ctx, key, at)
	default:
		return err
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	refused := func(err error) error {
		return fault.New(fault.Invalid, "the Release of %s is not signed by the key %s, or is of other content: %w", l.remote.Debian, key.name, err).
			WithHint("sign the repository with the key that is listed (gpg --clearsign), or mend the key; what was read last stays in use")
	}
	if err != nil {
		return refused(err)
	}
	if err := inRelease(text, name, index, l.options.now()); err != nil {
		return refused(err)
	}
	return nil
}

func (l *look) verifyDetached(ctx context.Context, key trusted, at func(string) request) ([]byte, error) {
	release, err := l.guard.get(ctx, at("Release"))
	if notThere(err) {
		return nil, errors.New("the repository has neither InRelease nor Release")
	}
	if err != nil {
		return nil, err
	}
	signature, err := l.guard.get(ctx, at("Release.gpg"))
	if notThere(err) {
		return nil, errors.New("the repository has no signature: neither InRelease nor Release.gpg")
	}
	if err != nil {
		return nil, err
	}
	return release.body, key.VerifyDetached(release.body, signature.body)
}

// releaseOf is the folder of an index's Release, and the index's name in it: three folders up of
// SUITE/COMPONENT/binary-ARCHITECTURE/Packages, else beside a flat repository's.
func releaseOf(index string) (root, name string, err error) {
	parsed, err := url.Parse(index)
	if err != nil {
		return "", "", fault.New(fault.Invalid, "%s is no URL", quoted(index))
	}
	folder := path.Dir(parsed.Path)
	up := folder
	if strings.HasPrefix(path.Base(folder), "binary-") {
		up = path.Dir(path.Dir(folder))
	}
	name = strings.TrimPrefix(strings.TrimPrefix(parsed.Path, up), "/")
	parsed.Path, parsed.RawQuery = strings.TrimSuffix(up, "/")+"/", ""
	return parsed.String(), name, nil
}

// inRelease verifies that a Release names an index with its size and digest, and is still valid.
func inRelease(release []byte, name string, index []byte, now time.Time) error {
	sums, inSums := map[string][]string{}, false
	for line := range strings.Lines(string(release)) {
		field, value, isField := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if isField && line[0] != ' ' {
			if inSums = field == "SHA256"; field == "Valid-Until" {
				end, err := time.Parse(time.RFC1123, strings.TrimSpace(value))
				if err != nil || now.After(end) {
					return fmt.Errorf("it was valid until %s", strings.TrimSpace(value))
				}
			}
			continue
		}
		if parts := strings.Fields(line); inSums && len(parts) == 3 {
			sums[parts[2]] = parts[:2]
		}
	}
	sum, ok := sums[name]
	if !ok {
		return fmt.Errorf("it does not name %s with a SHA256", name)
	}
	if size, err := strconv.Atoi(sum[1]); err != nil || size != len(index) || "sha256:"+sum[0] != artifact.Digest(index) {
		return fmt.Errorf("it says of %s another size or digest than the index has", name)
	}
	return nil
}

// stanzas reads an index of packages: paragraphs of "Field: value" (deb822).
func stanzas(index io.Reader, visit func(map[string]string) error) error {
	lines := bufio.NewScanner(index)
	lines.Buffer(nil, 1<<20)
	fields := map[string]string{}
	end := func() error {
		if len(fields) == 0 {
			return nil
		}
		defer clear(fields)
		return visit(fields)
	}
	for lines.Scan() {
		line := lines.Text()
		if strings.TrimSpace(line) == "" {
			if err := end(); err != nil {
				return err
			}
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			continue // The field before goes on; none of those that count does.
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("it has a line that is no field: %s", quoted(line))
		}
		fields[name] = strings.TrimSpace(value)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return end()
}
